"""Indentation: from the way a model wrote it to the way the file has it.

The lines that matched are the evidence: each pairs an indentation of the model's with one of the file's. New lines are
moved by what explains all of those pairs (one shift, a tab width, a scale). Where nothing explains them, a new line may
only take an indentation that was seen; it is never guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, product

_INDENT = re.compile(r"[ \t\u00a0\u3000]*")
_TABS = (4, 8, 2, 1, 3)
_SCALES = ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4), (3, 1), (1, 3), (3, 2), (2, 3))


def indent_of(line: str) -> str:
    match = _INDENT.match(line)
    assert match
    return match.group()


def unit_of(rows: Sequence[str]) -> str:
    """What one level of indentation is in a file: a tab, or the most common step in spaces."""
    if sum(row.startswith("\t") for row in rows) > sum(row.startswith(" ") for row in rows):
        return "\t"
    widths = [len(indent_of(row).expandtabs(8)) for row in rows if row.strip()]
    steps = Counter(after - before for before, after in pairwise(widths) if after > before)
    return " " * min(steps, key=lambda step: (-steps[step], step)) if steps else "    "


class Unsure(Exception):
    """The evidence does not say how deep a new line belongs."""


class Frame:
    """How the indentation of matched lines of the model's maps to that of the file's."""

    def __init__(self, theirs: Sequence[str], ours: Sequence[str], file: Sequence[str]) -> None:
        self._pairs = [
            (number, indent_of(a), indent_of(b))
            for number, (a, b) in enumerate(zip(theirs, ours, strict=True))
            if b.strip()
        ]
        self.same = all(a == b for _, a, b in self._pairs)
        self.flat = not any(a for _, a, _ in self._pairs) and len({b for _, _, b in self._pairs}) > 1
        """All indentation was lost, though the file has several depths."""
        self._file = file
        self._solved: tuple[int, int, int, int, int] | None = None
        if not self.same and not self.flat:
            self._solved = self._solve()

    def _solve(self) -> tuple[int, int, int, int, int] | None:
        """Tab widths on both sides, a scale and a shift under which every pair agrees; the simplest that does."""
        unit = unit_of(self._file)
        wanted = len(unit) if unit != "\t" else 4
        tabs = sorted(_TABS, key=lambda width: width != wanted)
        found: list[tuple[bool, bool, int, tuple[int, int, int, int, int]]] = []
        mixed = any("\t" in b for _, _, b in self._pairs) and not any("\t" in a for _, a, _ in self._pairs)
        for tab, (up, down) in product(tabs, _SCALES):
            for own in tabs if mixed else (tab,):  # a tab is as wide on both sides
                shifts = {len(b.expandtabs(own)) * down - len(a.expandtabs(tab)) * up for _, a, b in self._pairs}
                if len(shifts) == 1:
                    shift = shifts.pop()
                    found.append(((up, down) != (1, 1), shift != 0, len(found), (tab, own, up, down, shift)))
        return min(found)[-1] if found else None

    def depth(self, line: str, near: int) -> str:
        """The file's indentation for a new line that stands at or behind matched line ``near``; raises `Unsure`."""
        wanted = indent_of(line)
        if self.same:
            return wanted
        known = [(abs(number - near), number > near, b) for number, a, b in self._pairs if a == wanted]
        if known and len({b for _, _, b in known}) == 1:
            return known[0][2]
        if self._solved:
            tab, own, up, down, shift = self._solved
            columns = (len(wanted.expandtabs(tab)) * up + shift) // down
            return self._columns(max(0, columns), own)
        if known and not self.flat:
            return min(known)[2]
        raise Unsure

    def _columns(self, columns: int, tab: int) -> str:
        if unit_of(self._file) == "\t" or any("\t" in b for _, _, b in self._pairs):
            return "\t" * (columns // tab) + " " * (columns % tab)
        return " " * columns

    def belongs_to_file(self, new: Sequence[str], aligned: Sequence[tuple[int, int]]) -> bool:
        """Whether the new text is indented as the file is, although the old text is not."""
        if self.same:
            return False
        images = {number: (a, b) for number, a, b in self._pairs}
        votes = Counter[str]()
        for i, j in aligned:
            a, b = images.get(i, ("", ""))
            if a != b and new[j].strip():
                votes["theirs"] += indent_of(new[j]) == a
                votes["file"] += indent_of(new[j]) == b
        if votes["theirs"] or votes["file"]:
            return votes["file"] > votes["theirs"]
        depths = [indent_of(row) for row in new if row.strip()]
        if not depths:
            return False
        least = min(depths, key=len)
        return least != min((a for _, a, _ in self._pairs), key=len) and least == min(
            (b for _, _, b in self._pairs), key=len
        )
