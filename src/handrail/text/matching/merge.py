"""Carrying a change onto the file's own lines: a three-way merge with the model's old text as base.

What the model meant is the difference between its old and its new lines. Lines that it did not change stay the file's,
byte for byte, whatever it wrote in them; changed and added lines get the file's indentation; and inside a changed line
the words that it did not mean to change stay the file's own, with their quotes, dashes and spaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from handrail.text.matching.fold import mapped, solid, squeeze
from handrail.text.matching.indentation import Frame, Unsure, indent_of, lost, written

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_KEY = re.compile(r"\W*([\w.-]+)\s*[:=]")
_ALIKE = 0.5
Code = tuple[str, int, int, int, int]
_HARD = "\u00a0"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the outcome: the file's own (by index), or a new text that stands where line ``at`` did."""

    at: int
    text: str | None = None


def merge(
    ours: Sequence[str],
    old: Sequence[str],
    new: Sequence[str],
    file: Sequence[str],
    evidence: Sequence[tuple[str, str]] = (),
) -> list[Row]:
    """The lines that replace ``ours``, which ``old`` matched; raises `Unsure` where the merge would be a guess.

    ``evidence`` are matched lines of the model's and the file's, if there are more than these.
    """
    frame = Frame(old, ours, new, file, evidence)
    # Of lines that are alike to the model, but not in the file, which are kept? All ways to see it must agree.
    rows, *others = (_merged(ours, old, new, frame, codes) for codes in _aligned(old, new, list(ours) != list(old)))
    if any(_texts(other, ours) != _texts(rows, ours) for other in others):
        raise Unsure
    return rows


def _merged(
    ours: Sequence[str], old: Sequence[str], new: Sequence[str], frame: Frame, codes: Sequence[Code]
) -> list[Row]:
    one = _Merge(ours, old, new, frame, _pairs(codes))
    rows: list[Row] = []
    for code, i1, i2, j1, j2 in codes:
        if code == "equal":
            rows += [one.kept(i1 + k, j1 + k) for k in range(i2 - i1)]
        elif i2 - i1 == j2 - j1:
            rows += [one.changed(i1 + k, j1 + k, range(i1, i2)) for k in range(i2 - i1)]
        else:
            rows += [one.added(j, i1, i2) for j in range(j1, j2)]
    return rows


def _texts(rows: Sequence[Row], ours: Sequence[str]) -> list[str]:
    return [ours[row.at] if row.text is None else row.text for row in rows]


def _turned(codes: Sequence[Code], old: int, new: int) -> list[Code]:
    """The codes of texts that were turned upside down, for the texts as they are."""
    return [(code, old - i2, old - i1, new - j2, new - j1) for code, i1, i2, j1, j2 in reversed(codes)]


def _aligned(old: Sequence[str], new: Sequence[str], all_ways: bool) -> list[list[Code]]:
    """The lines that stay, by the letter or without regard to blanks, seen from above or from below: what keeps most.
    The first way is by the letter and from above, where that is as good."""
    texts = (old, new), ([squeeze(row) for row in old], [squeeze(row) for row in new])
    ways = [_codes(*pair) for pair in texts]
    if all_ways:
        ways += [_turned(_codes(a[::-1], b[::-1]), len(a), len(b)) for a, b in texts]
    most = max(map(_kept, ways))
    different: dict[tuple[tuple[int, int], ...], list[Code]] = {}
    for way in ways:
        if _kept(way) == most:
            different.setdefault(tuple(_pairs(way)), way)
    return list(different.values())


def _codes(old: Sequence[str], new: Sequence[str]) -> list[Code]:
    """`SequenceMatcher`'s, but what is equal at the head and the tail stays there, however often it is repeated."""
    most = min(len(old), len(new))
    head = next((number for number in range(most) if old[number] != new[number]), most)
    tail = next((number for number in range(most - head) if old[-1 - number] != new[-1 - number]), most - head)
    middle = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    codes = [(code, i1 + head, i2 + head, j1 + head, j2 + head) for code, i1, i2, j1, j2 in middle.get_opcodes()]
    edges = [("equal", 0, head, 0, head)], [("equal", len(old) - tail, len(old), len(new) - tail, len(new))]
    return [*edges[0], *codes, *edges[1]]


def _pairs(codes: Sequence[Code]) -> list[tuple[int, int]]:
    """The lines of both texts that stay."""
    return [(i1 + k, j1 + k) for code, i1, i2, j1, _ in codes if code == "equal" for k in range(i2 - i1)]


def _kept(codes: Sequence[Code]) -> int:
    return sum(i2 - i1 for code, i1, i2, _, _ in codes if code == "equal")


