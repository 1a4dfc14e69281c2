"""Progress messages of a running call, made from the events of its session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from handrail.pipeline.events import ToolOutput, ToolProgress

if TYPE_CHECKING:
    from handrail.pipeline.events import SessionEvent

_LONGEST = 200
"""Characters of a line of output."""


class CallProgress:
    """How long a call has run, and its last report or line of output."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._started = time.monotonic()
        self._latest = ""

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._started, 1)

    def take_event(self, event: SessionEvent) -> None:
        """Remember what an event says; called from any thread."""
        if isinstance(event, ToolOutput):
            lines = [line.strip() for line in event.text.splitlines()]
            self._latest = next((line for line in reversed(lines) if line), self._latest)[:_LONGEST]
        elif isinstance(event, ToolProgress) and event.done is not None:
            whole = f" of {event.total:g}" if event.total is not None else ""
            self._latest = f"{event.message}, {event.done:g}{whole}"
        elif isinstance(event, ToolProgress) and event.message != "running":
            self._latest = event.message

    def describe(self) -> str:
        """The message for the client: `Bash: 3 s: compiling main.c`."""
        return f"{self._tool}: {self.seconds:.0f} s" + (f": {self._latest}" if self._latest else "")
