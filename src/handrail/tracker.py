"""Track which lines of which file the model has seen, and whether the file has changed since.

Files are tracked for a session by path and by inode, so that a file is known under another name too. Small files are
remembered whole, so that a result can name the lines that changed meanwhile.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from handrail.errors import BinaryFile
from handrail.files.versions import Stamp, Version, hash_bytes, take_stamp
from handrail.frozen import frozen
from handrail.text import lines
from handrail.text.document import decode_document

if TYPE_CHECKING:
    from handrail.text.diff import ChangedLines, Hunk
    from handrail.text.line_tags import ShownTags

_REMEMBERED = 2 << 20
_COMPARED = 256 << 10
_BUDGET = 16 << 20
_FILES = 50_000
_WATCHED = 2_000
_TAGGED = 200


@frozen
class SeenFile:
    """A version of a file, and the lines of it that were shown."""

    version: Version
    ranges: tuple[tuple[int, int], ...] = ()
    raw: bytes | None = None
    written: int = 0
    """The number of the session's last change of the file, of all its changes."""


@frozen
class TaggedFile:
    """A version of a file, and the lines of it that the model knows by their tags."""

    version: Version
    tags: ShownTags
    raw: bytes | None = None
    """The contents of a small file."""


class Tracker:
    """The files of one session. Safe to use from several threads."""

    def __init__(self) -> None:
        self._paths: OrderedDict[str, SeenFile] = OrderedDict()
        self._inodes: dict[tuple[int, int], str] = {}
        self._tagged: OrderedDict[str, TaggedFile] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()
        self.writes = 0
        """How many changes the session has made."""

    def look(self, path: str, now: Version) -> SeenFile | None:
        """Return the record of the file at ``path``, or of the same file under another name."""
        with self._lock:
            known = self._paths.get(path)
            if known is None:
                known = self._paths.get(self._inodes.get((now.dev, now.ino), ""))
                # A number is given to a new file once the old one is gone: only unchanged contents prove that it moved.
                known = known if known and known.version.same_bytes(now) else None
            return known

    def compute_hash(self, path: str, raw: bytes) -> str:
        """The hash of contents just read at ``path``: the known one, where they equal those that were seen there."""
        with self._lock:
            known = self._paths.get(path)
        if known and known.raw == raw and known.version.digest:  # compared in a thirtieth of the time
            return known.version.digest
        return hash_bytes(raw)

    def record_seen(self, path: str, version: Version, first: int, last: int, raw: bytes | None, since: int) -> None:
        """Lines ``first`` to ``last`` were shown (0, 0: only that the file was looked at).

        ``since``: `writes` before the file was opened. If another call has changed the file meanwhile, the model knows
        that newer version, and an older one does not replace it.
        """
        with self._lock:
            known = self._paths.get(path)
            same = known is not None and known.version.same_bytes(version)
            if known and not same and known.written > since:
                return
            ranges = known.ranges if known and same else ()
            if 0 < first <= last and ranges != ((first, last),):
                ranges = _merge_ranges([*ranges, (first, last)])
            self._store(path, version, ranges, raw, known.written if known else 0)

    def wrote(
        self, path: str, version: Version, hunks: Sequence[Hunk], raw: bytes | None, tags: ShownTags | None = None
    ) -> None:
        """Record the model's own change and move the seen ranges. Without ``raw`` the file is gone.

        ``tags``: the change was made by tags, and these are valid after it; then a file that was not read still is not.
        """
        with self._lock:
            self.writes += 1
            known = self._paths.get(path)
            self._tagged.pop(path, None)
            if raw is None:
                self._drop(path)
                return
            if tags is not None:
                self._store_tags(path, TaggedFile(version, tags, raw))
                if known is None:
                    return
            self._store(path, version, _shift_ranges(known.ranges if known else (), hunks), raw, self.writes)

    def record_tags(self, path: str, version: Version, first: int, last: int, raw: bytes | None) -> None:
        """Lines ``first`` to ``last`` were shown with their tags (0, 0: the file has no lines)."""
        from handrail.text.line_tags import ShownTags  # only needed where lines have tags

        with self._lock:
            known = self._tagged.get(path)
            tags = known.tags if known and known.version.same_bytes(version) else ShownTags()
            tags = tags.show(first, last) if 0 < first <= last else tags
            self._store_tags(path, TaggedFile(version, tags, raw))

    def look_up_tags(self, path: str) -> TaggedFile | None:
        """Return the lines of the file at ``path`` that were shown with tags."""
        with self._lock:
            return self._tagged.get(path)

    def _store_tags(self, path: str, tagged: TaggedFile) -> None:
        self._tagged.pop(path, None)
        raw = tagged.raw if tagged.raw is not None and len(tagged.raw) <= _REMEMBERED else None
        self._tagged[path] = TaggedFile(tagged.version, tagged.tags, raw)
        if len(self._tagged) > _TAGGED:
            self._tagged.popitem(last=False)

    def watch(self) -> Callable[[], list[str]]:
        """Return a function that lists those of the files seen last that have changed since now."""
        with self._lock:
            paths = list(self._paths)[-_WATCHED:]
        before = {path: _stamp(path) for path in paths}
        return lambda: [path for path, stamp in before.items() if _stamp(path) != stamp]

    def knows(self, path: str) -> bool:
        """Tell whether a file was seen at ``path``, even if it has changed."""
        with self._lock:
            return path in self._paths

    def forget(self, *paths: str) -> None:
        """As if the files had never been seen."""
        with self._lock:
            for path in paths:
                self._drop(path)
                self._tagged.pop(path, None)

    def _store(
        self, path: str, version: Version, ranges: tuple[tuple[int, int], ...], raw: bytes | None, written: int
    ) -> None:
        self._drop(path)
        raw = raw if raw is not None and len(raw) <= _REMEMBERED else None
        self._paths[path] = SeenFile(version, ranges, raw, written)
        self._inodes[version.dev, version.ino] = path
        self._held += len(raw or b"")
        if len(self._paths) > _FILES:
            self._drop(next(iter(self._paths)))
        for older in self._paths if self._held > _BUDGET else ():
            entry = self._paths[older]
            self._held -= len(entry.raw or b"")
            self._paths[older] = SeenFile(entry.version, entry.ranges, written=entry.written)
            if self._held <= _BUDGET:
                break

    def _drop(self, path: str) -> None:
        known = self._paths.pop(path, None)
        if known:
            self._held -= len(known.raw or b"")
            if self._inodes.get((known.version.dev, known.version.ino)) == path:
                del self._inodes[known.version.dev, known.version.ino]


