"""Failures to change a configuration file, in words for a person."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from handrail import dialects
from handrail.errors import ToolError
from handrail.files.configuration import BadConfiguration
from handrail.text.display import escape


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
