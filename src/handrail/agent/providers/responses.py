"""Responses: OpenAI's newer API. Nothing is stored there: every request carries the conversation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.agent.providers import Cancelled, ModelError
from handrail.agent.providers.openai_common import client, failures
from handrail.agent.providers.uses import distinct
from handrail.agent.talk import Given, Reply, Turn, Usage, Use
from handrail.exports.common import data_url
from handrail.exports.openai import response_tools
from handrail.session import Session

if TYPE_CHECKING:
    from openai import OpenAI

_API = "responses"


def open_model(model: str, environ: Mapping[str, str], window: int) -> ResponsesModel:
    return ResponsesModel(model, environ, window, client(environ))


class ResponsesModel:
    """A model behind `/responses`."""

    def __init__(self, name: str, environ: Mapping[str, str], window: int, client: OpenAI) -> None:
        self.name, self.window = name, window
        self._environ, self._client = environ, client

    def reply(
        self,
        system: str,
        turns: Sequence[Turn],
        session: Session,
        say: Callable[[str], None],
        cancel: threading.Event,
        *,
        tools: bool = True,
    ) -> Reply:
        asked: dict[str, Any] = {
            "model": self.name,
            "instructions": system,
            "input": [item for turn in turns for item in _items(turn)],
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "stream": True,
        }
        if tools:
            asked["tools"] = response_tools(session)
        with failures(self.name, self._environ), self._client.responses.create(**asked) as stream:
            return _collected(stream, say, cancel, self.name)
        raise AssertionError("unreachable")


def _collected(stream: Any, say: Callable[[str], None], cancel: threading.Event, name: str) -> Reply:
    for event in stream:
        if cancel.is_set():
            raise Cancelled
        if event.type in ("response.output_text.delta", "response.refusal.delta"):
            say(event.delta)
        elif event.type in ("response.completed", "response.incomplete"):
            return _reply(event.response)
        elif event.type == "response.failed":
            why = event.response.error.message if event.response.error else "no reason is given"
            raise ModelError(f"{name} failed: {why}", "server", retry=True)
        elif event.type == "error":
            raise ModelError(f"{name} failed: {event.message}", "server", retry=True)
    raise ModelError(f"the answer of {name} was cut off in the middle", "cut", retry=True)


def _reply(response: Any) -> Reply:
    calls = [item for item in response.output if item.type == "function_call"]
    uses = distinct([Use(item.call_id, item.name, item.arguments) for item in calls])
    raw = [item.to_dict(mode="json") for item in response.output]
    for item, use in zip((item for item in raw if item["type"] == "function_call"), uses, strict=True):
        item["call_id"] = use.id
    usage = Usage()
    if response.usage:
        details = response.usage.input_tokens_details
        cached = (details.cached_tokens or 0) if details else 0
        usage = Usage(response.usage.input_tokens, response.usage.output_tokens, cached)
    turn = Turn("assistant", response.output_text, uses, raw={"api": _API, "content": raw})
    return Reply(turn, usage, cut=response.status == "incomplete")


def _items(turn: Turn) -> list[dict[str, Any]]:
    if turn.role == "tools":
        return [{"type": "function_call_output", "call_id": given.id, "output": _output(given)} for given in turn.given]
    if turn.raw and turn.raw["api"] == _API:
        return list(turn.raw["content"])
    said = [{"role": turn.role, "content": turn.text}] if turn.text else []
    calls = [
        {"type": "function_call", "call_id": use.id, "name": use.name, "arguments": use.arguments} for use in turn.uses
    ]
    return [*said, *calls]


def _output(given: Given) -> Any:
    if not given.blocks:
        return given.text
    pictures = [{"type": "input_image", "image_url": data_url(block)} for block in given.blocks]
    return [{"type": "input_text", "text": given.text}, *pictures]
