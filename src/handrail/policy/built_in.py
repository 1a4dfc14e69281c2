"""Built-in rules: secret and protected paths, and commands that only a person may run.

One matcher serves every tool, search and command, whatever the rules of files say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from handrail.model import Action
from handrail.policy.modes import load_defaults
from handrail.policy.paths import PathPattern, PathSet
from handrail.policy.rules import Rule, from_table
from handrail.secrets.paths import secret_path_rules


@lru_cache(1)
def built_in_rules() -> tuple[Rule, ...]:
    """The built-in rules, each with its name as its text."""
    tables = {**secret_path_rules(), **load_defaults()["rules"]}
    return tuple(replace(from_table(table), text=name) for name, table in tables.items())


class BuiltInPaths:
    """The built-in rules about paths, compiled when they are first asked."""

    def __init__(self, roots: Sequence[str], home: str) -> None:
        self._roots = roots
        self._home = home
        self._compiled: dict[Action, tuple[list[Rule], PathSet]] = {}
        self._for_commands: PathSet | None = None

    def _rules_for(self, action: Action) -> tuple[list[Rule], PathSet]:
        compiled = self._compiled.get(action)
        if compiled is None:
            rules = [rule for rule in built_in_rules() if action in rule.actions and rule.paths]
            rules.sort(key=lambda rule: rule.tier != "deny")
            lists = [rule.paths for rule in rules]
            paths = PathSet(lists, self._roots, self._home, deep=True, fold=True, anew=True)
            compiled = self._compiled[action] = rules, paths
        return compiled

    def find(self, action: Action, path: str) -> Rule | None:
        """The strictest built-in rule about a path."""
        rules, paths = self._rules_for(action)
        numbers = paths.find(path)
        return rules[numbers[0]] if numbers else None

    def all(self, action: Action, path: str) -> list[Rule]:
        """Every built-in rule about a path, the strictest first."""
        rules, paths = self._rules_for(action)
        return [rules[number] for number in paths.find(path)]

    def protects(self, path: str) -> bool:
        """Whether a command may change this only if a person has approved it."""
        if self._for_commands is None:
            rule = next(rule for rule in built_in_rules() if rule.text == "protected")
            texts = load_defaults()["commands"]["protected"]
            paths = (*rule.paths, *(PathPattern(text) for text in texts))
            self._for_commands = PathSet([paths], self._roots, self._home, deep=True, fold=True, anew=True)
        return bool(self._for_commands.find(path))

    def is_secret(self, path: str) -> bool:
        """Whether nobody may read this."""
        return bool(self._rules_for("read")[1].find(path))
