"""Questions of other Handrail processes that wait for an answer, and what became of those that were answered.

The process that asks decides whose answer was first, and tells everybody else.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from queue import Empty
from typing import Literal

from handrail.approval.ask_attached import read_answer
from handrail.approval.attached_terminal import ApprovalServer, IncomingQuestion
from handrail.approval.json_socket import Disconnected
from handrail.model import Answer, Question

_MOST_REMEMBERED = 200
_CONFIRM_SECONDS = 3.0
"""How long the process that asked has to confirm an answer."""

_RELOAD_SECONDS = 10.0
_LOOK_SECONDS = 1.0
"""How often it is looked whether anybody is left."""

Outcome = Literal["accepted", "late", "invalid", "unknown"]


@dataclass(slots=True)
class PageQuestion:
    """A question on the page."""

    id: str
    incoming: IncomingQuestion
    arrived: float = field(default_factory=time.time)
    ended: str = ""
    """Why it need not be answered any more."""
    answering: threading.Lock = field(default_factory=threading.Lock)

    @property
    def question(self) -> Question:
        return self.incoming.question

    @property
    def asking(self) -> str:
        """Who asks."""
        return self.question.client or f"process {self.incoming.pid}"


class Attendance:
    """Whether somebody has a page open. One that is closed counts a while longer: the next one may be loading."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._last_closed = -math.inf

    @contextlib.contextmanager
    def attend(self) -> Iterator[None]:
        """Put around the time for which a page is open."""
        with self._lock:
            self._open += 1
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1
                self._last_closed = time.monotonic()

    def is_attended(self) -> bool:
        with self._lock:
            return self._open > 0 or time.monotonic() - self._last_closed < _RELOAD_SECONDS


class OpenQuestions:
    """Collects the questions that an `ApprovalServer` receives, and hands them back when the last page is closed."""

    def __init__(self, server: ApprovalServer, attendance: Attendance) -> None:
        self._server = server
        self._attendance = attendance
        self._lock = threading.Lock()
        self._known: dict[str, PageQuestion] = {}
        self.changes = 0
        """Counts what comes and goes."""
        threading.Thread(target=self._collect, name="handrail-questions", daemon=True).start()

    def _collect(self) -> None:
        while not self._server.closed:
            try:
                question = PageQuestion(secrets.token_hex(8), self._server.questions.get(timeout=_LOOK_SECONDS))
            except Empty:
                self._abandon_unattended()
                continue
            with self._lock:
                self._known[question.id] = question
                ended = [one for one in self._known.values() if one.ended]
                for old in ended[: max(0, len(self._known) - _MOST_REMEMBERED)]:
                    del self._known[old.id]
                self.changes += 1

    def _abandon_unattended(self) -> None:
        if not self._attendance.is_attended():
            for one in self.list_open():
                one.incoming.abandon("the page was closed")

    def list_open(self) -> list[PageQuestion]:
        """Those that wait for an answer, the oldest first."""
        with self._lock:
            known = list(self._known.values())
        for one in known:
            if one.incoming.over and not one.ended:
                self._end(one, one.incoming.over)
        return [one for one in known if not one.ended]

    def find(self, id: str) -> PageQuestion | None:
        """A question, also one that was answered a while ago."""
        self.list_open()
        return self._known.get(id)

    def answer(self, id: str, answer: Answer) -> tuple[Outcome, str]:
        """Give an answer; returns what became of it, in a word and a sentence."""
        question = self.find(id)
        if question is None:
            return "unknown", "This question is not known here, or was answered long ago."
        try:
            read_answer(answer.as_json(), question.question)
        except Disconnected:
            return "invalid", "The answer does not fit the question."
        with question.answering:
            if question.ended:
                return "late", f"This question needs no answer any more: {question.ended}."
            try:
                sent = question.incoming.answer(answer)
            except ValueError:
                return "invalid", "The answer is too long to be sent."
            if sent:
                question.incoming.wait_until_over(_CONFIRM_SECONDS)
            accepted = sent and question.incoming.accepted
            why = question.incoming.over or "the asking process has ended"
            self._end(question, f"it was answered {describe_answer(answer)} on this page" if accepted else why)
            if accepted:
                return "accepted", f"Answered: {describe_answer(answer)}."
            return "late", f"This question needs no answer any more: {why}."

    def _end(self, question: PageQuestion, why: str) -> None:
        with self._lock:
            if question.ended:
                return
            question.ended = why
            self.changes += 1
        with contextlib.suppress(OSError):
            question.incoming.close()


def describe_answer(answer: Answer) -> str:
    """An answer in a few words."""
    if not answer.yes:
        return "no"
    return {"once": "yes", "session": "yes, for the session", "always": "yes, always"}[answer.lasting]
