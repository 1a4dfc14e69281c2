"""Failures of paths, files and the machine."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from handrail.errors.calls import ToolError


class PathError(ToolError):
    """The tool cannot work on this path."""


class BadPath(PathError):
    path: str
    why: str
    blank: bool = False


class TildePath(PathError):
    path: str


class RootMissing(PathError):
    root: str


class NotFound(PathError):
    path: str
    nearest: Sequence[str] = ()
    why: str | None = None


class IsDirectory(PathError):
    path: str


class NotDirectory(PathError):
    path: str


class NotRegular(PathError):
    path: str
    kind: str


class BinaryFile(PathError):
    why: str
    size: int
    modified: bool = False


class HardLinked(PathError):
    path: str
    links: int


class AlreadyExists(PathError):
    path: str


class FileTooLarge(PathError):
    size: int
    modified: bool
    kilobytes: float
    most: int


class TooLargeToChange(PathError):
    path: str
    size: int
    most: int
    entries: int | None = None
    most_entries: int | None = None


class ReadError(ToolError):
    """The requested part of the file cannot be read."""


class PastEnd(ReadError):
    path: str
    offset: int
    total: int
    size: int | None = None
    modified: bool = False


class PastColumn(ReadError):
    line: int
    column: int
    size: int
    modified: bool


class PageTooLarge(ReadError):
    chars: int
    most: int
    size: int
    modified: bool


class TimedOut(ReadError):
    path: str
    seconds: float
    lines: int
    bytes: int


class BadImage(ReadError):
    size: int | None = None
    most_bytes: int | None = None
    seconds: float | None = None
    crashed: bool = False
    empty: bool = False
    unknown: bool = False
    pixels: str | None = None
    most_pixels: int | None = None
    broken: str | None = None
    shortest: int | None = None
    most_encoded: int | None = None


class BadPdf(ReadError):
    page: int | None = None
    size: int | None = None
    most_bytes: int | None = None
    seconds: float | None = None
    crashed: bool = False
    broken: str | None = None
    password: bool = False


class BadPages(ReadError):
    """The PDF has no such pages."""

    pages: str
    malformed: bool = False
    zero: bool = False
    swapped: str | None = None
    count: int | None = None
    most: int | None = None
    part: str | None = None
    total: int | None = None


class NoOutline(ReadError):
    """The symbols of this file cannot be listed."""

    path: str
    why: str


class StaleRead(ToolError):
    """The file was not read before, or has changed since."""


class NotSeen(StaleRead):
    path: str
    quotable: bool = False
    """Whether the call would be accepted if it quoted whole lines exactly."""


class ChangedSince(StaleRead):
    path: str
    moved: str = ""
    current: str = ""
    """The text that the change would have replaced."""
    moment: str = ""
    unmatched: bool = False
    one: bool = False
    all: bool = False


class MachineError(ToolError):
    """The operating system refused."""


class PermissionDenied(MachineError):
    why: str


class DiskFull(MachineError):
    why: str


class ReadOnlyDisk(MachineError):
    why: str


class IoError(MachineError):
    why: str


class Busy(MachineError):
    why: str
    seconds: float | None = None


class JournalFailed(MachineError):
    """The journal cannot be written, and nothing may be changed without it; `journal` is its path."""

    journal: str
    why: str

    def __str__(self) -> str:
        return f"the journal {self.journal} cannot be used: {self.why}"


class MissingExtra(MachineError, ImportError):
    """An optional package is not installed, or is not a version that works."""

    extra: str
    use: str
    problem: str
    install: str
    instead: str | None = None

    def __str__(self) -> str:
        return "{problem}; it is needed for {use}. Install it with: {install}".format(**self.facts)


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
