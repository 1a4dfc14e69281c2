"""Check a dialect folder and report every problem at once, each with file, line and correction."""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from handrail import dialects, tools
from handrail.dialects import DialectError, Rules, template_facts
from handrail.dialects.check_tool import CANNOT_LOAD, Problem, Reporter, ToolCheck, list_names, load_tool, suggest
from handrail.dialects.folder import (
    FolderPlace,
    find_adapter_problem,
    find_folder,
    locate,
    merge_tables,
    read_folder,
)
from handrail.dialects.renderers import RENDERERS
from handrail.dialects.templates import NAMED, facts_in
from handrail.json_types import JsonMapping, JsonObject
from handrail.text.toml_lines import Key, find_lines
from handrail.tools.tool import AnyTool

KEYS = (
    "about",
    "codes",
    "core",
    "data",
    "extends",
    "gutter",
    "limits",
    "quiet_notes",
    "renderer",
    "rules",
    "said_add",
    "tools",
    "unlisted",
    "words",
)
"""The keys at the top of `tools.toml`."""
_TABLES = ("codes", "data", "limits", "rules", "said_add", "tools")
ANY: Collection[str] = ("any fact",)
"""Stands for the facts of a tool that does not declare them."""
_NO_TOOL = ("README.md", "prompt.md", "specs.json")


def check(folder: Path, *, installed: bool = False) -> list[Problem]:
    """Every problem of a dialect, by file and line. Its adapters are imported only if it is ``installed``."""
    run = _FolderCheck(locate(folder, installed=installed))
    run.check()
    if not run.problems:  # loading may still refuse it
        try:
            loaded = dialects.Dialect(str(folder), folder, installed=installed)
            for name in loaded.entries:
                loaded.spec(name)
        except DialectError as error:
            run.problems.append(Problem(folder / "tools.toml", 1, str(error)))
    return sorted(run.problems, key=lambda problem: (problem.file, problem.line))


