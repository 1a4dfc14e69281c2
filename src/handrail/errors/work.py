"""Failures of searches and commands."""

from __future__ import annotations

from handrail.errors.calls import ToolError


class SearchError(ToolError):
    """The search cannot be made."""


class BadPattern(SearchError):
    """The regular expression is not valid."""

    code = "bad_pattern"


class BadGlobPattern(SearchError):
    code = "bad_glob"


class UnknownType(SearchError):
    """The file type is not known."""

    code = "unknown_type"


class SearchTimedOut(SearchError):
    code = "search_timed_out"


class CommandError(ToolError):
    """The command was not run, or failed."""


class BadCommand(CommandError):
    """The command is not valid."""

    code = "bad_command"


class TimeoutTooLong(CommandError):
    code = "timeout_too_long"


class NoSuchJob(CommandError):
    code = "no_such_job"


class TooManyJobs(CommandError):
    code = "too_many_jobs"


class StdinClosed(CommandError):
    code = "stdin_closed"


class BadFilter(CommandError):
    code = "bad_filter"


class SlowFilter(CommandError):
    code = "slow_filter"


class NoSandbox(CommandError):
    """A sandbox is required and not available; `why` says what each layer lacks."""

    code = "no_sandbox"
