"""Failures of a call itself, and refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar, Self, dataclass_transform

from handrail.json_types import JsonObject


class DeclaredFacts:
    """Has a code, derived from the class name (`BadJson`: `bad_json`), and facts, its annotated fields."""

    code: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.code = vars(cls).get("code") or re.sub(r"\B[A-Z]", r"_\g<0>", cls.__name__).lower()

    @classmethod
    def names(cls) -> frozenset[str]:
        """The facts that a template may use."""
        declared = {name for kind in cls.__mro__ for name in vars(kind).get("__annotations__", ())}
        return frozenset(declared - {"code", "wrap", "advice"})


@dataclass_transform(kw_only_default=True)
class _Facts(DeclaredFacts, Exception):
    """An exception whose annotated fields are its facts."""

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
    why: str


class UnknownTool(CallError):
    tool: str
    known: Sequence[str]


class BadArguments(CallError):
    problems: str


class SessionOver(CallError):
    """The session was closed."""


class CallCancelled(CallError):
    """The caller cancelled the call."""

    code = "cancelled"


class ConnectionLost(CallError):
    """The server of a remote workspace cannot be reached, or no longer; ``where`` is its address."""

    where: str
    why: str


class Interrupted(CallError):
    """The server of a remote workspace ended during this call, which is not made again; ``effects``: what is known."""

    effects: str


class ToolFailed(CallError):
    """A function of the host's own raised an exception; ``why`` is its message."""

    why: str


class CallbackFailed(CallError):
    """A callback of the host raised an exception; ``callback`` is its name, ``why`` the message."""

    callback: str
    why: str


class Refusal(ToolError):
    """The call is not allowed; the result is `denied`."""


class OutsideWorkspace(Refusal):
    roots: Sequence[str]
    link: bool


class ReadOnlyRoot(Refusal):
    root: str


class Denied(Refusal):
    rule: str
    why: str
    source: str
    allow: str
    advice: str = ""


class NeedsApproval(Refusal):
    rule: str
    why: str
    source: str
    allow: str
    attach: str
    advice: str = ""


class Dangerous(Refusal):
    """A command that no policy allows."""

    part: str
    why: str


class Bug(ToolError):
    """A fault of this program."""

    code = "internal_error"
    what: str


def iterate_failures(base: type[ToolError] = ToolError) -> Iterator[type[ToolError]]:
    """Every failure with an error code of its own, but not the groups above them."""
    for kind in base.__subclasses__():
        is_group = any(below.__module__.startswith(f"{__package__}.") for below in kind.__subclasses__())
        if not is_group and kind.code != base.code:
            yield kind
        yield from iterate_failures(kind)
