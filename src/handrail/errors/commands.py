"""Failures of commands and searches."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.errors.calls import ToolError


class SearchError(ToolError):
    """The search cannot be made."""


class BadPattern(SearchError):
    """The regular expression is not valid."""

    code = "bad_pattern"
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

    code = "unknown_type"
    type: str
    types: Sequence[str]


class SearchTimedOut(SearchError):
    code = "search_timed_out"
    seconds: float
    pattern: str


class CommandError(ToolError):
    """The command was not run, or failed."""


class BadCommand(CommandError):
    """The command is not valid."""

    code = "bad_command"
    why: str
    line: int | None
    near: str | None


class PatchNotAlone(CommandError):
    """`apply_patch` is part of a longer command, or in a form that a shell would still expand."""

    code = "patch_not_alone"


class TimeoutTooLong(CommandError):
    code = "timeout_too_long"
    timeout: float
    most: float


class NoSuchJob(CommandError):
    code = "no_such_job"
    job: str
    known: Sequence[str]


class TooManyJobs(CommandError):
    code = "too_many_jobs"
    running: int
    most: int


class StdinClosed(CommandError):
    code = "stdin_closed"
    job: str
    running: bool
    wanted: bool


class BadFilter(CommandError):
    code = "bad_filter"
    filter: str
    why: str


class SlowFilter(CommandError):
    code = "slow_filter"
    filter: str
    seconds: float


class NoSandbox(CommandError):
    """A sandbox is required and not available; `why` says what each layer lacks."""

    code = "no_sandbox"
    mode: str
    why: str
