"""Ask for approval during a run: the live display pauses, and Ctrl-C also ends the question."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from handrail.approval.terminal import TerminalAsker
from handrail.approval.tty import Tty
from handrail.model import Answer, Question


class Pausing(Protocol):
    """Something that draws, and can be held still."""

    def paused(self) -> AbstractContextManager[None]: ...

    def say(self, text: str, style: str = "") -> None: ...


class StoppableTty(Tty):
    """A terminal at which waiting for a key can be ended by another thread."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self.stopped = threading.Event()
        self._wait, self._wake = os.pipe()
        os.set_blocking(self._wait, False)
        os.set_blocking(self._wake, False)

    def close(self) -> None:
        super().close()
        os.close(self._wait)
        os.close(self._wake)

    def stop(self) -> None:
        """Whoever waits gets nothing."""
        self.stopped.set()
        try:
            os.write(self._wake, b"!")
        except BlockingIOError:  # it is awake already
            return

    def restart(self) -> None:
        self.stopped.clear()
        try:
            os.read(self._wait, 4096)
        except BlockingIOError:
            return

    def read(self, most: int) -> bytes:
        ready, _, _ = select.select([self.fd, self._wait], [], [])
        return b"" if self._wait in ready else super().read(most)

    def line(self, prompt: str) -> str:
        return "" if self.stopped.is_set() else super().line(prompt)


class Person:
    """The `approve` of a session in which a run is being shown."""

    def __init__(self, tty: StoppableTty, screen: Pausing) -> None:
        self.tty = tty
        self.asked: set[str] = set()
        """The ids of calls whose preview the person has seen."""
        self._screen = screen
        self._lock = threading.Lock()
        self._asker: TerminalAsker | None = None

    def __call__(self, question: Question) -> Answer:
        with self._lock:
            if self.tty.stopped.is_set():
                return Answer(False, "the run was stopped before the question was asked")
            with self._screen.paused():
                self._asker = self._asker or TerminalAsker(self.tty)
                self.asked.add(question.call.id)
                answer = self._asker(question)
            if answer.hunks is not None:
                self._screen.say(describe_choice(question, answer.hunks), "yellow")
            return answer


def describe_choice(question: Question, hunks: Mapping[str, Sequence[int]]) -> str:
    """How many of the shown hunks the person kept."""
    total = sum(len(file.hunks) for file in question.files)
    left_out = sum(len(file.hunks) - len(hunks[file.path]) for file in question.files if file.path in hunks)
    return f"{total - left_out} of {total} hunks kept"


def find_person(screen: Pausing) -> Person | None:
    """The person at the terminal, if there is one."""
    tty = StoppableTty.open()
    return Person(tty, screen) if isinstance(tty, StoppableTty) else None
