"""A copy of the workspace that shares its blocks, for commands that cannot run in a draft.

Before a command the copy is brought up to date; after it the workspace is compared with the copy. Both look at the
status of each entry, and read only those that have changed. The old versions then become a kept draft, so that undo
takes the command back like one that ran in a draft. File systems with shared blocks (btrfs, XFS) copy a file of any
size in about the same time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from handrail import system_calls
from handrail.drafts.compare import Comparison, Entry, Step, have_same_contents, list_settable, read_attributes
from handrail.drafts.keep import record_kept
from handrail.drafts.layout import DraftDirectory, read_clock, remove_tree
from handrail.drafts.staging import copy_metadata
from handrail.drafts.store import DraftStore, OpenDraft
from handrail.system_calls import READABLE_DIRECTORY

_MOST_ENTRIES = 20_000
_ATTEMPTS = 3
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_FATAL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE)


@dataclass(frozen=True, slots=True)
class _Known:
    """An entry of the workspace at the last look."""

    stamp: tuple[int, ...]
    entry: Entry
    is_copied: bool


@dataclass(slots=True)
class WorkspaceCopy:
    """The copy that a session has of its workspace. One command at a time is compared with it."""

    store: DraftStore
    draft: OpenDraft
    """A draft that nobody works in; the copy is in its upper layer, with all directories open to this user."""
    is_shared: bool = False
    """Whether another command of the session has run meanwhile: nobody can tell whose changes are whose."""
    _known: dict[str, _Known] = field(default_factory=dict)

    @classmethod
    def create(cls, store: DraftStore) -> WorkspaceCopy:
        """An empty copy; raises `OSError` where files cannot share their blocks."""
        if store.layers:
            raise OSError(errno.EOPNOTSUPP, "the workspace lies on an overlay", store.workspace)
        copy = cls(store, store.create())
        try:
            os.chmod(copy.tree, 0o700)
            copy._try_clone()
        except BaseException:
            copy.drop()
            raise
        return copy

    @property
    def workspace(self) -> str:
        return self.draft.directory.info.workspace

    @property
    def tree(self) -> str:
        return self.draft.directory.upper

    def drop(self) -> None:
        """Delete the copy."""
        self.draft.drop()

    def refresh(self) -> None:
        """Copy what has changed in the workspace since the last look; raises `OSError`, and the copy is of no use."""
        now = dict(self._walk())
        self._forget(path for path in self._known if path not in now)
        first_names: dict[int, str] = {}
        for path, status in now.items():
            known = self._known.get(path)
            if known is None or known.stamp != _make_stamp(status):
                self._copy(path, status, first_names)
        read_clock(self.draft.directory.path)  # whatever changes an entry from now on gives it another change time

    def compare(self) -> tuple[Comparison, list[str]]:
        """The steps from the copy to the workspace as it is now, and the paths that changed and were not copied."""
        comparison, missed = Comparison(), list[str]()
        now = dict(self._walk())
        settled: set[str] = set()
        """Paths that a step changes with everything below them."""
        directories: dict[str, Step] = {}
        for path in sorted(self._known.keys() | now.keys()):  # a directory before its entries
            known, status = self._known.get(path), now.get(path)
            if os.path.dirname(path) in settled and path:
                settled.add(path)
                missed += [path] if known and not known.is_copied else []
            elif known and status and known.stamp == _make_stamp(status):
                continue
            elif known and status and known.entry.is_directory and stat.S_ISDIR(status.st_mode):
                after = self._read_directory(path, status)
                if list_settable(known.entry) != list_settable(after):
                    directories[path] = Step("set", path, known.entry, after)
            elif known and not known.is_copied:
                missed.append(path)
            else:
                step = self._compare_entry(path, known, status)
                comparison.steps += [step] if step else []
                if step is None or step.action != "set":
                    settled.add(path)
        moved = {os.path.dirname(step.path) for step in comparison.steps if step.action != "set"}
        for above in moved:  # an undo changes their times
            after = self._read_directory(above, now[above])
            directories.setdefault(above, Step("set", above, self._known[above].entry, after))
        comparison.steps += sorted(directories.values(), key=lambda step: step.path.count("/"), reverse=True)
        return comparison, missed

    def hand_over(self, steps: Sequence[Step], draft: DraftDirectory) -> None:
        """Move the old versions into another draft, which then is a kept one; raises `OSError`."""
        for number, step in enumerate(steps):
            if step.action == "set":
                continue
            place = os.path.join(draft.upper, step.path)
            if step.action == "delete":
                place = os.path.join(draft.old, str(number))
            else:
                os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
            if step.before:
                self._restore_directories(step.path)
                os.rename(os.path.join(self.tree, step.path), place)
                self._forget(self._list_with_all_below(step.path))
        record_kept(draft, steps)

    def _walk(self) -> Iterator[tuple[str, os.stat_result]]:
        """All entries of the workspace, a directory before its entries; where this user may not look is left out."""
        yield "", os.lstat(self.workspace)
        stack = [""]
        count = 0
        while stack:
            above = stack.pop()
            listed: list[tuple[str, os.stat_result]] = []
            with (
                contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError),
                os.scandir(os.path.join(self.workspace, above)) as entries,
            ):
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        listed.append((os.path.join(above, entry.name), entry.stat(follow_symlinks=False)))
            stack += (path for path, status in listed if stat.S_ISDIR(status.st_mode))
            count += len(listed)
            if count > _MOST_ENTRIES:
                raise OSError(errno.E2BIG, f"the workspace has more than {_MOST_ENTRIES} files", self.workspace)
            yield from listed

    def _copy(self, path: str, status: os.stat_result, first_names: dict[int, str]) -> None:
        """Copy one entry; one that this user may not read is known, and not copied."""
        original, copy = os.path.join(self.workspace, path), os.path.join(self.tree, path)
        attributes: dict[str, bytes] = {}
        is_copied = True
        try:
            if stat.S_ISDIR(status.st_mode):
                attributes = read_attributes(original)
                if path and not os.path.isdir(copy):
                    self._remove(path)
                    os.mkdir(copy, 0o700)
                is_copied = os.access(original, os.R_OK | os.X_OK)
            else:
                self._remove(path)
                status = self._copy_file(original, copy, status, first_names)
        except OSError as error:
            if error.errno in _FATAL:
                raise
            is_copied = False
        self._known[path] = _Known(_make_stamp(status), Entry.of(status, attributes), is_copied)

    def _copy_file(self, original: str, copy: str, status: os.stat_result, first: dict[int, str]) -> os.stat_result:
        """Copy what is no directory, and returns the status of what was copied; raises `OSError`."""
        if status.st_nlink > 1 and first.setdefault(status.st_ino, copy) != copy:
            os.link(first[status.st_ino], copy, follow_symlinks=False)
            return status
        if stat.S_ISREG(status.st_mode):
            status = _clone(original, copy)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(original), copy)
        else:
            os.mknod(copy, stat.S_IFMT(status.st_mode) | 0o600, status.st_rdev)
        copy_metadata(original, copy, status)
        return status

    def _compare_entry(self, path: str, known: _Known | None, status: os.stat_result | None) -> Step | None:
        if known is None or status is None:
            after = Entry.of(status) if status else None
            return Step("delete" if known else "create", path, known.entry if known else None, after)
        before, after = known.entry, Entry.of(status)
        copy = os.path.join(self.tree, path)
        above, name = os.path.split(os.path.join(self.workspace, path))
        directory = os.open(above, READABLE_DIRECTORY)
        try:
            if self.draft.directory.is_same_index(path, copy, directory, name):
                return None
            if have_same_contents(copy, os.lstat(copy), directory, name, status):
                return Step("set", path, before, after)  # if only for its change time: a second name was given to it
        finally:
            os.close(directory)
        return Step("replace", path, before, after)

    def _read_directory(self, path: str, status: os.stat_result) -> Entry:
        return Entry.of(status, read_attributes(os.path.join(self.workspace, path)))

    def _restore_directories(self, path: str) -> None:
        """Give the directories of the copy at and below a path the modes and times of the originals."""
        for inner in sorted(self._list_with_all_below(path), reverse=True):  # an entry changes its directory's times
            entry = self._known[inner].entry
            if entry.is_directory:
                copy = os.path.join(self.tree, inner)
                with contextlib.suppress(PermissionError):  # a user cannot give files away
                    os.chown(copy, *entry.owner)
                for name, value in entry.attributes:
                    with contextlib.suppress(PermissionError):  # labels of the system
                        os.setxattr(copy, name, bytes.fromhex(value))
                os.chmod(copy, stat.S_IMODE(entry.mode))
                os.utime(copy, ns=(entry.atime, entry.mtime))

    def _list_with_all_below(self, path: str) -> list[str]:
        if not self._known[path].entry.is_directory:
            return [path]
        return [one for one in self._known if f"{one}/".startswith(f"{path}/")]

    def _forget(self, paths: Iterable[str]) -> None:
        for path in sorted(paths, reverse=True):
            self._remove(path)
            del self._known[path]

    def _remove(self, path: str) -> None:
        """Delete the copy of an entry, if there is one."""
        copy = os.path.join(self.tree, path)
        if os.path.isdir(copy) and not os.path.islink(copy):
            remove_tree(copy)
        else:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(copy)

    def _try_clone(self) -> None:
        """Raise `OSError` if files of this file system cannot share their blocks."""
        first, second = (os.path.join(self.draft.directory.path, name) for name in ("clone-1", "clone-2"))
        with open(first, "wb") as file:
            file.write(b"x" * 4096)
        try:
            _clone(first, second)
        finally:
            for path in (first, second):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def _make_stamp(status: os.stat_result) -> tuple[int, ...]:
    """What tells that an entry has changed."""
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _clone(original: str, copy: str) -> os.stat_result:
    """Copy a file that nobody changes meanwhile; returns its status. Raises `OSError`."""
    source = os.open(original, _READ)
    try:
        for _ in range(_ATTEMPTS):
            target = os.open(copy, _CREATE, 0o600)
            try:
                status = os.fstat(source)
                system_calls.clone_file(source, target)
                if _make_stamp(os.fstat(source)) == _make_stamp(status):
                    return status
            finally:
                os.close(target)
            os.unlink(copy)
    finally:
        os.close(source)
    raise BlockingIOError(errno.EBUSY, "another program writes to it all the time", original)
