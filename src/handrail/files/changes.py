"""Changes of files, as a tool stages them and `commit` applies them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from handrail.files.versions import Stored, Version, hash_bytes
from handrail.workspace import WorkPath

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
