"""The nouns of a conversation: what was said, which calls were made, and what the loop reports while it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Role = Literal["user", "assistant", "tools"]


@dataclass(frozen=True, slots=True)
class Use:
    """A tool that the model wants to use."""

    id: str
    name: str
    arguments: str
    """JSON, as the model wrote it; it may be broken."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a use came to, for the model."""

    id: str
    name: str
    text: str
    ok: bool = True
    blocks: Sequence[Mapping[str, Any]] = ()
    """Pictures: `base64` and `mime_type`."""
    pruned: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: a person's words, a model's reply, or the results of the calls in it."""

    role: Role
    text: str = ""
    uses: Sequence[Use] = ()
    given: Sequence[Given] = ()
    raw: Mapping[str, Any] | None = None
    """The reply as its API wants it back: {"api": ..., "content": [...]}."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request."""

    input: int = 0
    output: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered."""

    turn: Turn
    usage: Usage = field(default_factory=Usage)
    cut: bool = False
    """Whether it ran into the limit of its output."""


def as_json(turn: Turn) -> dict[str, Any]:
    return asdict(turn)


def from_json(value: Mapping[str, Any]) -> Turn:
    """A turn that `as_json` made; raises `ValueError`, `TypeError` or `KeyError` for anything else."""
    uses = [Use(**use) for use in value.get("uses", ())]
    given = [Given(**one) for one in value.get("given", ())]
    if value["role"] not in ("user", "assistant", "tools"):
        raise ValueError(f"there is no role {value['role']!r}")
    text, raw = value.get("text", ""), value.get("raw")
    texts = [text, *(part for use in uses for part in (use.id, use.name, use.arguments))]
    texts += [part for one in given for part in (one.id, one.name, one.text)]
    if not all(isinstance(part, str) for part in texts):
        raise TypeError("what should be text is none")
    if raw is not None and not (isinstance(raw["api"], str) and isinstance(raw["content"], list)):
        raise TypeError("what should be a reply is none")
    return Turn(value["role"], text, tuple(uses), tuple(given), raw)


# What the loop reports while it works.


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of the model's text, as it comes."""

    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The model answers: its whole text, and what it cost."""

    text: str
    usage: Usage
    seconds: float


@dataclass(frozen=True, slots=True)
class Began:
    """A call is made."""

    use: Use


@dataclass(frozen=True, slots=True)
class Ended:
    """A call is over."""

    use: Use
    status: str
    text: str
    seconds: float
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something went wrong on the way to the model, and it is tried again."""

    why: str
    seconds: float
    attempt: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """The conversation was made shorter."""

    before: int
    after: int
    how: str


Event = Said | Asked | Began | Ended | Waiting | Compacted


def event_json(event: Event) -> dict[str, Any]:
    """An event as plain JSON values, for scripts."""
    return {"event": type(event).__name__.lower(), **asdict(event)}
