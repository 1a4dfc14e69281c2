"""Events as JSON lines on stdout, and nothing else: for scripts that follow a run."""

from __future__ import annotations

import threading
from collections.abc import Callable

from handrail.agent.messages import Event, event_json
from handrail.cli.chat.screen import PlainScreen
from handrail.cli.output import as_line, write


class JsonEvents(PlainScreen):
    """A screen that only programs look at."""

    def __init__(self) -> None:
        super().__init__()
        self.gone: Callable[[], None] = lambda: None
        """Called when nobody reads the events any more."""
        self._writing = threading.Lock()

    def notice(self, event: Event) -> None:
        self.line(event_json(event))

    def say(self, text: str, style: str = "") -> None:
        pass

    def line(self, value: dict[str, object]) -> None:
        with self._writing:
            heard = write(as_line(value) + "\n")
        if not heard:
            self.gone()
