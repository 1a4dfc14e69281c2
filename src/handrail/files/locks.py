"""Locks between calls, threads and processes, and the record by which the next call cleans up after a kill.

A lock belongs to one real path: it is one byte in a lock file outside every project, at an offset that is a hash of the
path (`F_OFD_SETLK`, so that threads exclude each other too), or, where the system has no such locks, a small file that
goes when it is released. It is usually held only for the commit, not while a change is computed.

While files are being replaced, a *record* beside the lock file says which temporary names are in use in which
directory. If you hold the lock of a path and find a record that names it, its writer has died: recover its change first
(`recovery.py`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import struct
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from handrail.errors import Busy, IoError
from handrail.json_types import JsonObject

_KEYS = 1 << 62
_RECORD = re.compile(r"[0-9a-f]{16}")
Doing = Literal["write", "swaps", "ready"]
"""The step that follows: write temporary files; swap names; remove what is left, as all names are changed."""
Kind = Literal["exchange", "new", "delete", "through", "tree"]
"""`through` writes a file in place; `tree` removes a directory with everything in it."""


def state_directory(configured: str | None = None) -> str:
    """Create the state directory: the given one, `$HANDRAIL_STATE`, or XDG's; a temporary one if it cannot be used."""
    base = configured or os.environ.get("HANDRAIL_STATE") or _find_user_state()
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


def _find_user_state() -> str:
    """Handrail's directory below the XDG state directory, or empty. A relative one would lie in the project."""
    for home in (os.environ.get("XDG_STATE_HOME", ""), os.path.join(os.path.expanduser("~"), ".local", "state")):
        if os.path.isabs(home):
            return os.path.join(home, "handrail")
    return ""


class Held:
    """The locks of one call."""

    def __init__(self, record: int, keys: Sequence[int]) -> None:
        self._record = record
        self._keys = keys
        self._recorded: list[Intent] = []

    def intend(self, intents: list[Intent]) -> None:
        """Record the intent before the change."""
        if intents != self._recorded:
            os.pwrite(self._record, json.dumps([*intents, {"keys": self._keys}]).encode("ascii"), 0)
            self._recorded = intents

    def done(self) -> None:
        """Clear the intent."""
        os.ftruncate(self._record, 0)
        self._recorded = []


