"""The conversation so far: its turns, their size in tokens, and where they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handrail.agent.messages import ToolCall, ToolResult, Turn, Usage

_BYTES_A_TOKEN = 4
_LEAST_SAMPLE = 20
"""Estimated tokens of new turns from which the estimate is compared with the model's count."""
_LOWEST, _HIGHEST = 0.5, 4.0
_IMAGE_TOKENS = 1_600
"""Tokens of an image; the APIs scale larger ones down."""


class TurnWriter(Protocol):
    """Stores turns as they are added."""

    def add(self, turn: Turn) -> None: ...

    def replace(self, turns: Sequence[Turn]) -> None:
        """Continue the conversation from these turns."""


class History:
    """Turns, in the order in which the model sees them. A reply with calls is always followed by their results."""

    def __init__(
        self, system: str, turns: Sequence[Turn] = (), keeper: TurnWriter | None = None, overhead: int = 0
    ) -> None:
        self.system = system
        self.turns: list[Turn] = list(turns)
        self._keeper = keeper
        self._counted = overhead + estimate_tokens(system)
        """Tokens of a request with the first `_counted_turns` turns: the model's own count as soon as there is one."""
        self._counted_turns = 0
        self._has_count = False
        self._measured = self._expected = 0
        self.repair()

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)
        if self._keeper:
            self._keeper.add(turn)

    def replace(self, turns: Sequence[Turn]) -> None:
        """Continue from other turns."""
        self._counted, self._counted_turns = self.overhead, 0
        self.turns = list(turns)
        if self._keeper:
            self._keeper.replace(turns)

    def record_usage(self, usage: Usage) -> None:
        """Take over the model's own count of the tokens so far, and learn how far the estimate of new turns was off."""
        if not usage.input:
            return
        expected, actual = self._estimate_from(self._counted_turns), usage.input - self._counted
        if self._has_count and expected >= _LEAST_SAMPLE and actual > 0:
            self._measured += actual
            self._expected += expected
        self._counted, self._counted_turns, self._has_count = usage.input, len(self.turns), True

    @property
    def tokens(self) -> int:
        """The tokens of the next request: the model's count of the last one, and an estimate of what is new."""
        return self._counted + int(self._estimate_from(self._counted_turns) * self.ratio)

    @property
    def ratio(self) -> float:
        """How many tokens the model counts for one that is estimated, as far as that was measured."""
        return min(max(self._measured / self._expected, _LOWEST), _HIGHEST) if self._expected else 1.0

    @property
    def overhead(self) -> int:
        """The tokens of a request besides its turns: the system prompt and the tools."""
        turns = sum(map(size, self.turns[: self._counted_turns]))
        return max(int(self._counted - turns * self.ratio), estimate_tokens(self.system))

    def _estimate_from(self, start: int) -> int:
        return sum(map(size, self.turns[start:]))

    @property
    def fixed(self) -> int:
        """Estimate the tokens of the system prompt, which compaction cannot save."""
        return estimate_tokens(self.system)

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


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: a quarter of its bytes, which also holds for text that is not Latin."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "replace"))) // _BYTES_A_TOKEN


def size(turn: Turn) -> int:
    """Estimate the tokens of a turn."""
    tokens = estimate_tokens(turn.text) + 4
    tokens += sum(estimate_tokens(call.arguments) + estimate_tokens(call.name) + 5 for call in turn.calls)
    tokens += sum(estimate_tokens(result.text) + 5 for result in turn.results)
    pictures = len(turn.blocks) + sum(len(result.blocks) for result in turn.results)
    return tokens + pictures * _IMAGE_TOKENS
