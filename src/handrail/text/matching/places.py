"""A file as lines, and matches in it: the data that loose matching works on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from handrail.text import lines
from handrail.text.document import Splice, keep_endings, minimize
from handrail.text.matching.budget import spend
from handrail.text.matching.fold import fold, squeeze
from handrail.text.matching.merge import MergedRow, merge

_FAST = 20
"""Steps that cost as little as one: a line that is copied or compared, a character that is folded."""
_COMPARED = 8
"""Lines of a window that are compared in one step."""
_AROUND = 1000
"""How many lines around a place tell the unit of its indentation."""


@dataclass(frozen=True, slots=True)
class LineMatch:
    """Matched lines of the file, the old lines that matched them and the new lines that replace them."""

    at: int
    old: Sequence[str]
    new: Sequence[str]
    evidence: Sequence[tuple[str, str]] = ()
    """For a part of a place: the lines of the model's and of the file's that matched in all parts."""

    @property
    def span(self) -> tuple[int, int]:
        return self.at, self.at + len(self.old)


class BlankEdges:
    """Both texts without the blank lines at their edges, and where these are not the same in both.

    What ``new`` has more of them is a change, and stays.
    """

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        above, below = _count_blank(old), _count_blank(old[::-1])
        head = _count_blank(new)
        others = head, _count_blank(new[::-1]) if head < len(new) else head - min(above, head)
        self.old = old[above : len(old) - below]
        self.new = new[min(above, others[0]) : len(new) - min(below, others[1])]
        self.head, self.tail = above != others[0], below != others[1]


class FileLines:
    """The lines of a file, ready to be searched."""

    def __init__(self, text: str, key: Callable[[str], str] = squeeze, known: dict[str, str] | None = None) -> None:
        """``known`` are the keys of lines that are known already; those of other lines are added."""
        spend(len(text) // _FAST)
        self.text = text
        bodies = lines.to_feeds(text).split("\n")
        self.bodies = bodies if bodies[-1] else bodies[:-1]
        self.key, self._known = key, known

    @cached_property
    def keys(self) -> list[str]:
        """What is compared of each line, in loose matching."""
        known = self._known
        if known is None:
            spend(len(self.bodies))
            return list(map(self.key, self.bodies))
        fresh = {body for body in self.bodies if body not in known}
        spend(len(fresh) + len(self.bodies) // _FAST)
        known.update(zip(fresh, map(self.key, fresh), strict=True))
        return [known[body] for body in self.bodies]

    @cached_property
    def _joined(self) -> str:
        """All lines, each between two line breaks."""
        return "\n".join(["", *self.bodies, ""])

    @cached_property
    def _rows(self) -> list[str]:
        """The lines with their endings."""
        return lines.split(self.text)

    @cached_property
    def _begins(self) -> list[int]:
        return [0, *accumulate(map(len, self._rows))]

    def find_exact(self, window: Sequence[str]) -> list[int]:
        """Return the line numbers at which ``window`` stands by the letter."""
        target = "\n".join(["", *window, ""])
        places, line, counted = list[int](), 0, 0
        steps = len(target) // _FAST
        at = self._joined.find(target)
        while at >= 0:
            if steps:
                spend(steps)
            line += self._joined.count("\n", counted, at)
            places.append(line)
            counted = at
            at = self._joined.find(target, at + 1)
        spend(len(places))
        return places

    def replace(self, at: int, end: int, new: Sequence[str]) -> Splice | None:
        """Put ``new`` in place of the lines ``at`` to ``end``, which match by the letter."""
        start, stop = self._begins[at], self._begins[end]
        text = keep_endings(self.text, start, stop, "".join(row + "\n" for row in new))
        return minimize(self.text, start, stop, text)

    @cached_property
    def key_counts(self) -> Counter[str]:
        """How many lines have each key."""
        return Counter(self.keys)

    def find_rarest(self, keys: Sequence[str]) -> tuple[int, list[int]]:
        """Which of the keys the fewest lines have, blank ones aside, and the numbers of these lines."""
        filled = [number for number, key in enumerate(keys) if key]
        rarest = min(filled, key=lambda number: self.key_counts[keys[number]], default=0)
        is_there = bool(filled) and keys[rarest] in self.key_counts
        places = [at for at, key in enumerate(self.keys) if key == keys[rarest]] if is_there else []
        spend(len(places) * (1 + len(keys) // _COMPARED))
        return rarest, places

    @cached_property
    def joined_keys(self) -> str:
        return "\n".join(self.keys)

    @cached_property
    def key_starts(self) -> list[int]:
        """Where each key begins in `joined_keys`."""
        return [0, *accumulate(len(key) + 1 for key in self.keys)][: len(self.keys)]

    @cached_property
    def filled(self) -> list[int]:
        """The numbers of the lines that are not blank."""
        return [at for at, key in enumerate(self.keys) if key]

    def find_windows(self, window: Sequence[str]) -> list[int]:
        """Return the line numbers at which ``window`` matches; searches by its rarest line."""
        spend(sum(map(len, window)) + len(window))
        keys = [self.key(row) for row in window]
        # By the line of which the file has the fewest: a long window of braces would be compared at every brace.
        first, places = self.find_rarest(keys)
        return [at - first for at in places if at >= first and self.keys[at - first : at - first + len(keys)] == keys]

    def splice(self, place: LineMatch) -> Splice | None:
        """Compute the splice for a place; raises `Unsure`."""
        at, end = place.span
        above, below = self.bodies[max(0, at - _AROUND) : at], self.bodies[end : end + _AROUND]
        merged = merge(self.bodies[at:end], place.old, place.new, above, below, place.evidence)
        start, stop = self._begins[at], self._begins[end]
        if not merged and at and not lines.get_ending(self._rows[end - 1]):
            start -= len(lines.get_ending(self._rows[at - 1]))  # a file without a final line ending stays so
        return minimize(self.text, start, stop, self._join_rows(merged, at, end))

    def _join_rows(self, merged: Sequence[MergedRow], at: int, end: int) -> str:
        """The merged lines with line endings: each line its own or its neighbour's, the last one what the file had."""
        endings = [lines.get_ending(row) for row in self._rows[max(0, at - 1) : end]]
        before = endings.pop(0) if at else ""
        neighbour = next((ending for ending in (*endings, before) if ending), "\n")
        parts = []
        for number, row in enumerate(merged):
            last = number == len(merged) - 1
            ending = endings[-1] if last else endings[row.at] or neighbour
            parts.append((self.bodies[at + row.at] if row.text is None else row.text) + ending)
        return "".join(parts)


_KEYS: dict[str, Callable[[str], str]] = {
    "line_endings": lambda row: row,
    "trailing_blanks": str.rstrip,
    "indentation": str.strip,
    "punctuation": lambda row: fold(row).strip(),
}
LOOSE_LEVELS = (*_KEYS, "inner_blanks")
LEVELS = ("exact", *LOOSE_LEVELS, "words")


def find_level(ours: Sequence[str], theirs: Sequence[str]) -> str:
    """Return the strictest level at which these lines are equal."""
    for level, key in _KEYS.items():
        if all(key(a) == key(b) for a, b in zip(ours, theirs, strict=True)):
            return level
    return "inner_blanks"


def split_rows(old: str, new: str) -> tuple[list[str], list[str]]:
    """Both texts as lines; the ending behind the last line of old, and then of new, is not a line of its own."""
    before, after = old.split("\n"), new.split("\n")
    if old.endswith("\n"):
        before.pop()
        if not after[-1] or not (after[-1].strip() or any(row and not row.strip() for row in before)):
            after.pop()
    elif not new:
        after.pop()
    return before, after


def _count_blank(rows: Sequence[str]) -> int:
    return next((number for number, row in enumerate(rows) if row.strip()), len(rows))
