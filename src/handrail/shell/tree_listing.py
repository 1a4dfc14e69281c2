"""List a tree with a stamp for every entry, so that two listings show what has changed between them."""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from handrail.drafts.compare import Entry
from handrail.workspace import is_temporary_name

MOST_ENTRIES = 50_000
"""A larger tree is listed without dependencies."""
MOST_OTHER_ENTRIES = 200_000
"""A tree that is larger even so is not listed."""
DEPENDENCIES = frozenset({"node_modules", "site-packages", "__pycache__"})
_TICK = 100_000_000
"""Nanoseconds: the clock of a file system is coarse, and two changes within this time may leave the same stamp."""
Stamp = tuple[int, int, int, int, int]
"""Inode, mode with the type, size, and the times of modification and change. A directory has only its mode."""


@dataclass(slots=True)
class TreeListing:
    """The entries of some trees at one moment, by their absolute paths."""

    entries: dict[str, Stamp] = field(default_factory=dict)
    taken: int = field(default_factory=time.time_ns)
    """Nanoseconds."""
    passed_over: frozenset[str] = frozenset()
    """Names of directories that were not listed."""

    @classmethod
    def take(cls, roots: Sequence[str], left_out: frozenset[str]) -> TreeListing | None:
        """List everything below the roots but the paths ``left_out``; None if that is too much."""
        whole = cls._walk(roots, left_out, frozenset(), MOST_ENTRIES)
        return whole or cls._walk(roots, left_out, DEPENDENCIES, MOST_OTHER_ENTRIES)

    def renew(self, roots: Sequence[str], left_out: frozenset[str]) -> TreeListing:
        """List the same trees again, however large they are now."""
        return self._walk(roots, left_out, self.passed_over) or self

    @classmethod
    def _walk(
        cls, roots: Sequence[str], left_out: frozenset[str], passed_over: frozenset[str], most: float = math.inf
    ) -> TreeListing | None:
        listing = cls(passed_over=passed_over)
        entries, waiting = listing.entries, list(roots)
        while waiting:
            try:
                with os.scandir(waiting.pop()) as below:
                    inside = list(below)
            except OSError:  # it has gone, or nobody but its owner may read it
                continue
            for entry in inside:
                path = entry.path
                if path in left_out or (entry.name.startswith(".handrail-") and is_temporary_name(entry.name)):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                entries[path] = make_stamp(status)
                if stat.S_ISDIR(status.st_mode) and entry.name not in passed_over:
                    waiting.append(path)
            if len(entries) > most:
                return None
        return listing

    def find_changed(self, before: TreeListing) -> list[str]:
        """The paths that were created, changed or deleted since another listing."""
        old = before.entries
        changed = [path for path, stamp in self.entries.items() if old.get(path) != stamp]
        return [*changed, *(path for path in old if path not in self.entries)]

    def is_fresh(self, path: str) -> bool:
        """Whether an entry had just changed, so that another change may have left the same stamp."""
        stamp = self.entries.get(path)
        return stamp is not None and stamp[4] > self.taken - _TICK

    def update(self, path: str) -> None:
        """Take one entry as it is now."""
        try:
            self.entries[path] = make_stamp(os.lstat(path))
        except OSError:
            stamp = self.entries.pop(path, None)
            if stamp and stat.S_ISDIR(stamp[1]):
                for inner in [one for one in self.entries if one.startswith(f"{path}/")]:
                    del self.entries[inner]


def make_stamp(status: os.stat_result) -> Stamp:
    """The stamp of an entry. What is in a directory has stamps of its own."""
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        return 0, mode, 0, 0, 0
    return status.st_ino, mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def make_entry(stamp: Stamp | None) -> Entry | None:
    """The entry that has a stamp, for a judge of changes."""
    if stamp is None:
        return None
    inode, mode, size, mtime, _ = stamp
    return Entry(inode, mode, size, 0, mtime, (0, 0))
