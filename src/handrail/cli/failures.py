"""Failures in words for a person."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from handrail import dialects
from handrail.cli.output import Stop, UsageError, warn
from handrail.errors import JournalFailed, MissingExtra, ToolError
from handrail.files.configuration import BadConfiguration
from handrail.text.display import escape

FAILURES = (Stop, MissingExtra, JournalFailed)
"""The exceptions that end a command early."""


def report(error: Exception, command: str) -> int:
    """Say why a command ended early; returns its exit code."""
    if isinstance(error, MissingExtra):
        error = UsageError(str(error))
    if isinstance(error, JournalFailed):
        error = Stop(f"the journal {escape(error.journal)}: {escape(error.why)}")
    warn(f"{command}: {error}")
    return error.code if isinstance(error, Stop) else 1


@contextlib.contextmanager
def explain_failures(path: str, failure: type[Exception]) -> Iterator[None]:
    """Raise ``failure``, with one line as its text, where a configuration file cannot be changed."""
    try:
        yield
    except BadConfiguration as error:
        raise failure(f"{escape(path)} was not changed: {error}") from None
    except OSError as error:
        raise failure(f"{escape(error.filename or path)}: {error.strerror}") from None
    except ToolError as error:
        raise failure(dialects.load("native").render_error(error)) from None
