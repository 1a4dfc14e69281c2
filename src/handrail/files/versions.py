"""Versions of files: load a file's contents together with its version, and describe a change to it.

A tool stages a `Change`; `commit.py` applies it only to the version it was computed from.
"""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Literal

from handrail import system_calls
from handrail.errors import TooLargeToChange, from_os
from handrail.frozen import frozen
from handrail.workspace import WorkPath, Workspace

BLOCK = 1 << 20
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LEAST = 1 << 12


Stamp = tuple[int, int, int, int, int]
take_stamp: Callable[[os.stat_result], Stamp] = operator.attrgetter(
    "st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"
)
"""Take the facts that reveal a change of a file. Programs cannot set the change time."""


@frozen
class Version:
    """A state of a file. Versions with equal digests hold the same bytes."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    digest: str | None = None
    """None for a file too big to be hashed for each page read from it."""

    def same_bytes(self, other: Version) -> bool:
        """Whether both have the same contents; without digests the change time decides."""
        if self.digest and other.digest:
            return self.digest == other.digest
        return self.stamp == other.stamp

    @property
    def stamp(self) -> Stamp:
        return (self.dev, self.ino, self.size, self.mtime_ns, self.ctime_ns)


def make_version(status: os.stat_result, digest: str | None = None) -> Version:
    return Version(*take_stamp(status), digest)


def stamp_names(paths: Iterable[str]) -> list[Stamp | None]:
    """The stamp of each path, to notice later whether it was replaced or written to; None if nothing is there."""
    return [_stamp_name(path) for path in paths]


def _stamp_name(path: str) -> Stamp | None:
    try:
        return take_stamp(os.lstat(path))
    except OSError:
        return None


def hash_bytes(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


@frozen
class Stored:
    """A whole file as it was at one moment."""

    path: WorkPath
    raw: bytes
    version: Version


def load(workspace: Workspace, path: WorkPath, most: int, compute_hash: Callable[[bytes], str] = hash_bytes) -> Stored:
    """Load a whole file in order to change it; raises `TooLargeToChange` above ``most`` bytes."""
    fd = workspace.open_file(path)
    try:
        status = os.fstat(fd)
        raw = read_all(fd, most, status.st_size)
        if raw is None:
            raise TooLargeToChange(path=path.named, size=max(status.st_size, most), most=most)
        return Stored(path, raw, make_version(status, compute_hash(raw)))
    except OSError as error:
        raise from_os(error, path=path.named) from None
    finally:
        os.close(fd)


def read_all(fd: int, most: int, size: int | None = None) -> bytes | None:
    """Everything from the start of ``fd``; None if that is more than ``most`` bytes, even if ``size`` is less."""
    size = os.fstat(fd).st_size if size is None else size
    if size > most:
        return None
    parts, length = [], 0
    # Read until nothing is left: a short read does not prove the end, and the file may grow.
    while block := os.pread(fd, max(_LEAST, length, size + 1 - length), length):
        parts.append(block)
        length += len(block)
        if length > most:
            return None
    return parts[0] if len(parts) == 1 else b"".join(parts)


HardLinks = Literal["refuse", "split", "through"]
EntryKind = Literal["file", "directory", "link"]
MOST_SAVED_FILES = 2_000
"""The most files saved before a command overwrites or deletes them."""
MOST_SAVED_BYTES = 64 << 20


@frozen
class SubtreeEntry:
    """A file, directory or link of a subtree."""

    inner: str
    """Its path below the top of the subtree; empty for the top itself."""
    kind: EntryKind
    mode: int
    raw: bytes = b""
    """The contents of a file, or the target of a link."""


@frozen
class Subtree:
    """A file, a link, or a directory with everything in it. A directory comes before its contents."""

    path: WorkPath
    entries: tuple[SubtreeEntry, ...]
    version: Version

    @property
    def is_directory(self) -> bool:
        return self.entries[0].kind == "directory"

    @property
    def is_link(self) -> bool:
        return self.entries[0].kind == "link"

    @property
    def size(self) -> int:
        return sum(len(entry.raw) for entry in self.entries)

    def count(self, kind: EntryKind) -> int:
        return sum(entry.kind == kind for entry in self.entries)

    def listing(self) -> bytes:
        """List every entry with kind, mode, digest and path. Equal subtrees have equal listings."""
        rows = (f"{one.kind} {one.mode:04o} {hash_bytes(one.raw)} {one.inner}\n" for one in self.entries)
        return os.fsencode("".join(rows))


@frozen
class Change:
    """The change of one path. Moving a file takes two: a new file with `moved_from`, and a deletion of the old one."""

    path: WorkPath
    before: Stored | None
    """The file the change was computed from; None if the path must be free."""
    after: bytes | None
    """The new contents; None deletes the file."""
    moved_from: Stored | None = None
    """The file the contents came from; its mode and attributes are kept."""
    subtree: Subtree | None = None
    """Moved here from `moved_from`, or removed, as a whole. It is the only change of its call."""
    keep: bool = False
    """Whether the contents may be removed only after the journal has saved them."""
    preview: str = ""
    """Shown to a person in place of a diff."""
    mode: int | None = None
    """Given to the new file before it has its name; None: as that of the file it replaces or comes from."""
    _digests: list[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_digests", [])

    @property
    def digest(self) -> str:
        """The hash of the new contents, computed once for the commit and the journal."""
        if not self._digests:
            self._digests.append(hash_bytes(self.after or b""))
        return self._digests[0]


@frozen
class Saving:
    """How carefully to write."""

    durable: bool = True
    hard_links: HardLinks = "refuse"
    retain: Callable[[int, str, Subtree], bool] | None = None
    """Sets a deleted tree aside for an undo; returns False if the caller must delete it."""


def keep_version(temp: str, name: str, directory: int) -> str:
    """Give a version we must not delete a visible name, and return that name."""
    visible = f"{name}.kept{temp.removeprefix('.handrail')}"
    system_calls.rename_new(temp, visible, directory)
    return visible


def put_back(temp: str, name: str, directory: int) -> str:
    """Give a file that lies under a temporary name its own name again; returns the name it gets if that is taken."""
    left = system_calls.stat_at(temp, directory)
    if left is None:
        return ""
    try:
        system_calls.rename_new(temp, name, directory)
    except FileExistsError:
        standing = system_calls.stat_at(name, directory)
        if standing is None or not os.path.samestat(standing, left):
            return keep_version(temp, name, directory)
    if (second := system_calls.stat_at(temp, directory)) and os.path.samestat(second, left):
        os.unlink(temp, dir_fd=directory)  # a second name of the same file
    return ""
