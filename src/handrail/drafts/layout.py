"""The directory of one draft: its layers, its plan, and the state that follows from the files in it.

An overlay mount reads the workspace (the lower layer) and writes to `upper`. All of it lies on the mount of the
workspace, because changes are kept by renaming them into place. Where that mount cannot hold an upper layer, as an
overlay cannot, the layers lie elsewhere, and changes are copied to `stage` first.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Literal

from handrail.drafts import WORKERS
from handrail.drafts.git_index import is_same_index
from handrail.system_calls import READABLE_DIRECTORY, closing_fd, stat_at, sync_directory, sync_file_system, sync_files
from handrail.workspace import is_temporary_name

State = Literal["open", "keeping", "kept", "undoing", "undone"]

_PLANS: dict[str, State] = {
    "undoing.json": "undoing",
    "keeping.json": "keeping",
    "kept.json": "kept",
    "undone.json": "undone",
}
_MOST_PLAN_BYTES = 1 << 30
_MOST_INDEX_BYTES = 1 << 28
_COPIED_BYTES = 1 << 20
_SETTLED = 2_000_000_000
_MOST_SYNCED = 30
"""Of more files the whole file system is written to the disk at once."""
_MOST_ROWS = 1_000
OWN_PERIODS = "own-periods.jsonl"
"""A file beside the drafts of a user."""
_ACCEPTED = "accepted.json"
"""Versions of files in the workspace that a draft takes for its base besides those of its start."""
_RESOLVED = "resolved.json"
"""Paths at which the draft's side was chosen, with the time until which changes outside of it count for nothing."""
_MARKED = "marked.json"
"""Paths of files into which a merge has written markers around lines that overlap."""
_MOST_ACCEPTED = 100
"""Such versions of one file."""
_RESERVE = "reserve"
"""A file beside the drafts of a user that is emptied before a plan is written: a command may have filled the disk."""
_RESERVED_BYTES = 128 << 10
_LEFT = "left"
"""A file that marks the draft of a command whose changes could not be kept."""
_PROBED_BYTES = 16 << 10
_INFO = "draft.json"
FOREIGN = "foreign.json"
"""A file with the copies of files of other users, if there are any (`foreign_files.py`)."""
INDEX = "index"
"""The git index of the workspace as it was at the start, and after a keep as it was kept."""
SHARED_INDEX = "index-"
"""Begins the names of its copies that drafts share, beside their directories."""


Version = tuple[int, int, int, int]
"""Inode, mode, size and time of the last change of a file's contents."""


@dataclass(frozen=True, slots=True)
class DraftInfo:
    """Facts that do not change while the draft exists."""

    workspace: str
    device: int
    inode: int
    """Of the workspace's directory: a draft belongs to a directory, not to whatever has its name later."""
    start: int
    """The file system's time at which the draft was created. Later changes in the workspace are not ours."""
    name: str = ""
    left: bool = False
    """Whether a command worked in it whose changes could not be kept. The last few of these stay."""
    layers: str = ""
    """The directory of the layers, if they lie on another file system than the workspace."""


