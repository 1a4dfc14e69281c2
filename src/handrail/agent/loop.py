"""The loop: ask the model, make the calls it wants, give back what they came to, until it has no more to ask for.

One list of tools, the session's, is what the model is told and what its calls are looked up in. Whatever goes wrong in
a call goes back to the model as text; what goes wrong on the way to the model is tried again, or ends the run with a
sentence. The conversation stays usable in every case: a call is never left without its result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from handrail.agent.compaction import Compaction
from handrail.agent.history import History, size
from handrail.agent.messages import Compacted, Event, Reply, Said, Turn
from handrail.agent.model_requests import patiently
from handrail.agent.providers import Cancelled, Model, ModelError, Request
from handrail.agent.tool_calls import Caller, Hands
from handrail.pipeline.session import Session

How = Literal["done", "cancelled", "steps", "tokens", "failed"]
_GO_ON = "[Your reply was cut off at the limit of its length. Go on where it ended, or send less at once.]"


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go."""

    steps: int = 100
    tokens: int = 0
    """Of input and output together, in one run; 0: as many as it takes."""
    attempts: int = 4
    wait: float = 1.0
    """Seconds before the second attempt; each further wait is twice as long."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    how: How
    text: str


class Agent:
    """A model with hands, and the conversation so far."""

    def __init__(
        self,
        session: Session,
        model: Model,
        history: History,
        notice: Callable[[Event], None] = lambda _: None,
        limits: Limits | None = None,
        compaction: Compaction | None = None,
        call: Caller | None = None,
    ) -> None:
        self.session, self.model, self.history = session, model, history
        self.limits, self.compaction = limits or Limits(), compaction or Compaction()
        self._notice = notice
        self._hands = Hands(session, notice, call)
        self._cancel = threading.Event()
        self._spent = 0

    def cancel(self) -> None:
        """Stop the run that goes on; the conversation can be continued."""
        self._cancel.set()

    def run(self, task: str, cancel: threading.Event | None = None) -> Ending:
        """Work on a task until the model is done, has to stop, or ``cancel`` is set, be it before this has begun."""
        self._cancel, self._spent = cancel or threading.Event(), 0
        try:
            self.history.repair()
            self.history.add(Turn("user", task))
            for _ in range(self.limits.steps):
                reply = self._ask()
                self.history.add(reply.turn)
                if reply.turn.uses:
                    self.history.add(Turn("tools", given=self._hands.make(reply.turn.uses, self._cancel)))
                if self._cancel.is_set():
                    raise Cancelled
                if not reply.turn.uses and not reply.cut:
                    return Ending("done", reply.turn.text)
                if 0 < self.limits.tokens <= self._spent:
                    most = self.limits.tokens
                    return Ending("tokens", f"stopped: {self._spent:,} tokens were used, the limit is {most:,}")
                if reply.cut:
                    self.history.add(Turn("user", _GO_ON))
        except (Cancelled, KeyboardInterrupt):
            self._cancel.set()
            return Ending("cancelled", "stopped, as you asked; the conversation can go on")
        except ModelError as error:
            return Ending("failed", str(error))
        return Ending("steps", f"stopped after {self.limits.steps} steps, the limit; say `go on` to continue")

    def compact(self, cancel: threading.Event | None = None) -> None:
        """Make the conversation shorter now."""
        self._cancel = cancel or threading.Event()
        self._fit(force=True)

    def _ask(self) -> Reply:
        """The model's reply to the conversation, which is made to fit before."""
        self._fit()
        try:
            return self._patiently(self.history.turns)
        except ModelError as error:
            if error.kind != "too_long":
                raise
        self._fit(force=True)
        return self._patiently(self.history.turns)

    def _patiently(self, turns: Sequence[Turn], *, tools: bool = True) -> Reply:
        say = (lambda text: self._notice(Said(text))) if tools else lambda _: None
        request = Request(self.history.system, tuple(turns), self.session, say, self._cancel, tools)
        reply = patiently(self.model, request, self.limits.attempts, self.limits.wait, self._notice)
        usage = reply.usage
        self._spent += usage.input + usage.output or self.history.tokens + size(reply.turn)  # some servers do not count
        if tools:
            self.history.counted(usage)
        return reply

    def _fit(self, force: bool = False) -> None:
        """Make the conversation shorter, if it comes near the end of the model's window."""
        before = self.history.tokens
        how = self.compaction.fit(self.history, self.model.window, self._notes, force=force)
        if how:
            self._notice(Compacted(before, self.history.tokens, how))

    def _notes(self, turns: Sequence[Turn]) -> str:
        return self._patiently(turns, tools=False).turn.text
