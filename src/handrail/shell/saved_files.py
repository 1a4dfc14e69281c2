"""Old contents of files that a background job may change: copies of small files, and what git has of the others."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from handrail.drafts.changes import DraftChange, read_entry
from handrail.drafts.compare import Entry
from handrail.drafts.git_index import list_blobs
from handrail.frozen import frozen
from handrail.shell.git.objects import GitObjects
from handrail.shell.tree_listing import Stamp, TreeListing, make_entry
from handrail.system_calls import READABLE_DIRECTORY

_MOST_BYTES = 16 << 20
"""Copies in all."""
_MOST_FILE_BYTES = 1 << 20
_MOST_INDEX_BYTES = 64 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SavedFiles:
    """The files of some trees as they were when they were saved."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._copies: dict[str, tuple[Stamp, bytes]] = {}
        self._left = _MOST_BYTES
        self._blobs: dict[str, tuple[str, str]] = {}
        """By path: the repository, and the object that has the contents of the file."""
        self._objects: dict[str, GitObjects] = {}

    def save_all(self, listing: TreeListing) -> None:
        """Save all files of which git does not have the contents, those at the top first, as long as there is room."""
        for root in self._roots:
            self._read_index(root, listing)
        others = (path for path in listing.entries if path not in self._blobs and "/.git/" not in path)
        for path in sorted(others, key=lambda path: path.count("/")):
            self.add(path, listing.entries[path])

    def add(self, path: str, stamp: Stamp | None) -> None:
        """Save a file or a link, if there is room."""
        known = self._copies.get(path)
        if stamp is None or (known and known[0] == stamp) or stamp[2] > min(self._left, _MOST_FILE_BYTES):
            return
        raw = _read("/", path.lstrip("/"), make_entry(stamp), _MOST_FILE_BYTES)
        if raw is not None and len(raw) == stamp[2]:
            self._left += len(known[1]) if known else 0
            self._left -= len(raw)
            self._copies[path] = stamp, raw

    def _read_index(self, root: str, listing: TreeListing) -> None:
        try:
            with open(os.open(os.path.join(root, ".git", "index"), _READ), "rb") as file:
                blobs = list_blobs(file.read(_MOST_INDEX_BYTES))
        except OSError:
            return
        for name, (mtime, size, identity) in blobs.items():
            path = os.path.join(root, name)
            stamp = listing.entries.get(path)
            if stamp and stat.S_ISREG(stamp[1]) and stamp[2:4] == (size, mtime):
                self._blobs[path] = root, identity

    def find(self, path: str, stamp: Stamp) -> bytes | None:
        """The contents of a file or link as it was when it had this stamp; None if they are not known."""
        known = self._copies.get(path)
        if known and known[0] == stamp:
            return known[1]
        if path not in self._blobs or not stat.S_ISREG(stamp[1]):
            return None
        root, identity = self._blobs[path]
        objects = self._objects.setdefault(root, GitObjects(root))
        raw = objects.read(identity, b"blob")
        return raw if raw is not None and len(raw) == stamp[2] else None

    def close(self) -> None:
        """End the processes that read git's objects; the next `find` starts them again."""
        while self._objects:
            self._objects.popitem()[1].close()


@frozen
class JobContents:
    """Reads files before and after the changes of a job, as `ChangeReader` does for a draft."""

    root: str
    before: TreeListing
    saved: SavedFiles

    def read_before(self, change: DraftChange, most: int) -> bytes | None:
        """The old contents of a file, or the target of a link; None if they were not saved."""
        path = os.path.join(self.root, change.path)
        stamp = self.before.entries.get(path)
        raw = self.saved.find(path, stamp) if stamp else None
        return raw if raw is not None and len(raw) <= most else None

    def read_after(self, change: DraftChange, most: int) -> bytes | None:
        """The new contents of a file, or the target of a link; None if it is larger, or of another kind."""
        return _read(self.root, change.path, change.after, most)


def _read(root: str, path: str, entry: Entry | None, most: int) -> bytes | None:
    try:
        tree = os.open(root, READABLE_DIRECTORY)
    except OSError:
        return None
    try:
        return read_entry(tree, path, entry, most)
    finally:
        os.close(tree)
