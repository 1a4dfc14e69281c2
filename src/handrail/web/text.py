"""Text for the pages: no character of it moves, hides or turns the text around it."""

from __future__ import annotations

import time

from handrail.approval.screen import escape_for_terminal
from handrail.text.display import replace_surrogates


def show_text(text: str) -> str:
    """Text of several lines with control characters and bidi controls as escapes; lines and tabs stay."""
    return escape_for_terminal(replace_surrogates(text))


def show_time(nanoseconds: int) -> str:
    """The local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(nanoseconds / 1e9))


def show_duration(milliseconds: float | None) -> str:
    """A duration in the unit that fits."""
    if milliseconds is None:
        return ""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
