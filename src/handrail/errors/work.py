"""Failures of searches and commands."""

from __future__ import annotations

from handrail.errors.calls import ToolError


class Searching(ToolError):
    """What was asked for cannot be looked for."""


class BadPattern(Searching):
    """A regular expression that cannot be understood."""

    code = "bad_pattern"


class BadGlobPattern(Searching):
    code = "bad_glob"


class UnknownType(Searching):
    """A kind of file that there is no name for."""

    code = "unknown_type"


class SearchTimedOut(Searching):
    code = "search_timed_out"


class Running(ToolError):
    """A command that is not run, or that failed."""


class BadCommand(Running):
    """No valid command at all."""

    code = "bad_command"


class TimeoutTooLong(Running):
    code = "timeout_too_long"


class NoSuchJob(Running):
    code = "no_such_job"


class TooManyJobs(Running):
    code = "too_many_jobs"


class StdinClosed(Running):
    code = "stdin_closed"


class BadFilter(Running):
    code = "bad_filter"


class SlowFilter(Running):
    code = "slow_filter"


class NoSandbox(Running):
    """A boundary is required, and none can be had; `why` says what each layer lacks."""

    code = "no_sandbox"
