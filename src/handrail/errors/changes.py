"""Failures of edits, patches and replacements."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.errors.calls import ToolError


class EditError(ToolError):
    """The change cannot be made as described."""


class NoMatch(EditError):
    old: str
    longer: bool
    near: int | None = None
    others: Sequence[int] = ()
    line: int | None = None
    theirs: str | None = None
    ours: str | None = None
    sent: str | None = None
    there: str | None = None
    current: str | None = None
    unmatched: bool = False
    one: bool = False
    all: bool = False


class ManyMatches(EditError):
    old: str
    count: int
    lines: Sequence[int]


class TooManyPlaces(EditError):
    old: str
    count: int
    most: int


class NothingToChange(EditError):
    code = "no_change"
    old: str = ""


class AlreadyApplied(EditError):
    """The new text stands where the old one would be."""

    line: int


class Garbled(EditError):
    """A text of the edit has U+FFFD, which the file does not have."""

    near: str
    new: bool


class ManyLoose(EditError):
    count: int
    lines: Sequence[int]
    old: str = ""


class Placeholder(EditError):
    line: str


class UnsureIndent(EditError):
    line: int
    old: str = ""
    indent: bool = False
    cut: bool = False
    quotes: bool = False
    readings: Sequence[str] = ()
    current: str | None = None


class TooMuchWork(EditError):
    """Comparing the texts loosely would take too many steps."""

    old: str = ""


class InsideWord(EditError):
    old: str
    line: int
    word: str


class BadAnchor(EditError):
    """The tag of a line does not name a line for certain; ``number`` is the edit of the call."""

    number: int
    anchor: str
    unreadable: bool = False
    tag: bool = False
    unknown: bool = False
    inside: bool = False
    ambiguous: bool = False
    moved: bool = False
    backwards: str | None = None
    overlaps: int | None = None
    current: str | None = None


class EmptyOld(EditError):
    """The old text is empty, and the file is not."""


class CannotEncode(EditError):
    encoding: str
    char: str
    codepoint: str
    line: int


class BadNotebook(EditError):
    broken: str | None = None
    major: int | None = None
    other: bool = False
    cell: str | None = None
    fault: str | None = None


class NoSuchCell(EditError):
    cell: str
    many: int
    lost: bool
    empty: bool
    cells: Sequence[str]
    more: int


class PatchError(ToolError):
    """The patch, or a part of it, cannot be applied as it is written."""


class BadPatch(PatchError):
    line: int
    why: str


class BadHunk(PatchError):
    number: int
    old: str = ""
    missing: bool = False
    near: int | None = None
    wanted: str | None = None
    actual: str | None = None
    sent: str | None = None
    there: str | None = None
    current: str | None = None
    other: int | None = None
    at: int | None = None
    elsewhere: int | None = None
    not_last: bool = False
    above: bool = False
    bare: bool = False
    endings: bool = False
    header: str | None = None
    placeholder: str | None = None
    unsure: bool = False
    garbled: str | None = None
    rest: bool = False


class AmbiguousHunk(PatchError):
    number: int
    count: int
    lines: Sequence[int]


class SameFile(PatchError):
    path: str
    other: str


class WouldOverwrite(PatchError):
    path: str
    kind: str | None = None
    inside: str | None = None


class ReplaceError(ToolError):
    """The occurrences cannot be replaced as asked."""


class OtherCount(ReplaceError):
    count: int
    expected: int
    files: int
    searched: int
    binary: int = 0
    hidden: int = 0
    ignored: int = 0
    large: int = 0
    unreadable: int = 0


class UnknownOccurrence(ReplaceError):
    """No occurrence has this id, or no longer."""

    ids: Sequence[str]
    more: int | None


class TooManyOccurrences(ReplaceError):
    most: int
    what: str


class EmptyMatch(ReplaceError):
    line: int


class BadReplacement(ReplaceError):
    replacement: str
    why: str
    position: int | None = None
