"""Summarise a call in one line: target, outcome, size of the result and time."""

from __future__ import annotations

import json

from handrail.agent.messages import (
    CallFinished,
    CallStarted,
    Compacted,
    Event,
    ModelReplied,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCall,
)
from handrail.cli.chat.diff_lines import count_changes
from handrail.text.display import escape

MARKS = {"ok": ("✓", "green"), "partial": ("✓", "yellow"), "error": ("✗", "red"), "denied": ("⊘", "magenta")}
_MOST = 70
_FIRST, _LAST = 4, 6
"""Lines of a command's output that stay on the screen."""


def describe_call(call: ToolCall) -> str:
    """The tool, and the first thing that it was given."""
    try:
        values = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return f"{escape(call.name)} {_shorten(call.arguments)}"
    values = list(values.values()) if isinstance(values, dict) else []
    first = next((value for value in values if isinstance(value, str) and value), "")
    return f"{escape(call.name)} {_shorten(first)}".rstrip()


def mark_of(event: CallFinished) -> tuple[str, str]:
    """The sign and the colour of a finished call: a command that was stopped or failed is no success."""
    if event.stopped:
        return "■", "yellow"
    if event.exit_code:
        return "✗", "red"
    return MARKS.get(event.status, ("-", ""))


def describe_outcome(event: CallFinished) -> str:
    """The lines that an edit added and removed, or the size of the result; seconds; of a failure its first line."""
    parts = []
    if event.stopped:
        parts.append("stopped")
    elif event.exit_code:
        parts.append(f"exit {event.exit_code}")
    if event.diff and event.status in ("ok", "partial"):
        added, removed = count_changes(event.diff)
        parts.append(f"+{added} -{removed}")
    else:
        lines = len(event.text.splitlines())
        raw = len(event.text.encode("utf-8", "replace"))
        parts.append(f"{lines} line{'' if lines == 1 else 's'}, {format_size(raw)}")
    parts.append(f"{event.seconds:.2f} s")
    if event.status in ("error", "denied") and not event.command:
        parts.append(_shorten(next(iter(event.text.strip().splitlines()), ""), 160))
    return " · ".join(parts)


def fold_lines(text: str) -> tuple[list[str], int]:
    """The first and the last lines of a text with a line between that says how many are missing; and how many."""
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    left = len(lines) - _FIRST - _LAST
    if left <= 1:
        return lines, 0
    return [*lines[:_FIRST], f"… {left} more lines · Ctrl-O shows them", *lines[-_LAST:]], left


def format_size(count: int) -> str:
    for power, unit in ((20, "MB"), (10, "KB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f} {unit}"
    return f"{count} B"


def _shorten(text: str, most: int = _MOST) -> str:
    """A text on one line, with nothing in it that a terminal would obey."""
    line = escape(" ".join(text[: most * 4].split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def describe_event(event: Event) -> list[str]:
    """Describe an event in one line; events that are shown in another way give none."""
    if isinstance(event, CallFinished):
        return [f"{mark_of(event)[0]} {describe_call(event.call)} · {describe_outcome(event)}"]
    if isinstance(event, Retrying):
        return [f"{event.why}; trying again in {event.seconds:g} s"]
    if isinstance(event, Compacted):
        return [f"the conversation was compacted, from {event.before:,} to {event.after:,} tokens: {event.how}"]
    assert isinstance(event, TextDelta | ReasoningDelta | ModelReplied | CallStarted)
    return []
