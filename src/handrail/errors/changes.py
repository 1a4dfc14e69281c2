"""Failures of edits, patches and replacements."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.errors.calls import ToolError


class EditError(ToolError):
    """The change cannot be made as described."""


class NoMatch(EditError):
    code = "no_match"
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
    code = "many_matches"
    old: str
    count: int
    lines: Sequence[int]


class TooManyPlaces(EditError):
    code = "too_many_places"
    old: str
    count: int
    most: int


class NothingToChange(EditError):
    code = "no_change"
    old: str = ""


class AlreadyApplied(EditError):
    """The new text stands where the old one would be."""

    code = "already_applied"
    line: int


class Garbled(EditError):
    """A text of the edit has U+FFFD, which the file does not have."""

    code = "garbled"
    near: str
    new: bool


class ManyLoose(EditError):
    code = "many_loose"
    count: int
    lines: Sequence[int]
    old: str = ""


class Placeholder(EditError):
    code = "placeholder"
    line: str


class UnsureIndent(EditError):
    code = "unsure_indent"
    line: int
    old: str = ""
    indent: bool = False
    cut: bool = False
    quotes: bool = False
    readings: Sequence[str] = ()
    current: str | None = None


class TooMuchWork(EditError):
    """Comparing the texts loosely would take too many steps."""

    code = "too_much_work"
    old: str = ""


class InsideWord(EditError):
    code = "inside_word"
    old: str
    line: int
    word: str


class BadAnchor(EditError):
    """The tag of a line does not name a line for certain; ``number`` is the edit of the call."""

    code = "bad_anchor"
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
    code = "empty_old"


class CannotEncode(EditError):
    code = "cannot_encode"
    encoding: str
    char: str
    codepoint: str
    line: int


class BadNotebook(EditError):
    code = "bad_notebook"
    broken: str | None = None
    major: int | None = None
    other: bool = False
    cell: str | None = None
    fault: str | None = None


class NoSuchCell(EditError):
    code = "no_such_cell"
    cell: str
    many: int
    lost: bool
    empty: bool
    cells: Sequence[str]
    more: int


class PatchError(ToolError):
    """The patch, or a part of it, cannot be applied as it is written."""


class BadPatch(PatchError):
    code = "bad_patch"
    line: int
    why: str


class BadHunk(PatchError):
    code = "bad_hunk"
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
    code = "ambiguous_hunk"
    number: int
    count: int
    lines: Sequence[int]


class SameFile(PatchError):
    code = "same_file"
    path: str
    other: str


class WouldOverwrite(PatchError):
    code = "would_overwrite"
    path: str
    kind: str | None = None
    inside: str | None = None


class ReplaceError(ToolError):
    """The occurrences cannot be replaced as asked."""


class OtherCount(ReplaceError):
    code = "other_count"
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

    code = "unknown_occurrence"
    ids: Sequence[str]
    more: int | None


class TooManyOccurrences(ReplaceError):
    code = "too_many_occurrences"
    most: int
    what: str


class EmptyMatch(ReplaceError):
    code = "empty_match"
    line: int


class BadReplacement(ReplaceError):
    code = "bad_replacement"
    replacement: str
    why: str
    position: int | None = None