class Locks:
    """The locks of one user on one machine."""

    def __init__(self, directory: str, recover: Callable[[Intent], None], wait: float) -> None:
        self._directory = directory
        self._recover = recover
        self._wait = wait

    @contextlib.contextmanager
    def hold(self, paths: Iterable[str]) -> Iterator[Held]:
        """Lock these files: no other call of Handrail changes them until the block ends. Raises `Busy`."""
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        # Sorted, and each once, so that two calls cannot deadlock.
        keys = sorted({get_lock_key(path) for path in paths})
        if not keys:  # an undo that finds no file; there is nothing to commit then
            yield Held(-1, keys)
            return
        deadline = time.monotonic() + self._wait
        with contextlib.closing(open_keys(self._directory)) as taken:
            while not (self._take(taken, keys, deadline) and self._clean_up(taken, keys)):
                self._pause(deadline, 0.02)
            path = self._get_path(keys[0])
            record = os.open(path, _CREATE, 0o600)
            try:
                yield Held(record, keys)
            finally:
                with contextlib.suppress(OSError):  # the change stands; the next call removes a record that is left
                    if not os.fstat(record).st_size:
                        os.unlink(path)
                with contextlib.suppress(OSError):
                    os.close(record)

    def free(self, paths: Iterable[str]) -> bool:
        """Whether no call holds a lock on any of these files now."""
        try:
            with contextlib.closing(open_keys(self._directory)) as taken:
                return all(taken.take(key) for key in sorted({get_lock_key(path) for path in paths}))
        except FileNotFoundError:  # no lock was ever taken
            return True

    def sweep(self) -> None:
        """Clean up after all dead processes."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for key in self._list_records():
                with contextlib.closing(open_keys(self._directory)) as taken:
                    if taken.take(key):
                        self._clean(taken, key, [key])

    def _take(self, taken: Keys, keys: Sequence[int], deadline: float) -> bool:
        pause = 0.0005
        for key in keys:
            while not taken.take(key):
                self._pause(deadline, pause)
                pause = min(pause * 1.5, 0.02)
        return True

    def _pause(self, deadline: float, seconds: float) -> None:
        if time.monotonic() > deadline:
            raise Busy(seconds=self._wait, why="another call holds the lock")
        time.sleep(seconds)

    def _clean_up(self, taken: Keys, keys: Sequence[int]) -> bool:
        """Recover what dead writers left of these files; if a lock is taken, drop all of ours and return False."""
        for key in self._list_records():
            if key in keys or not set(keys).isdisjoint(self._read(key)[1]):
                if key not in keys and not taken.take(key):
                    taken.drop()
                    return False
                if not self._clean(taken, key, [*keys, key]):
                    taken.drop()
                    return False
                if key not in keys:
                    taken.drop(key)
        return True

    def _clean(self, taken: Keys, key: int, mine: Sequence[int]) -> bool:
        """Recover the record at ``key``, with all its files locked; False if one is busy. ``mine``: those held."""
        intents, others = self._read(key)
        more = sorted(set(others) - set(mine))
        got = [one for one in more if taken.take(one)]
        try:
            if got != more:
                return False
            for intent in intents:
                self._recover(intent)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._get_path(key))
        finally:
            for one in got:
                taken.drop(one)
        return True

    def _list_records(self) -> list[int]:
        with os.scandir(self._directory) as entries:
            return [int(entry.name, 16) for entry in entries if _RECORD.fullmatch(entry.name)]

    def _get_path(self, key: int) -> str:
        return os.path.join(self._directory, f"{key:016x}")

    def _read(self, key: int) -> tuple[list[Intent], list[int]]:
        """Read a record and the keys of its files; an incomplete one means that nothing was begun."""
        try:
            fd = os.open(self._get_path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return [], []
        with open(fd, "rb") as file:
            intents = read_intents(file.read())
        keys: object = next((one["keys"] for one in intents if isinstance(one, dict) and "keys" in one), [])
        known = [one for one in keys if type(one) is int and 0 <= one < _KEYS] if isinstance(keys, list) else []
        return [one for one in intents if isinstance(one, dict) and "keys" not in one], known


def get_lock_key(path: str) -> int:
    """The lock key of a path: 62 bits of a hash."""
    # One file may be spelled in several ways where the file system ignores case or normalises: lock them all as one.
    same = unicodedata.normalize("NFC", path).casefold()
    return int.from_bytes(hashlib.sha256(os.fsencode(same)).digest()[:8], "big") % _KEYS


Intent = JsonObject
"""What a process is about to do, recorded so that it can be recovered if the process dies."""
_RANGES = "ranges"
_CREATE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_SUCH_LOCKS = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


class Keys(Protocol):
    """The keys that one holder has taken. No other holder can take them, in this process or another."""

    def take(self, key: int) -> bool:
        """Take a key; False if another holder has it. Taking it again does nothing."""

    def drop(self, key: int | None = None) -> None:
        """Release one key, or all."""

    def close(self) -> None:
        """Release all keys."""


def open_keys(directory: str) -> Keys:
    """A new holder without keys. The system decides on the kind of lock, so all holders of a directory use the same."""
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
    """Each held key is a file of its own, for systems without open file description locks (macOS)."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._held: dict[int, int] = {}

    def take(self, key: int) -> bool:
        if key in self._held:
            return True
        path = self._get_path(key)
        fd = os.open(path, _CREATE, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have deleted the file, and then ours does not have this name any more.
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
                os.unlink(self._get_path(one))
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            with contextlib.suppress(OSError):
                os.close(fd)

    def close(self) -> None:
        self.drop()

    def _get_path(self, key: int) -> str:
        return os.path.join(self._directory, f"{key:016x}.lock")


def read_intents(raw: bytes) -> list[Any]:
    """Read a record; empty if its writer was killed while writing it."""
    try:
        intents = json.loads(raw)
    except ValueError:
        return []
    return intents if isinstance(intents, list) else []


class IntentPart(NamedTuple):
    """One file of a set: its path, its temporary name, and its old and new state."""

    directory: str
    dev: int
    ino: int
    kind: str
    temp: str
    name: str
    new_ino: str
    """The inode of the new file in 16 hexadecimal digits, so that all records are equally long; zeros for none yet."""
    old: str | None
    new: str | None
    """These two are digests of contents."""


def make_part(
    directory: int, real: str, kind: Kind, temp: str, name: str, new_ino: int, *digests: str | None
) -> IntentPart:
    place = os.fstat(directory)
    return IntentPart(
        os.path.dirname(real), place.st_dev, place.st_ino, f"{kind:8}", temp, name, f"{new_ino:016x}", *digests
    )


def make_intents(doing: Doing, parts: Sequence[IntentPart]) -> list[Intent]:
    """The record to write before the next step."""
    return [{"doing": doing, "parts": [list(part) for part in parts]}]
