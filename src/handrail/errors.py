"""Every failure that a call can end in: one class a code, raised with facts, worded by a dialect.

    ToolError
      |- Usage        the call itself:      bad_json  unknown_tool  bad_arguments
      |- Refusal      not allowed here:     outside_workspace  read_only_root  denied  needs_approval
      |- Place        the path or the file: bad_path  tilde_path  root_missing  not_found  is_directory  not_regular
      |                                     binary_file  hard_linked  already_exists  file_too_large
      |                                     too_large_to_change
      |- Reading      the part asked for:   past_end  past_column  page_too_large  timed_out
      |- Seen         read before write:    not_seen  changed_since
      |- Editing      the change itself:    no_match  many_matches  many_loose  too_many_places  no_change
      |                                     empty_old  placeholder  unsure_indent  cannot_encode
      |                                     bad_notebook  no_such_cell
      |- Patching     a patch:              bad_patch  bad_hunk  ambiguous_hunk  same_file  would_overwrite
      |- System       the machine:          permission_denied  disk_full  read_only_disk  io_error  busy
      `- Bug          ours:                 internal_error

An exception carries facts, never a sentence: the sentences are in `dialects/*/messages.toml`, under the same codes.
"""

from __future__ import annotations

import errno
from typing import Any, ClassVar


class ToolError(Exception):
    """A call that could not be done, and why."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, **facts: Any) -> None:
        super().__init__(self.code, facts)
        self.facts: dict[str, Any] = facts
        self.wrap: str | None = None
        """The message that encloses this one, for a failure inside a larger call."""

    def __str__(self) -> str:
        return f"{self.code}: " + ", ".join(f"{name}={value!r}" for name, value in self.facts.items())


class Usage(ToolError):
    """The call itself is wrong."""


class BadJson(Usage):
    code = "bad_json"


class UnknownTool(Usage):
    code = "unknown_tool"


class BadArguments(Usage):
    code = "bad_arguments"


class Refusal(ToolError):
    """The call is understood and not allowed; the result is `denied`."""


class OutsideWorkspace(Refusal):
    code = "outside_workspace"


class ReadOnlyRoot(Refusal):
    code = "read_only_root"


class Denied(Refusal):
    code = "denied"


class NeedsApproval(Refusal):
    code = "needs_approval"


class Place(ToolError):
    """The path, or what stands there, is not what the tool can work on."""


class BadPath(Place):
    code = "bad_path"


class TildePath(Place):
    code = "tilde_path"


class RootMissing(Place):
    code = "root_missing"


class NotFound(Place):
    code = "not_found"


class IsDirectory(Place):
    code = "is_directory"


class NotRegular(Place):
    code = "not_regular"


class BinaryFile(Place):
    code = "binary_file"


class HardLinked(Place):
    code = "hard_linked"


class AlreadyExists(Place):
    code = "already_exists"


class FileTooLarge(Place):
    code = "file_too_large"


class TooLargeToChange(Place):
    code = "too_large_to_change"


class Reading(ToolError):
    """The part of the file that was asked for cannot be given."""


class PastEnd(Reading):
    code = "past_end"


class PastColumn(Reading):
    code = "past_column"


class PageTooLarge(Reading):
    code = "page_too_large"


class TimedOut(Reading):
    code = "timed_out"


class Seen(ToolError):
    """The file was not read, or is no longer what was read."""


class NotSeen(Seen):
    code = "not_seen"


class ChangedSince(Seen):
    code = "changed_since"


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


class System(ToolError):
    """The machine said no."""


class PermissionDenied(System):
    code = "permission_denied"


class DiskFull(System):
    code = "disk_full"


class ReadOnlyDisk(System):
    code = "read_only_disk"


class IoError(System):
    code = "io_error"


class Busy(System):
    code = "busy"


class Bug(ToolError):
    """A fault of this program."""

    code = "internal_error"


_FROM_ERRNO: dict[int, type[ToolError]] = {
    errno.ENOENT: NotFound,
    errno.ENOTDIR: NotFound,
    errno.EISDIR: IsDirectory,
    errno.EEXIST: AlreadyExists,
    errno.EACCES: PermissionDenied,
    errno.EPERM: PermissionDenied,
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EROFS: ReadOnlyDisk,
    errno.ENAMETOOLONG: BadPath,
    errno.ELOOP: BadPath,
    errno.EBUSY: Busy,
    errno.ETXTBSY: Busy,
}


def from_os(error: OSError, **facts: Any) -> ToolError:
    """The failure that an `OSError` stands for; the reason in the system's words goes along."""
    kind = _FROM_ERRNO.get(error.errno or 0, IoError)
    return kind(**{"why": error.strerror or type(error).__name__, **facts})
