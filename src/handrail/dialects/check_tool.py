"""Check one tool of a dialect: its entry in `tools.toml` and its schema in `NAME.json`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from handrail import tools
from handrail.dialects import ToolEntry, describe_type, is_of_type, template_facts
from handrail.dialects.adapters import load_adapter
from handrail.frozen import frozen
from handrail.text.toml_lines import Key
from handrail.tools.tool import AnyTool

_ITS_NAMES = ("add", "scale", "invert", "values", "whole", "texts", "switches", "filled", "differ")
"""Keys of an entry that name arguments as the dialect calls them."""


@frozen
class Problem:
    """A mistake in a dialect, and its correction."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class Reporter:
    """Adds problems of one TOML file, at the line of a key."""

    def __init__(self, path: Path, lines: Mapping[Key, int], problems: list[Problem]) -> None:
        self.path, self.problems = path, problems
        self._lines = lines

    def add(self, way: Key, text: str) -> None:
        """Add a problem at the line of that key, or of the nearest table around it that has a line."""
        while way and way not in self._lines:
            way = way[:-1]
        self.problems.append(Problem(self.path, self._lines.get(way, 1), text))


CANNOT_LOAD = (ImportError, AttributeError, NameError, SyntaxError, TypeError, ValueError)
"""Mistakes of a package that registers a tool or a dialect."""


def load_tool(tool_id: str, adapter: Path | None) -> AnyTool:
    """The tool, or the adapter of it; raises one of `CANNOT_LOAD`."""
    return load_adapter(adapter, tool_id) if adapter else tools.load(tool_id)


class ToolCheck:
    """The check of one `[tools.NAME]`, with what it inherits."""

    def __init__(self, name: str, entry: Any, report: Reporter, adapter: Path | None = None) -> None:
        self._name, self._entry, self._report, self._adapter = name, entry, report, adapter

    def check(self) -> None:
        """Report every problem of the tool."""
        entry, name = self._entry, self._name
        if not isinstance(entry, dict):
            self._report.add(("tools", name), f"tools.{name} is a table: [tools.{name}]")
            return
        tool = self._load() if self._check_keys() else None
        if tool is None:
            return
        ours = tool.args.declared()
        for key in ("rename", "also"):
            self._check_names(key, "parameter", entry.get(key, {}), ours)
        self._check_names("preset", "parameter", {inner: inner for inner in entry.get("preset", {})}, ours)
        renamed = {**entry.get("also", {}), **entry.get("rename", {})}
        theirs_known = {*renamed, *(set(ours) - set(entry.get("rename", {}).values()))}
        for key in _ITS_NAMES:
            for number, theirs in enumerate(entry.get(key, ())):
                if theirs not in theirs_known:
                    way: Key = (key, theirs) if isinstance(entry[key], dict) else (key, number)
                    self._add(way, f"{name} has no parameter {theirs}: {suggest(str(theirs), theirs_known)}")
        data = template_facts.of_data(tool)
        if data is not None:
            self._check_names("data", "data", entry.get("data", {}), data)
        self._check_limits(tool.limits, entry.get("limits", {}))
        self._check_schema({*theirs_known, *entry.get("unused", ()), *entry.get("spread", ())})

    def _check_keys(self) -> bool:
        """Report keys that are unknown or hold the wrong type; whether the rest can be checked."""
        known = {one.name: one for one in fields(ToolEntry) if one.name != "name"}
        for key, value in self._entry.items():
            if key not in known:
                self._add((key,), f"unknown key {key}: {suggest(key, known)}")
            elif not isinstance(value, _find_toml_type(str(known[key].type))):
                self._add((key,), f"{key} is {_TYPE_NAMES[_find_toml_type(str(known[key].type))]}, not {value!r}")
                return False
        return True

    def _load(self) -> AnyTool | None:
        tool_id = self._entry.get("id")
        if tool_id not in tools.list_ids() and not tools.find_entry_points(str(tool_id)):
            self._add(("id",), f"unknown tool id {tool_id!r}: {suggest(str(tool_id), tools.list_ids())}")
            return None
        try:
            return load_tool(tool_id, self._adapter)
        except CANNOT_LOAD as error:
            key, what = ("adapter", "adapter") if self._adapter else ("id", f"tool {tool_id}")
            self._add((key,), f"the {what} cannot be loaded: {error}")
            return None

    def _check_names(self, key: str, what: str, names: Mapping[str, object], known: Collection[str]) -> None:
        """Report each value of a table that is not a name of ours."""
        for theirs, inner in names.items():
            if inner not in known:
                self._add((key, theirs), f"{self._entry['id']} has no {what} {inner}: {suggest(str(inner), known)}")

    def _add(self, way: Key, text: str) -> None:
        self._report.add(("tools", self._name, *way), text)

    def _check_limits(self, kind: type[Any], limits: Mapping[str, object]) -> None:
        known = {limit.name: limit.type for limit in fields(kind)}
        for name, value in limits.items():
            if name not in known:
                self._add(("limits", name), f"{self._entry['id']} has no limit {name}: {suggest(name, known)}")
            elif not is_of_type(value, known[name]):
                self._add(("limits", name), f"the limit {name} is {describe_type(known[name])}, not {value!r}")

    def _check_schema(self, known: Collection[str]) -> None:
        path = self._report.path.parent / f"{self._name}.json"
        if not path.exists():
            return
        try:
            text = path.read_text(encoding="utf-8")
            schema = json.loads(text)
            properties, required = schema["properties"], schema.get("required", [])
            _ = (properties.items(), [*required])
        except OSError as error:
            self._report.problems.append(Problem(path, 1, f"cannot be read: {error.strerror}"))
        except json.JSONDecodeError as error:
            self._report.problems.append(Problem(path, error.lineno, f"is not valid JSON: {error.msg}"))
        except (UnicodeDecodeError, AttributeError, KeyError, TypeError):
            text = 'is not a schema of arguments: write an object with "type": "object" and "properties"'
            self._report.problems.append(Problem(path, 1, text))
        else:
            wrong = [(one, f"{self._name} has no parameter {one}", known) for one in properties if one not in known]
            wrong += [
                (one, f"{one} is required, but not in properties", properties)
                for one in required
                if one not in properties
            ]
            for one, what, others in wrong:
                line = text[: max(0, text.find(json.dumps(one)))].count("\n") + 1
                self._report.problems.append(Problem(path, line, f"{what}: {suggest(str(one), others)}"))


_TYPE_NAMES: dict[object, str] = {dict: "a table", list: "a list", str: "a text", bool: "true or false"}


def _find_toml_type(annotation: str) -> type[object]:
    """The type of TOML value that a field of an entry takes."""
    starts = {"Mapping": dict, "Sequence": list, "bool": bool}
    return next((kind for start, kind in starts.items() if annotation.startswith(start)), str)


def suggest(name: str, known: Collection[str]) -> str:
    """The correction for a name that does not exist."""
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {list_names(sorted(known))}"


def list_names(names: Collection[str]) -> str:
    """The first twenty names, and how many more there are."""
    shown = list(names)[:20]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
