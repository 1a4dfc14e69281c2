"""Failures of paths, files and the machine."""

from __future__ import annotations

import errno
from typing import Any

from handrail.errors.calls import ToolError


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


class NotDirectory(Place):
    code = "not_directory"


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


class BadImage(Reading):
    code = "bad_image"


class BadPdf(Reading):
    code = "bad_pdf"


class BadPages(Reading):
    """Pages of a PDF that cannot be asked for."""

    code = "bad_pages"


class NoOutline(Reading):
    """A file whose symbols cannot be listed."""

    code = "no_outline"


class Seen(ToolError):
    """The file was not read, or is no longer what was read."""


class NotSeen(Seen):
    code = "not_seen"


class ChangedSince(Seen):
    code = "changed_since"


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


class MissingExtra(System, ImportError):
    """An optional package is not installed, or is not a version that works."""

    code = "missing_extra"

    def __str__(self) -> str:
        return "the extra {extra} is needed for {use} ({problem}): {install}".format(**self.facts)


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
