"""The data of a conversation: turns, tool calls and their results, and the events of the agent loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Literal

from handrail.frozen import frozen
from handrail.json_types import JsonMapping

Role = Literal["user", "assistant", "tools"]


@frozen
class ToolCall:
    """A tool call that the model asks for."""

    id: str
    name: str
    arguments: str
    """JSON, as the model wrote it; it may be malformed."""


@frozen
class ToolResult:
    """The result of a tool call, for the model."""

    id: str
    name: str
    text: str
    ok: bool = True
    blocks: Sequence[Mapping[str, object]] = ()
    """Images: `base64` and `mime_type`."""
    pruned: bool = False


@frozen
class Turn:
    """One turn: a user message, a model reply, or the results of the calls in that reply."""

    role: Role
    text: str = ""
    calls: Sequence[ToolCall] = ()
    results: Sequence[ToolResult] = ()
    raw: JsonMapping | None = None
    """The reply in the form of its API: {"api": ..., "content": [...]}."""
    blocks: Sequence[Mapping[str, object]] = ()
    """Images of a user message: `base64` and `mime_type`."""


@frozen
class Usage:
    """Tokens of one request."""

    input: int = 0
    output: int = 0
    cached: int = 0
    is_estimated: bool = False
    """The server did not count."""


@frozen
class Reply:
    """The reply of a model."""

    turn: Turn
    usage: Usage = field(default_factory=Usage)
    cut: bool = False
    """Whether it was cut off at the limit of its length."""


_STORED_KEYS = {"calls": "uses", "results": "given", "call": "use"}
"""Fields whose keys in stored conversations and JSON events are older than their names."""


def as_json(turn: Turn) -> dict[str, object]:
    """Return a turn as JSON values, in the format of stored conversations."""
    return _with_stored_keys(asdict(turn))


def _with_stored_keys(fields: Mapping[str, object]) -> dict[str, object]:
    return {_STORED_KEYS.get(name, name): value for name, value in fields.items()}


def from_json(value: JsonMapping) -> Turn:
    """Read a turn that `as_json` wrote; raises `ValueError`, `TypeError` or `KeyError` for anything else."""
    calls = [ToolCall(**one) for one in value.get("uses", ())]
    results = [ToolResult(**one) for one in value.get("given", ())]
    if value["role"] not in ("user", "assistant", "tools"):
        raise ValueError(f"unknown role {value['role']!r}")
    text, raw = value.get("text", ""), value.get("raw")
    texts = [text, *(part for call in calls for part in (call.id, call.name, call.arguments))]
    texts += [part for one in results for part in (one.id, one.name, one.text)]
    if not all(isinstance(part, str) for part in texts):
        raise TypeError("a text is not a string")
    if raw is not None and not (isinstance(raw["api"], str) and isinstance(raw["content"], list)):
        raise TypeError("a stored reply has no API or no content")
    blocks = value.get("blocks", ())
    if not all(isinstance(block["base64"], str) and isinstance(block["mime_type"], str) for block in blocks):
        raise TypeError("an image is not a string")
    return Turn(value["role"], text, tuple(calls), tuple(results), raw, tuple(blocks))


# Events of the agent loop.


@frozen
class TextDelta:
    """A piece of the model's text, while it is streamed."""

    text: str


@frozen
class ReasoningDelta:
    """A piece of the model's reasoning, or of its summary, where the server sends one."""

    text: str


@frozen
class ModelReplied:
    """The model has replied: its whole text, and its tokens."""

    text: str
    usage: Usage
    seconds: float


@frozen
class CallStarted:
    """A tool call has started."""

    call: ToolCall


@frozen
class CallFinished:
    """A tool call has ended."""

    call: ToolCall
    status: str
    text: str
    seconds: float
    diff: str = ""
    command: bool = False
    """Whether it ran a command."""
    exit_code: int | None = None
    stopped: bool = False
    """Whether the command was cancelled, or ended by its time limit."""


@frozen
class Retrying:
    """A request to the model failed and will be repeated."""

    why: str
    seconds: float
    attempt: int


@frozen
class Compacted:
    """The conversation was made shorter."""

    before: int
    after: int
    how: str


Event = TextDelta | ReasoningDelta | ModelReplied | CallStarted | CallFinished | Retrying | Compacted


_EVENT_NAMES: dict[type[Event], str] = {
    TextDelta: "said",
    ReasoningDelta: "reasoned",
    ModelReplied: "asked",
    CallStarted: "began",
    CallFinished: "ended",
    Retrying: "waiting",
    Compacted: "compacted",
}
"""The names of events in JSON, which scripts read."""


def event_json(event: Event) -> dict[str, object]:
    """Return an event as JSON values, for scripts."""
    return {"event": _EVENT_NAMES[type(event)], **_with_stored_keys(asdict(event))}
