"""Compare a draft with its workspace.

Only the upper layer is walked: what a command did not touch is not in it. The result is a list of steps that turn the
workspace into the draft, and a list of conflicts: entries that something else changed in the workspace since the draft
was created, and that a step would replace or delete.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from handrail.drafts.foreign_files import ForeignCopy, read_foreign_copies
from handrail.drafts.layout import FOREIGN, DraftDirectory, Version, get_start, is_same_index_at
from handrail.system_calls import (
    READABLE_DIRECTORY,
    closing_fd,
    find_data,
    lease,
    opened_beneath,
    stat_at,
    walk_beneath,
)

MARKS = "user.overlay."
"""The attributes with which overlayfs marks entries of an upper layer."""
_BLOCK = 1 << 17
_MOST_OPENED = 16
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Action = Literal["create", "replace", "delete", "set"]
FileType = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, directory or link as it was seen."""

    inode: int
    mode: int
    """With the type."""
    size: int
    atime: int
    mtime: int
    """Both in nanoseconds."""
    owner: tuple[int, int]
    """User and group."""
    links: int = 1
    attributes: tuple[tuple[str, str], ...] = ()
    """Extended attributes of a directory, with their values in hexadecimal."""

    @classmethod
    def of(cls, status: os.stat_result, attributes: Mapping[str, bytes] | None = None) -> Entry:
        return cls(
            status.st_ino,
            status.st_mode,
            status.st_size,
            status.st_atime_ns,
            status.st_mtime_ns,
            (status.st_uid, status.st_gid),
            status.st_nlink,
            tuple((name, value.hex()) for name, value in (attributes or {}).items()),
        )

    @property
    def version(self) -> Version:
        return self.inode, self.mode, self.size, self.mtime

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def type(self) -> FileType:
        if stat.S_ISREG(self.mode):
            return "file"
        if stat.S_ISDIR(self.mode):
            return "directory"
        return "link" if stat.S_ISLNK(self.mode) else "other"


@dataclass(frozen=True, slots=True)
class Step:
    """One step from the workspace to the draft. `set` changes the mode and the times only."""

    action: Action
    path: str
    before: Entry | None = None
    after: Entry | None = None
    times: bool = True
    """Whether `set` changes the times too: not of a directory that something else changes at the same time."""
    whole: bool = True
    """Whether a directory is deleted with everything in it: else other steps delete that before."""

    @property
    def changes_mode(self) -> bool:
        return bool(self.before and self.after and stat.S_IMODE(self.before.mode) != stat.S_IMODE(self.after.mode))


@dataclass(frozen=True, slots=True)
class ChangedOutside:
    """An entry that was changed in the workspace while the draft was open."""

    path: str
    reason: str
    sides: str = ""
    """The lines of both sides where they overlap, with markers."""


@dataclass(slots=True)
class Comparison:
    """The steps in the order in which they are carried out, and the conflicts that forbid them."""

    steps: list[Step] = field(default_factory=list)
    conflicts: list[ChangedOutside] = field(default_factory=list)


def compare(draft: DraftDirectory) -> Comparison:
    """Compare a draft with its workspace; raises `OSError` if either cannot be read."""
    foreign = read_foreign_copies(draft) if os.path.lexists(os.path.join(draft.path, FOREIGN)) else {}
    with closing_fd(draft.open_workspace()) as root:
        return _Comparer(draft, draft.upper, root, draft.info.start, foreign, draft.notes.read_resolved()).compare()


