"""The conversation so far: its turns, how many tokens they are, and where they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handrail.agent.messages import Given, Turn, Usage, Use

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
        self.repair()

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)
        if self._keeper:
            self._keeper.add(turn)

    def replace(self, turns: Sequence[Turn]) -> None:
        """Go on from other turns."""
        before = self._guess
        self.turns = list(turns)
        self._more = self._more * min(before, self._guess) // max(before, 1)  # much of it was of what has gone
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

    @property
    def fixed(self) -> int:
        """About how many of these tokens no shorter conversation would save."""
        return len(self.system) // _CHARS_A_TOKEN

    def repair(self) -> None:
        """Complete a conversation that was cut off during calls, or that two processes wrote at once."""
        repaired = whole(self.turns)
        if len(repaired) == len(self.turns) + 1 and repaired[:-1] == self.turns:
            self.add(repaired[-1])
        elif repaired != self.turns:
            self.replace(repaired)


INTERRUPTED = "The program ended while this call was made: it may have been made or not. Look before you go on."


def whole(turns: Sequence[Turn]) -> list[Turn]:
    """The same turns, where every call has its result right behind it, and every result its call."""
    found: list[Turn] = []
    for turn in turns:
        uses = found[-1].uses if found else ()
        if turn.role == "tools":
            if uses:
                found.append(turn if _fits(turn, uses) else Turn("tools", given=_results(uses, turn.given)))
            continue
        if uses:
            found.append(Turn("tools", given=_results(uses)))
        found.append(turn)
    if found and found[-1].uses:
        found.append(Turn("tools", given=_results(found[-1].uses)))
    return found


def _fits(turn: Turn, uses: Sequence[Use]) -> bool:
    return [given.id for given in turn.given] == [use.id for use in uses]


def _results(uses: Sequence[Use], given: Sequence[Given] = ()) -> tuple[Given, ...]:
    known = {one.id: one for one in given}
    return tuple(known.get(use.id) or Given(use.id, use.name, INTERRUPTED, ok=False) for use in uses)


def size(turn: Turn) -> int:
    """About how many tokens a turn is."""
    chars = len(turn.text) + sum(len(use.arguments) + len(use.name) + 20 for use in turn.uses)
    chars += sum(len(given.text) + 20 for given in turn.given)
    pictures = sum(len(given.blocks) for given in turn.given)
    return chars // _CHARS_A_TOKEN + pictures * _PICTURE + 4
