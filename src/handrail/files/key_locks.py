"""Locks on numbers, between threads and processes: bytes of one file where the system can, else a file for each.

Also how to clean up after versions of this program that shared 256 lock files between all paths.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import struct
from collections.abc import Callable
from typing import Any, Protocol

Intent = dict[str, Any]
"""The intent of a process, for recovery after it died."""
_RANGES = "ranges"
_CREATE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_SUCH_LOCKS = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
_STRIPE = re.compile(r"[0-9a-f]{2}")


class Keys(Protocol):
    """The keys that one holder has taken; another holder, of this process or not, cannot take them."""

    def take(self, key: int) -> bool:
        """False if somebody else has it. One that is taken already stays so."""

    def drop(self, key: int | None = None) -> None:
        """Let one go, or all."""

    def close(self) -> None:
        """Let all go."""


def open_keys(directory: str) -> Keys:
    """A new holder, without any key. All that use one directory use one kind of lock, since the system decides."""
    ranges = Ranges(directory) if hasattr(fcntl, "F_OFD_SETLK") else None
    if ranges and ranges.works():
        return ranges
    return KeyFiles(directory)


class Ranges:
    """Each key is one byte of the lock file, which stays empty. One descriptor, however many keys are held."""

    def __init__(self, directory: str) -> None:
        self._fd = os.open(os.path.join(directory, _RANGES), _CREATE, 0o600)

    def works(self) -> bool:
        """Whether the kernel and the file system have such locks; closed if not."""
        try:
            self.drop()
        except OSError as error:
            self.close()
            if error.errno in _NO_SUCH_LOCKS:
                return False
            raise
        return True

    def take(self, key: int) -> bool:
        try:
            self._lock(fcntl.F_WRLCK, key, 1)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def drop(self, key: int | None = None) -> None:
        self._lock(fcntl.F_UNLCK, key or 0, 0 if key is None else 1)

    def close(self) -> None:
        # Unlocked first: a child that was forked meanwhile has the same descriptor, and would keep the locks.
        with contextlib.suppress(OSError):
            self.drop()
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def _lock(self, kind: int, start: int, length: int) -> None:
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi", kind, os.SEEK_SET, start, length, 0))


class KeyFiles:
    """Each key is a file of its own while it is held, for systems without locks on ranges (macOS)."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._held: dict[int, int] = {}

    def take(self, key: int) -> bool:
        if key in self._held:
            return True
        path = self._path(key)
        fd = os.open(path, _CREATE, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who held it before may have removed the file: then the next one locks another file of that name.
            if os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False)):
                self._held[key] = fd
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return False

    def drop(self, key: int | None = None) -> None:
        for one in list(self._held) if key is None else [key]:
            fd = self._held.pop(one)
            with contextlib.suppress(OSError):
                os.unlink(self._path(one))
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            with contextlib.suppress(OSError):
                os.close(fd)

    def close(self) -> None:
        self.drop()

    def _path(self, key: int) -> str:
        return os.path.join(self._directory, f"{key:016x}.lock")


def intents_of(raw: bytes) -> list[Any]:
    """Read a record; empty if its writer was killed while writing it."""
    try:
        found = json.loads(raw)
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def sweep_stripes(directory: str, recover: Callable[[Intent], None]) -> None:
    """Clean up after a dead process of an older version, whose record is in the lock file itself."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if not _STRIPE.fullmatch(entry.name) or not entry.stat().st_size:
                continue
            with contextlib.suppress(BlockingIOError), open(entry.path, "r+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for intent in intents_of(file.read()):
                    recover(intent)
                file.truncate(0)
