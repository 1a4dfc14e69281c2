"""Whether a dialect folder can be used: everything that is wrong in it, at once, each with its file, line and mend."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from handrail import dialects, tools
from handrail.dialects import DialectError, Rules, template_facts
from handrail.dialects.check_entry import Place, Problem, ToolEntry, listed, near
from handrail.dialects.renderers import RENDERERS
from handrail.dialects.snapshot import FILE
from handrail.dialects.templates import facts_in
from handrail.text.toml_lines import Key, lines_of

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
)
"""What may stand at the top of `tools.toml`."""
_TABLES = ("codes", "data", "limits", "rules", "said_add", "tools")
_NO_TOOL = ("README.md", "prompt.md")


def check(folder: Path) -> list[Problem]:
    """All that is wrong with a dialect, by file and line."""
    found = _Folder(folder)
    found.look()
    if not found.problems:  # a net below: what loading alone would find
        try:
            loaded = dialects.Dialect(str(folder), folder)
            for name in loaded.entries:
                loaded.spec(name)
        except DialectError as error:
            found.problems.append(Problem(folder / "tools.toml", 1, str(error)))
    return sorted(found.problems, key=lambda problem: (problem.file, problem.line))


class _Folder:
    """One folder, and what was found wrong in it so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self._native = dialects.load("native").words.messages

    def look(self) -> None:
        table, lines = self._read("tools.toml")
        messages, places = self._read("messages.toml")
        if table is None:
            return
        at = Place(self.folder / "tools.toml", lines, self.problems)
        self._top(table, at)
        entries = table.get("tools")
        if not isinstance(entries, dict) or not entries:
            at.wrong((), "a dialect has tools: write [tools.NAME] with id = one of " + listed(tools.ids()))
            return
        for name, entry in entries.items():
            ToolEntry(name, entry, at).look()
        self._shared(table, entries, at)
        for path in sorted(self.folder.iterdir()):
            if path.suffix in (".md", ".json") and path.stem not in entries and path.name not in (FILE, *_NO_TOOL):
                self.problems.append(Problem(path, 1, f"no tool is called {path.stem}: {near(path.stem, entries)}"))
        if messages is not None:
            self._messages(messages, Place(self.folder / "messages.toml", places, self.problems), "extends" in table)

    def _read(self, name: str) -> tuple[dict[str, Any] | None, Mapping[Key, int]]:
        path = self.folder / name
        try:
            text = path.read_text(encoding="utf-8")
            return tomllib.loads(text), lines_of(text)
        except OSError as error:
            self.problems.append(Problem(path, 1, f"cannot be read: {error.strerror}; a dialect has this file"))
        except UnicodeDecodeError as error:
            self.problems.append(Problem(path, 1, f"is not UTF-8: {error.reason}"))
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"line (\d+)", str(error))
            self.problems.append(Problem(path, int(line[1]) if line else 1, f"is not valid TOML: {error}"))
        return None, {}

    def _top(self, table: Mapping[str, Any], at: Place) -> None:
        for key, value in table.items():
            if key not in KEYS:
                at.wrong((key,), f"there is no key {key}: {near(key, KEYS)}")
            elif (key in _TABLES) != isinstance(value, dict):
                at.wrong((key,), f"{key} is {'a' if key in _TABLES else 'not a'} table")
        rules = table.get("rules", {})
        for key, value in rules.items() if isinstance(rules, dict) else ():
            known = {rule.name: rule.default for rule in fields(Rules)}
            if key not in known:
                at.wrong(("rules", key), f"there is no rule {key}: {near(key, known)}")
            elif key == "stale" and value not in ("content", "mtime"):
                at.wrong(("rules", key), f"stale is 'content' or 'mtime', not {value!r}")
            elif key != "stale" and not isinstance(value, bool):
                at.wrong(("rules", key), f"{key} is true or false, not {value!r}")
        if table.get("renderer", "text") not in RENDERERS:
            at.wrong(("renderer",), f"there is no renderer {table['renderer']!r}: {near(table['renderer'], RENDERERS)}")
        try:
            str(table.get("gutter", "")).format(number=1)
        except (LookupError, ValueError) as error:
            at.wrong(("gutter",), f"the gutter knows {{number}} alone: {error}")
        if "extends" in table:
            try:
                dialects.load(str(table["extends"]))
            except DialectError as error:
                at.wrong(("extends",), str(error))

    def _shared(self, table: Mapping[str, Any], entries: Mapping[str, Any], at: Place) -> None:
        """What the top says about all tools."""
        ids = [entry.get("id") for entry in entries.values() if isinstance(entry, dict)]
        loaded = [tools.load(one) for one in ids if one in tools.ids()]
        limits = {limit.name for tool in loaded for limit in fields(tool.limits)}
        notes = [key.removeprefix("notes.") for key in self._native if key.startswith("notes.")]
        lists: dict[str, tuple[str, Collection[str]]] = {
            "core": ("tool", entries),
            "quiet_notes": ("note", notes),
            "codes": ("failure", template_facts.codes()),
            "limits": ("limit", limits),
        }
        for key, (what, known) in lists.items():
            for number, name in enumerate(table.get(key, ())):
                if name not in known:
                    way: Key = (key, name) if isinstance(table[key], dict) else (key, number)
                    at.wrong(way, f"{key}: there is no {what} {name}: {near(str(name), known)}")

    def _messages(self, table: Mapping[str, Any], at: Place, extends: bool) -> None:
        said = dict(_flat(table))
        for way, template in said.items():
            key = ".".join(way)
            told = self._facts(key)
            if told is None:
                known = [
                    *self._native,
                    *(f"{room}.errors.{way[-1]}" for room in tools.ids() if way[-1] in template_facts.codes()),
                ]
                at.wrong(way, f"nothing says {key}: {near(key, known)}")
                continue
            if not isinstance(template, str):
                at.wrong(way, f"{key} is a text, not {template!r}")
                continue
            try:
                named = facts_in(template)
            except ValueError as error:
                at.wrong(way, f"{key}: {error}")
                continue
            for fact in sorted({fact for fact, _ in named}.difference(told)):
                at.wrong(way, f"{key}: nobody tells the fact {{{fact}}}: {near(fact, told)}")
            for fact, form in named:
                if not _format(form):
                    at.wrong(way, f"{key}: {{{fact}:{form}}} is no format; such as {{{fact}:n line}} or {{{fact}:g}}")
        missing = [] if extends else [key for key in self._native if tuple(key.split(".")) not in said]
        if missing:
            at.wrong((), f'no words for {listed(missing)}: write them, or extends = "native" in tools.toml')

    def _facts(self, key: str) -> Collection[str] | None:
        """What a sentence may name; None if there is no such sentence."""
        native = self._native.get(key)
        own = {fact for fact, _ in facts_in(native)} if native is not None else set()
        room, _, rest = key.partition(".")
        code = rest.removeprefix("errors.")
        if room == "errors":
            return own | template_facts.of_error(rest) if rest in template_facts.codes() else None
        if room in tools.ids() and rest.startswith("errors."):
            return template_facts.of_error(code) | {"error"} if code in template_facts.codes() else None
        if native is None and not (room in tools.ids() and rest == "summary"):
            return None
        return own | (template_facts.of_note(rest) if room == "notes" else template_facts.of_tool(room))


def _flat(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*above, name))
        else:
            yield (*above, name), value


def _format(form: str) -> bool:
    if form.startswith("n "):
        return True
    for value in (1, 1.5, "x"):
        try:
            format(value, form)
        except ValueError:
            continue
        return True
    return False
