"""Models behind one interface, whatever their API. The SDKs are imported when a model is opened.

The family of a model follows from its name and decides which API and which dialect are used. Both can be set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from handrail.agent.messages import Reply, Turn
from handrail.frozen import frozen

if TYPE_CHECKING:  # what is known of a model's name is there before the engine is
    from handrail.pipeline.any_session import AnySession

Api = Literal["chat", "responses", "anthropic"]
APIS: tuple[Api, ...] = ("chat", "responses", "anthropic")
Kind = Literal["auth", "rate", "server", "connection", "cut", "too_long", "refused", "empty", "missing"]
WINDOW = 128_000
"""Tokens of a model of which nothing else is known; `--window` sets it."""


class ModelError(Exception):
    """A request to a model failed; the text says why and what to do."""

    def __init__(self, text: str, kind: Kind, *, retry: bool = False, after: float | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.retry = retry
        self.after = after
        """Seconds that the server wants us to wait."""


class Cancelled(Exception):
    """The person stopped it."""


@frozen
class Request:
    """A request to a model."""

    system: str
    turns: Sequence[Turn]
    session: AnySession
    """The session whose tools the model gets."""
    say: Callable[[str], None]
    """Receives the text, piece by piece."""
    cancel: threading.Event
    tools: bool = True
    """Whether the model may call them."""
    reason: Callable[[str], None] = lambda _: None
    """Receives the model's reasoning, piece by piece."""

    def pieces(self, stream: Iterable[object]) -> Iterator[Any]:
        """Yield the pieces of a stream until the request is cancelled."""
        for piece in stream:
            if self.cancel.is_set():
                raise Cancelled
            yield piece


class Model(Protocol):
    """A model that answers requests."""

    @property
    def name(self) -> str: ...

    @property
    def window(self) -> int:
        """The size of its context window in tokens."""

    def reply(self, request: Request) -> Reply:
        """Return the reply, and stream its text to `request.say`. Raises `ModelError` or `Cancelled`."""


def cut_off_error(model: str) -> ModelError:
    """The error for a stream that ended in the middle of a reply."""
    return ModelError(f"the response of {model} was cut off", "cut", retry=True)


@frozen
class Family:
    """Models whose names begin alike."""

    prefix: str
    api: Api
    dialect: str
    window: int


FAMILIES = (
    Family("claude", "anthropic", "claude", 200_000),
    Family("codex", "responses", "codex", 272_000),
    Family("gpt-4", "responses", "codex", 128_000),
    Family("gpt-oss", "chat", "codex", 128_000),
    Family("gpt", "responses", "codex", 272_000),
    Family("gemini", "chat", "gemini", 1_000_000),
    Family("", "chat", "native", WINDOW),
)


def family(model: str) -> Family:
    """The family of a model; names such as `vendor/claude-x` count by their last part."""
    name = model.rpartition("/")[2].casefold()
    return next(one for one in FAMILIES if name.startswith(one.prefix))


def api_of(model: str, environ: Mapping[str, str]) -> Api:
    """The API of a model, unless the user chooses another one."""
    known = family(model).api
    # A server at another address most likely speaks the older, common protocol.
    return "chat" if "OPENAI_BASE_URL" in environ and known == "responses" else known


def open_model(model: str, environ: Mapping[str, str], api: Api | None = None, window: int | None = None) -> Model:
    """Open a model by name; raises `ModelError` if no request is possible, for example without a key."""
    if not isinstance(model, str) or not model:
        raise ValueError(f"model must be the name of a model, not {repr(model)[:80]}")
    spoken = api or api_of(model, environ)
    if spoken not in APIS:
        raise ValueError(f"api must be {', '.join(map(repr, APIS[:-1]))} or {APIS[-1]!r}, not {repr(spoken)[:80]}")
    window = window or family(model).window
    opened: Model = import_module(f"handrail.agent.providers.{spoken}").open_model(model, environ, window)
    return opened
