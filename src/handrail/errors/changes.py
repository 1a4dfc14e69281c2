"""Failures of changes: edits, patches, replacements."""

from __future__ import annotations

from handrail.errors.calls import ToolError


class Editing(ToolError):
    """The change cannot be made as described."""


class NoMatch(Editing):
    code = "no_match"


class ManyMatches(Editing):
    code = "many_matches"


class TooManyPlaces(Editing):
    code = "too_many_places"


class NoChange(Editing):
    code = "no_change"


class ManyLoose(Editing):
    code = "many_loose"


class Placeholder(Editing):
    code = "placeholder"


class UnsureIndent(Editing):
    code = "unsure_indent"


class InsideWord(Editing):
    code = "inside_word"


class EmptyOld(Editing):
    code = "empty_old"


class CannotEncode(Editing):
    code = "cannot_encode"


class BadNotebook(Editing):
    code = "bad_notebook"


class NoSuchCell(Editing):
    code = "no_such_cell"


class Patching(ToolError):
    """The patch, or a part of it, cannot be applied as it is written."""


class BadPatch(Patching):
    code = "bad_patch"


class BadHunk(Patching):
    code = "bad_hunk"


class AmbiguousHunk(Patching):
    code = "ambiguous_hunk"


class SameFile(Patching):
    code = "same_file"


class WouldOverwrite(Patching):
    code = "would_overwrite"


class Replacing(ToolError):
    """Occurrences over files cannot be replaced as asked."""


class NotCounted(Replacing):
    """Nobody has said how many or which occurrences are meant."""

    code = "not_counted"


class OtherCount(Replacing):
    code = "other_count"


class UnknownOccurrence(Replacing):
    """An id that no occurrence has, or no longer."""

    code = "unknown_occurrence"


class TooManyOccurrences(Replacing):
    code = "too_many_occurrences"


class EmptyMatch(Replacing):
    code = "empty_match"


class BadReplacement(Replacing):
    code = "bad_replacement"
