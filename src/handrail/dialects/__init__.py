"""Dialects: the names, schemas, messages, limits and rules that one family of models knows, as data.

A dialect is a folder: `tools.toml` (the tools with their names and limits), `messages.toml` (sentences by code), and
`NAME.md` and `NAME.json` where a tool has a description or schema of the dialect's own. Where names and limits are not
enough, a tool has an adapter, a Python file in that folder. `extends` inherits all of it.
No other package asks which dialect is in use.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import asdict, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from handrail import tools
from handrail.dialects.folder import HERE as HERE
from handrail.dialects.folder import DialectError as DialectError
from handrail.dialects.folder import find_folder, locate, read_folder
from handrail.dialects.folder import names as names
from handrail.dialects.renderers import RENDERERS, RenderContext, Renderer
from handrail.dialects.templates import DialectTemplates
from handrail.errors import BadPath, NothingToChange, ToolError, UnknownTool
from handrail.frozen import frozen
from handrail.json_types import JsonMapping, JsonObject
from handrail.model import Call, Result
from handrail.tools.tool import FUNCTION, AnyTool, Hints


@frozen
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
    texts: Sequence[str] = ()
    """Texts; anything else, or nothing, counts as empty."""
    switches: Sequence[str] = ()
    """Switches; anything but true counts as false."""
    add: Mapping[str, int] = field(default_factory=dict)
    """Added to a number that the dialect counts from elsewhere: `offset = 1` if it counts lines from 0."""
    scale: Mapping[str, float] = field(default_factory=dict)
    """Factor for a number that the dialect gives in another unit."""
    invert: Sequence[str] = ()
    """Switches with the opposite meaning."""
    values: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Values of the dialect -> ours, by argument: `path = { "/" = "." }`; `true` and `false` for a switch."""
    preset: Mapping[str, object] = field(default_factory=dict)
    """Defaults of the dialect for arguments of ours."""
    forgets: bool = False
    """Whether files that a call wrote must be read again before the next change."""
    data: Mapping[str, str] = field(default_factory=dict)
    """For a renderer that shows data: its names -> ours."""
    limits: Mapping[str, object] = field(default_factory=dict)

    @property
    def argument_names(self) -> dict[str, str]:
        """Every argument name of the dialect that is not ours -> ours; names that models see win."""
        return {**self.also, **self.rename}

    def translate(
        self, arguments: Mapping[str, object], known: Collection[str], needed: Collection[str]
    ) -> tuple[dict[str, object], list[str]]:
        """The arguments of a call in our names, and the names that the tool does not have."""
        expanded = self._expand_objects(arguments) if self.spread else arguments
        if self.texts or self.switches:
            expanded = {**expanded, **self._coerce(expanded)}
        if self.filled or self.differ:
            self._check(expanded)
        translated: dict[str, object] = dict(self.preset)
        unknown = []
        names, items = self.rename, expanded.items()
        if self.also:
            names = self.argument_names
            # Names that models see come last, so that they win over an older name for the same argument.
            items = dict(sorted(items, key=lambda item: item[0] in known)).items()
        changes_values = self.whole or self.add or self.scale or self.invert or self.values
        for theirs, value in items:
            if theirs in self.unused:
                continue
            if theirs not in known and theirs not in self.also:
                unknown.append(theirs)
            elif not (value is None and theirs not in needed):  # null: as if it had not been given
                value = self._translate_value(theirs, value) if changes_values else value
                if value is not None or theirs in needed:
                    translated[names.get(theirs, theirs)] = value
        return translated, unknown

    def _expand_objects(self, arguments: JsonMapping) -> Mapping[str, object]:
        expanded = dict(arguments)
        for name in self.spread:
            if isinstance(expanded.get(name), Mapping):
                expanded = {**expanded.pop(name), **expanded}
        return expanded

    def _coerce(self, values: Mapping[str, object]) -> dict[str, object]:
        texts = {name: "" for name in self.texts if not isinstance(values.get(name), str)}
        return texts | {name: values[name] is True for name in self.switches if name in values}

    def _check(self, values: Mapping[str, object]) -> None:
        for name in self.filled:
            value = values.get(name)
            if not isinstance(value, str) or not value.strip():
                raise BadPath(path=value if isinstance(value, str) else "", why="it is empty", blank=True)
        texts = [values.get(name) for name in self.differ]
        if texts and isinstance(texts[0], str) and all(text == texts[0] for text in texts):
            raise NothingToChange(old=texts[0])

    def _translate_value(self, theirs: str, value: object) -> object:
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
    """Whether a limit of that type takes the value: an exact type, or a whole number where fractions are allowed."""
    kinds = [one.split("[")[0] for one in describe_type(annotation).split(" | ")]
    return type(value).__name__ in kinds or (type(value) is int and "float" in kinds)


