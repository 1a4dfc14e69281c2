"""Carrying a change onto the file's own lines: a three-way merge with the model's old text as base.

What the model meant is the difference between its old and its new lines. Lines that it did not change stay the file's,
byte for byte, whatever it wrote in them; changed and added lines get the file's indentation; and inside a changed line
the characters that it did not mean to change stay the file's own quotes, dashes and spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from handrail.text.fold import mapped, squeeze
from handrail.text.reindent import Frame, Unsure, indent_of


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the outcome: the file's own (by index), or a new text that stands where line ``at`` did."""

    at: int
    text: str | None = None


def merge(ours: Sequence[str], old: Sequence[str], new: Sequence[str], file: Sequence[str]) -> list[Row]:
    """The lines that replace ``ours``, which ``old`` matched; raises `Unsure` where the merge would be a guess."""
    codes = SequenceMatcher(
        None, [squeeze(row) for row in old], [squeeze(row) for row in new], autojunk=False
    ).get_opcodes()
    aligned = [(i1 + k, j1 + k) for code, i1, i2, j1, _ in codes if code == "equal" for k in range(i2 - i1)]
    one = _Merge(ours, old, new, Frame(old, ours, file), aligned)
    rows: list[Row] = []
    for code, i1, i2, j1, j2 in codes:
        if code == "equal":
            rows += [one.kept(i1 + k, j1 + k) for k in range(i2 - i1)]
        elif i2 - i1 == j2 - j1:
            rows += [one.changed(i1 + k, j1 + k) for k in range(i2 - i1)]
        else:
            rows += [one.added(j, i1, i2) for j in range(j1, j2)]
    return rows


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
        self._as_file = frame.belongs_to_file(new, aligned)
        # The model strews blanks at line ends: they are no part of what it means.
        self._trims = any(a != a.rstrip() and b == b.rstrip() for a, b in zip(old, ours, strict=True))

    def kept(self, i: int, j: int) -> Row:
        """A line with the same words in old and new: the file's, unless its white space was changed on purpose."""
        ours, old, new = self._ours[i], self._old[i], self._new[j]
        if new == old or not new.strip():
            return Row(i)
        if ours == old:
            return Row(i, self._placed(new, i))
        if self._as_file or self._frame.same:
            return Row(i) if new.strip() == ours.strip() and indent_of(new) == indent_of(ours) else self.changed(i, j)
        if new.strip() in (old.strip(), ours.strip()):
            return Row(i) if indent_of(new) == indent_of(old) else Row(i, self._frame.depth(new, i) + ours.lstrip())
        return self.changed(i, j)

    def changed(self, i: int, j: int) -> Row:
        """A line that stands for one line of the file."""
        placed = self._placed(self._new[j], i)
        ours, old, new = self._ours[i].strip(), self._old[i].strip(), self._new[j].strip()
        if ours == old:
            return Row(i, placed)
        return Row(i, indent_of(placed) + _carried(ours, old, new))

    def added(self, j: int, i1: int, i2: int) -> Row:
        """A line with no counterpart: it stands behind line ``i1``, or in place of ``i1`` to ``i2``."""
        near = max(0, i1 - 1) if i1 == i2 else i1
        if self._frame.flat and not self._as_file and self._new[j].strip():
            around = {
                indent_of(self._ours[i])
                for i in range(max(0, i1 - 1), min(i2 + 1, len(self._ours)))
                if self._ours[i].strip()
            }
            if len(around) != 1:
                raise Unsure
            return Row(near, around.pop() + self._new[j].strip())
        return Row(near, self._placed(self._new[j], near))

    def _placed(self, line: str, near: int) -> str:
        line = line.rstrip() if self._trims else line
        if self._as_file or self._frame.same:
            return line
        if self._frame.flat and line.strip():
            return indent_of(self._ours[near]) + line.lstrip()
        return self._frame.depth(line, near) + line.lstrip() if line.strip() else ""


def _carried(ours: str, old: str, new: str) -> str:
    """The change from ``old`` to ``new``, made in ``ours``, which is ``old`` but for folding."""
    folded, begins_old = mapped(old)
    folded_ours, begins_ours = mapped(ours)
    if folded != folded_ours:
        raise Unsure
    place = {begin: number for number, begin in reversed(list(enumerate(begins_old)))}
    parts, last = [], 0
    for code, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if code == "equal":
            continue
        if i1 not in place or i2 not in place:
            raise Unsure
        parts += [ours[last : begins_ours[place[i1]]], new[j1:j2]]
        last = begins_ours[place[i2]]
    return "".join([*parts, ours[last:]])
