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


def show_iso(nanoseconds: int) -> str:
    """The time for programs."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(nanoseconds / 1e9))


def show_day(nanoseconds: int) -> str:
    """The day: "Today", "Yesterday" or its date."""
    day = time.localtime(nanoseconds / 1e9)[:3]
    for name, seconds in (("Today", 0), ("Yesterday", 86_400)):
        if day == time.localtime(time.time() - seconds)[:3]:
            return name
    return time.strftime("%A, %B %d, %Y", time.localtime(nanoseconds / 1e9)).replace(" 0", " ")


def show_age(nanoseconds: int) -> str:
    """How long ago a time was. `page.js` has the same steps."""
    seconds = max(0, time.time() - nanoseconds / 1e9)
    for unit, length, most in (("min", 60, 60), ("h", 3_600, 24), ("d", 86_400, 7)):
        if seconds < length * most:
            return f"{seconds // length:.0f} {unit} ago" if seconds >= length else "just now"
    return time.strftime("%Y-%m-%d", time.localtime(nanoseconds / 1e9))


def show_duration(milliseconds: float | None) -> str:
    """A duration in the unit that fits."""
    if milliseconds is None:
        return ""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
