"""Failures of commands and searches."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.errors.calls import ToolError


class SearchError(ToolError):
    """The search cannot be made."""


class BadPattern(SearchError):
    """The regular expression is not valid."""

    pattern: str
    why: str
    position: int | None = None
    newline: bool = False
    line: str | None = None
    caret: str | None = None


class BadGlobPattern(SearchError):
    code = "bad_glob"
    pattern: str
    why: str


class UnknownType(SearchError):
    """The file type is not known."""

    type: str
    types: Sequence[str]


class SearchTimedOut(SearchError):
    seconds: float
    pattern: str


class CommandError(ToolError):
    """The command was not run, or failed."""


class BadCommand(CommandError):
    """The command is not valid."""

    why: str
    line: int | None
    near: str | None


class PatchNotAlone(CommandError):
    """`apply_patch` is part of a longer command, or in a form that a shell would still expand."""


class TimeoutTooLong(CommandError):
    timeout: float
    most: float


class NoSuchJob(CommandError):
    job: str
    known: Sequence[str]


class TooManyJobs(CommandError):
    running: int
    most: int


class StdinClosed(CommandError):
    job: str
    running: bool
    wanted: bool


class BadFilter(CommandError):
    filter: str
    why: str


class SlowFilter(CommandError):
    filter: str
    seconds: float


class NoSandbox(CommandError):
    """A sandbox is required and not available; `why` says what each layer lacks."""

    mode: str
    why: str