class _FolderCheck:
    """The check of one folder; `problems` grows as it goes on."""

    def __init__(self, place: FolderPlace) -> None:
        self.place, self.folder = place, place.path
        self.problems: list[Problem] = []
        self._native = dialects.load("native").templates.messages
        self._tools: dict[str, list[AnyTool]] = {}
        """The tools whose messages the dialect may have, with its adapters, by id."""

    def check(self) -> None:
        own, lines = self._read("tools.toml")
        messages, places = self._read("messages.toml", optional=True)
        if own is None:
            return
        report = Reporter(self.folder / "tools.toml", lines, self.problems)
        self._check_top(own, report)
        table, adapters = self._inherit(own)
        entries = table.get("tools")
        if not isinstance(entries, dict) or not entries:
            report.add((), "a dialect needs tools: write [tools.NAME] with id = one of " + list_names(tools.list_ids()))
            return
        self._find_adapters(own, adapters, report)
        for name in own.get("tools", {}):
            ToolCheck(name, entries[name], report, adapters.get(name)).check()
        self._load_tools(entries, adapters)
        self._check_shared(own, entries, report)
        for path in sorted(self.folder.iterdir()):
            if path.suffix in (".md", ".json") and path.stem not in entries and path.name not in _NO_TOOL:
                text = f"unknown tool {path.stem}: {suggest(path.stem, entries)}"
                self.problems.append(Problem(path, 1, text))
        if messages is not None:
            self._check_messages(messages, Reporter(self.folder / "messages.toml", places, self.problems))

    def _inherit(self, own: dict[str, object]) -> tuple[Mapping[str, object], dict[str, Path]]:
        """The table with what it inherits, and the inherited adapters; none if the base has problems of its own."""
        if "extends" not in own:
            return own, {}
        try:
            base = read_folder(find_folder(str(own["extends"]), self.folder), (self.folder.resolve(),))
        except DialectError:
            return own, {}
        table = merge_tables(base.table, own)
        entries = table["tools"] if isinstance(table["tools"], dict) else {}
        return table, {name: file for name, file in base.adapters.items() if "adapter" in entries.get(name, ())}

    def _find_adapters(self, own: JsonMapping, adapters: dict[str, Path], report: Reporter) -> None:
        """Put the adapters that the folder names itself over the inherited ones."""
        for name, entry in own["tools"].items() if "tools" in own else ():
            if not isinstance(entry, dict) or "adapter" not in entry:
                continue
            adapters.pop(name, None)
            if file := entry["adapter"]:
                problem = find_adapter_problem(self.place, file)
                if problem:
                    report.add(("tools", name, "adapter"), problem)
                else:
                    adapters[name] = self.folder / file

    def _load_tools(self, entries: Mapping[str, object], adapters: Mapping[str, Path]) -> None:
        """Load the tools of Handrail and those of the dialect; those that cannot be loaded are reported already."""
        self._tools = {one: [tools.load(one)] for one in tools.list_ids()}
        for name, entry in entries.items():
            one = str(entry.get("id")) if isinstance(entry, dict) else ""
            if name not in adapters and (one in self._tools or not tools.find_entry_points(one)):
                continue
            with contextlib.suppress(*CANNOT_LOAD):
                self._tools.setdefault(one, []).append(load_tool(one, adapters.get(name)))

    def _read(self, name: str, *, optional: bool = False) -> tuple[JsonObject | None, Mapping[Key, int]]:
        path = self.folder / name
        if optional and not path.exists():
            return {}, {}
        try:
            text = path.read_text(encoding="utf-8")
            return tomllib.loads(text), find_lines(text)
        except OSError as error:
            self.problems.append(Problem(path, 1, f"cannot be read: {error.strerror}; every dialect needs this file"))
        except UnicodeDecodeError as error:
            self.problems.append(Problem(path, 1, f"is not UTF-8: {error.reason}"))
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"line (\d+)", str(error))
            self.problems.append(Problem(path, int(line[1]) if line else 1, f"is not valid TOML: {error}"))
        return None, {}

    def _check_top(self, table: JsonMapping, report: Reporter) -> None:
        for key, value in table.items():
            if key not in KEYS:
                report.add((key,), f"unknown key {key}: {suggest(key, KEYS)}")
            elif (key in _TABLES) != isinstance(value, dict):
                report.add((key,), f"{key} is {'a' if key in _TABLES else 'not a'} table")
        rules = table.get("rules", {})
        for key, value in rules.items() if isinstance(rules, dict) else ():
            known = {rule.name: rule.default for rule in fields(Rules)}
            if key not in known:
                report.add(("rules", key), f"unknown rule {key}: {suggest(key, known)}")
            elif key == "stale" and value not in ("content", "mtime"):
                report.add(("rules", key), f"stale is 'content' or 'mtime', not {value!r}")
            elif key != "stale" and not isinstance(value, bool):
                report.add(("rules", key), f"{key} is true or false, not {value!r}")
        if table.get("renderer", "text") not in RENDERERS:
            report.add(
                ("renderer",), f"unknown renderer {table['renderer']!r}: {suggest(table['renderer'], RENDERERS)}"
            )
        try:
            str(table.get("gutter", "")).format(number=1)
        except (LookupError, ValueError) as error:
            report.add(("gutter",), f"the gutter takes only {{number}}: {error}")
        for key in ("extends", "words"):
            if key in table:
                try:
                    read_folder(find_folder(str(table[key]), self.folder), (self.folder.resolve(),))
                except DialectError as error:
                    report.add((key,), str(error))

    def _check_shared(self, table: JsonMapping, entries: Mapping[str, object], report: Reporter) -> None:
        """Check the lists and tables at the top that concern all tools."""
        ids = [entry.get("id") for entry in entries.values() if isinstance(entry, dict)]
        loaded = [tools.load(one) for one in ids if one in tools.list_ids()]
        limits = {limit.name for tool in loaded for limit in fields(tool.limits)}
        notes = [key.removeprefix("notes.") for key in self._native if key.startswith("notes.")]
        lists: dict[str, tuple[str, Collection[str]]] = {
            "core": ("tool", entries),
            "quiet_notes": ("note", notes),
            "codes": ("failure", template_facts.failures()),
            "limits": ("limit", limits),
        }
        for key, (what, known) in lists.items():
            for number, name in enumerate(table.get(key, ())):
                if name not in known:
                    way: Key = (key, name) if isinstance(table[key], dict) else (key, number)
                    report.add(way, f"{key}: unknown {what} {name}: {suggest(str(name), known)}")

    def _check_messages(self, table: Mapping[str, object], report: Reporter) -> None:
        for way, template in _flatten(table):
            key = ".".join(way)
            facts = self._facts(key)
            if facts is None:
                known = [
                    *self._native,
                    *(f"{tool}.errors.{way[-1]}" for tool in tools.list_ids() if way[-1] in template_facts.failures()),
                ]
                report.add(way, f"unknown message {key}: {suggest(key, known)}")
                continue
            if not isinstance(template, str):
                report.add(way, f"{key} must be a string, not {template!r}")
                continue
            try:
                named = facts_in(template)
            except ValueError as error:
                report.add(way, f"{key}: {error}")
                continue
            unknown = {fact for fact, _ in named if not fact.startswith(NAMED)}.difference(facts)
            for fact in sorted(unknown) if facts is not ANY else ():
                report.add(way, f"{key}: unknown fact {{{fact}}}: {suggest(fact, facts)}")
            for fact, form in named:
                if not _is_format(form):
                    report.add(way, f"{key}: {{{fact}:{form}}} is not a format; use {{{fact}:n line}} or {{{fact}:g}}")

    def _facts(self, key: str) -> Collection[str] | None:
        """The facts that a message may name, `ANY` if they are not declared; None if there is no such message."""
        tool, _, rest = key.partition(".")
        if tool == "reasons":  # translated words, which name no facts
            return frozenset()
        code = rest.removeprefix("errors.")
        if tool == "errors" or (code != rest and tool in self._tools):
            failure = template_facts.failures().get(code)
            return None if failure is None else failure.names() | ({"error"} if tool != "errors" else set())
        if tool in self._tools and (tool not in tools.list_ids() or rest == "summary" or key in self._native):
            declared = [template_facts.of_template(one, rest) for one in self._tools[tool]]
            return ANY if None in declared else frozenset().union(*(facts for facts in declared if facts))
        if key not in self._native:
            return None
        return template_facts.of_note(rest) if tool == "notes" else {fact for fact, _ in facts_in(self._native[key])}


def _flatten(table: Mapping[str, object], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, (*above, name))
        else:
            yield (*above, name), value


def _is_format(form: str) -> bool:
    if form.startswith("n "):
        return True
    for value in (1, 1.5, "x"):
        try:
            format(value, form)
        except ValueError:
            continue
        return True
    return False
