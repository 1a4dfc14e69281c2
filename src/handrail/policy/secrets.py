"""What is guarded whatever the rules say: secrets and protected paths, one matcher for every tool, search and command.

The guards and the defaults of every mode are data, in `defaults.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, get_args

from handrail.model import Action
from handrail.policy.paths import PathSet
from handrail.policy.rules import Rule, from_table

Mode = Literal["read-only", "ask", "accept-edits", "full", "deny-asks"]
MODES: tuple[Mode, ...] = get_args(Mode)
DEFAULT_MODE: Mode = "accept-edits"


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds in a mode where no rule speaks."""

    tiers: Mapping[str, str]
    fixed: bool
    """Whether no rule loosens them."""


@lru_cache(1)
def _data() -> dict[str, Any]:
    return tomllib.loads(files("handrail.policy").joinpath("defaults.toml").read_text(encoding="utf-8"))


def defaults(mode: Mode) -> Defaults:
    """The defaults of a mode; raises `ValueError` for one that does not exist."""
    if mode not in MODES:
        raise ValueError(f"there is no mode {mode!r}; the modes are {', '.join(MODES)}")
    table = dict(_data()["modes"][mode])
    return Defaults(tiers=table, fixed=bool(table.pop("fixed", False)))


@lru_cache(1)
def guards() -> tuple[Rule, ...]:
    """The built-in rules, each called by its name."""
    return tuple(replace(from_table(table), text=name) for name, table in _data()["guards"].items())


class Guards:
    """The built-in rules about paths, made ready when they are first asked."""

    def __init__(self, roots: Sequence[str], home: str) -> None:
        self._roots = roots
        self._home = home
        self._made: dict[Action, tuple[list[Rule], PathSet]] = {}

    def _of(self, action: Action) -> tuple[list[Rule], PathSet]:
        made = self._made.get(action)
        if made is None:
            rules = [rule for rule in guards() if action in rule.actions and rule.paths]
            rules.sort(key=lambda rule: rule.tier != "deny")
            lists = [rule.paths for rule in rules]
            found = PathSet(lists, self._roots, self._home, deep=True, fold=True, anew=True)
            made = self._made[action] = rules, found
        return made

    def find(self, action: Action, path: str) -> Rule | None:
        """The strictest guard of a path."""
        rules, found = self._of(action)
        numbers = found.find(path)
        return rules[numbers[0]] if numbers else None

    def all(self, action: Action, path: str) -> list[Rule]:
        """Every guard of a path, the strictest first."""
        rules, found = self._of(action)
        return [rules[number] for number in found.find(path)]

    def secret(self, path: str) -> bool:
        """Whether nobody may read this."""
        return bool(self._of("read")[1].find(path))

    def protected(self, path: str) -> bool:
        """Whether a change of this is asked about, or refused, in every mode."""
        return bool(self._of("write")[1].find(path))
