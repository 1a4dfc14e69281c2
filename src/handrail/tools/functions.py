"""Tools that are functions of the host's own, with arguments from type hints and descriptions from docstrings.

An argument of type `ReadFile` or `WriteFile` is a path for the model, and a file for the function. It declares the
access: boundary, rules, approval, journal and undo hold for it as for the arguments of a built-in tool.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from handrail.errors import ToolError, ToolFailed
from handrail.frozen import frozen
from handrail.json_types import JsonObject
from handrail.model import Access, FileAccess, ToolAccess
from handrail.text import lines
from handrail.text.document import keep_endings
from handrail.text.partial_change import replace_text
from handrail.tools.arguments import Argument, Arguments, Field
from handrail.tools.tool import FUNCTION, AnyTool, Context, Hints, Loaded, Outcome, Templates, Tool

Function = TypeVar("Function", bound=Callable[..., object])
_ATTRIBUTE = "__handrail_tool__"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):[ \t]*$", re.MULTILINE)
_DOCUMENTED = re.compile(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")
_TYPES = (
    "str, int, float, bool, Literal[...], list[...], dict[str, ...], a TypedDict, Any, ReadFile or WriteFile, "
    "each with `| None` if it may be missing"
)


class ReadFile(Protocol):
    """A file that a function may read: the type of an argument for which the model gives a path."""

    @property
    def name(self) -> str:
        """The path as the model wrote it."""

    @property
    def path(self) -> Path:
        """The real path, for a library that opens files itself. What is written there directly cannot be undone."""

    def exists(self) -> bool:
        """Whether there is a file of this name."""

    def read_text(self) -> str:
        """The text of the file in its own encoding, with `\\n` at the end of lines."""

    def read_bytes(self) -> bytes:
        """The contents of the file."""


class WriteFile(ReadFile, Protocol):
    """A file that a function may read, replace or create."""

    def write_text(self, text: str) -> None:
        """Replace the whole text. It is written when the function has returned, with all others or not at all.

        The file keeps its encoding and its line endings. If the function has not read it, the model must have.
        """


class RunContext(Protocol):
    """The call that a function runs for: the type of an argument that the model does not see."""

    @property
    def call_id(self) -> str:
        """The id that the host or the model gave to the call; may be empty."""

    @property
    def cancelled(self) -> bool:
        """Whether the caller does not wait for the result any more."""

    def report_progress(self, message: str, done: float | None = None, total: float | None = None) -> None:
        """Tell the host how far the call has come, as a `ToolProgress` event."""


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, read_only: bool = False, repeatable: bool = False
) -> Callable[[Function], Function]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    repeatable: bool = False,
) -> Function | Callable[[Function], Function]:
    """Make a function a tool for `Session(root, tools=[...])`. The function itself stays as it is.

    ``name`` and ``description`` default to the function's name and docstring. ``read_only``: it changes nothing
    anywhere, and may run beside other calls. ``repeatable``: it changes nothing but its `WriteFile` arguments, and may
    also run for a preview of the changes. A function that is neither is judged as a `call`, besides its files. Raises
    `ValueError` for what cannot be a tool.
    """

    def decorate(function: Function) -> Function:
        setattr(function, _ATTRIBUTE, make_tool(function, name, description, read_only, repeatable))
        return function

    return decorate if function is None else decorate(function)


def as_tool(candidate: AnyTool | Callable[..., object]) -> AnyTool:
    """The tool of an object that a host gives to `Session`; raises `ValueError` if it cannot be one."""
    if isinstance(candidate, Tool):
        return candidate
    tool = getattr(candidate, _ATTRIBUTE, None)
    if isinstance(tool, Tool):
        return tool
    if not callable(candidate):
        raise ValueError(f"tools must be functions or Tool objects, not {repr(candidate)[:80]}")
    return make_tool(candidate)


def make_tool(
    function: Callable[..., object],
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    repeatable: bool = False,
) -> AnyTool:
    """The tool that calls ``function``; raises `ValueError` that says what cannot be a tool."""
    name = getattr(function, "__name__", "") if name is None else name
    if not _NAME.fullmatch(name):
        raise ValueError(f"a tool cannot be called {name!r}: use at most 64 letters, digits, - and _, a letter first")
    text, documented = _parse_docstring(inspect.getdoc(function) or "")
    description = text if description is None else description
    if not description.strip():
        raise ValueError(f"the tool {name} has no description: write a docstring, or give description=")
    parameters = _Parameters(function, name, documented)
    hints = Hints(read_only=read_only, idempotent=read_only)

    def accesses(args: Arguments) -> Sequence[Access]:
        call = [] if read_only or repeatable else [ToolAccess(name)]
        return [*parameters.accesses(args), *call]

    def run(args: Arguments, ctx: Context[NoLimits]) -> Outcome[FunctionFacts]:
        try:
            value = function(**parameters.bind(args, ctx))
            if inspect.isawaitable(value):
                value = ctx.wait_for(value)
            text, data = _render_value(value)
        except ToolError:
            raise
        except Exception as error:  # a function of the host's may raise anything
            raise ToolFailed(why=_describe_exception(error)) from error
        return Outcome("done", FunctionFacts(text), data)

    return Tool(
        id=FUNCTION + name,
        args=parameters.args,
        limits=NoLimits,
        facts=FunctionFacts,
        run=run,
        render=_render,
        hints=hints,
        accesses=accesses,
        description=description,
        repeatable=repeatable,
    )


@frozen
class NoLimits:
    """A function has no limits that a dialect could set."""


@frozen
class FunctionFacts:
    text: str


def _render(outcome: Outcome[FunctionFacts], templates: Templates) -> str:
    return outcome.facts.text + templates.notes


class _Parameters:
    """The parameters of a function: which the model gives, which are files, and which is the context."""

    def __init__(self, function: Callable[..., object], tool: str, documented: Mapping[str, str]) -> None:
        try:
            signature = inspect.signature(function)
            hints = get_type_hints(_unwrap(function), include_extras=True)
        except (TypeError, ValueError, NameError) as error:
            raise ValueError(f"the arguments of the tool {tool} are not known: {error}") from None
        self._files: dict[str, Literal["read", "write"]] = {}
        self._context = ""
        declared: dict[str, Argument] = {}
        for parameter in signature.parameters.values():
            name = parameter.name
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise ValueError(f"the tool {tool} cannot have the argument {parameter}: give each one a name")
            if name not in hints:
                raise ValueError(f"the argument {name} of the tool {tool} has no type: use {_TYPES}")
            if hints[name] is RunContext:
                self._context = name
                continue
            declared[name] = self._declare(tool, parameter, hints[name], documented.get(name, ""))
        self.args = _make_args(declared)

    def _declare(self, tool: str, parameter: inspect.Parameter, hint: object, description: str) -> Argument:
        name, declared = parameter.name, Argument(*_split_hint(hint))
        action = _find_action(declared.type)
        if action:
            self._files[name] = action
        field = _make_field(declared.marks, description)
        kind = _as_path(declared.type) if action else declared.type
        default = {} if parameter.default is parameter.empty else {"default": parameter.default}
        argument = Argument(kind, (field,), **default)
        try:
            _make_args({name: argument}).json_schema()
            if not argument.is_required and not (action and parameter.default is None):
                json.dumps(parameter.default)
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(f"the argument {name} of the tool {tool}: {error}; use {_TYPES}") from None
        if action and parameter.default not in (parameter.empty, None):
            raise ValueError(f"the argument {name} of the tool {tool} is a file: its default can only be None")
        return argument

    def accesses(self, args: Arguments) -> list[Access]:
        named = [(action, name) for name, action in self._files.items()]
        paths = [(action, path) for action, name in named for path in _list_paths(args.__dict__[name])]
        return list(dict.fromkeys(FileAccess(action, path) for action, path in paths))

    def bind(self, args: Arguments, ctx: Context[NoLimits]) -> dict[str, object]:
        """The values that the function is called with."""
        values: dict[str, object] = {name: args.__dict__[name] for name in self.args.declared()}
        opened: dict[str, _DeclaredFile] = {}
        for name in self._files:
            value = args.__dict__[name]
            for path in _list_paths(value):
                opened.setdefault(path, _DeclaredFile(path, ctx))
            values[name] = [opened[path] for path in value] if isinstance(value, list) else opened.get(value)
        if self._context:
            values[self._context] = _FunctionContext(ctx)
        return values


class _DeclaredFile:
    """The file of one argument, through the context of the call."""

    def __init__(self, name: str, ctx: Context[NoLimits]) -> None:
        self._name, self._ctx = name, ctx
        self._loaded: Loaded | None = None
        self._written: str | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def path(self) -> Path:
        return Path(self._ctx.real(self._name))

    def exists(self) -> bool:
        return self._ctx.exists(self._name)

    def read_text(self) -> str:
        return lines.to_feeds(self._load().document.text)

    def read_bytes(self) -> bytes:
        return self._load().stored.raw

    def _load(self) -> Loaded:
        if self._written is not None:
            raise RuntimeError(f"{self._name} is read after it was written in the same call")
        self._loaded = self._loaded or self._ctx.load(self._name, unseen=True)
        return self._loaded

    def write_text(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"write_text takes a str, not {type(text).__name__}")
        if self._written is not None:
            raise RuntimeError(f"{self._name} is written twice in the same call")
        loaded = self._loaded
        if loaded is None and self._ctx.exists(self._name):
            loaded = self._ctx.load(self._name, whole=True)
        old = loaded.document.text if loaded else ""
        new = text if "\r" in text or not loaded else keep_endings(old, 0, len(old), text)
        self._ctx.stage(self._name, loaded, replace_text(old, new))
        self._written = text


class _FunctionContext:
    """The `RunContext` of one call."""

    def __init__(self, ctx: Context[NoLimits]) -> None:
        self._ctx = ctx

    @property
    def call_id(self) -> str:
        return self._ctx.call_id

    @property
    def cancelled(self) -> bool:
        return self._ctx.cancel is not None and self._ctx.cancel.is_set()

    def report_progress(self, message: str, done: float | None = None, total: float | None = None) -> None:
        self._ctx.report_progress(message, done, total)


def _make_args(declared: Mapping[str, Argument]) -> type[Arguments]:
    class Args(Arguments):
        pass

    Args.declare(declared)
    return Args


def _unwrap(function: Callable[..., object]) -> object:
    """The function whose annotations count: of an object that can be called, its method."""
    function = inspect.unwrap(function)
    return function if inspect.isroutine(function) else type(function).__call__


def _split_hint(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return (hint.__origin__, hint.__metadata__) if get_origin(hint) is Annotated else (hint, ())


def _find_action(kind: object) -> Literal["read", "write", ""]:
    """The access that an argument of this type declares; empty if it is not a file."""
    if kind in (ReadFile, WriteFile):
        return "read" if kind is ReadFile else "write"
    if get_origin(kind) in (Union, UnionType, list):
        return next((action for inner in get_args(kind) if (action := _find_action(_split_hint(inner)[0]))), "")
    return ""


def _as_path(kind: object) -> object:
    """The type of a file argument as the model gives it: a path in the place of each file."""
    if kind in (ReadFile, WriteFile):
        return str
    if get_origin(kind) is list:
        return list[_as_path(get_args(kind)[0])]  # type: ignore[misc]
    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(one if one is NoneType else _as_path(one) for one in get_args(kind))]  # noqa: UP007
    return kind


def _list_paths(value: Any) -> list[str]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _make_field(marks: Sequence[object], description: str) -> Field:
    """The description and the bounds in `Annotated`: a text, a `Field` of pydantic, or bounds of annotated_types."""
    known: JsonObject = {"description": description}
    for mark in marks:
        if isinstance(mark, str):
            known["description"] = mark
        for one in (mark, *getattr(mark, "metadata", ())):
            bounds = {bound.name: getattr(one, bound.name, None) for bound in fields(Field)}
            known |= {name: value for name, value in bounds.items() if type(value) in (str, int, float)}
    return Field(**known)


def _parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description in a docstring, and that of each argument in its section `Args:`."""
    sections = list(_SECTION.finditer(text))
    description = text[: sections[0].start()].strip() if sections else text.strip()
    documented: dict[str, str] = {}
    for number, section in enumerate(sections):
        if section[1] not in ("Args", "Arguments", "Parameters"):
            continue
        end = sections[number + 1].start() if number + 1 < len(sections) else len(text)
        body = inspect.cleandoc(text[section.end() : end])
        name = ""
        for line in body.split("\n"):
            match = _DOCUMENTED.fullmatch(line)
            if match:
                name = match[1]
                documented[name] = match[2]
            elif name and line.startswith(" "):
                documented[name] += " " + line.strip()
            elif line.strip():
                name = ""
    return description, documented


def _render_value(value: object) -> tuple[str, JsonObject]:
    """A returned value as text for the model, and as data for programs."""
    if value is None:
        return "Done.", {}
    if isinstance(value, str):
        return value, {}
    text = json.dumps(value, ensure_ascii=False, default=str)
    plain = json.loads(text)
    return text, plain if isinstance(plain, dict) else {"value": plain}


def _describe_exception(error: Exception) -> str:
    kind, text = type(error).__name__, str(error)
    return f"{kind}: {text}" if text else kind
