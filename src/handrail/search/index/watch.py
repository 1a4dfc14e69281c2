"""Watch directories for changes, by inotify (Linux).

The kernel queues an event before the call that changed something returns, so that an empty queue proves that nothing
has changed. It does not report stores to mapped memory, nor changes by a name outside of the watched directories.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import sys
from collections.abc import Iterable
from typing import NamedTuple

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_UNMOUNT, OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLY_DIRECTORY, _NO_LINK = 0x01000000, 0x02000000
_IS_DIRECTORY = 0x40000000
_MOVED = _MOVED_FROM | _MOVED_TO
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 18
_MOST_EVENTS = 1 << 20
"""Events of one reading; with more, everything counts as changed."""


class CannotWatch(Exception):
    """This system, or its limits, do not allow to watch so many directories."""


class Changes(NamedTuple):
    """What has happened since the events were read last."""

    files: set[bytes]
    """Entries, other than directories, that were changed, created, moved or removed."""
    directories: bool
    """Whether a directory was created, removed or changed."""
    everything: bool
    """Whether events were lost, or what is watched has moved elsewhere."""

    def __bool__(self) -> bool:
        return bool(self.files) or self.directories or self.everything


class Watch:
    """Watches directories below a root; raises `CannotWatch`."""

    def __init__(self, root: int) -> None:
        if sys.platform != "linux":
            raise CannotWatch
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._root = b"/proc/self/fd/%d/" % root
        self._paths: dict[int, bytes] = {}
        self._fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise CannotWatch
        self._mounts = -1
        try:
            self._mounts = os.open("/proc/self/mounts", os.O_RDONLY | os.O_CLOEXEC)
            self._poll = select.poll()
            self._poll.register(self._mounts, select.POLLPRI | select.POLLERR)
            self._poll.poll(0)
        except OSError:
            self.close()
            raise CannotWatch from None

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, directories: Iterable[bytes]) -> None:
        """Watch these too (empty: the root). One that is gone is passed over: the one above it reports that."""
        add = self._libc.inotify_add_watch
        for path in directories:
            number = add(self._fd, self._root + (path or b"."), _MASK | _ONLY_DIRECTORY | _NO_LINK)
            if number >= 0:
                self._paths[number] = path
            elif not isinstance(OSError(ctypes.get_errno(), ""), FileNotFoundError | NotADirectoryError):
                raise CannotWatch

    def covers(self, directories: Iterable[bytes]) -> bool:
        """Whether all of these are watched."""
        return set(self._paths.values()).issuperset(directories)

    def read(self) -> Changes:
        """What has changed since this was called last."""
        files: set[bytes] = set()
        directories, everything = False, bool(self._poll.poll(0))
        for number, mask, name in self._read_events():
            path = self._paths.get(number)
            if mask & _IGNORED:
                self._paths.pop(number, None)
            elif path is None or mask & (OVERFLOW | _UNMOUNT | _MOVE_SELF) or (mask & _IS_DIRECTORY and mask & _MOVED):
                everything = True
            elif mask & _IS_DIRECTORY or not name:
                directories = True
            else:
                files.add(path + b"/" + name if path else name)
        return Changes(files, directories, everything)

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
