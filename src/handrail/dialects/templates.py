"""Templates: a dialect's sentences, filled in with facts.

`{name}` is a fact, with Python's format codes; `{count:n line}` gives "1 line" or "2 lines". `[[ ... ]]` is left out
unless every fact in it is there: a missing, empty, false or zero fact drops it. `[[name? ... ]]` tests a fact without
printing it, and `[[!name? ... ]]` is printed if that fact is not there. Names of files are escaped, so that a name
cannot forge structure. `{tool_grep}` is what the dialect calls the tool with the id `grep`, and `{arg_grep_offset}`
what it calls the argument `offset` of that tool; the fact is missing where the dialect offers no such tool.
"""

from __future__ import annotations

import dataclasses
import re
import string
from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import copy
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

from handrail.text.display import escape, replace_surrogates
from handrail.tools.notes import NoteFacts

_OPTIONAL = re.compile(r"\[\[(?:(!?)(\w+)\?)?(.*?)\]\]", re.DOTALL)
_ABSENT = (None, "", False)
_NAMES = {"path", "root", "roots", "nearest", "known", "tool"}
NAMED = ("tool_", "arg_")
_REASONS = {"why", "kind"}
"""Facts that are words of ours, which a dialect in another language translates under `[reasons]`."""


class _Formatter(string.Formatter):
    """Python's formats, and `{count:n line}` for "1 line" or "2 lines"."""

    def format_field(self, value: object, format_spec: str) -> str:
        if format_spec.startswith("n "):
            return f"{value} {format_spec[2:]}{'' if value == 1 else 's'}"
        formatted: str = super().format_field(value, format_spec)
        return formatted


_formatter = _Formatter()


class DialectTemplates:
    """The templates of one dialect, and its layout of numbered lines."""

    def __init__(
        self,
        messages: Mapping[str, str],
        gutter: str,
        add: Mapping[str, int] | None = None,
        find_name: Callable[[str], str | None] | None = None,
        notes: str = "",
    ) -> None:
        self.messages = messages
        self.notes = notes
        self._find_name = cache(find_name) if find_name else None
        """Finds the dialect's name of a tool or an argument."""
        self._gutter = gutter
        self._add = add or {}
        """Added to positive numbers before they are printed, by the fact: `next = -1` if the dialect counts from 0."""

    def naming(self, find_name: Callable[[str], str | None]) -> DialectTemplates:
        """The same templates with other names of tools and arguments."""
        return DialectTemplates(self.messages, self._gutter, self._add, find_name, self.notes)

    def with_notes(self, notes: str) -> DialectTemplates:
        """The same templates for one answer with these notes."""
        other = copy(self)
        other.notes = notes
        return other

    def fill(self, key: str, facts: object = None, /, **values: object) -> str:
        """Fill a template with the fields of ``facts`` and with ``values``, which take precedence."""
        parsed = _parse(self.messages[key])
        known = self._collect_values(parsed.names, facts, values)
        text: list[str] = []
        for part in parsed.parts:
            if part.needs and any([known.get(name) in _ABSENT for name in part.needs]):  # noqa: C419 - called for all
                continue
            if part.unless and known.get(part.unless) not in _ABSENT:
                continue
            if part.pieces is None:
                text.append(_formatter.vformat(part.template, (), known))
                continue
            for literal, name, form in part.pieces:
                text.append(literal)
                if name is not None:
                    value = known[name]
                    text.append(value if type(value) is str and not form else _formatter.format_field(value, form))
        return "".join(text)

    def _collect_values(self, names: Iterable[str], facts: object, values: Mapping[str, object]) -> dict[str, object]:
        """The values that a template names, as they are printed; those that nobody gives are missing."""
        fields = fact_names(type(facts)) if facts is not None else ()
        known: dict[str, object] = {}
        for name in names:
            if name in values:
                value = values[name]
            elif name in fields:
                value = getattr(facts, name)
            elif name == "notes":
                value = self.notes
            elif self._find_name and name.startswith(NAMED):
                value = self._find_name(name)
            else:
                continue
            value = _make_printable(name, value)
            if name in _REASONS and isinstance(value, str):
                value = self.messages.get(f"reasons.{value}", value)
            if name in self._add and isinstance(value, int) and value > 0:
                value += self._add[name]
            known[name] = value
        return known

    def number_lines(self, rows: Iterable[tuple[int | str, str]]) -> str:
        """Put each line behind its number, in the dialect's layout."""
        gutter = self._gutter
        return "\n".join([_format_gutter(gutter, number) + text for number, text in rows])


