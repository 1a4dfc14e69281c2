"""Failures of paths, files and the machine."""

from __future__ import annotations

import errno
from typing import Any

from handrail.errors.calls import ToolError


class PathError(ToolError):
    """The tool cannot work on this path."""


class BadPath(PathError):
    code = "bad_path"


class TildePath(PathError):
    code = "tilde_path"


class RootMissing(PathError):
    code = "root_missing"


class NotFound(PathError):
    code = "not_found"


class IsDirectory(PathError):
    code = "is_directory"


class NotDirectory(PathError):
    code = "not_directory"


class NotRegular(PathError):
    code = "not_regular"


class BinaryFile(PathError):
    code = "binary_file"


class HardLinked(PathError):
    code = "hard_linked"


class AlreadyExists(PathError):
    code = "already_exists"


class FileTooLarge(PathError):
    code = "file_too_large"


class TooLargeToChange(PathError):
    code = "too_large_to_change"


class ReadError(ToolError):
    """The requested part of the file cannot be read."""


class PastEnd(ReadError):
    code = "past_end"


class PastColumn(ReadError):
    code = "past_column"


class PageTooLarge(ReadError):
    code = "page_too_large"


class TimedOut(ReadError):
    code = "timed_out"


class BadImage(ReadError):
    code = "bad_image"


class BadPdf(ReadError):
    code = "bad_pdf"


class BadPages(ReadError):
    """The PDF has no such pages."""

    code = "bad_pages"


class NoOutline(ReadError):
    """The symbols of this file cannot be listed."""

    code = "no_outline"


class StaleRead(ToolError):
    """The file was not read before, or has changed since."""


class NotSeen(StaleRead):
    code = "not_seen"


class ChangedSince(StaleRead):
    code = "changed_since"


class MachineError(ToolError):
    """The operating system refused."""


class PermissionDenied(MachineError):
    code = "permission_denied"


class DiskFull(MachineError):
    code = "disk_full"


class ReadOnlyDisk(MachineError):
    code = "read_only_disk"


class IoError(MachineError):
    code = "io_error"


class Busy(MachineError):
    code = "busy"


class MissingExtra(MachineError, ImportError):
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
    """Convert an `OSError`; its message becomes the fact `why`."""
    kind = _FROM_ERRNO.get(error.errno or 0, IoError)
    return kind(**{"why": error.strerror or type(error).__name__, **facts})
