"""Private directories for temporary files. They go with their process, even if it is killed.

Each is locked while its process lives. Whoever makes one removes those that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile

_PREFIX = "handrail-private-"
_NAME = re.compile(_PREFIX + r"\w{8}")
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateDirectory:
    """A new directory, which `close` removes."""

    def __init__(self) -> None:
        parent = os.path.realpath(tempfile.gettempdir())
        _remove_abandoned(parent)
        while True:
            self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
            with contextlib.suppress(FileNotFoundError):  # taken for an abandoned one before it was locked
                self._lock = os.open(self.path, _OPEN)
                if _lock(self._lock, self.path, fcntl.LOCK_EX):
                    return
                os.close(self._lock)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _lock(fd: int, path: str, how: int) -> bool:
    """Lock an open directory; False if it is gone by then."""
    fcntl.flock(fd, how)
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _remove_abandoned(parent: str) -> None:
    """Remove the private directories of this user whose process is gone."""
    with os.scandir(parent) as entries:
        paths = [entry.path for entry in entries if _NAME.fullmatch(entry.name)]
    for path in paths:
        with contextlib.suppress(OSError):  # another user's, gone, or in use
            fd = os.open(path, _OPEN)
            try:
                if os.fstat(fd).st_uid == os.geteuid() and _lock(fd, path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(fd)