@dataclass(frozen=True, slots=True)
class DraftDirectory:
    """The files of one draft."""

    path: str
    info: DraftInfo

    @classmethod
    def create(cls, path: str, workspace: str, name: str = "", layers: str = "") -> DraftDirectory:
        """Create an empty draft of ``workspace`` at ``path``, whose parent exists; raises `OSError`.

        ``layers``: where the layers lie, if not there. Its parent exists.
        """
        os.mkdir(path, 0o700)
        try:
            if layers:
                os.mkdir(layers, 0o700)
            directory = os.stat(workspace)
            draft = cls(path, DraftInfo(workspace, directory.st_dev, directory.st_ino, 0, name, layers=layers))
            for part in (draft.upper, draft.work, draft.old):
                os.mkdir(part, 0o700)
            save_index(workspace, path)
            draft._reserve()
            shutil.copystat(workspace, draft.upper)
            copy_owner(directory, draft.upper)
            draft = cls(path, replace(draft.info, start=read_clock(path)))
            draft.write(_INFO, asdict(draft.info), sync=bool(name))
        except BaseException:
            for each in filter(os.path.isdir, (layers, path)):
                remove_tree(each)
            raise
        return draft

    @classmethod
    def open(cls, path: str) -> DraftDirectory:
        """Open a draft that exists; `OSError` or `ValueError` if there is none."""
        with open(os.path.join(path, _INFO), "rb") as file:
            info = DraftInfo(**json.load(file))
        if os.path.lexists(os.path.join(path, _LEFT)):
            info = replace(info, name=f"unkept-{os.path.basename(path)[:6]}", left=True)
        return cls(path, info)

    def adopt_start(self, other: DraftDirectory) -> DraftDirectory:
        """This draft as if it had been created together with ``other``, of which it takes over changes."""
        info = replace(self.info, start=other.info.start)
        self.write(_INFO, asdict(info))
        for name in (INDEX, _ACCEPTED, _RESOLVED, _MARKED):
            with contextlib.suppress(FileNotFoundError):
                copied = shutil.copyfile(os.path.join(other.path, name), os.path.join(self.path, f".{name}.new"))
                os.rename(copied, os.path.join(self.path, name))
        if os.path.isdir(other.bases):
            shutil.copytree(other.bases, self.bases, copy_function=os.link)
        return DraftDirectory(self.path, info)

    def mark_left(self) -> DraftDirectory:
        """This draft, with a name and for the user. A rename takes no space: a command may have filled the disk."""
        self._use_reserve()
        mark = os.path.join(self.path, _LEFT)
        try:
            os.rename(_find_reserve(self.path), mark)
        except FileNotFoundError:
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return DraftDirectory.open(self.path)

    def allow_mounts(self) -> None:
        """Write the draft of a command to the disk, so that it can be mounted again: the kernel refuses that else."""
        sync_file_system(self.upper)
        remove_tree(self.work)
        os.mkdir(self.work, 0o700)

    @property
    def copies(self) -> bool:
        """Whether changes are copied to the mount of the workspace before they are kept."""
        return bool(self.info.layers)

    @property
    def upper(self) -> str:
        return os.path.join(self.info.layers or self.path, "upper")

    @property
    def work(self) -> str:
        return os.path.join(self.info.layers or self.path, "work")

    @property
    def stage(self) -> str:
        """The directory from which changes are renamed into the workspace, and which then holds the old versions."""
        return os.path.join(self.path, "stage") if self.copies else self.upper

    @property
    def old(self) -> str:
        return os.path.join(self.path, "old")

    @property
    def bases(self) -> str:
        """Copies of files of the workspace that the draft has changed, as they were before."""
        return os.path.join(self.info.layers or self.path, "bases")

    @property
    def state(self) -> State:
        return _read_state(self.path)

    @property
    def notes(self) -> DraftNotes:
        return DraftNotes(self)

    def open_workspace(self) -> int:
        """A descriptor of the workspace; `FileNotFoundError` if another directory has its name now."""
        fd = os.open(self.info.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        directory = os.fstat(fd)
        if (directory.st_dev, directory.st_ino) != (self.info.device, self.info.inode):
            os.close(fd)
            raise FileNotFoundError(
                errno.ENOENT, "the directory of this draft was moved or replaced", self.info.workspace
            )
        return fd

    def write(self, name: str, value: object, *, sync: bool = True) -> None:
        """Write a JSON file whole or not at all, and wait until it is on the disk, unless ``sync`` is false."""
        temporary = self._write_temporary(name, value)
        if sync:
            sync_files([temporary])
        os.rename(temporary, os.path.join(self.path, name))
        if sync:
            _sync(self.path)

    def write_plan(self, name: str, plan: object, files: Iterable[str]) -> None:
        """Write a plan, and wait until it is on the disk, with the files of `stage` that it carries over.

        Not even what a command has synced is there yet: in drafts of commands the kernel waits for no disk.
        """
        self._use_reserve()
        temporary = self._write_temporary(name, plan)
        paths = [temporary, os.path.join(self.path, _INFO)]
        paths += (os.path.join(self.stage, path) for path in islice(files, _MOST_SYNCED))
        if len(paths) < _MOST_SYNCED:
            sync_files(paths)
        else:
            sync_file_system(self.path)
        os.rename(temporary, os.path.join(self.path, name))
        _sync(self.path)

    def _reserve(self) -> None:
        reserve = os.open(_find_reserve(self.path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # The disk may be full already, or the file system cannot do it.
        with closing_fd(reserve), contextlib.suppress(OSError):
            os.posix_fallocate(reserve, 0, _RESERVED_BYTES)

    def _use_reserve(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.truncate(_find_reserve(self.path), 0)

    def _write_temporary(self, name: str, value: object) -> str:
        temporary = os.path.join(self.path, f".{name}.{os.getpid()}.new")
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        return temporary

    def read(self, name: str) -> Any:
        with open(os.path.join(self.path, name), encoding="utf-8", errors="surrogateescape") as file:
            return json.loads(file.read(_MOST_PLAN_BYTES))

    def is_refreshed_index(self, path: str, directory: int, name: str) -> bool:
        """Whether an entry of the workspace is the git index, with other file times and nothing else changed in it."""
        return is_same_index_at(path, os.path.join(self.path, INDEX), directory, name)

    def rename(self, old: str, new: str, *, sync: bool = True) -> None:
        """Move a plan on to the next state, and wait until that is on the disk, unless ``sync`` is false."""
        os.rename(os.path.join(self.path, old), os.path.join(self.path, new))
        if sync:
            _sync(self.path)

    def drop(self) -> None:
        """Delete the draft and everything in it. A draft whose keep was interrupted must be finished first."""
        if self.state in ("keeping", "undoing"):
            raise OSError(errno.EBUSY, "an interrupted keep must be finished before the draft is dropped", self.path)
        self.drop_layers()
        remove_tree(self.path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path + WORKERS)

    def drop_layers(self) -> None:
        """Delete the layers, if they lie elsewhere: a kept draft does not need them any more."""
        if self.copies:
            with contextlib.suppress(FileNotFoundError):
                remove_tree(self.info.layers)


class DraftNotes:
    """What is remembered beside the changes of a draft, each kind in a file of its own."""

    def __init__(self, directory: DraftDirectory) -> None:
        self._directory = directory

    def accept(self, *versions: tuple[str, tuple[int, ...]]) -> None:
        """Take these versions of files of the workspace for no change from outside: a keep has touched them.

        One with a fifth number counts only as long as the draft's own file has this inode.
        """
        accepted = self._read(_ACCEPTED, {})
        for path, version in versions:
            accepted[path] = [*accepted.get(path, []), list(version)][-_MOST_ACCEPTED:]
        self._directory.write(_ACCEPTED, accepted)

    def is_accepted(self, path: str, status: os.stat_result) -> bool:
        """Whether the workspace has a version of a file that the draft takes for its base."""
        version = [status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns]
        accepted = self._read(_ACCEPTED, {}).get(path, [])
        own = os.path.join(self._directory.upper, path)
        return version in accepted or (os.path.lexists(own) and [*version, os.lstat(own).st_ino] in accepted)

    def resolve(self, paths: Iterable[str], time: int) -> None:
        """Let the draft win at these paths, and below them, over what was changed before ``time``."""
        self._directory.write(_RESOLVED, {**self.read_resolved(), **dict.fromkeys(paths, time)})

    def read_resolved(self) -> dict[str, int]:
        resolved: dict[str, int] = self._read(_RESOLVED, {})
        return resolved

    def read_work(self) -> dict[tuple[str, int], int]:
        """The programs that have worked in the draft, each with its start, and the end of that.

        Rows have its name, the process that started it, the start, and the end (0 if that has not come).
        """
        rows = read_rows(self._directory.path + WORKERS)
        ends = {(process, start): end for _, process, start, end in rows}
        worked: dict[tuple[str, int], int] = {}
        for name, process, start, _ in rows:
            end = ends[process, start]
            if not end and not os.path.exists(f"/proc/{process}"):  # it was killed before the next one started
                end = min((later for *_, later, _ in rows if later > start), default=0)
            worked[name, start] = end or sys.maxsize
        return worked

    def add_own_period(self, start: int, end: int) -> None:
        """Remember when a draft of this directory was taken back, or kept without new contents.

        Both change times of the workspace as well, by the file system's time.
        """
        with contextlib.suppress(OSError):  # without it an undo is only less exact
            append_row(os.path.join(os.path.dirname(self._directory.path), OWN_PERIODS), (start, end))

    def read_own_periods(self) -> list[tuple[int, int]]:
        """The last of these periods."""
        return list(map(tuple, read_rows(os.path.join(os.path.dirname(self._directory.path), OWN_PERIODS))))

    def mark(self, paths: Iterable[str]) -> None:
        """Remember that these files have markers around lines that overlap."""
        self._directory.write(_MARKED, sorted({*self.read_marked(), *paths}))

    def read_marked(self) -> list[str]:
        marked: list[str] = self._read(_MARKED, [])
        return marked

    def _read(self, name: str, default: object) -> Any:
        try:
            return self._directory.read(name)
        except FileNotFoundError:
            return default


def append_row(path: str, row: Sequence[object]) -> None:
    """Add a line to a file of rows, which keeps the newest ones."""
    with open(path, "a", encoding="ascii") as file:
        rows = [row]
        if file.tell() > 400 * _MOST_ROWS:
            rows = [*read_rows(path), row]
            file.truncate(0)
        file.writelines(json.dumps(each) + "\n" for each in rows)


def read_rows(path: str) -> list[Any]:
    """The newest rows of a file; none if there is no file."""
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        return [json.loads(line) for line in file.read(_MOST_INDEX_BYTES).splitlines()[-_MOST_ROWS:]]
    return []


def is_disk_full(directory: str) -> bool:
    """Whether not even a small file fits on the disk of a directory: a command may have written half of one."""
    probe = os.path.join(directory, "probe")
    try:
        fd = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, _PROBED_BYTES)
        finally:
            os.close(fd)
            os.unlink(probe)
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def remove_temporaries(upper: str) -> None:
    """Remove what a commit was writing or deleting from a layer in which nothing runs any more.

    A command that copies a directory takes such entries of other sessions along.
    """
    stack = [upper]
    while stack:
        with contextlib.suppress(PermissionError), os.scandir(stack.pop()) as entries:
            for entry in entries:
                is_temporary = is_temporary_name(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    if is_temporary:
                        remove_tree(entry.path)
                    else:
                        stack.append(entry.path)
                elif is_temporary and entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)


def is_same_index_at(path: str, other: str, directory: int, name: str) -> bool:
    """Whether an entry of the workspace is the git index, and the file ``other`` differs in file times only."""
    if path != ".git/index":
        return False
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        with open(fd, "rb") as now, open(other, "rb") as before:
            if max(os.fstat(file.fileno()).st_size for file in (now, before)) > _MOST_INDEX_BYTES:
                return False
            return is_same_index(now.read(_MOST_INDEX_BYTES), before.read(_MOST_INDEX_BYTES))
    except OSError:
        return False


def get_start(resolved: Mapping[str, int], path: str, start: int) -> int:
    """From which time on a change outside a draft is a conflict. ``start``: of the draft."""
    while resolved and path:
        start = max(start, resolved.get(path, 0))
        path = path.rpartition("/")[0]
    return start


def _find_reserve(path: str) -> str:
    return os.path.join(os.path.dirname(path), _RESERVE)


def _read_state(path: str) -> State:
    for name, state in _PLANS.items():
        if os.path.lexists(os.path.join(path, name)):
            return state
    return "open"


def is_interrupted(path: str) -> bool:
    """Whether a keep or an undo of the draft at ``path`` was begun and not finished."""
    return _read_state(path) in ("keeping", "undoing")


def save_index(workspace: str, path: str) -> None:
    """Remember the git index as it is now. Drafts share a copy of it until it changes.

    A second name for the file itself would be cheaper, but other tools see it.
    """
    source, target = os.path.join(workspace, ".git", "index"), os.path.join(path, INDEX)
    # No repository: then there is no exception for its index.
    with contextlib.suppress(OSError), open(source, "rb", opener=_open_plain) as index:
        status = os.fstat(index.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_INDEX_BYTES:
            return
        stamp = f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_ctime_ns:x}"
        shared = os.path.join(os.path.dirname(path), SHARED_INDEX + stamp)
        if os.path.lexists(target):  # from before a keep
            os.unlink(target)
        try:
            os.link(shared, target)
        except OSError:
            with open(target, "xb") as copy:
                shutil.copyfileobj(index, copy, _COPIED_BYTES)
            if time.time_ns() - status.st_ctime_ns > _SETTLED:  # else another index may get the same stamp
                os.link(target, shared)


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def copy_owner(source: os.stat_result, target: str) -> None:
    """Give a file the owner of another one, or its group, where that is allowed."""
    if (source.st_uid, source.st_gid) != (os.geteuid(), os.getegid()):
        for user in {source.st_uid: None, -1: None}:
            with contextlib.suppress(PermissionError):  # a user cannot give files away
                os.chown(target, user, source.st_gid, follow_symlinks=False)
                break


def read_clock(directory: str) -> int:
    """A time of this file system that is later than every change before this call, and not later than any after it.

    Change times come from a clock that may tick only every few milliseconds: wait for its next tick.
    """
    path = os.path.join(directory, "clock")
    with closing_fd(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)) as fd:
        os.utime(fd)
        first = os.fstat(fd).st_ctime_ns
        while True:
            os.utime(fd)
            now = os.fstat(fd).st_ctime_ns
            if now > first:
                return now
            time.sleep(0.0005)


def _sync(path: str) -> None:
    with closing_fd(os.open(path, READABLE_DIRECTORY)) as fd:
        sync_directory(fd)


def remove_tree(path: str) -> None:
    """Delete a directory tree, however deep, also where a program took its own permissions away.

    A directory is moved to the top before it is deleted, so that no path is too long for the system.
    """
    _let_enter(path, None)
    with closing_fd(os.open(path, READABLE_DIRECTORY)) as top:
        names = list(os.listdir(top))
        while names:
            name = names.pop()
            if _unlink_file(name, top):
                continue
            _let_enter(name, top)
            with closing_fd(os.open(name, READABLE_DIRECTORY, dir_fd=top)) as inner:
                for entry in os.listdir(inner):
                    if not _unlink_file(entry, inner):
                        _let_enter(entry, inner)  # to move a directory is to write to it
                        names.append(f"removed-{secrets.token_hex(8)}")
                        os.rename(entry, names[-1], src_dir_fd=inner, dst_dir_fd=top)
            os.rmdir(name, dir_fd=top)
    os.rmdir(path)


def _unlink_file(name: str, directory: int) -> bool:
    """Delete an entry that is no directory; False if it is one."""
    status = stat_at(name, directory)
    if status is not None and stat.S_ISDIR(status.st_mode):
        return False
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    return True


def _let_enter(name: str, directory: int | None) -> None:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, 0o700, dir_fd=directory)
