"""Undo a habit in both texts of an edit, and choose what it means for the new one.

Every step of `variants.py` returns `Repair`s. A repair says how its habit spoils a text, so that one check holds for
all of them: the repaired old text, spoilt again, is exactly what was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from handrail.text.matching.fold import ZERO_WIDTH

Spoil = Callable[[str], str]
Undo = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Repair:
    """Both texts of an edit without a habit, and how the habit spoils a text."""

    old: str
    new: str
    spoil: Spoil
    is_closed: bool = False
    """Whether the habit puts something behind the text, so that the end of what was sent is not the text's."""

    def is_inverse(self, sent: str) -> bool:
        """Whether the repaired old text, spoilt by the same habit, is what was sent."""
        return self.spoil(self.old) == sent

    def is_unsure(self, old: str, new: str) -> bool:
        """Whether the new text, sent as ``new``, may have lost the end of a blank line, or that blank line; or whether
        it would bring something into the file that the old one, sent as ``old``, lost together with the habit:
        characters of no width, or a backslash at the end of each line."""
        if self._has_unsure_end(old, new):
            return True
        if "\\" in old and "\\" not in self.old and _ends_rows_in_backslash(self.new):
            return True
        return not old.isascii() and any(
            char in old and char in self.new and char not in self.old for char in ZERO_WIDTH
        )

    def _has_unsure_end(self, old: str, new: str) -> bool:
        """Whether the old text ends in a blank line that may be the habit's, and the new text does not end alike."""
        if not old.endswith("\n") or not self.old.endswith("\n\n") or not new or self.is_closed:
            return False
        if not new.endswith("\n") and self.new.endswith("\n"):
            return True
        # One end of that line was sent as it is, and the other one was spelled in another way.
        is_mixed = not old.endswith("\n\n") and self.old.count("\n") > old.count("\n")
        return is_mixed and not self.new.endswith("\n\n")


def _ends_rows_in_backslash(text: str) -> bool:
    """Whether all lines end in one; what is behind the last line is no break."""
    rows = [row for row in text.split("\n") if row.strip()]
    return len(rows) > 1 and all(row.endswith("\\") for row in rows[:-1])


def choose_new(old: str, bare: str, new: str, undone: str) -> list[str]:
    """Which of ``new`` as it is and ``undone`` goes with ``bare``, which was ``old``: both if nothing tells, none if
    some lines say this and some that."""
    if undone == new:
        return [new]
    rows, others = ({row for row in text.split("\n") if row.strip()} for text in (new, undone))
    known = set(bare.split("\n"))
    untouched = not rows.isdisjoint(known - set(old.split("\n")))  # the habit would have touched such a line
    mended = not known.isdisjoint(others - rows)
    if untouched or mended:
        return [] if untouched and mended else [new] if untouched else [undone]
    return [undone, new]


def undo_throughout(old: str, new: str, undo: Undo, make_spoil: Callable[[str], Spoil]) -> list[Repair]:
    """The texts without a habit that a text has throughout, if it has it.

    ``make_spoil`` reads from a text how the habit spoils.
    """
    bare, undone = undo(old), undo(new)
    spoil = make_spoil(old)
    if bare == old or (undone != new and make_spoil(new)(undone) != new):
        return []
    meant = choose_new(old, bare, new, undone)
    if undone not in meant:
        return []  # a line of the new text does not have it, and others do
    if undo(bare) == bare:
        meant = [undone]  # nothing of this kind is the file's own
    return [Repair(bare, one, spoil) for one in meant]


def wrap(head: str, tail: str) -> Spoil:
    """Spoil a text by something before it and something behind it."""
    return lambda bare: f"{head}{bare}{tail}"


def prefix_rows(prefixes: list[str]) -> Spoil:
    """Spoil each line of a text by its own prefix."""

    def spoil(bare: str) -> str:
        rows = bare.split("\n")
        return "\n".join(a + b for a, b in zip(prefixes, rows, strict=True)) if len(rows) == len(prefixes) else ""

    return spoil