@dataclass(slots=True)
class _Comparer:
    draft: DraftDirectory
    upper: str
    root: int
    start: int
    foreign: Mapping[int, ForeignCopy]
    resolved: Mapping[str, int]
    result: Comparison = field(default_factory=Comparison)

    def compare(self) -> Comparison:
        stack = [("", os.fstat(self.root), False)]
        directories: list[Step] = []
        while stack:
            path, lower, opaque = stack.pop()
            count = len(self.result.steps)
            with opened_beneath(self.root, path, READABLE_DIRECTORY) as directory:
                stack += self._compare_entries(path, directory, self._is_late(lower), opaque)
                before = Entry.of(lower, read_attributes(directory))
            upper = os.path.join(self.upper, path)
            status = os.lstat(upper)
            after = replace(Entry.of(status, read_attributes(upper)), owner=self._get_owner(path, status))
            if not path and after.owner == (os.geteuid(), os.getegid()) != before.owner:
                # Its copy in the upper layer was created by us, and a user cannot give files away.
                after = replace(after, owner=before.owner)
            if len(self.result.steps) > count or list_settable(before) != list_settable(after):
                directories.append(Step("set", path, before, after, not self._is_late(lower)))
        # Their times last, and the deepest first: each step inside a directory changes its times again.
        self.result.steps += sorted(directories, key=lambda step: step.path.count("/"), reverse=True)
        return self.result

    def _compare_entries(
        self, path: str, directory: int, changed_outside: bool, opaque: bool
    ) -> Iterator[tuple[str, os.stat_result, bool]]:
        """Compare the entries of a directory that both layers have; yields the directories to compare in turn.

        ``opaque``: whether the names that only the workspace has are deleted.
        """
        with os.scandir(os.path.join(self.upper, path)) as entries:
            names = sorted(entry.name for entry in entries)
        for name in sorted(set(os.listdir(directory)) - set(names)) if opaque else ():
            lower = stat_at(name, directory)
            if lower is not None:
                self._delete(directory, name, f"{path}/{name}", lower)
        for name in names:
            inner = f"{path}/{name}" if path else name
            upper_path = os.path.join(self.upper, inner)
            upper = os.lstat(upper_path)
            lower = stat_at(name, directory)
            foreign = self.foreign.get(upper.st_ino)
            if foreign and not stat.S_ISDIR(upper.st_mode) and foreign.is_untouched(inner, upper):
                continue
            if is_whiteout(upper):
                if lower is not None:
                    self._delete(directory, name, inner, lower)
            elif lower is None:
                moved_or_gone = "origin" in _marks(upper_path) and (changed_outside or stat.S_ISDIR(upper.st_mode))
                was_there = os.path.lexists(os.path.join(self.draft.bases, inner))
                gone = moved_or_gone or was_there or (foreign and foreign.path == inner)
                if gone and get_start(self.resolved, inner, 0) == 0:
                    self._conflict(inner, "deleted outside the draft")
                else:
                    self._add("create", inner, None, upper)
            elif stat.S_ISDIR(upper.st_mode) and stat.S_ISDIR(lower.st_mode) and not _is_opaque(upper_path):
                yield inner, lower, opaque
            elif stat.S_ISDIR(upper.st_mode) and stat.S_ISDIR(lower.st_mode) and self.draft.copies:
                yield inner, lower, True
            else:
                self._compare_entry(directory, name, inner, upper, lower)

    def _compare_entry(
        self, directory: int, name: str, path: str, upper: os.stat_result, lower: os.stat_result
    ) -> None:
        upper_path = os.path.join(self.upper, path)
        # Only root gives files away: a copy of another user's file has another owner, and is not changed by that.
        is_mine = os.geteuid() in (0, lower.st_uid)
        same_owner = not is_mine or self._get_owner(path, upper) == (lower.st_uid, lower.st_gid)
        if same_owner and have_same_contents(upper_path, upper, directory, name, lower):
            if upper.st_mode == lower.st_mode and upper.st_mtime_ns == lower.st_mtime_ns:
                return  # only opened for writing
            # Its other names stay as they are, and only its owner can set its mode and times.
            if lower.st_nlink > 1 or not is_mine:
                self._replace(directory, name, path, upper, lower)
            elif (
                self._is_late(lower, path)
                and upper.st_mode != lower.st_mode
                and not self.draft.notes.is_accepted(path, lower)
            ):
                self._conflict(path, "changed outside the draft")
            else:
                self._add("set", path, lower, upper)
            return
        if is_same_index_at(path, upper_path, directory, name):
            return  # `git status` has refreshed the file times in it
        self._replace(directory, name, path, upper, lower)

    def _replace(self, directory: int, name: str, path: str, upper: os.stat_result, lower: os.stat_result) -> None:
        if stat.S_ISDIR(lower.st_mode) and self.draft.copies:
            self._delete(directory, name, path, lower)
            self._add("create", path, None, upper)
            return
        self._check_tree(directory, name, path, lower)
        self._add("replace", path, lower, upper)

    def _delete(self, directory: int, name: str, path: str, lower: os.stat_result) -> None:
        self._check_tree(directory, name, path, lower)
        if not (stat.S_ISDIR(lower.st_mode) and self.draft.copies):
            self._add("delete", path, lower, None)
            return
        # An overlay does not rename its directories: the workspace lies on one.
        directories: list[Step] = []
        for inner, child, above, last in walk_tree(directory, name, path):
            if child is None:
                continue
            if stat.S_ISDIR(child.st_mode):
                directories.append(_remove_directory(above, last, inner, child))
            else:
                self._add("delete", inner, child, None)
        self.result.steps += sorted(directories, key=lambda step: step.path.count("/"), reverse=True)
        self.result.steps.append(_remove_directory(directory, name, path, lower))

    def _check_tree(self, directory: int, name: str, path: str, lower: os.stat_result) -> None:
        """Report a conflict if an entry that is to be taken away, or anything below it, was changed outside."""
        if self._is_late(lower) and (
            self.draft.is_refreshed_index(path, directory, name) or self.draft.notes.is_accepted(path, lower)
        ):
            return
        start = get_start(self.resolved, path, self.start)
        for late in find_late(directory, name, path, lower, start, on_overlay=self.draft.copies):
            self._conflict(late, "changed outside the draft")
            return

    def _is_late(self, status: os.stat_result, path: str = "") -> bool:
        return status.st_ctime_ns >= get_start(self.resolved, path, self.start)

    def _get_owner(self, path: str, upper: os.stat_result) -> tuple[int, int]:
        """The owner of an entry of the upper layer, or of the file of another user that it is a copy of."""
        foreign = self.foreign.get(upper.st_ino)
        is_copy = foreign is not None and foreign.path == path  # a new file may have the inode of a deleted copy
        return foreign.get_owner(upper) if foreign and is_copy else (upper.st_uid, upper.st_gid)

    def _add(self, action: Action, path: str, before: os.stat_result | None, after: os.stat_result | None) -> None:
        old, new = before and Entry.of(before), after and Entry.of(after)
        self.result.steps.append(Step(action, path, old, new))

    def _conflict(self, path: str, reason: str) -> None:
        self.result.conflicts.append(ChangedOutside(path, reason))


