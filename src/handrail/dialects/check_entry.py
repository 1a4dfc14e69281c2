"""What can be wrong with one tool of a dialect: its entry in `tools.toml` and its schema in `NAME.json`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from handrail import tools
from handrail.dialects import template_facts
from handrail.dialects.entries import Entry
from handrail.text.toml_lines import Key

_ITS_NAMES = ("add", "scale", "invert", "values", "whole", "filled", "differ")
"""What an entry says about arguments in the dialect's names."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, and how to mend it."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class Place:
    """A file of TOML, and where its keys stand."""

    def __init__(self, path: Path, lines: Mapping[Key, int], problems: list[Problem]) -> None:
        self.path, self.problems = path, problems
        self._lines = lines

    def wrong(self, way: Key, text: str) -> None:
        """Something is wrong there, or in the nearest table around it that has a line."""
        while way and way not in self._lines:
            way = way[:-1]
        self.problems.append(Problem(self.path, self._lines.get(way, 1), text))


class ToolEntry:
    """One `[tools.NAME]`."""

    def __init__(self, name: str, entry: Any, at: Place) -> None:
        self._name, self._entry, self._at = name, entry, at

    def look(self) -> None:
        """Tell what is wrong with it."""
        entry, name = self._entry, self._name
        if not isinstance(entry, dict):
            self._at.wrong(("tools", name), f"tools.{name} is a table: [tools.{name}]")
            return
        known = {one.name: one for one in fields(Entry) if one.name != "name"}
        for key, value in entry.items():
            if key not in known:
                self._wrong((key,), f"there is no key {key}: {near(key, known)}")
            elif not isinstance(value, _kind(str(known[key].type))):
                self._wrong((key,), f"{key} is {_KINDS[_kind(str(known[key].type))]}, not {value!r}")
                return
        if entry.get("id") not in tools.ids() and not tools.outside(str(entry.get("id"))):
            self._wrong(("id",), f"there is no tool id {entry.get('id')!r}: {near(str(entry.get('id')), tools.ids())}")
            return
        tool = tools.load(entry["id"])
        ours = tool.args.model_fields
        for key in ("rename", "also"):
            for theirs, inner in entry.get(key, {}).items():
                if inner not in ours:
                    self._wrong((key, theirs), f"{entry['id']} has no parameter {inner}: {near(str(inner), ours)}")
        for inner in entry.get("preset", {}):
            if inner not in ours:
                self._wrong(("preset", inner), f"{entry['id']} has no parameter {inner}: {near(inner, ours)}")
        renamed = {**entry.get("also", {}), **entry.get("rename", {})}
        theirs_known = {*renamed, *(set(ours) - set(entry.get("rename", {}).values()))}
        for key in _ITS_NAMES:
            for number, theirs in enumerate(entry.get(key, ())):
                if theirs not in theirs_known:
                    way: Key = (key, theirs) if isinstance(entry[key], dict) else (key, number)
                    self._wrong(way, f"{name} has no parameter {theirs}: {near(str(theirs), theirs_known)}")
        for theirs, inner in entry.get("data", {}).items():
            if inner not in template_facts.of_tool(entry["id"]) and entry["id"] in tools.ids():
                told = template_facts.of_tool(entry["id"])
                self._wrong(("data", theirs), f"{entry['id']} tells no {inner}: {near(str(inner), told)}")
        self._limits(tool.limits, entry.get("limits", {}))
        self._schema({*theirs_known, *entry.get("unused", ()), *entry.get("spread", ())})

    def _wrong(self, way: Key, text: str) -> None:
        self._at.wrong(("tools", self._name, *way), text)

    def _limits(self, kind: type[Any], given: Mapping[str, Any]) -> None:
        known = {limit.name: str(limit.type) for limit in fields(kind)}
        for name, value in given.items():
            if name not in known:
                self._wrong(("limits", name), f"{self._entry['id']} has no limit {name}: {near(name, known)}")
            elif type(value).__name__ not in [one.split("[")[0] for one in known[name].split(" | ")]:
                self._wrong(("limits", name), f"the limit {name} is {known[name]}, not {value!r}")

    def _schema(self, known: Collection[str]) -> None:
        path = self._at.path.parent / f"{self._name}.json"
        if not path.exists():
            return
        try:
            text = path.read_text(encoding="utf-8")
            schema = json.loads(text)
            properties, required = schema["properties"], schema.get("required", [])
            _ = (properties.items(), [*required])
        except OSError as error:
            self._at.problems.append(Problem(path, 1, f"cannot be read: {error.strerror}"))
        except json.JSONDecodeError as error:
            self._at.problems.append(Problem(path, error.lineno, f"is not valid JSON: {error.msg}"))
        except (UnicodeDecodeError, AttributeError, KeyError, TypeError):
            mend = 'is no schema of arguments: an object with "type": "object" and "properties"'
            self._at.problems.append(Problem(path, 1, mend))
        else:
            wrong = [(one, f"{self._name} has no parameter {one}", known) for one in properties if one not in known]
            wrong += [
                (one, f"{one} is required, but not described", properties) for one in required if one not in properties
            ]
            for one, what, others in wrong:
                line = text[: max(0, text.find(json.dumps(one)))].count("\n") + 1
                self._at.problems.append(Problem(path, line, f"{what}: {near(str(one), others)}"))


_KINDS: dict[Any, str] = {dict: "a table", list: "a list", str: "a text", bool: "true or false"}


def _kind(written: str) -> type[Any]:
    """The kind of TOML value that a field of an entry takes."""
    starts = {"Mapping": dict, "Sequence": list, "bool": bool}
    return next((kind for start, kind in starts.items() if written.startswith(start)), str)


def near(name: str, known: Collection[str]) -> str:
    """The mend for a name that does not exist."""
    found = get_close_matches(name, known, n=1)
    return f"did you mean {found[0]}?" if found else f"there are {listed(sorted(known))}"


def listed(names: Collection[str]) -> str:
    """Names, as many as a person reads."""
    shown = list(names)[:20]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