class _Merge:
    def __init__(
        self,
        ours: Sequence[str],
        old: Sequence[str],
        new: Sequence[str],
        frame: Frame,
        aligned: Sequence[tuple[int, int]],
    ) -> None:
        self._ours, self._old, self._new, self._frame = ours, old, new, frame
        self._as_file = frame.as_file(new, aligned)
        # The model strews blanks at line ends: they are no part of what it means.
        self._trims = any(a != a.rstrip() and b == b.rstrip() for a, b in zip(old, ours, strict=True))
        self._sloppy = any(a.strip() != b.strip() for a, b in zip(old, ours, strict=True))
        # So do blanks that do not break.
        self._unbreaking = any(_HARD in a and _HARD not in b for a, b in zip(old, ours, strict=True))
        self._lost = frame.bare and lost(new, {*range(len(new))} - {j for _, j in aligned})

    def kept(self, i: int, j: int) -> Row:
        """A line with the same words in old and new: the file's, unless its white space was changed on purpose."""
        ours, old, new = self._ours[i], self._old[i], self._new[j]
        if new == old or not new.strip():
            return Row(i)
        if self._frame.first_lost and i and not j and indent_of(ours) != indent_of(self._ours[0]):
            raise Unsure  # it is the first line now: did it lose its indentation too, or move to the first one's?
        if ours == old:
            return Row(i, self._placed(new, i))
        # Blanks inside of a line that the model did not get right are nothing that it means.
        plain = solid if self._sloppy else str.strip
        unchanged = plain(new) in (plain(old), plain(ours))
        if self._as_file or self._frame.same:
            return Row(i) if unchanged and written(new) == indent_of(ours) else self._replaced(i, j)
        if unchanged:
            return Row(i) if written(new) == written(old) else Row(i, self._indent(new, i) + ours.lstrip())
        return self._replaced(i, j)

    def changed(self, i: int, j: int, block: range) -> Row:
        """A line that stands for one line of the file, in a block of as many lines as before."""
        depths = {indent_of(self._ours[k]) for k in block if self._ours[k].strip()}
        if not self._frame.same and len(depths) > 1 and not _alike(self._old[i].strip(), self._new[j].strip()):
            return self.added(j, block.start, block.stop)  # not that line, but another in its place
        return self._replaced(i, j)

    def _replaced(self, i: int, j: int) -> Row:
        placed = self._placed(self._new[j], i)
        ours, old, new = self._ours[i].strip(), self._old[i].strip(), self._new[j].strip()
        if ours == old:
            return Row(i, placed)
        return Row(i, indent_of(placed) + _carried(ours, old, new) + placed[len(placed.rstrip()) :])

    def added(self, j: int, i1: int, i2: int) -> Row:
        """A line with no counterpart: it stands behind line ``i1``, or in place of ``i1`` to ``i2``."""
        near = max(0, i1 - 1) if i1 == i2 else i1
        if self._frame.flat and not self._as_file and self._new[j].strip():
            around = {
                indent_of(self._ours[i])
                for i in range(max(0, i1 - 1), min(i2 + 1, len(self._ours)))
                if self._ours[i].strip()
            }
            if len(around) != 1 or not self._frame.bare or self._lost:
                raise Unsure
            return Row(near, around.pop() + self._new[j].strip())
        return Row(near, self._placed(self._new[j], None))

    def _placed(self, line: str, counterpart: int | None) -> str:
        line = line.rstrip() if self._trims else line
        line = line.replace(_HARD, " ") if self._unbreaking else line
        if self._frame.same:
            return line
        return self._indent(line, counterpart) + line.lstrip() if line.strip() else ""

    def _indent(self, line: str, counterpart: int | None) -> str:
        """The file's indentation for a line, which may stand for one of the file's."""
        wanted = written(line)
        if self._as_file is None or (self._lost and counterpart is None):
            raise Unsure
        if self._as_file:
            if not self._frame.usual(wanted) or (self._frame.two_kinds and self._frame.depth(wanted) != wanted):
                raise Unsure
            return wanted
        if counterpart is not None and self._ours[counterpart].strip() and wanted == written(self._old[counterpart]):
            return indent_of(self._ours[counterpart])
        depth = self._frame.depth(wanted)
        if self._frame.first_lost and counterpart == 0 and depth != indent_of(self._ours[0]):
            raise Unsure  # only the old text has lost it, so this should be where the file has it
        return depth


def _alike(old: str, new: str) -> bool:
    """Whether one line is another version of the other: most of it, or the key before its value."""
    keys = _KEY.match(old), _KEY.match(new)
    if keys[0] and keys[1] and keys[0][1] == keys[1][1]:
        return True
    return SequenceMatcher(None, old, new, autojunk=False).ratio() >= _ALIKE


def _carried(ours: str, old: str, new: str) -> str:
    """The change from ``old`` to ``new``, made in ``ours``, which is ``old`` but for folding."""
    folded, begins_old = mapped(old)
    folded_ours, begins_ours = mapped(ours)
    if folded != folded_ours:
        raise Unsure
    place = {begin: number for number, begin in reversed(list(enumerate(begins_old)))}
    before, after = _WORD.findall(old), _WORD.findall(new)
    starts = [0]
    for word in before:
        starts.append(starts[-1] + len(word))
    parts, last = [], 0
    for code, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if code == "equal":
            continue
        if starts[i1] not in place or starts[i2] not in place:
            raise Unsure
        parts += [ours[last : begins_ours[place[starts[i1]]]], "".join(after[j1:j2])]
        last = begins_ours[place[starts[i2]]]
    return "".join([*parts, ours[last:]])
