"""The conversation so far: its turns, how many tokens they are, and where they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handrail.agent.talk import Given, Turn, Usage

_CHARS_A_TOKEN = 4
_PICTURE = 1_600
"""Tokens that a picture counts for; the APIs scale larger ones down."""


class Keeper(Protocol):
    """Writes turns down as they come."""

    def add(self, turn: Turn) -> None: ...

    def replace(self, turns: Sequence[Turn]) -> None:
        """The conversation goes on from these."""


class History:
    """Turns, in the order in which the model sees them. A reply with calls is always followed by their results."""

    def __init__(self, system: str, turns: Sequence[Turn] = (), keeper: Keeper | None = None) -> None:
        self.system = system
        self.turns: list[Turn] = list(turns)
        self._keeper = keeper
        self._more = 0
        """Tokens that a request has besides its turns, by the model's own count: the tools above all."""
        self.mend()

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)
        if self._keeper:
            self._keeper.add(turn)

    def replace(self, turns: Sequence[Turn]) -> None:
        """Go on from other turns."""
        self.turns = list(turns)
        if self._keeper:
            self._keeper.replace(turns)

    def counted(self, usage: Usage) -> None:
        """What the model itself says that the conversation so far is, in tokens."""
        if usage.input:
            self._more = max(0, usage.input - self._guess)

    @property
    def tokens(self) -> int:
        """About how many tokens the next request will have."""
        return self._guess + self._more

    @property
    def _guess(self) -> int:
        return len(self.system) // _CHARS_A_TOKEN + sum(map(size, self.turns))

    def mend(self) -> None:
        """A conversation that was cut off while calls were made: they get a result that says so."""
        last = self.turns[-1] if self.turns else None
        if last and last.role == "assistant" and last.uses:
            given = tuple(Given(use.id, use.name, INTERRUPTED, ok=False) for use in last.uses)
            self.add(Turn("tools", given=given))


INTERRUPTED = "The program ended while this call was made: it may have been made or not. Look before you go on."


def size(turn: Turn) -> int:
    """About how many tokens a turn is."""
    chars = len(turn.text) + sum(len(use.arguments) + len(use.name) + 20 for use in turn.uses)
    chars += sum(len(given.text) + 20 for given in turn.given)
    pictures = sum(len(given.blocks) for given in turn.given)
    return chars // _CHARS_A_TOKEN + pictures * _PICTURE + 4
