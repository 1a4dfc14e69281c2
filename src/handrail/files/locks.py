"""Locks between calls, threads and processes, and the record by which the next call mends what a kill left behind.

A lock is an `flock` on one of 256 small files in the user's state directory, outside every project, so that nothing is
left in a tree and the number of lock files stays bounded. While a file is being replaced, its lock file holds an
*intent*: which temporary name is in use in which directory. Who takes a lock and finds an intent in it knows that the
holder died, and cleans up first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from handrail.errors import Busy, IoError

Intent = dict[str, Any]
_STRIPES = 256


def state_directory(given: str | None = None) -> str:
    """Where Handrail keeps what belongs to no project: given, `$HANDRAIL_STATE`, or below the XDG state directory."""
    base = given or os.environ.get("HANDRAIL_STATE") or _user_state()
    if base:
        with contextlib.suppress(OSError):
            os.makedirs(base, mode=0o700, exist_ok=True)
            if os.access(base, os.W_OK | os.X_OK):
                return base
    base = os.path.join(tempfile.gettempdir(), f"handrail-{os.getuid()}")
    os.makedirs(base, mode=0o700, exist_ok=True)
    if os.lstat(base).st_uid != os.getuid():
        raise IoError(path=base, why="it belongs to another user")
    return base


def _user_state() -> str:
    """Empty where no home directory is known; a relative path would mean a folder in the project."""
    for home in (os.environ.get("XDG_STATE_HOME", ""), os.path.join(os.path.expanduser("~"), ".local", "state")):
        if os.path.isabs(home):
            return os.path.join(home, "handrail")
    return ""


class Held:
    """The locks of one call."""

    def __init__(self, fds: list[int]) -> None:
        self._fds = fds

    def intend(self, intents: list[Intent]) -> None:
        """Say what is about to be done, before it is done."""
        os.pwrite(self._fds[0], json.dumps(intents).encode("ascii"), 0)

    def done(self) -> None:
        """Nothing is under way any more."""
        os.ftruncate(self._fds[0], 0)


class Locks:
    """The locks of one user on one machine."""

    def __init__(self, directory: str, recover: Callable[[Intent], None], wait: float) -> None:
        self._directory = directory
        self._recover = recover
        self._wait = wait

    @contextlib.contextmanager
    def hold(self, paths: Iterable[str]) -> Iterator[Held]:
        """Nobody else changes these files through Handrail until the block is left."""
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        deadline = time.monotonic() + self._wait
        fds: list[int] = []
        try:
            # Always in the same order, each once: two calls with several files cannot wait for each other.
            for name in sorted({_stripe(path) for path in paths}):
                fds.append(self._take(name, deadline))  # noqa: PERF401 - those taken must be released if one fails
            yield Held(fds)
        finally:
            for fd in fds:
                with contextlib.suppress(OSError):  # the lock is gone either way, and what was done is done
                    os.close(fd)

    def _take(self, name: str, deadline: float) -> int:
        fd = os.open(os.path.join(self._directory, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        pause = 0.0005
        try:
            while not _try_lock(fd):
                if time.monotonic() > deadline:
                    raise Busy(seconds=self._wait, why="another call holds the lock")
                time.sleep(pause)
                pause = min(pause * 1.5, 0.02)
            self._mend(fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _mend(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        if not size:
            return
        try:
            intents = json.loads(os.pread(fd, size, 0))
        except ValueError:  # killed while writing it, so nothing was begun
            intents = []
        for intent in intents if isinstance(intents, list) else ():
            self._recover(intent)
        os.ftruncate(fd, 0)

    def sweep(self) -> None:
        """Mend what any dead process left behind."""
        with contextlib.suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                if not entry.stat().st_size:
                    continue
                fd = os.open(entry.path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    if _try_lock(fd):
                        self._mend(fd)
                finally:
                    os.close(fd)


def _stripe(path: str) -> str:
    # One file may be spelled in several ways where the file system ignores case or normalises: lock them all as one.
    same = unicodedata.normalize("NFC", path).casefold()
    number = int.from_bytes(hashlib.sha256(os.fsencode(same)).digest()[:4], "big") % _STRIPES
    return f"{number:02x}"


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