def _remove_directory(directory: int, name: str, path: str, status: os.stat_result) -> Step:
    attributes = read_attributes(f"/proc/self/fd/{directory}/{name}")
    return Step("delete", path, Entry.of(status, attributes), None, whole=False)


def find_late(
    directory: int,
    name: str,
    path: str,
    status: os.stat_result,
    start: int,
    own: Sequence[tuple[int, int]] = (),
    *,
    on_overlay: bool,
) -> Iterator[str]:
    """Paths in a tree that were changed at ``start`` or later, but for changes in one of the periods ``own``.

    In these periods entries were renamed, which changes no file's modification time. ``on_overlay``: an overlay may
    change a mark of a directory, and so its change time, when somebody reads it.
    """

    def is_late(entry: os.stat_result) -> bool:
        time = entry.st_ctime_ns
        if on_overlay and stat.S_ISDIR(entry.st_mode):
            time = min(time, entry.st_mtime_ns)
        written = entry.st_mtime_ns if stat.S_ISREG(entry.st_mode) else 0
        return time >= start and not (written < start and any(first <= time < last for first, last in own))

    if is_late(status):
        yield path
    if stat.S_ISDIR(status.st_mode):
        for inner, child, _, _ in walk_tree(directory, name, path):
            if child is None or is_late(child):
                yield inner


def find_late_in_moved(
    directory: int, name: str, path: str, start: int, moved: Set[int], inner_directories: list[str]
) -> Iterator[str]:
    """Paths in a directory that was moved just now, and that were changed at ``start`` or later or are being written.

    A move gives the directory itself a new change time, and on some file systems (XFS) a new modification time, but
    nothing in it, except for other names of files that were moved before: the inodes ``moved``. So a name that
    something else has taken out of the directory in this moment is not noticed; the draft wanted it gone, too.

    ``inner_directories`` gets the directories in it, by their paths below it, for `find_created_in_moved`.
    """
    for inner, child, above, last in walk_tree(directory, name, path):
        if child is not None and stat.S_ISDIR(child.st_mode):
            inner_directories.append(inner.removeprefix(f"{path}/"))
        time = 0 if child is None else child.st_mtime_ns if child.st_ino in moved else child.st_ctime_ns
        if child is None or time >= start or is_being_written(child, above, last):
            yield inner


def find_created_in_moved(
    directory: int, name: str, path: str, start: int, moved: Set[int], inner_directories: Sequence[str]
) -> Iterator[str]:
    """Paths in a moved directory in which something was created after `find_late_in_moved`.

    A program may have found the directory under its old name, and waited for the processor until that look was over.
    """
    with closing_fd(os.open(name, READABLE_DIRECTORY, dir_fd=directory)) as top:
        for entry in os.listdir(top):
            status = stat_at(entry, top)
            if status is not None and status.st_ctime_ns >= start and status.st_ino not in moved:
                yield f"{path}/{entry}"
        for inner in inner_directories:
            with closing_fd(walk_beneath(top, inner, READABLE_DIRECTORY)) as fd:
                if os.fstat(fd).st_ctime_ns >= start:
                    yield f"{path}/{inner}"