@lru_cache(maxsize=1 << 13)
def _format_gutter(gutter: str, number: int | str) -> str:
    return gutter.format(number=number)


def fact_names(kind: type) -> frozenset[str]:
    """The facts that a class declares: the fields of a dataclass, of a named tuple or of a note."""
    return _list_fields(cast("Hashable", kind))


@cache
def _list_fields(kind: type) -> frozenset[str]:
    if issubclass(kind, NoteFacts):
        return kind.names()
    if dataclasses.is_dataclass(kind):
        return frozenset(one.name for one in dataclasses.fields(kind))
    return frozenset(getattr(kind, "_fields", ()))


def _make_printable(name: str, value: Any) -> object:
    several = isinstance(value, list | tuple)
    if name in _NAMES:
        return ", ".join(escape(item) for item in value) if several else escape(str(value))
    if several:
        return ", ".join(str(item) for item in value)
    return replace_surrogates(value) if isinstance(value, str) else value


class _Part(NamedTuple):
    """A passage of a template, the facts that it needs, and the one that suppresses it."""

    template: str
    needs: tuple[str, ...] = ()
    unless: str = ""
    pieces: tuple[tuple[str, str | None, str], ...] | None = None
    """The passage parsed once: a text, the fact that follows it, and its format. None: left to Python's formatter."""


class _Parsed(NamedTuple):
    parts: tuple[_Part, ...]
    names: tuple[str, ...]
    """Every fact that the template names."""


@cache
def _parse(template: str) -> _Parsed:
    parts = tuple(_split(template))
    names: dict[str, None] = {}
    for part in parts:
        names |= dict.fromkeys(name for name in (*part.needs, part.unless) if name)
        for _, name, form, _ in _formatter.parse(part.template):
            if name is not None:
                names |= {re.split(r"[.\[]", name)[0]: None}
            names |= {inner: None for _, inner, _, _ in _formatter.parse(form or "") if inner}
    return _Parsed(parts, tuple(names))


def _split(template: str) -> list[_Part]:
    parts, last = [], 0
    for match in _OPTIONAL.finditer(template):
        negated, tested, passage = match.groups()
        needs = [field for _, field, _, _ in _formatter.parse(passage) if field] + ([tested] if tested else [])
        part = _Part(passage, tuple(needs[:-1]), tested) if negated else _Part(passage, tuple(needs))
        parts += [_Part(template[last : match.start()]), part]
        last = match.end()
    every = [*parts, _Part(template[last:])]
    return [part._replace(pieces=_split_template(part.template)) for part in every if any(part)]


def _split_template(template: str) -> tuple[tuple[str, str | None, str], ...] | None:
    pieces: list[tuple[str, str | None, str]] = []
    for literal, name, form, conversion in _formatter.parse(template):
        if conversion or "{" in (form or "") or not (name is None or name.isidentifier()):
            return None  # left to Python's formatter
        pieces.append((literal, name, form or ""))
    return tuple(pieces)


def facts_in(template: str) -> list[tuple[str, str]]:
    """Every fact that a template names, with its format; raises `ValueError` that says what is wrong in it."""
    bare = _OPTIONAL.sub("", template)
    if "[[" in bare or "]]" in bare or any("[[" in match[3] for match in _OPTIONAL.finditer(template)):
        raise ValueError("[[ and ]] must come in pairs, one pair not inside another")
    facts = []
    for part in _split(template):
        facts += [(name, "") for name in (*part.needs, part.unless) if name]
        for _, name, form, conversion in _formatter.parse(part.template):
            if name is not None:
                if conversion or not name.isidentifier():
                    raise ValueError(f"{{{name}}} must be the plain name of a fact, without a conversion")
                facts.append((name, form or ""))
    return facts
