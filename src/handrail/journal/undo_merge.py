"""Take back an older change of a file that has changed again since, in all lines that did not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from handrail.frozen import frozen
from handrail.text.display import escape
from handrail.text.lines import get_opcodes, split

_MOST_SHOWN = 8
"""Lines of an overlap that are shown."""
_HUNK = re.compile(r"@@ -(\d+)(,0)?")
_Edit = tuple[int, int, tuple[str, ...]]


@frozen
class Overlap:
    """Lines that the older change and a later one both touch: as they are now, and as they were before both."""

    now: tuple[str, ...]
    before: tuple[str, ...]

    def __str__(self) -> str:
        return "".join([*_show("now", self.now), *_show("before", self.before)])


def take_back(after: bytes, before: bytes, now: bytes) -> tuple[bytes, list[Overlap]]:
    """Take the change from ``before`` to ``after`` back in a file that is ``now``, line by line.

    Lines that were changed again since stay as they are now, and are returned. Lines beside them do not count: unlike a
    merge, an undo must leave the lines of others alone and take back its own.
    """
    base, current, old = [split(raw.decode("latin-1")) for raw in (after, now, before)]
    later, back = list(_list_edits(base, current)), list(_list_edits(base, old))
    edits, overlaps = {*later}, list[Overlap]()
    for edit in back:
        if others := [other for other in later if _overlap(edit, other)]:
            touched = min(edit[0], others[0][0]), max(edit[1], others[-1][1])
            overlaps.append(Overlap(_apply(base, later, *touched), _apply(base, back, *touched)))
        else:
            edits.add(edit)
    return "".join(_apply(base, sorted(edits), 0, len(base))).encode("latin-1"), overlaps


def _overlap(one: _Edit, other: _Edit) -> bool:
    """Whether two different edits replace the same line, or insert at the same place."""
    same_place = one[:2] == other[:2]
    return one != other and (same_place or (one[0] < other[1] and other[0] < one[1]))


def apply_diff(before: bytes, diff: str) -> bytes:
    """The contents after a change, by its diff. Compare the hash: a diff may be shortened, or hide a secret."""
    old = split(before.decode("utf-8", "surrogateescape"))
    new: list[str] = []
    at, added = 0, False
    for row in split(diff)[2:]:
        if hunk := _HUNK.match(row):
            start = int(hunk[1]) - (hunk[2] is None)
            new += old[at:start]
            at = start
        elif row.startswith("\\") and added:
            new[-1] = new[-1].removesuffix("\n")
        elif row.startswith("+"):
            new.append(row[1:])
        elif not row.startswith("\\"):
            new += old[at : at + 1] if row.startswith(" ") else []
            at += 1
        added = row.startswith("+")
    return "".join([*new, *old[at:]]).encode("utf-8", "surrogateescape")


def _list_edits(old: list[str], new: list[str]) -> Iterator[_Edit]:
    """Where lines of ``old`` were replaced, and by which."""
    for code, start, stop, first, last in get_opcodes(old, new):
        if code != "equal":
            yield start, stop, tuple(new[first:last])


def _apply(base: list[str], edits: list[_Edit], start: int, stop: int) -> tuple[str, ...]:
    """These lines of ``base`` with all edits inside them."""
    rows: list[str] = []
    for first, last, new in edits:
        if start <= first and last <= stop:
            rows += [*base[start:first], *new]
            start = last
    return (*rows, *base[start:stop])


def _show(when: str, rows: tuple[str, ...]) -> Iterator[str]:
    for row in rows[:_MOST_SHOWN] or ("(no lines)",):
        yield f"\n    {when}: {escape(row.encode('latin-1').decode('utf-8', 'replace').rstrip())[:200]}"
    if len(rows) > _MOST_SHOWN:
        yield f"\n    {when}: ... ({len(rows) - _MOST_SHOWN} more lines)"
