"""Failures of a call itself, and refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar, Self, dataclass_transform

from handrail.json_types import JsonObject


@dataclass_transform(kw_only_default=True)
class _Facts(Exception):
    """An exception whose annotated fields are its facts."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, **facts: object) -> None:
        super().__init__(self.code, facts)
        self.__dict__.update(facts)

    def __reduce__(self) -> tuple[partial[Self], tuple[()]]:
        """How another process gets it."""
        return partial(type(self), **self.facts), ()

    @property
    def facts(self) -> JsonObject:
        """The facts that are known, by name. Callers that know more of the failure add to them."""
        return self.__dict__

    @classmethod
    def names(cls) -> frozenset[str]:
        """The facts that this failure declares."""
        declared = {name for kind in cls.__mro__ for name in vars(kind).get("__annotations__", ())}
        return frozenset(declared - {"code", "wrap"})


class ToolError(_Facts):
    """A call failed. The annotated fields of a class are its facts, given as keyword arguments and read as attributes.

    A field with a default may be left out. The template `errors.CODE` of a dialect may use every field.
    """

    tool: str = ""
    """The tool as the model calls it."""
    verb: str = ""
    """Our id of the tool."""
    path: str | None = None
    wrap: str | None = None
    """The message around this one, for a failure inside a larger call."""

    def __str__(self) -> str:
        return f"{self.code}: " + ", ".join(f"{name}={value!r}" for name, value in self.facts.items())


class CallError(ToolError):
    """The call itself is wrong."""


class BadJson(CallError):
    code = "bad_json"
    why: str


class UnknownTool(CallError):
    code = "unknown_tool"
    tool: str
    known: Sequence[str]


class BadArguments(CallError):
    code = "bad_arguments"
    problems: str


class SessionOver(CallError):
    """The session was closed."""

    code = "session_over"


class CallCancelled(CallError):
    """The caller cancelled the call."""

    code = "cancelled"


class ConnectionLost(CallError):
    """The server of a remote workspace cannot be reached, or no longer; ``where`` is its address."""

    code = "connection_lost"
    where: str
    why: str


class Interrupted(CallError):
    """The server of a remote workspace ended during this call, which is not made again; ``effects``: what is known."""

    code = "interrupted"
    effects: str


class ToolFailed(CallError):
    """A function of the host's own raised an exception; ``why`` is its message."""

    code = "tool_failed"
    why: str


class CallbackFailed(CallError):
    """A callback of the host raised an exception; ``callback`` is its name, ``why`` the message."""

    code = "callback_failed"
    callback: str
    why: str


class Refusal(ToolError):
    """The call is not allowed; the result is `denied`."""


class OutsideWorkspace(Refusal):
    code = "outside_workspace"
    roots: Sequence[str]
    link: bool


class ReadOnlyRoot(Refusal):
    code = "read_only_root"
    root: str


class Denied(Refusal):
    code = "denied"
    rule: str
    why: str
    source: str
    allow: str
    advice: str = ""


class NeedsApproval(Refusal):
    code = "needs_approval"
    rule: str
    why: str
    source: str
    allow: str
    attach: str
    advice: str = ""


class Dangerous(Refusal):
    """A command that no policy allows."""

    code = "dangerous"
    part: str
    why: str


class Bug(ToolError):
    """A fault of this program."""

    code = "internal_error"
    what: str


def iterate_failures(base: type[ToolError] = ToolError) -> Iterator[type[ToolError]]:
    """Every class with an error code of its own."""
    for kind in base.__subclasses__():
        if "code" in vars(kind):
            yield kind
        yield from iterate_failures(kind)
