"""The conversation so far: its turns, their size in tokens, and where they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handrail.agent.messages import ToolCall, ToolResult, Turn, Usage

_CHARS_A_TOKEN = 4
_IMAGE_TOKENS = 1_600
"""Tokens of an image; the APIs scale larger ones down."""


class TurnWriter(Protocol):
    """Stores turns as they are added."""

    def add(self, turn: Turn) -> None: ...

    def replace(self, turns: Sequence[Turn]) -> None:
        """Continue the conversation from these turns."""


class History:
    """Turns, in the order in which the model sees them. A reply with calls is always followed by their results."""

    def __init__(self, system: str, turns: Sequence[Turn] = (), keeper: TurnWriter | None = None) -> None:
        self.system = system
        self.turns: list[Turn] = list(turns)
        self._keeper = keeper
        self._more = 0
        """Tokens that a request has besides its turns, by the model's own count: the tools above all."""
        self.repair()

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)
        if self._keeper:
            self._keeper.add(turn)

    def replace(self, turns: Sequence[Turn]) -> None:
        """Continue from other turns."""
        before = self._estimate
        self.turns = list(turns)
        self._more = self._more * min(before, self._estimate) // max(before, 1)  # much of it was of what has gone
        if self._keeper:
            self._keeper.replace(turns)

    def record_usage(self, usage: Usage) -> None:
        """Take over the model's own count of the tokens so far."""
        if usage.input:
            self._more = max(0, usage.input - self._estimate)

    @property
    def tokens(self) -> int:
        """Estimate the tokens of the next request."""
        return self._estimate + self._more

    @property
    def _estimate(self) -> int:
        return len(self.system) // _CHARS_A_TOKEN + sum(map(size, self.turns))

    @property
    def fixed(self) -> int:
        """Estimate the tokens that compaction cannot save."""
        return len(self.system) // _CHARS_A_TOKEN

    def repair(self) -> None:
        """Complete a conversation that was cut off during calls, or that two processes wrote at once."""
        repaired = complete_turns(self.turns)
        if len(repaired) == len(self.turns) + 1 and repaired[:-1] == self.turns:
            self.add(repaired[-1])
        elif repaired != self.turns:
            self.replace(repaired)


INTERRUPTED = "The program ended during this call: it may have run or not. Check before you continue."


def complete_turns(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns with a result right after every call, and without results that have no call."""
    complete: list[Turn] = []
    for turn in turns:
        calls = complete[-1].calls if complete else ()
        if turn.role == "tools":
            if calls:
                complete.append(
                    turn if _fits(turn, calls) else Turn("tools", results=_collect_results(calls, turn.results))
                )
            continue
        if calls:
            complete.append(Turn("tools", results=_collect_results(calls)))
        complete.append(turn)
    if complete and complete[-1].calls:
        complete.append(Turn("tools", results=_collect_results(complete[-1].calls)))
    return complete


def _fits(turn: Turn, calls: Sequence[ToolCall]) -> bool:
    return [result.id for result in turn.results] == [call.id for call in calls]


def _collect_results(calls: Sequence[ToolCall], known_results: Sequence[ToolResult] = ()) -> tuple[ToolResult, ...]:
    known = {one.id: one for one in known_results}
    return tuple(known.get(call.id) or ToolResult(call.id, call.name, INTERRUPTED, ok=False) for call in calls)


def size(turn: Turn) -> int:
    """Estimate the tokens of a turn."""
    chars = len(turn.text) + sum(len(call.arguments) + len(call.name) + 20 for call in turn.calls)
    chars += sum(len(result.text) + 20 for result in turn.results)
    images = sum(len(result.blocks) for result in turn.results)
    return chars // _CHARS_A_TOKEN + images * _IMAGE_TOKENS + 4
