"""Keep an index of a directory tree that a command may have changed, without reading the whole tree again each time.

In a large tree the kernel reports which directories have changed (inotify), and only these are read again. Otherwise
the inode and times of every directory are compared; the time of the last change of an inode cannot be set by a program.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
Entry = tuple[str, bool, bool]
"""A name, whether it is a directory, and whether it is a link."""

MOST_DIRECTORIES = 50_000
_WATCHED_FROM = 400
"""A smaller tree is compared: the number of watches is limited for each user."""
_TICK = 100_000_000
"""Nanoseconds: the clock of a file system is coarse, and two changes within this time may leave the same stamp."""

_LATE = 2_000_000_000
"""The same for what another process begins with: its clock, or its file system, may be coarser."""

_CREATED, _DELETED, _MOVED_FROM, _MOVED_TO = 0x100, 0x200, 0x40, 0x80
_ONLY_DIRECTORIES, _NO_FOLLOW, _OVERFLOW, _IS_DIRECTORY = 0x01000000, 0x02000000, 0x4000, 0x40000000
_MASK = _CREATED | _DELETED | _MOVED_FROM | _MOVED_TO | _ONLY_DIRECTORIES | _NO_FOLLOW
_HEAD = struct.Struct("iIII")
_MOST_READS = 256
"""Blocks of reports: more than the kernel holds at once."""


def read_entries(directory: str) -> list[Entry]:
    with os.scandir(directory) as entries:
        return [(one.name, one.is_dir(follow_symlinks=False), one.is_symlink()) for one in entries]


class _Node(NamedTuple):
    identity: tuple[int, int, int, int]
    """Inode, device, modification time and change time: by which a change of the directory is noticed."""
    settled: bool
    """Whether a later change is sure to change the identity."""
    folders: Sequence[str]
    """The names of the directories in it that are gone on with."""


def _identify(directory: str) -> tuple[int, int, int, int]:
    status = os.stat(directory)
    return status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns


StoredDirectory = tuple[str, tuple[int, int, int, int], Sequence[str], T | None]
"""A directory, its inode, device and times, the directories in it that are gone on with, and its result."""


class DirectoryIndex(Generic[T]):
    """Index of the results of a function for each directory below some roots, up to date when it is asked for."""

    def __init__(
        self, roots: Sequence[str], read: Callable[[str, list[Entry]], tuple[T | None, Iterable[str]]]
    ) -> None:
        """``read``: what is kept of a directory with these entries, if anything, and which of them to go on with."""
        self._roots = list(roots)
        self._read = read
        self._nodes: dict[str, _Node] = {}
        self._kept: dict[str, T] = {}
        self._sorted: tuple[int, dict[str, T]] = -1, {}
        self._watches: _Watches | None = None
        self._can_watch = True
        self._lock = threading.Lock()
        self._begun = time.time_ns()
        self.changes = 0
        """Grows whenever a directory was read or is gone."""
        self.complete = True
        """Whether the last update reached all directories: beyond `MOST_DIRECTORIES` they are left out."""

    @property
    def directories(self) -> list[str]:
        """The directories that the last update reached."""
        return list(self._nodes)

    def update(self) -> dict[str, T]:
        """Return the results for the current tree, by directory, the nearest to a root first."""
        with self._lock:
            changed = self._watches.changed() if self._watches else None
            if changed is not None:
                self._renew(*changed)
            elif not self._watch_large():
                self._compare()
            self._add([root for root in self._roots if root not in self._nodes])
            self._watch_large()
            return self.get_results()

    def get_results(self) -> dict[str, T]:
        """The results of the last update, in the same order; not to be changed."""
        if self._sorted[0] != self.changes:
            self._sorted = self.changes, dict(sorted(self._kept.items(), key=lambda one: one[0].count("/")))
        return self._sorted[1]

    def restore(self, directories: Iterable[StoredDirectory[T]]) -> None:
        """Begin with what another process found. Each directory is compared before its result counts."""
        self.changes += 1
        for path, identity, names, result in directories:
            self._nodes[path] = _Node(identity, True, names)
            if result is not None:
                self._kept[path] = result

    def list_stored(self, depends: Callable[[str], bool]) -> Iterator[StoredDirectory[T]]:
        """What another process can begin with. It reads those directories again for sure that changed of late.

        ``depends``: whether the result for a directory depends on more than its entries; it is read again, too.
        """
        for path, node in self._nodes.items():
            inode, device, _, changed = node.identity
            is_old = self._begun - changed > _LATE and not depends(path)
            yield path, node.identity if is_old else (inode, device, 0, 0), node.folders, self._kept.get(path)

    def forget(self) -> None:
        """Know nothing, so that the next update reads everything."""
        for root in self._roots:
            self._drop(root)

    def _compare(self) -> None:
        """Read each directory again whose stamp is another one."""
        for directory, node in list(self._nodes.items()):
            if directory not in self._nodes:
                continue
            try:
                identity = _identify(directory)
            except OSError:
                self._drop(directory)
                continue
            if not node.settled or node.identity != identity:
                if node.identity[:2] != identity[:2]:
                    self._drop(directory)
                self._add([directory])

    def _renew(self, changed: set[str], replaced: set[str]) -> None:
        """Read again what the kernel has reported. Nobody reports on the directory that holds a root."""
        moved = [root for root in self._roots if root in self._nodes and not self._is_same(root)]
        for directory in (*replaced, *moved):
            self._drop(directory)
        self._add([directory for directory in changed if directory in self._nodes])

    def _is_same(self, directory: str) -> bool:
        with contextlib.suppress(OSError):
            return os.stat(directory).st_ino == self._nodes[directory].identity[0]
        return False

    def _add(self, directories: Iterable[str]) -> None:
        """Read directories, and those below them that are not known; forget those that are gone."""
        waiting = deque(directories)
        while waiting:
            directory = waiting.popleft()
            self.changes += 1
            known = self._nodes.get(directory)
            if known is None and len(self._nodes) >= MOST_DIRECTORIES:
                self.complete = False
                continue
            try:
                # Watched first, so that nothing is missed that is created meanwhile.
                self._watch(directory)
                identity = _identify(directory)
                settled = time.time_ns() - max(identity[2:]) > _TICK
                entries = read_entries(directory)
            except OSError:
                self._drop(directory)
                continue
            kept, folders = self._read(directory, entries)
            if kept is None:
                self._kept.pop(directory, None)
            else:
                self._kept[directory] = kept
            names = tuple(folders)
            self._nodes[directory] = _Node(identity, settled, names)
            if known:
                for gone in set(known.folders).difference(names):
                    self._drop(os.path.join(directory, gone))
            paths = [os.path.join(directory, name) for name in names]
            waiting.extend(path for path in paths if path not in self._nodes)

    def _drop(self, directory: str) -> None:
        waiting = [directory]
        while waiting:
            here = waiting.pop()
            node = self._nodes.pop(here, None)
            self.changes += 1
            self._kept.pop(here, None)
            waiting += [os.path.join(here, name) for name in node.folders] if node else ()
            if self._watches:
                self._watches.remove(here)

    def _watch(self, directory: str) -> None:
        try:
            if self._watches:
                self._watches.add(directory)
        except _NoMoreWatches:  # the tree is compared from now on
            assert self._watches
            self._watches.close()
            self._watches, self._can_watch = None, False

    def _watch_large(self) -> bool:
        """Compare a large tree, and be told of its changes from now on: if the kernel can, and allows that many."""
        if self._watches or not self._can_watch or len(self._nodes) < _WATCHED_FROM:
            return False
        self._watches = _Watches.open(2 * len(self._nodes))
        self._can_watch = self._watches is not None
        for directory in list(self._nodes):
            if directory not in self._nodes:
                continue
            try:
                self._watch(directory)
            except OSError:
                self._drop(directory)
        self._compare()  # whatever changed before its watch was there
        return True


class _NoMoreWatches(Exception):
    """The kernel allows no more."""


class _Watches:
    """Directories whose changes the kernel reports."""

    def __init__(self, fd: int, libc: ctypes.CDLL) -> None:
        self._fd = fd
        self._libc = libc
        self._add = libc.inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self._paths: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self.close = weakref.finalize(self, os.close, fd)

    @classmethod
    def open(cls, wanted: int) -> _Watches | None:
        """None where the kernel has none, or so many would leave too few to other programs of this user."""
        if sys.platform != "linux":
            return None
        with contextlib.suppress(OSError, ValueError, AttributeError):
            with open("/proc/sys/fs/inotify/max_user_watches", encoding="ascii") as file:
                if wanted > int(file.read()) // 4:
                    return None
            libc = ctypes.CDLL(None, use_errno=True)
            fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
            return cls(fd, libc) if fd >= 0 else None
        return None

    def add(self, directory: str) -> None:
        """Watch a directory, unless it is watched already."""
        if directory in self._numbers:
            return
        watch: int = self._add(self._fd, os.fsencode(directory), _MASK)
        if watch < 0:
            number = ctypes.get_errno()
            if number in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                raise OSError(number, os.strerror(number), directory)
            raise _NoMoreWatches
        self._paths[watch], self._numbers[directory] = directory, watch

    def remove(self, directory: str) -> None:
        watch = self._numbers.pop(directory, None)
        if watch is not None and self._paths.pop(watch, None) is not None:
            self._libc.inotify_rm_watch(self._fd, watch)

    def changed(self) -> tuple[set[str], set[str]] | None:
        """Directories whose entries have changed, and those that may be others by now. None if reports were lost,
        or come faster than they are read."""
        changed: set[str] = set()
        replaced: set[str] = set()
        for _ in range(_MOST_READS):
            try:
                raw = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return changed, replaced
            at = 0
            while at < len(raw):
                watch, mask, _, size = _HEAD.unpack_from(raw, at)
                name = raw[at + _HEAD.size : at + _HEAD.size + size].rstrip(b"\0")
                at += _HEAD.size + size
                if mask & _OVERFLOW:
                    return None
                directory = self._paths.get(watch)
                if directory is not None:
                    changed.add(directory)
                    if mask & _IS_DIRECTORY and name:
                        replaced.add(os.path.join(directory, os.fsdecode(name)))
        return None
