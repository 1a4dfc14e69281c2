"""Rescue what another program writes to a file just after that file was replaced.

A program can be stopped between finding a name and opening the file. No lease shows it: it opens the old file when the
exchange is over, and what it writes would vanish with that file. So a replaced file stays open for a moment; if it is
written to, what was appended is appended to the file that has the name now, and any other version is saved beside it.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import threading
import time
from collections import deque
from dataclasses import dataclass

from handrail.files.versions import BLOCK, READ, Version, keep_version

_log = logging.getLogger(__name__)

_WATCHED_FOR = 1.0
_MOST_FILES = 64
_MOST_BYTES = 64 << 20
"""A replaced file takes space on the disk for as long as it is open."""


@dataclass(frozen=True, slots=True)
class _Replaced:
    fd: int
    directory: int
    name: str
    version: Version
    """Its contents when it was replaced."""
    replaced_at: float


class _Watched:
    """The replaced files of this process that are still open."""

    def __init__(self) -> None:
        self._files: deque[_Replaced] = deque()
        self._bytes = 0
        self._guard = threading.Lock()
        self._registered = False

    def add(self, file: _Replaced) -> None:
        with self._guard:
            self._files.append(file)
            self._bytes += file.version.size
            if not self._registered:
                self._registered = True
                atexit.register(self.check, 0.0)

    def check(self, watched_for: float = _WATCHED_FOR) -> None:
        """Rescue late writes of the files replaced longer ago than ``watched_for`` seconds, and close these files."""
        before = time.monotonic() - watched_for
        while file := self._take(before):
            try:
                _rescue(file)
            except OSError as error:
                _log.warning("a late write to %s could not be rescued: %s", file.name, error)
            finally:
                os.close(file.fd)
                os.close(file.directory)

    def _take(self, before: float) -> _Replaced | None:
        with self._guard:
            if not self._files:
                return None
            crowded = len(self._files) > _MOST_FILES or self._bytes > _MOST_BYTES
            if not crowded and self._files[0].replaced_at > before:
                return None
            file = self._files.popleft()
            self._bytes -= file.version.size
            return file


_watched = _Watched()
check_replaced = _watched.check


def watch_replaced(temp: str, name: str, directory: int, version: Version) -> None:
    """Watch the file under ``temp``, which is about to be removed. ``version``: the contents that it must have."""
    with contextlib.suppress(OSError):
        fd = os.open(temp, READ, dir_fd=directory)
        try:
            file = _Replaced(fd, os.dup(directory), name, version, time.monotonic())
        except OSError:
            os.close(fd)
            raise
        _watched.add(file)


def _rescue(file: _Replaced) -> None:
    status, old = os.fstat(file.fd), file.version
    if (status.st_size, status.st_mtime_ns) == (old.size, old.mtime_ns):
        return
    if status.st_size >= old.size and _hash_start(file.fd, old.size) == old.digest:
        if status.st_size > old.size:
            _append(file, status.st_size)
        return
    _save_beside(file, status.st_size)


def _hash_start(fd: int, size: int) -> str:
    digest, offset = hashlib.sha256(), 0
    while offset < size and (block := os.pread(fd, min(BLOCK, size - offset), offset)):
        digest.update(block)
        offset += len(block)
    return digest.hexdigest()


def _append(file: _Replaced, size: int) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        target = os.open(file.name, flags, dir_fd=file.directory)
    except OSError:  # it is gone, or a link now
        _save_beside(file, size)
        return
    try:
        _copy(file.fd, file.version.size, size, target)
    finally:
        os.close(target)
    _log.info("what another program appended to the old %s was appended to the new one", file.name)


def _save_beside(file: _Replaced, size: int) -> None:
    temp = f".handrail-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(temp, flags, 0o600, dir_fd=file.directory)
    try:
        _copy(file.fd, 0, size, target)
    finally:
        os.close(target)
    kept = keep_version(temp, file.name, file.directory)
    _log.warning("another program wrote to %s as it was replaced; its version is saved as %s", file.name, kept)


def _copy(source: int, start: int, end: int, target: int) -> None:
    while start < end and (block := os.pread(source, min(BLOCK, end - start), start)):
        view = memoryview(block)
        start += len(block)
        while view:
            view = view[os.write(target, view) :]
