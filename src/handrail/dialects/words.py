"""Templates: a dialect's sentences, filled in with facts.

`{name}` is a fact, with Python's format codes. `[[ ... ]]` is said only if every fact in it is there: a missing, empty
or false one drops the passage; `[[name? ... ]]` asks for a fact without saying it. Facts that are names of files are
escaped, so that a name cannot forge structure.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from typing import Any

from handrail.text.shown import readable, shown

_OPTIONAL = re.compile(r"\[\[(?:(\w+)\?)?(.*?)\]\]", re.DOTALL)
_NAMES = {"path", "root", "roots", "nearest", "known", "tool"}
_formatter = string.Formatter()


class DialectWords:
    """The sentences of one dialect, and its gutter."""

    def __init__(self, messages: Mapping[str, str], gutter: str) -> None:
        self.messages = messages
        self._gutter = gutter

    def say(self, key: str, **facts: Any) -> str:
        """The sentence of that key."""
        template = self.messages[key]
        told = {name: _told(name, value) for name, value in facts.items()}
        if "[[" in template:
            template = _OPTIONAL.sub(lambda found: found[2] if _complete(found[1], found[2], told) else "", template)
        return _formatter.vformat(template, (), told)

    def rows(self, rows: Iterable[tuple[int | str, str]]) -> str:
        """Numbered lines."""
        return "\n".join(self._gutter.format(number=number) + text for number, text in rows)


def _told(name: str, value: Any) -> Any:
    if name in _NAMES:
        return ", ".join(shown(item) for item in value) if isinstance(value, list) else shown(str(value))
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return readable(value) if isinstance(value, str) else value


def _complete(asked: str | None, passage: str, facts: Mapping[str, Any]) -> bool:
    fields = [field for _, field, _, _ in _formatter.parse(passage) if field] + ([asked] if asked else [])
    return all(facts.get(field) not in (None, "", False) for field in fields)
