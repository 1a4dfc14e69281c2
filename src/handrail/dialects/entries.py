"""A tool's place in a dialect, and how a call in the dialect's names becomes one in ours."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handrail.errors import BadPath, NothingToChange


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool's place in a dialect: its name there, and what the dialect sets."""

    name: str
    id: str
    called: Sequence[str] = ()
    """Other names that the tool answers to, though models are not told of them."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """The dialect's argument names -> ours."""
    also: Mapping[str, str] = field(default_factory=dict)
    """Further argument names that are understood, though models are not told of them -> ours."""
    unused: Sequence[str] = ()
    """Arguments that are taken and not looked at: what a model says of the call to itself or to a person."""
    spread: Sequence[str] = ()
    """Arguments that are objects, whose members are arguments of the call."""
    filled: Sequence[str] = ()
    """Paths that must be there and not be blank; told before anything else."""
    differ: Sequence[str] = ()
    """Two texts that must not be the same; told before any file is looked at."""
    whole: Sequence[str] = ()
    """Numbers from 1 on that are cut to whole ones; what is below 1 or no number is as if it had not been given."""
    add: Mapping[str, int] = field(default_factory=dict)
    """What to add to a number that the dialect counts from elsewhere: `offset = 1` if it counts lines from 0."""
    scale: Mapping[str, float] = field(default_factory=dict)
    """What to multiply a number with that the dialect gives in another unit."""
    invert: Sequence[str] = ()
    """Switches that the dialect asks the other way round."""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For some arguments, what the dialect's words for a value mean: `path = { "/" = "." }`; `true` for a switch."""
    preset: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ours that are given unless the model gives them."""
    forgets: bool = False
    """Whether the files that a call has written must be read again before they are changed once more."""
    data: Mapping[str, str] = field(default_factory=dict)
    """For a renderer that shows data: its names -> ours."""
    limits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def renamed(self) -> dict[str, str]:
        """Every argument name of the dialect that is not ours -> ours; what models are told of goes first."""
        return {**self.also, **self.rename}

    def ours(
        self, arguments: Mapping[str, Any], known: Collection[str], needed: Collection[str]
    ) -> tuple[dict[str, Any], list[str]]:
        """A call's arguments in our names, and the names that are neither ``known`` nor understood besides."""
        given = self._spread(arguments)
        self._check(given)
        found: dict[str, Any] = dict(self.preset)
        unknown = []
        names = self.renamed
        # Names that models are told of come last, so that they win over an older name for the same thing.
        for theirs, value in sorted(given.items(), key=lambda item: item[0] in known):
            if theirs in self.unused:
                continue
            if theirs not in known and theirs not in self.also:
                unknown.append(theirs)
            elif not (value is None and theirs not in needed):  # null: as if it had not been given
                value = self._value(theirs, value)
                if value is not None or theirs in needed:
                    found[names.get(theirs, theirs)] = value
        return found, unknown

    def _spread(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        found = dict(arguments)
        for name in self.spread:
            if isinstance(found.get(name), Mapping):
                found = {**found.pop(name), **found}
        return found

    def _check(self, given: Mapping[str, Any]) -> None:
        for name in self.filled:
            value = given.get(name)
            if not isinstance(value, str) or not value.strip():
                raise BadPath(path=value if isinstance(value, str) else "", why="it is empty", blank=True)
        texts = [given.get(name) for name in self.differ]
        if texts and isinstance(texts[0], str) and all(text == texts[0] for text in texts):
            raise NothingToChange(old=texts[0])

    def _value(self, theirs: str, value: Any) -> Any:
        if theirs in self.whole:
            value = _whole(value)
        value = _scaled(_added(value, self.add.get(theirs, 0)), self.scale.get(theirs))
        if theirs in self.invert:
            value = _inverted(value)
        word = str(value).lower() if isinstance(value, bool) else value
        return self.values.get(theirs, {}).get(word, value) if isinstance(word, str) else value


def _whole(value: Any) -> int | None:
    """A number from 1 on without its fraction, a model's "12" too; None for anything else."""
    if isinstance(value, str) and len(value) < 20:
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return math.trunc(value) if 1 <= value < math.inf else None


def _added(value: Any, more: int) -> Any:
    """A number counted from elsewhere; one below zero counts from the end and stays, and so does what is no number."""
    if more and isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        value = int(value)  # a model's "12"
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return value + more if numeric and value >= 0 else value


def _scaled(value: Any, factor: float | None) -> Any:
    """A number in our unit; what is no number stays, and is refused later."""
    if factor is None or isinstance(value, bool):
        return value
    try:
        return float(value) * factor if isinstance(value, int | float | str) else value
    except (ValueError, OverflowError):
        return value


def _inverted(value: Any) -> Any:
    """A switch the other way round; a model's "true" too; what is no switch stays, and is refused later."""
    value = {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value
    return not value if isinstance(value, bool) else value
