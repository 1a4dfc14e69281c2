"""Failures of edits, patches and replacements."""

from __future__ import annotations

from handrail.errors.calls import ToolError


class EditError(ToolError):
    """The change cannot be made as described."""


class NoMatch(EditError):
    code = "no_match"


class ManyMatches(EditError):
    code = "many_matches"


class TooManyPlaces(EditError):
    code = "too_many_places"


class NothingToChange(EditError):
    code = "no_change"


class ManyLoose(EditError):
    code = "many_loose"


class Placeholder(EditError):
    code = "placeholder"


class UnsureIndent(EditError):
    code = "unsure_indent"


class InsideWord(EditError):
    code = "inside_word"


class EmptyOld(EditError):
    code = "empty_old"


class CannotEncode(EditError):
    code = "cannot_encode"


class BadNotebook(EditError):
    code = "bad_notebook"


class NoSuchCell(EditError):
    code = "no_such_cell"


class PatchError(ToolError):
    """The patch, or a part of it, cannot be applied as it is written."""


class BadPatch(PatchError):
    code = "bad_patch"


class BadHunk(PatchError):
    code = "bad_hunk"


class AmbiguousHunk(PatchError):
    code = "ambiguous_hunk"


class SameFile(PatchError):
    code = "same_file"


class WouldOverwrite(PatchError):
    code = "would_overwrite"


class ReplaceError(ToolError):
    """The occurrences cannot be replaced as asked."""


class NotCounted(ReplaceError):
    """The call names neither the number of occurrences nor their ids."""

    code = "not_counted"


class OtherCount(ReplaceError):
    code = "other_count"


class UnknownOccurrence(ReplaceError):
    """No occurrence has this id, or no longer."""

    code = "unknown_occurrence"


class TooManyOccurrences(ReplaceError):
    code = "too_many_occurrences"


class EmptyMatch(ReplaceError):
    code = "empty_match"


class BadReplacement(ReplaceError):
    code = "bad_replacement"
