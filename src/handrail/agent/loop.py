"""The loop: ask the model, make the calls it wants, give back what they came to, until it has no more to ask for.

One list of tools, the session's, is what the model is told and what its calls are looked up in. Whatever goes wrong in
a call goes back to the model as text; what goes wrong on the way to the model is tried again, or ends the run with a
sentence. The conversation stays usable in every case: a call is never left without its result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from handrail.agent.compaction import Compaction
from handrail.agent.hands import Caller, Hands
from handrail.agent.history import History
from handrail.agent.providers import Cancelled, Model, ModelError
from handrail.agent.talk import Asked, Compacted, Event, Reply, Said, Turn, Waiting
from handrail.session import Session

How = Literal["done", "cancelled", "steps", "tokens", "failed"]


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

    def cancel(self) -> None:
        """Stop what is going on; the conversation can be continued."""
        self._cancel.set()

    def run(self, task: str) -> Ending:
        """Work on a task until the model is done, or has to stop."""
        self._cancel.clear()
        self.history.mend()
        self.history.add(Turn("user", task))
        spent = 0
        try:
            for _ in range(self.limits.steps):
                reply = self._ask()
                self.history.add(reply.turn)
                spent += reply.usage.input + reply.usage.output
                if reply.turn.uses:
                    self.history.add(Turn("tools", given=self._hands.make(reply.turn.uses, self._cancel)))
                if self._cancel.is_set():
                    return Ending("cancelled", "stopped, as you asked; the conversation can go on")
                if not reply.turn.uses:
                    return Ending("done", reply.turn.text)
                if 0 < self.limits.tokens <= spent:
                    return Ending("tokens", f"stopped: {spent:,} tokens were used, the limit is {self.limits.tokens:,}")
        except (Cancelled, KeyboardInterrupt):
            return Ending("cancelled", "stopped, as you asked; the conversation can go on")
        except ModelError as error:
            return Ending("failed", str(error))
        return Ending("steps", f"stopped after {self.limits.steps} steps, the limit; say `go on` to continue")

    def compact(self) -> None:
        """Make the conversation shorter now."""
        self._cancel.clear()
        self._fit(force=True)

    def _ask(self) -> Reply:
        """The model's reply; trouble on the way is waited out, as far as that helps."""
        wait = self.limits.wait
        self._fit()
        for attempt in range(1, self.limits.attempts + 1):
            started = time.monotonic()
            try:
                reply = self.model.reply(
                    self.history.system, self.history.turns, self.session, self._said, self._cancel
                )
                if reply.turn.text.strip() or reply.turn.uses:
                    self.history.counted(reply.usage)
                    self._notice(Asked(reply.turn.text, reply.usage, time.monotonic() - started))
                    return reply
                error = ModelError("the model answered with nothing at all", "empty", retry=True)
            except ModelError as failed:
                error = failed
            if error.kind == "too_long" and attempt == 1:
                self._fit(force=True)
                continue
            if not error.retry or attempt == self.limits.attempts:
                raise error
            seconds = error.after if error.after is not None else wait
            self._notice(Waiting(str(error), seconds, attempt))
            if self._cancel.wait(seconds):
                raise Cancelled
            wait *= 2
        raise AssertionError("unreachable")

    def _said(self, text: str) -> None:
        self._notice(Said(text))

    def _fit(self, force: bool = False) -> None:
        """Make the conversation shorter, if it comes near the end of the model's window."""
        before = self.history.tokens
        how = self.compaction.fit(self.history, self.model, self.session, self._cancel, force=force)
        if how:
            self._notice(Compacted(before, self.history.tokens, how))