def walk_tree(directory: int, name: str, path: str) -> Iterator[tuple[str, os.stat_result | None, int, str]]:
    """Everything below a directory: its path, its status (None if it has gone), and the directory that it is in."""
    top = os.open(name, READABLE_DIRECTORY, dir_fd=directory)
    waiting: list[tuple[str, int]] = [("", top)]
    """Directories by their path below the top, some of them open: there may be more than a process can open."""
    opened = 1
    start = f"{path}/" if path else ""
    try:
        while waiting:
            above, fd = waiting.pop()
            if fd >= 0:
                opened -= 1
            else:
                try:
                    fd = walk_beneath(top, above, READABLE_DIRECTORY)  # the path may be too long for the system
                except (FileNotFoundError, NotADirectoryError):
                    yield start + above, None, top, above
                    continue
            try:
                for inner in os.listdir(fd):
                    child = stat_at(inner, fd)
                    below = f"{above}/{inner}" if above else inner
                    yield start + below, child, fd, inner
                    if child is not None and stat.S_ISDIR(child.st_mode):
                        is_opened = opened < _MOST_OPENED
                        waiting.append((below, os.open(inner, READABLE_DIRECTORY, dir_fd=fd) if is_opened else -1))
                        opened += is_opened
            finally:
                if fd != top:
                    os.close(fd)
    finally:
        for fd in {top, *(fd for _, fd in waiting)}:
            if fd >= 0:
                os.close(fd)


def is_being_written(status: os.stat_result, directory: int, name: str) -> bool:
    """Whether another program has a file open for writing: nobody can be granted a lease for reading it then."""
    if not stat.S_ISREG(status.st_mode):
        return False
    try:
        fd = os.open(name, _READ, dir_fd=directory)
    except PermissionError:
        return False
    with closing_fd(fd):
        return lease(fd) is False


def is_whiteout(status: os.stat_result) -> bool:
    """Whether an entry of the upper layer says that the name below it is deleted."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _is_opaque(path: str) -> bool:
    """Whether a directory of the upper layer hides everything below it."""
    return "opaque" in _marks(path)


def _marks(path: str) -> set[str]:
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM):
            return set()
        raise
    return {name.removeprefix(MARKS) for name in names if name.startswith(MARKS)}


def have_same_contents(
    upper_path: str, upper: os.stat_result, directory: int, name: str, lower: os.stat_result
) -> bool:
    """Whether two entries have the same type, contents and attributes."""
    if stat.S_IFMT(upper.st_mode) != stat.S_IFMT(lower.st_mode):
        return False
    if stat.S_ISLNK(upper.st_mode):
        return os.readlink(upper_path) == os.readlink(name, dir_fd=directory)
    if not stat.S_ISREG(upper.st_mode):
        return stat.S_ISCHR(upper.st_mode) and upper.st_rdev == lower.st_rdev
    if upper.st_size != lower.st_size or upper.st_nlink > 1:  # several names may belong to one file now
        return False
    with contextlib.ExitStack() as stack:
        try:
            mine = os.open(upper_path, _READ)
            stack.callback(os.close, mine)
            theirs = os.open(name, _READ, dir_fd=directory)
            stack.callback(os.close, theirs)
        except PermissionError:  # its owner took the right to read it away
            return False
        same = _have_same_bytes(mine, theirs, upper.st_size)
        return same and read_attributes(mine) == read_attributes(theirs)


def _have_same_bytes(one: int, other: int, size: int) -> bool:
    offset = 0
    while True:
        # What is a hole in both is the same, however large it is.
        offset = min(find_data(fd, offset, size) for fd in (one, other))
        block = os.pread(one, _BLOCK, offset)
        if block != os.pread(other, _BLOCK, offset):
            return False
        if not block:
            return True
        offset += len(block)


def list_settable(entry: Entry) -> tuple[object, ...]:
    """The parts of an entry that a step `set` changes."""
    return entry.mode, entry.mtime, entry.owner, entry.attributes


def read_attributes(file: int | str) -> dict[str, bytes]:
    """The extended attributes of a file that are not marks of overlayfs."""
    try:
        return {name: os.getxattr(file, name) for name in sorted(os.listxattr(file)) if not name.startswith(MARKS)}
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM, errno.ENODATA):
            return {}
        raise
