"""One tool of a dialect: its entry in `tools.toml`, and the translation of its arguments to those of the engine."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handrail.errors import BadPath, NothingToChange


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One `[tools.NAME]` of a dialect."""

    name: str
    id: str
    adapter: str = ""
    """A Python file of the folder whose `TOOL` takes the place of the tool; only for dialects of installed packages."""
    called: Sequence[str] = ()
    """Other names of the tool, accepted but not shown to models."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """The dialect's argument names -> ours."""
    also: Mapping[str, str] = field(default_factory=dict)
    """Other argument names, accepted but not shown to models -> ours."""
    unused: Sequence[str] = ()
    """Arguments that are accepted and ignored, such as a reason for the call."""
    spread: Sequence[str] = ()
    """Arguments that are objects whose members are arguments of the call."""
    filled: Sequence[str] = ()
    """Paths that must not be missing or blank; checked before anything else."""
    differ: Sequence[str] = ()
    """Two texts that must differ; checked before any file is opened."""
    whole: Sequence[str] = ()
    """Numbers of at least 1, truncated to whole ones; anything else counts as not given."""
    add: Mapping[str, int] = field(default_factory=dict)
    """Added to a number that the dialect counts from elsewhere: `offset = 1` if it counts lines from 0."""
    scale: Mapping[str, float] = field(default_factory=dict)
    """Factor for a number that the dialect gives in another unit."""
    invert: Sequence[str] = ()
    """Switches with the opposite meaning."""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values of the dialect -> ours, by argument: `path = { "/" = "." }`; `true` and `false` for a switch."""
    preset: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of the dialect for arguments of ours."""
    forgets: bool = False
    """Whether files that a call wrote must be read again before the next change."""
    data: Mapping[str, str] = field(default_factory=dict)
    """For a renderer that shows data: its names -> ours."""
    limits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def argument_names(self) -> dict[str, str]:
        """Every argument name of the dialect that is not ours -> ours; names that models see win."""
        return {**self.also, **self.rename}

    def translate(
        self, arguments: Mapping[str, Any], known: Collection[str], needed: Collection[str]
    ) -> tuple[dict[str, Any], list[str]]:
        """The arguments of a call in our names, and the names that the tool does not have."""
        expanded = self._expand_objects(arguments)
        self._check(expanded)
        translated: dict[str, Any] = dict(self.preset)
        unknown = []
        names = self.argument_names
        # Names that models see come last, so that they win over an older name for the same argument.
        for theirs, value in sorted(expanded.items(), key=lambda item: item[0] in known):
            if theirs in self.unused:
                continue
            if theirs not in known and theirs not in self.also:
                unknown.append(theirs)
            elif not (value is None and theirs not in needed):  # null: as if it had not been given
                value = self._translate_value(theirs, value)
                if value is not None or theirs in needed:
                    translated[names.get(theirs, theirs)] = value
        return translated, unknown

    def _expand_objects(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        expanded = dict(arguments)
        for name in self.spread:
            if isinstance(expanded.get(name), Mapping):
                expanded = {**expanded.pop(name), **expanded}
        return expanded

    def _check(self, values: Mapping[str, Any]) -> None:
        for name in self.filled:
            value = values.get(name)
            if not isinstance(value, str) or not value.strip():
                raise BadPath(path=value if isinstance(value, str) else "", why="it is empty", blank=True)
        texts = [values.get(name) for name in self.differ]
        if texts and isinstance(texts[0], str) and all(text == texts[0] for text in texts):
            raise NothingToChange(old=texts[0])

    def _translate_value(self, theirs: str, value: Any) -> Any:
        if theirs in self.whole:
            value = _truncate(value)
        value = _scale(_shift(value, self.add.get(theirs, 0)), self.scale.get(theirs))
        if theirs in self.invert:
            value = _invert(value)
        word = str(value).lower() if isinstance(value, bool) else value
        return self.values.get(theirs, {}).get(word, value) if isinstance(word, str) else value


def describe_type(annotation: object) -> str:
    """The type of a limit as text, whether its module keeps annotations as text or not."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def is_of_type(value: object, annotation: object) -> bool:
    """Whether a limit of that type takes the value."""
    return type(value).__name__ in [one.split("[")[0] for one in describe_type(annotation).split(" | ")]


def _truncate(value: Any) -> int | None:
    """A number of at least 1 without its fraction, also from a text such as "12"; None for anything else."""
    if isinstance(value, str) and len(value) < 20:
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return math.trunc(value) if 1 <= value < math.inf else None


def _shift(value: Any, more: int) -> Any:
    """A number in our counting. A negative one counts from the end and stays, as does anything that is not a number."""
    if more and isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        value = int(value)  # a model's "12"
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return value + more if numeric and value >= 0 else value


def _scale(value: Any, factor: float | None) -> Any:
    """A number in our unit; anything else stays, and is refused later."""
    if factor is None or isinstance(value, bool):
        return value
    try:
        return float(value) * factor if isinstance(value, int | float | str) else value
    except (ValueError, OverflowError):
        return value


def _invert(value: Any) -> Any:
    """The opposite of a switch, also of a text such as "true"; anything else stays, and is refused later."""
    value = {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value
    return not value if isinstance(value, bool) else value
