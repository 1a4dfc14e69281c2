"""Choose what a habit means for the new text of an edit, once it is undone in the old one."""

from __future__ import annotations

from collections.abc import Callable

Pairs = list[tuple[str, str]]
"""Ways to read the two texts of an edit."""
Undo = Callable[[str], str]


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


def undo_throughout(old: str, new: str, undo: Undo, consistent: Callable[[str], bool] = lambda _: True) -> Pairs:
    """The texts without a habit that a text has throughout, if it has it; the file has nothing of the kind itself."""
    bare, undone = undo(old), undo(new)
    if bare == old or not consistent(old) or not consistent(new):
        return []
    if undone == new or undone in choose_new(old, bare, new, undone):
        return [(bare, undone)]
    return []  # a line of the new text does not have it, and others do
