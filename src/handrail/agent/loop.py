"""The agent loop: ask the model, make the calls it asks for, return the results, until it asks for no more.

The model gets the session's tools, and its calls are made by the session. A failed call goes back to the model as text;
a failed request to the model is repeated, or ends the run with a message. The conversation stays usable in every case:
each call has a result.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from handrail.agent.compaction import Compaction
from handrail.agent.history import History, estimate_tokens
from handrail.agent.messages import (
    Compacted,
    Event,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCall,
    ToolResult,
    Turn,
)
from handrail.agent.model_requests import request_with_retries
from handrail.agent.providers import Cancelled, Model, ModelError, Request
from handrail.agent.repeated_reads import shorten_repeated_reads
from handrail.agent.tool_calls import Caller, ToolCallRunner
from handrail.errors import ToolError
from handrail.frozen import frozen
from handrail.pipeline.any_session import AnySession

How = Literal["done", "cancelled", "steps", "tokens", "loop", "failed"]
_GO_ON = "[Your reply was cut off at its length limit. Continue where it ended, or send less at a time.]"


@frozen
class AgentLimits:
    """The limits of a run."""

    steps: int = 100
    tokens: int = 0
    """Of input and output together, in one run; 0: as many as it takes."""
    attempts: int = 4
    wait: float = 1.0
    """Seconds before the second attempt; each further wait is twice as long."""


@frozen
class Ending:
    """How a run ended."""

    how: How
    text: str


class Agent:
    """A model with the tools of a session, and the conversation so far."""

    def __init__(
        self,
        session: AnySession,
        model: Model,
        history: History,
        notice: Callable[[Event], None] = lambda _: None,
        limits: AgentLimits | None = None,
        compaction: Compaction | None = None,
        call: Caller | None = None,
    ) -> None:
        self.session, self.model, self.history = session, model, history
        self.limits, self.compaction = limits or AgentLimits(), compaction or Compaction()
        self._notice = notice
        self._calls = ToolCallRunner(session, notice, call)
        self._cancel = threading.Event()
        self._spent = 0

    def cancel(self) -> None:
        """Stop the current run; the conversation can be continued."""
        self._cancel.set()

    def run(
        self, task: str, cancel: threading.Event | None = None, images: Sequence[Mapping[str, object]] = ()
    ) -> Ending:
        """Work on a task until the model is done, a limit is reached, or ``cancel`` is set.

        ``images`` are sent with the task: `base64` and `mime_type` of each.
        """
        self._cancel, self._spent = cancel or threading.Event(), 0
        self._calls.forget_repetitions()
        try:
            self.history.repair()
            with suppress(ToolError):  # the calls report what is wrong
                self.session.record_prompt(task)
            self.history.add(Turn("user", task, blocks=tuple(images)))
            for _ in range(self.limits.steps):
                reply = self._ask()
                self.history.add(reply.turn)
                if reply.turn.calls:
                    self.history.add(Turn("tools", results=self._make_calls(reply.turn.calls)))
                if self._cancel.is_set():
                    raise Cancelled
                if repeated := self._calls.find_loop():
                    return Ending("loop", repeated)
                if not reply.turn.calls and not reply.cut:
                    return Ending("done", reply.turn.text)
                if 0 < self.limits.tokens <= self._spent:
                    most = self.limits.tokens
                    return Ending("tokens", f"stopped: {self._spent:,} tokens used; the limit is {most:,}")
                if reply.cut:
                    self.history.add(Turn("user", _GO_ON))
        except (Cancelled, KeyboardInterrupt):
            self._cancel.set()
            return Ending("cancelled", "stopped; you can continue the conversation")
        except ModelError as error:
            return Ending("failed", str(error))
        return Ending("steps", f"stopped after {self.limits.steps} steps, which is the limit; type `continue` to go on")

    def _make_calls(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """The results of a reply's calls; a read whose text the model still has is one line."""
        results = self._calls.run(calls, self._cancel)
        return shorten_repeated_reads(self.history.turns, calls, results, self._is_read)

    def _is_read(self, name: str) -> bool:
        entry = self.session.dialect.entries.get(name)
        return entry is not None and entry.id == "read"

    def compact(self, cancel: threading.Event | None = None) -> None:
        """Make the conversation shorter now."""
        self._cancel = cancel or threading.Event()
        self._fit(force=True)

    def _ask(self) -> Reply:
        """Return the model's reply to the conversation, after compacting it if it is too long."""
        self._fit()
        try:
            return self._request(self.history.turns)
        except ModelError as error:
            if error.kind != "too_long":
                raise
        self._fit(force=True)
        return self._request(self.history.turns)

    def _request(self, turns: Sequence[Turn], *, tools: bool = True) -> Reply:
        say = (lambda text: self._notice(TextDelta(text))) if tools else lambda _: None
        reason = (lambda text: self._notice(ReasoningDelta(text))) if tools else lambda _: None
        request = Request(self.history.system, tuple(turns), self.session, say, self._cancel, tools, reason)
        limits = self.limits
        reply = request_with_retries(
            self.model, request, self.history.tokens, limits.attempts, limits.wait, self._notice
        )
        self._spent += reply.usage.input + reply.usage.output
        if tools and not reply.usage.is_estimated:
            self.history.record_usage(reply.usage)
        return reply

    def _fit(self, force: bool = False) -> None:
        """Compact the conversation if it comes near the end of the model's window."""
        before = self.history.tokens
        how = self.compaction.fit(self.history, self.model.window, self._notes, force=force)
        if how:
            self._notice(Compacted(before, self.history.tokens, how))

    def _notes(self, turns: Sequence[Turn]) -> str:
        return self._request(turns, tools=False).turn.text


def estimate_tools(session: AnySession) -> int:
    """Estimate the tokens that the descriptions of a session's tools take in every request."""
    return sum(
        estimate_tokens(spec.name) + estimate_tokens(spec.description) + estimate_tokens(json.dumps(spec.schema))
        for spec in session.specs()
    )