def _stamp(path: str) -> Stamp | None:
    try:
        return take_stamp(os.stat(path))
    except OSError:
        return None


def _merge_ranges(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _shift_ranges(ranges: Sequence[tuple[int, int]], hunks: Sequence[Hunk]) -> tuple[tuple[int, int], ...]:
    """Map line ranges of the old file to the new one, and add the lines that the hunks show."""
    moved = list(ranges)
    for hunk in reversed(hunks):
        grown, behind = hunk.new_count - hunk.old_count, hunk.old_first + hunk.old_count
        before = [(a, min(b, hunk.old_first - 1)) for a, b in moved]
        after = [(max(a, behind) + grown, b + grown) for a, b in moved]
        moved = [(a, b) for a, b in (*before, *after) if a <= b]
    shown = [(hunk.new_first, hunk.new_first + hunk.new_count - 1) for hunk in hunks if hunk.rows]
    return _merge_ranges([*moved, *(pair for pair in shown if pair[0] <= pair[1])])


def find_changed_lines(before: bytes | None, after: bytes) -> ChangedLines:
    """Compare a file with the version that was seen, where that is remembered."""
    from handrail.text.diff import ChangedLines, compare_lines  # slow to import, and only needed after a change

    if before is None or len(before) > _COMPARED or len(after) > 4 * _COMPARED:
        return ChangedLines()
    try:
        old, new = (lines.split(decode_document(raw).text) for raw in (before, after))
    except BinaryFile:
        return ChangedLines()
    return compare_lines(old, new)
