"""Models: one way to ask them, whatever the API. The SDKs are imported where a model is first asked.

A model's family is known by its name: it decides which API is spoken and which dialect fits. Both can be set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from handrail.agent.messages import Reply, Turn

if TYPE_CHECKING:  # what is known of a model's name is there before the engine is
    from handrail.pipeline.session import Session

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


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked."""

    system: str
    turns: Sequence[Turn]
    session: Session
    """Whose tools it is told of."""
    say: Callable[[str], None]
    """Is given the text, piece by piece, as it comes."""
    cancel: threading.Event
    tools: bool = True
    """Whether it may call them."""

    def pieces(self, stream: Iterable[Any]) -> Iterator[Any]:
        """What comes, until somebody cancels."""
        for piece in stream:
            if self.cancel.is_set():
                raise Cancelled
            yield piece


class Model(Protocol):
    """Something that answers."""

    @property
    def name(self) -> str: ...

    @property
    def window(self) -> int:
        """How many tokens it takes."""

    def reply(self, request: Request) -> Reply:
        """Its answer, said piece by piece while it comes. Raises `ModelError` or `Cancelled`."""


def cut_off(model: str) -> ModelError:
    """For a stream that has ended before the answer did."""
    return ModelError(f"the answer of {model} was cut off in the middle", "cut", retry=True)


@dataclass(frozen=True, slots=True)
class Family:
    """What is known of models by the beginning of their names."""

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
    """Which API a model is asked through, if nobody says otherwise."""
    known = family(model).api
    # Whoever sets another address runs a server that speaks the older, common protocol.
    return "chat" if "OPENAI_BASE_URL" in environ and known == "responses" else known


def open_model(model: str, environ: Mapping[str, str], api: Api | None = None, window: int | None = None) -> Model:
    """A model by name; raises `ModelError` where no request could be made at all."""
    if not isinstance(model, str) or not model:
        raise ValueError(f"model must be the name of a model, not {repr(model)[:80]}")
    spoken = api or api_of(model, environ)
    if spoken not in APIS:
        raise ValueError(f"api must be {', '.join(map(repr, APIS[:-1]))} or {APIS[-1]!r}, not {repr(spoken)[:80]}")
    window = window or family(model).window
    made: Model = import_module(f"handrail.agent.providers.{spoken}").open_model(model, environ, window)
    return made
