"""Failures in words for a person."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from handrail import dialects
from handrail.cli.minimal import Stop, UsageError
from handrail.errors import JournalFailed, MissingExtra, ToolError
from handrail.files.configuration import BadConfiguration
from handrail.text.display import escape


def explain(error: Exception) -> Stop | None:
    """Why a command ended early; None for a bug of ours."""
    if isinstance(error, Stop):
        return error
    if isinstance(error, MissingExtra):
        return UsageError(str(error))
    if isinstance(error, JournalFailed):
        return Stop(f"the journal {escape(error.journal)}: {escape(error.why)}")
    return None


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
