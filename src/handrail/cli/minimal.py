"""Write the answer of a command to stdout, or stop with a message. It imports almost nothing, to keep help fast."""

from __future__ import annotations

import os
import sys

from handrail.drafts import IN_DRAFT


class Stop(Exception):
    """The command cannot continue; the text says why."""

    code = 1


class UsageError(Stop):
    """The command line or the configuration is wrong; nothing was done."""

    code = 2


def write(text: str) -> bool:
    """Write text to stdout in UTF-8 and flush; returns False if the reader has gone."""
    if sys.stdout is None:
        return False
    if not text.isascii():
        from handrail.text.display import replace_surrogates

        text = replace_surrogates(text)
    try:
        sys.stdout.buffer.write(text.encode("utf-8"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _silence()
        return False
    except OSError as error:
        _silence()
        raise Stop(f"the answer could not be written: {error.strerror}") from None
    return True


def _silence() -> None:
    """Point stdout at nothing, so that the interpreter does not complain about it when it ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def is_in_draft() -> bool:
    """Whether this process sees a named draft in the place of the workspace."""
    return bool(os.environ.get(IN_DRAFT))
