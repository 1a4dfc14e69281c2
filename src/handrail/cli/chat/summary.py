"""Summarise a call in one line: target, outcome, size of the result and time."""

from __future__ import annotations

import json

from handrail.agent.messages import (
    CallFinished,
    CallStarted,
    Compacted,
    Event,
    ModelReplied,
    Retrying,
    TextDelta,
    ToolCall,
)
from handrail.text.display import escape

MARKS = {"ok": ("✓", "green"), "partial": ("✓", "yellow"), "error": ("✗", "red"), "denied": ("⊘", "magenta")}
_MOST = 70


def about(call: ToolCall) -> str:
    """The tool, and the first thing that it was given."""
    try:
        values = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return f"{escape(call.name)} {_shorten(call.arguments)}"
    values = list(values.values()) if isinstance(values, dict) else []
    first = next((value for value in values if isinstance(value, str) and value), "")
    return f"{escape(call.name)} {_shorten(first)}".rstrip()


def outcome(event: CallFinished) -> str:
    """Size and seconds; of a failure also its first line."""
    lines = len(event.text.splitlines())
    raw = len(event.text.encode("utf-8", "replace"))
    text = f"{lines} line{'' if lines == 1 else 's'}, {size(raw)} · {event.seconds:.2f} s"
    if event.status in ("error", "denied"):
        text += f" · {_shorten(next(iter(event.text.strip().splitlines()), ''), 160)}"
    return text


def size(count: int) -> str:
    for power, unit in ((20, "MB"), (10, "KB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f} {unit}"
    return f"{count} B"


def _shorten(text: str, most: int = _MOST) -> str:
    """A text on one line, with nothing in it that a terminal would obey."""
    line = escape(" ".join(text[: most * 4].split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def event_lines(event: Event) -> list[str]:
    """Describe an event in one line; events that are shown in another way give none."""
    if isinstance(event, CallFinished):
        return [f"{MARKS.get(event.status, ('-', ''))[0]} {about(event.call)} · {outcome(event)}"]
    if isinstance(event, Retrying):
        return [f"{event.why}; trying again in {event.seconds:g} s"]
    if isinstance(event, Compacted):
        return [f"the conversation was compacted, from {event.before:,} to {event.after:,} tokens: {event.how}"]
    assert isinstance(event, TextDelta | ModelReplied | CallStarted)
    return []
