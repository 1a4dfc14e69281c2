"""Versions of files: load the contents of a file together with its version, and describe a change of it.

A tool stages a `Change`; `commit.py` applies it to exactly the version that it was computed from.

Another program can be stopped between finding a name and opening the file. No lease shows it: it opens the old file
when the exchange is over, and what it writes would vanish with that file. So a replaced file stays open for a moment
(`watch_replaced`); if it is written to, what was appended is appended to the file that has the name now, and any other
version is saved beside it.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from handrail import system_calls
from handrail.errors import TooLargeToChange, from_os
from handrail.workspace import WorkPath, Workspace

BLOCK = 1 << 20
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LEAST = 1 << 16
_WATCHED_FOR = 1.0
_MOST_FILES = 64
_MOST_BYTES = 64 << 20
"""A replaced file takes space on the disk for as long as it is open."""


@dataclass(frozen=True, slots=True)
class Version:
    """Which state of which file: two versions with one digest hold the same bytes."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    digest: str | None = None
    """Missing for a file that is too big to be hashed on every page that is read of it."""

    def same_bytes(self, other: Version) -> bool:
        """Whether both have the same contents; without digests the change time decides."""
        if self.digest and other.digest:
            return self.digest == other.digest
        return self.stamp == other.stamp

    @property
    def stamp(self) -> tuple[int, int, int, int, int]:
        """The stamp from the file system; a program cannot set the change time."""
        return (self.dev, self.ino, self.size, self.mtime_ns, self.ctime_ns)


def version_of(status: os.stat_result, digest: str | None = None) -> Version:
    return Version(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, digest)


def stamps(paths: Iterable[str]) -> list[tuple[int, ...] | None]:
    """Identity, size and times of each path, to tell later whether it was replaced or written to; None: no file."""
    return [_stamp(path) for path in paths]


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def hash_bytes(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


@dataclass(frozen=True, slots=True)
class Stored:
    """The whole of a file, as it was at one moment."""

    path: WorkPath
    raw: bytes
    version: Version


def load(workspace: Workspace, path: WorkPath, most: int) -> Stored:
    """The whole file, for a change; refused above ``most`` bytes."""
    fd = workspace.open_file(path)
    try:
        status = os.fstat(fd)
        raw = read_all(fd, most, status.st_size)
        if raw is None:
            raise TooLargeToChange(path=path.named, size=max(status.st_size, most), most=most)
        return Stored(path, raw, version_of(status, hash_bytes(raw)))
    except OSError as error:
        raise from_os(error, path=path.named) from None
    finally:
        os.close(fd)


def read_all(fd: int, most: int, size: int | None = None) -> bytes | None:
    """Everything from the start of ``fd``, or None if it is more than ``most`` bytes, whatever ``size`` it claims."""
    size = os.fstat(fd).st_size if size is None else size
    if size > most:
        return None
    parts, length = [], 0
    # Read until nothing comes: a short answer is no proof of the end, and a file may grow.
    while block := os.pread(fd, max(_LEAST, size + 1 - length), length):
        parts.append(block)
        length += len(block)
        if length > most:
            return None
    return parts[0] if len(parts) == 1 else b"".join(parts)


HardLinks = Literal["refuse", "split", "through"]
EntryKind = Literal["file", "directory", "link"]
MOST_SAVED_FILES = 2_000
"""Before-images: how many files are saved before a command overwrites or deletes them."""
MOST_SAVED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class SubtreeEntry:
    """A file, directory or link of a subtree."""

    inner: str
    """Its path below the top of the subtree; empty for the top itself."""
    kind: EntryKind
    mode: int
    raw: bytes = b""
    """The contents of a file, or the target of a link."""


@dataclass(frozen=True, slots=True)
class Subtree:
    """A file, or a directory with everything in it. Each directory comes before its contents."""

    path: WorkPath
    entries: tuple[SubtreeEntry, ...]
    version: Version

    @property
    def is_directory(self) -> bool:
        return self.entries[0].kind == "directory"

    @property
    def size(self) -> int:
        return sum(len(entry.raw) for entry in self.entries)

    def count(self, kind: EntryKind) -> int:
        return sum(entry.kind == kind for entry in self.entries)

    def listing(self) -> bytes:
        """List every entry with kind, mode, digest and path. Equal subtrees have equal listings."""
        rows = (f"{one.kind} {one.mode:04o} {hash_bytes(one.raw)} {one.inner}\n" for one in self.entries)
        return os.fsencode("".join(rows))


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one path. Moving a file takes two: a new file with `moved_from`, and the old one deleted."""

    path: WorkPath
    before: Stored | None
    """The file that the change was computed from; None: the path must be free."""
    after: bytes | None
    """The new contents; None: the file is deleted."""
    moved_from: Stored | None = None
    """The file that the contents came from; they keep its mode and attributes."""
    subtree: Subtree | None = None
    """Moved here from `moved_from`, or removed, as a whole; such a change is the only one of its call."""
    keep: bool = False
    """Whether the journal must have saved the contents before they are removed."""
    preview: str = ""
    """Shown to a person where there is no diff."""


@dataclass(frozen=True, slots=True)
class Saving:
    """How carefully to write."""

    durable: bool = True
    hard_links: HardLinks = "refuse"


def keep_version(temp: str, name: str, directory: int) -> str:
    """A version that is not ours to delete gets a name that people see."""
    visible = f"{name}.kept{temp.removeprefix('.handrail')}"
    system_calls.rename_new(temp, visible, directory)
    return visible


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
                _log("warning", "a late write to %s could not be rescued: %s", file.name, error)
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

    def forget(self) -> None:
        """Close the files without a check: in a fork they are the parent's, and rescued by it."""
        for file in self._files:
            os.close(file.fd)
            os.close(file.directory)
        self._files, self._bytes, self._guard = deque(), 0, threading.Lock()


_watched = _Watched()
os.register_at_fork(after_in_child=_watched.forget)
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
    _log("info", "what another program appended to the old %s was appended to the new one", file.name)


def _save_beside(file: _Replaced, size: int) -> None:
    temp = f".handrail-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(temp, flags, 0o600, dir_fd=file.directory)
    try:
        _copy(file.fd, 0, size, target)
    finally:
        os.close(target)
    kept = keep_version(temp, file.name, file.directory)
    _log("warning", "another program wrote to %s as it was replaced; its version is saved as %s", file.name, kept)


def _copy(source: int, start: int, end: int, target: int) -> None:
    while start < end and (block := os.pread(source, min(BLOCK, end - start), start)):
        view = memoryview(block)
        start += len(block)
        while view:
            view = view[os.write(target, view) :]


def _log(level: Literal["info", "warning"], message: str, *values: object) -> None:
    import logging  # slow to import, and hardly ever needed

    getattr(logging.getLogger(__name__), level)(message, *values)