def _truncate(value: object) -> int | None:
    """A number of at least 1 without its fraction; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return math.trunc(value) if 1 <= value < math.inf else None


def _shift(value: Any, more: int) -> object:
    """A number in our counting. A negative one counts from the end and stays, as does anything that is not a number."""
    if more and isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        value = int(value)  # a model's "12"
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return value + more if numeric and value >= 0 else value


def _scale(value: object, factor: float | None) -> object:
    """A number in our unit; anything else stays, and is refused later."""
    if factor is None or isinstance(value, bool):
        return value
    try:
        return float(value) * factor if isinstance(value, int | float | str) else value
    except (ValueError, OverflowError):
        return value


def _invert(value: object) -> object:
    """The opposite of a switch, also of a text such as "true"; anything else stays, and is refused later."""
    value = {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value
    return not value if isinstance(value, bool) else value


@frozen
class Rules:
    """When a dialect allows changes of a file."""

    read_before_write: bool = True
    stale: Literal["content", "mtime"] = "content"
    """How a change since the last read is recognised."""
    unread_lines: bool = False
    """Whether lines of a file that was never read may be replaced if the call quotes them exactly."""
    slash_is_workspace: bool = False
    """Whether an absolute path such as `/src` is meant to begin at the workspace."""
    seen_first: bool = False
    """Whether a file that was never read is refused as unread even if it does not exist."""


@frozen
class Spec:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: JsonMapping
    hints: Hints


class Dialect:
    """One loaded dialect. Adapters run only if its folder belongs to an ``installed`` package."""

    def __init__(self, name: str, folder: Path, *, installed: bool = False) -> None:
        self.name = name
        self._folder = read_folder(locate(folder, installed=installed))
        table = self._folder.table
        self.about: str = table.get("about", "")
        self.quiet: Sequence[str] = table.get("quiet_notes", ())
        """Notes that are not repeated in the text of a result, which says the same in another way."""
        self.data_names: Mapping[str, str] = table.get("data", {})
        self.shared_limits: Mapping[str, object] = table.get("limits", {})
        """Limits of every tool that has such a limit."""
        self.codes: Mapping[str, str] = table.get("codes", {})
        """Our error codes -> those of the dialect."""
        try:
            self.rules = Rules(**table.get("rules", {}))
            self.entries = {shown: ToolEntry(shown, **entry) for shown, entry in table["tools"].items()}
        except (TypeError, KeyError) as error:
            raise DialectError(f"{folder / 'tools.toml'}: missing or unknown key: {error}") from None
        if self.rules.stale not in ("content", "mtime"):
            raise DialectError(
                f"{folder / 'tools.toml'}: rules.stale is 'content' or 'mtime', not {self.rules.stale!r}"
            )
        self.core: Sequence[str] = table.get("core", list(self.entries))
        """The tools that are offered by default; all of them unless the dialect says otherwise."""
        for name in self.core:
            if name not in self.entries:
                raise DialectError(f"{folder / 'tools.toml'}: core lists {name!r}, which is not a tool of this dialect")
        for entry in self.entries.values():
            if entry.id not in tools.list_ids() and not tools.find_entry_points(entry.id):
                raise DialectError(f"{folder / 'tools.toml'}: {entry.name} has the unknown tool id {entry.id!r}")
        self._own: Mapping[str, AnyTool] = {}
        """Tools of the host's own, by id."""
        self._limits: dict[str, object] = {}
        self._specs: dict[str, Spec] = {}
        self._called = {called: entry for entry in self.entries.values() for called in entry.called}
        names = [*self.entries, *(called for entry in self.entries.values() for called in entry.called)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise DialectError(f"{folder / 'tools.toml'}: two tools have the name {', '.join(twice)}")
        if table.get("renderer", "text") not in RENDERERS:
            raise DialectError(f"{folder / 'tools.toml'}: renderer is one of {sorted(RENDERERS)}")
        self._renderer: Renderer = RENDERERS[table.get("renderer", "text")]
        self.templates = DialectTemplates(
            self._folder.messages, table.get("gutter", "{number:>6}\t"), table.get("said_add", {}), self.find_name
        )

    @cached_property
    def prompt(self) -> str:
        """The system prompt of an agent of this family; empty if the dialect has none."""
        own = self._folder.prompt()
        return own.read_text(encoding="utf-8").strip() if own else ""

    @cached_property
    def policy(self) -> str:
        """Rules for sessions in this dialect, as TOML for `handrail.parse_rules`; empty if the dialect has none."""
        own = self._folder.policy()
        return own.read_text(encoding="utf-8") if own else ""

    def entry(self, name: str) -> ToolEntry:
        """The tool that a model calls ``name``."""
        entry = self.entries.get(name) or self._called.get(name)
        if entry is None:
            raise UnknownTool(tool=name, known=list(self.entries))
        return entry

    def find_name(self, fact: str) -> str | None:
        """What the dialect calls an offered tool (`tool_ID`) or an argument (`arg_ID_NAME`); None if it has none."""
        kind, _, wanted = fact.partition("_")
        for name, entry in self.entries.items():
            if kind == "tool" and entry.id == wanted and name in self.core:
                return str(name)
            if kind == "arg" and wanted.startswith(f"{entry.id}_"):
                ours = wanted.removeprefix(f"{entry.id}_")
                theirs = next((theirs for theirs, inner in entry.rename.items() if inner == ours), ours)
                if theirs in self.spec(name).schema["properties"]:
                    return theirs
        return None

    def offering(self, names: Sequence[str]) -> Dialect:
        """This dialect for a model that is offered these tools only, or `all`: answers name no others.

        Without names it stays as it is. Raises `ValueError` for a tool that it does not have.
        """
        if not names:
            return self
        if missing := [name for name in names if name not in self.entries and name != "all"]:
            raise ValueError(f"the dialect {self.name} has no tool {missing[0]!r}; it has {', '.join(self.entries)}")
        narrowed = copy(self)
        narrowed.core = list(self.entries) if "all" in names else list(names)
        narrowed.templates = self.templates.naming(narrowed.find_name)
        return narrowed

    def with_tools(self, own: Sequence[AnyTool]) -> Dialect:
        """This dialect with further tools of the host's own; raises `ValueError` for a name that is taken."""
        extended = copy(self)
        extended._limits, extended._specs = {}, {}
        extended._own = {tool.id: tool for tool in own}
        extended.entries = dict(self.entries)
        for tool in own:
            name = tool.id.removeprefix(FUNCTION)
            if name in self.entries or name in self._called:
                raise ValueError(f"the dialect {self.name} has a tool {name} already: give yours another name")
            if name in extended.entries:
                raise ValueError(f"two of the tools are called {name}: give one of them another name")
            if tool.id in tools.list_ids():
                raise ValueError(f"the id {tool.id} is that of a built-in tool: give yours another id")
            extended.entries[name] = ToolEntry(name, tool.id, forgets=tool.id.startswith(FUNCTION))
        extended.core = [*self.core, *(name for name in extended.entries if name not in self.entries)]
        return extended

    def with_names(self, names: Mapping[str, str]) -> Dialect:
        """This dialect for a model that has other tools: `tool_ID` and `arg_ID_NAME` -> the names it knows."""
        renamed = copy(self)
        renamed.templates = self.templates.naming(names.get)
        return renamed

    def tool(self, name: str) -> AnyTool:
        """The tool that a model calls ``name``: the dialect's adapter of it, or the tool itself; imported now."""
        entry = self.entry(name)
        file = self._folder.adapters.get(entry.name)
        if file is None:
            return self._own.get(entry.id) or tools.load(entry.id)
        from handrail.dialects.adapters import load_adapter  # not needed by dialects without one

        return load_adapter(file, entry.id)

    def limits(self, name: str) -> Any:
        """The limits in force for a tool."""
        if name not in self._limits:
            self._limits[name] = self._read_limits(name)
        return self._limits[name]

    def _read_limits(self, name: str) -> object:
        entry, tool = self.entry(name), self.tool(name)
        standard = tool.limits()
        known = {limit.name: limit.type for limit in fields(standard)}
        values = {name: value for name, value in self.shared_limits.items() if name in known} | dict(entry.limits)
        for name, value in values.items():
            if name not in known:
                raise DialectError(f"dialect {self.name}: {entry.name} has no limit {name!r}, only {sorted(known)}")
            if not is_of_type(value, known[name]):
                kind = describe_type(known[name])
                raise DialectError(f"dialect {self.name}: {entry.name}: limit {name!r} is a {kind}, not {value!r}")
        return replace(standard, **values)

    def spec(self, name: str) -> Spec:
        """The description and schema of one tool, as a model sees them."""
        if name not in self._specs:
            self._specs[name] = self._build_spec(name)
        return self._specs[name]

    def _build_spec(self, name: str) -> Spec:
        entry, tool = self.entry(name), self.tool(name)
        names = entry.argument_names
        for ours in (*names.values(), *(names.get(theirs, theirs) for theirs in entry.add)):
            if ours not in tool.args.declared():
                raise DialectError(
                    f"dialect {self.name}: {name} has no argument {ours!r}, only {[*tool.args.declared()]}"
                )
        limits = self.limits(name)
        own = self._folder.file(entry.name, ".md")
        if own:
            words = own.read_text(encoding="utf-8").removesuffix("\n")
        else:
            try:
                words = tools.describe(tool)
            except OSError:
                raise DialectError(
                    f"dialect {self.name}: {name} has no description; write {name}.md beside tools.toml"
                ) from None
            for limit in fields(limits):
                value = getattr(limits, limit.name)
                words = words.replace("{" + limit.name + "}", f"{value:g}" if isinstance(value, float) else str(value))
        schema = self._build_schema(entry, tool)
        for theirs in (*entry.filled, *entry.differ, *entry.whole, *entry.texts, *entry.switches):
            if theirs not in schema["properties"] and theirs not in entry.also:
                raise DialectError(f"dialect {self.name}: {name} has no argument {theirs!r} to be checked")
        return Spec(entry.name, words, schema, tool.hints)

    def plain_specs(self) -> list[JsonObject]:
        """Every tool as plain JSON values, as `specs.json` holds them."""
        return [
            {
                "name": name,
                "id": entry.id,
                "core": name in self.core,
                "hints": asdict(self.spec(name).hints),
                "description": self.spec(name).description,
                "inputSchema": self.spec(name).schema,
            }
            for name, entry in self.entries.items()
        ]

    def _build_schema(self, entry: ToolEntry, tool: AnyTool) -> JsonMapping:
        own = self._folder.file(entry.name, ".json")
        if own:
            schema: Mapping[str, object] = json.loads(own.read_text(encoding="utf-8"))
            return schema
        from handrail.dialects.schema import build_schema

        return build_schema(tool.args, {ours: theirs for theirs, ours in entry.rename.items()})

    def translate(self, name: str, arguments: Mapping[str, object]) -> tuple[ToolEntry, dict[str, object], list[str]]:
        """A call in our names: the tool's entry, its arguments, and argument names that it does not have."""
        entry = self.entry(name)
        schema = self.spec(name).schema
        ours, unknown = entry.translate(arguments, schema["properties"], schema.get("required", ()))
        return entry, ours, unknown

    def render(self, result: Result, call: Call, home: str) -> Result:
        """A result in the shape that the dialect's models know."""
        if self._renderer is RENDERERS["text"]:
            return result
        entry = self.entries.get(call.tool) or self._called.get(call.tool)
        return self._renderer(result, RenderContext(call, home, entry.data if entry else {}, self.codes, self.quiet))

    def render_error(self, error: ToolError) -> str:
        """The message for a failure; a tool may have one of its own, around the general one."""
        text = self.templates.fill(f"errors.{error.code}", **error.facts)
        own = f"{error.facts.get('verb')}.errors.{error.code}"
        if own in self.templates.messages:
            text = self.templates.fill(own, **{**error.facts, "error": text})
        return self.templates.fill(error.wrap, **error.facts, error=text) if error.wrap else text


@cache
def load(name: str) -> Dialect:
    """The dialect of that name, in the folder of that path, or registered by another package under that name."""
    place = find_folder(name)
    return Dialect(name, place.path, installed=place.installed)
