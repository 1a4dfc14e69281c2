"""Show a run without a terminal: the model's text on stdout, everything else on stderr.

No colours, no spinner, line by line. On a terminal `live_display.py` takes its place.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from threading import Lock
from typing import Protocol

from handrail.agent.messages import CallFinished, Event, ModelReplied, Retrying, TextDelta
from handrail.cli.chat.summary import describe_event
from handrail.cli.output import escape_for_terminal, is_interactive, warn, write


class RunScreen(Protocol):
    """Shows a run."""

    shown: set[str]
    """The ids of calls whose changes the person has seen already."""

    def running(self, status: Callable[[], str], tail: Callable[[], list[str]]) -> AbstractContextManager[None]:
        """Around a run: ``status`` is the line of figures, ``tail`` the last lines of commands that run."""

    def paused(self) -> AbstractContextManager[None]:
        """Around something else that uses the terminal."""

    def waiting(self, on: bool) -> None:
        """The model is being asked."""

    def notice(self, event: Event) -> None:
        """Something has happened."""

    def say(self, text: str, style: str = "") -> None:
        """A line, or several, to the person."""

    def show_message(self, text: str) -> None:
        """A message of the person."""

    def diff(self, text: str) -> None:
        """Changes."""


class PlainScreen:
    """For pipes and files."""

    def __init__(self) -> None:
        self.shown: set[str] = set()
        self._line = ""
        self._lock = Lock()

    @contextlib.contextmanager
    def running(self, status: Callable[[], str], tail: Callable[[], list[str]]) -> Iterator[None]:  # noqa: ARG002
        try:
            yield
        finally:
            with self._lock:
                self._end_line()
            self.say(f"[{status()}]")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        with self._lock:
            self._end_line()
        yield

    def waiting(self, on: bool) -> None:
        pass

    def notice(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, TextDelta):
                *whole, self._line = (self._line + event.text).split("\n")
                for line in whole:
                    write(escape_for_terminal(line) + "\n")
                return
            if isinstance(event, ModelReplied | Retrying):
                self._end_line()
            for text in describe_event(event):
                warn(text)
            if isinstance(event, CallFinished) and event.diff and event.call.id not in self.shown:
                warn(event.diff.rstrip("\n"))

    def say(self, text: str, style: str = "") -> None:  # noqa: ARG002 - there are no colours here
        warn(text.rstrip("\n"))

    def show_message(self, text: str) -> None:
        pass

    def diff(self, text: str) -> None:
        write(escape_for_terminal(text))

    def _end_line(self) -> None:
        if self._line:
            write(escape_for_terminal(self._line) + "\n")
            self._line = ""


def open_screen() -> RunScreen:
    """The screen for where stdout goes."""
    if not is_interactive():
        return PlainScreen()
    from handrail.cli.chat.live_display import LiveScreen  # imports rich

    return LiveScreen(sys.stdout)
