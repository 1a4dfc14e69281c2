"""Watch directories for changes, by inotify (Linux).

The kernel queues an event before the call that changed something returns, so that an empty queue proves that nothing
has changed. It does not report stores to mapped memory, nor changes by a name outside of the watched directories.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import struct
import sys
from typing import NamedTuple

from handrail.search.ignores import NAMES

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_UNMOUNT, OVERFLOW = 0x2000, 0x4000
_ONLY_DIRECTORY = 0x01000000
_IS_DIRECTORY = 0x40000000
_NAMES = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _NAMES | _DELETE_SELF | _MOVE_SELF
_RULES = frozenset(map(os.fsencode, NAMES))
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 18
_SPACES = re.compile(rb"[ \t\n\\]")
"""Written as octal numbers in the list of mounts."""
_MOST_EVENTS = 1 << 20
"""Events of one reading; with more, everything counts as changed."""


class CannotWatch(Exception):
    """This system, or its limits, do not allow to watch so many directories."""


class Changes(NamedTuple):
    """What has happened since the events were read last."""

    files: list[bytes]
    """Entries, other than directories, that were changed, created, moved or removed; each once."""
    directories: set[bytes]
    """Directories whose entries may be others, or have another meaning."""
    moved: set[bytes]
    """Directories that were created, moved or removed."""
    everything: bool
    """Whether events were lost, or what is watched has moved elsewhere."""

    def __bool__(self) -> bool:
        return bool(self.files or self.directories or self.everything)


class Watch:
    """Watches directories below a root; raises `CannotWatch`."""

    def __init__(self, root: int) -> None:
        if sys.platform != "linux":
            raise CannotWatch
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._paths: dict[int, bytes] = {}
        self._numbers: dict[bytes, int] = {}
        self._fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise CannotWatch
        self._mounts = -1
        try:
            self._mounts = os.open("/proc/self/mounts", os.O_RDONLY | os.O_CLOEXEC)
            self._poll = select.poll()
            self._poll.register(self._mounts, select.POLLPRI | select.POLLERR)
            self._poll.poll(0)
            self._top = os.readlink(f"/proc/self/fd/{root}").rstrip("/")
            self._mounted = self._list_mounts()
        except OSError:
            self.close()
            raise CannotWatch from None

    def _list_mounts(self) -> list[bytes]:
        """The file systems that are mounted below the root."""
        below = b" " + _SPACES.sub(lambda space: b"\\%03o" % space[0][0], os.fsencode(self._top)) + b"/"
        os.lseek(self._mounts, 0, os.SEEK_SET)
        parts = iter(lambda: os.read(self._mounts, _BUFFER), b"")
        return [line for line in b"".join(parts).split(b"\n") if below in line]

    @property
    def count(self) -> int:
        """How many directories are watched."""
        return len(self._paths)

    def add(self, fd: int, path: bytes) -> bool:
        """Watch an open directory, whose path below the root is this (empty: the root). Returns False if it was already
        watched."""
        number = self._libc.inotify_add_watch(self._fd, b"/proc/self/fd/%d" % fd, _MASK | _ONLY_DIRECTORY)
        if number < 0:
            raise CannotWatch
        is_new = self._paths.get(number) != path
        self._paths[number] = path
        self._numbers[path] = number
        return is_new

    def remove(self, path: bytes) -> None:
        """Watch a directory no longer."""
        number = self._numbers.pop(path, None)
        if number is not None and self._paths.get(number) == path:
            del self._paths[number]
            self._libc.inotify_rm_watch(self._fd, number)

    def read(self) -> Changes:
        """What has changed since this was called last."""
        files: dict[bytes, None] = {}
        directories: set[bytes] = set()
        moved: set[bytes] = set()
        everything = False
        if self._poll.poll(0):
            before, self._mounted = self._mounted, self._list_mounts()
            everything = self._mounted != before
        for number, mask, name in self._read_events():
            above = self._paths.get(number)
            if mask & (OVERFLOW | _UNMOUNT) or (mask & _MOVE_SELF and above == b""):
                everything = True
            if above is None:  # of a directory that has been forgotten
                continue
            path = above + b"/" + name if above and name else above or name
            if mask & _NAMES or not name or name in _RULES:
                directories.add(above)
            if not mask & _IS_DIRECTORY:
                if name:
                    files[path] = None
            elif mask & _NAMES:
                moved.add(path)
            else:
                directories.add(path)
        return Changes(list(files), directories, moved, everything)

    def _read_events(self) -> list[tuple[int, int, bytes]]:
        events: list[tuple[int, int, bytes]] = []
        while len(events) < _MOST_EVENTS:
            try:
                data = os.read(self._fd, _BUFFER)
            except BlockingIOError:
                return events
            at = 0
            while at < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size
                events.append((number, mask, data[at : at + length].rstrip(b"\0")))
                at += length
        return [*events, (-1, OVERFLOW, b"")]

    def close(self) -> None:
        for fd in (self._fd, self._mounts):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._fd = self._mounts = -1
