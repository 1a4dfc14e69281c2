"""Templates: a dialect's sentences, filled in with facts.

`{name}` is a fact, with Python's format codes; `{count:n line}` says "1 line" or "2 lines". `[[ ... ]]` is said only if
every fact in it is there: a missing, empty or false one drops the passage; `[[name? ... ]]` asks for a fact without
saying it, and `[[!name? ... ]]` is said if that one is not there. Facts that are names of files are escaped, so that a
name cannot forge structure.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from handrail.text.display import escape, replace_surrogates

_OPTIONAL = re.compile(r"\[\[(?:(!?)(\w+)\?)?(.*?)\]\]", re.DOTALL)
_ABSENT = (None, "", False)
_NAMES = {"path", "root", "roots", "nearest", "known", "tool"}


class _Formatter(string.Formatter):
    """Python's formats, and `{count:n line}` for "1 line" or "2 lines"."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.startswith("n "):
            return f"{value} {format_spec[2:]}{'' if value == 1 else 's'}"
        formatted: str = super().format_field(value, format_spec)
        return formatted


_formatter = _Formatter()


class DialectWords:
    """The sentences of one dialect, and its gutter."""

    def __init__(self, messages: Mapping[str, str], gutter: str, add: Mapping[str, int] | None = None) -> None:
        self.messages = messages
        self._gutter = gutter
        self._add = add or {}
        """What to add to a fact that is a number before it is said: `next = -1` if the dialect counts from 0."""

    def say(self, key: str, **facts: Any) -> str:
        """The sentence of that key."""
        told = {name: _told(name, value) for name, value in facts.items()}
        for name, more in self._add.items():
            if isinstance(told.get(name), int) and told[name] > 0:
                told[name] += more
        said: list[str] = []
        for part in _parts(self.messages[key]):
            if any(told.get(name) in _ABSENT for name in part.needs) or told.get(part.unless) not in _ABSENT:
                continue
            if part.pieces is None:
                said.append(_formatter.vformat(part.template, (), told))
                continue
            for literal, fact, form in part.pieces:
                said.append(literal)
                if fact is not None:
                    said.append(_formatter.format_field(told[fact], form))
        return "".join(said)

    def rows(self, rows: Iterable[tuple[int | str, str]]) -> str:
        """Numbered lines."""
        gutter = self._gutter.format
        return "\n".join([gutter(number=number) + text for number, text in rows])


def _told(name: str, value: Any) -> Any:
    if name in _NAMES:
        return ", ".join(escape(item) for item in value) if isinstance(value, list) else escape(str(value))
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return replace_surrogates(value) if isinstance(value, str) else value


class _Part(NamedTuple):
    """A passage of a template, the facts without which it is not said, and the one with which it is not."""

    template: str
    needs: tuple[str, ...] = ()
    unless: str = ""
    pieces: tuple[tuple[str, str | None, str], ...] | None = None
    """The template taken apart once: a text, the fact that follows it, and its format. None: it is no plain one."""


@cache
def _parts(template: str) -> list[_Part]:
    found, last = [], 0
    for match in _OPTIONAL.finditer(template):
        negated, asked, passage = match.groups()
        needs = [field for _, field, _, _ in _formatter.parse(passage) if field] + ([asked] if asked else [])
        part = _Part(passage, tuple(needs[:-1]), asked) if negated else _Part(passage, tuple(needs))
        found += [_Part(template[last : match.start()]), part]
        last = match.end()
    every = [*found, _Part(template[last:])]
    return [part._replace(pieces=_pieces(part.template)) for part in every if any(part)]


def _pieces(template: str) -> tuple[tuple[str, str | None, str], ...] | None:
    found: list[tuple[str, str | None, str]] = []
    for literal, name, form, conversion in _formatter.parse(template):
        if conversion or "{" in (form or "") or not (name is None or name.isidentifier()):
            return None  # Python's formatter knows what to say of it
        found.append((literal, name, form or ""))
    return tuple(found)


def facts_in(template: str) -> list[tuple[str, str]]:
    """Every fact that a template names, with the format it is said in; raises `ValueError` with what is wrong in it."""
    bare = _OPTIONAL.sub("", template)
    if "[[" in bare or "]]" in bare or any("[[" in match[3] for match in _OPTIONAL.finditer(template)):
        raise ValueError("[[ and ]] must come in pairs, one pair not inside another")
    found = []
    for part in _parts(template):
        found += [(name, "") for name in (*part.needs, part.unless) if name]
        for _, name, form, conversion in _formatter.parse(part.template):
            if name is not None:
                if conversion or not name.isidentifier():
                    raise ValueError(f"{{{name}}} is no plain name of a fact")
                found.append((name, form or ""))
    return found
