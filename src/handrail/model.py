"""The nouns of a call: frozen, without behaviour.

A `Call` comes in, `Touch`es say what it would do to which resource, a `Verdict` says whether it may, `Note`s say what
a partial answer leaves out, and a `Result` goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal["read", "write", "delete", "run", "network"]
Status = Literal["ok", "partial", "error", "denied"]
Decision = Literal["allow", "ask", "deny"]
Tier = Literal["", "read_only", "ordinary", "destructive"]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call as it came in, in the dialect's own names."""

    tool: str
    arguments: Mapping[str, Any]
    id: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """What a call will do to one resource."""

    action: Action
    target: str
    """As the model named it: a path, a command, an address."""
    path: str = ""
    """The real absolute path, links followed, once the workspace has resolved it."""
    by_command: bool = False
    """Whether a command would do this, and not a tool: the path need not be in the workspace then."""
    glob: bool = False
    """By a command: the target is a pattern of the shell."""
    below: bool = False
    """By a command: if it is a directory, everything below it is meant too."""
    into: str = ""
    """By a command: if it is a directory, the file of this name in it is meant."""
    sees: Literal["contents", "names", "unhidden"] = "contents"
    """By a command: what it shows of what it reads."""
    tier: Tier = ""
    """Of a command: what it can do at the worst."""
    why: str = ""
    """Of a command: why it is in that tier."""
    doubt: str = ""
    """Of a command: why it cannot be proven what it does."""
    unproven: str = ""
    """Of a command: what it does to files whose names are computed, as words: `delete`, `write`, `read`; `destroy` if
    its computed words may make it destructive."""
    place: str = ""
    """Of a command: the directory that it runs in, if that is not the workspace, or the job that it is typed for."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the policy says of a call, with the rule and the reason."""

    decision: Decision
    rule: str = ""
    """The rule as it is written, or the name of a built-in one."""
    why: str = ""
    source: str = ""
    """Where the rule stands: `file:line`; empty for a built-in one."""
    allow: str = ""
    """The exact rule that would allow this."""

    def __post_init__(self) -> None:
        if self.decision not in ("allow", "ask", "deny"):
            raise ValueError(f"decision must be 'allow', 'ask' or 'deny', not {repr(self.decision)[:80]}")


@dataclass(frozen=True, slots=True)
class Note:
    """Why an answer is partial, and how to go on."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A stable code and the sentence for it."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a call came to. `text` is what the model reads; `partial` if and only if there is a note."""

    tool: str
    status: Status
    text: str
    blocks: tuple[Mapping[str, Any], ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    error: Failure | None = None
    accesses: tuple[Access, ...] = ()
    time_ms: float = 0.0
    id: str = ""

    @property
    def touches(self) -> tuple[Access, ...]:
        """The old name of `accesses`; it will go with the next release."""
        import warnings

        warnings.warn("Result.touches is now Result.accesses", DeprecationWarning, stacklevel=2)
        return self.accesses

    @property
    def ok(self) -> bool:
        """Whether the call was made, in whole or in part."""
        return self.status in ("ok", "partial")


def as_json(result: Result) -> dict[str, Any]:
    """A result as plain JSON values: the contract of `handrail batch` and `handrail call --json`."""
    error = result.error
    return {
        "id": result.id or None,
        "tool": result.tool,
        "status": result.status,
        "text": result.text,
        "blocks": [dict(block) for block in result.blocks],
        "data": dict(result.data),
        "notes": [{"code": note.code, "text": note.text} for note in result.notes],
        "error": {"code": error.code, "message": error.message} if error else None,
        "touches": [{"action": t.action, "target": t.target, "path": t.path} for t in result.accesses],
        "stats": {"time_ms": round(result.time_ms, 3)},
    }
