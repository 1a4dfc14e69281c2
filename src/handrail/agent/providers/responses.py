"""Responses: OpenAI's newer API. Nothing is stored there: every request carries the conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.agent.messages import Reply, ToolCall, Turn, Usage
from handrail.agent.providers import ModelError, Request, cut_off_error
from handrail.agent.providers.clean_reply import api_name, count, text_of, with_unique_ids
from handrail.agent.providers.openai_common import client, failures
from handrail.json_types import JsonObject
from handrail.wire.openai import build_function_output, build_response_content, build_response_tool

if TYPE_CHECKING:
    from openai import OpenAI

_API = "responses"
_NO_REASONING = ("gpt-3", "gpt-4", "chatgpt-4")


def open_model(model: str, environ: Mapping[str, str], window: int) -> ResponsesModel:
    return ResponsesModel(model, environ, window, client(environ))


class ResponsesModel:
    """A model behind `/responses`."""

    def __init__(self, name: str, environ: Mapping[str, str], window: int, client: OpenAI) -> None:
        self.name, self.window = name, window
        self._environ, self._client = environ, client

    def reply(self, request: Request) -> Reply:
        request_body: dict[str, Any] = {
            "model": self.name,
            "instructions": request.system,
            "input": [item for turn in request.turns for item in _build_items(turn)],
            "store": False,
            "stream": True,
        }
        if not self.name.startswith(_NO_REASONING):  # those refuse a request that wants it back
            request_body["include"] = ["reasoning.encrypted_content"]
        if request.tools:
            request_body["tools"] = [build_response_tool(spec) for spec in request.session.specs()]
        with failures(self.name, self._environ), self._client.responses.create(**request_body) as stream:
            return _collect_reply(stream, request, self.name)
        raise AssertionError("unreachable")


def _collect_reply(stream: Any, request: Request, name: str) -> Reply:
    items: list[Any] = []
    for event in request.pieces(stream):
        kind = getattr(event, "type", "")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            request.say(text_of(event.delta))
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            request.reason(text_of(event.delta))
        elif kind == "response.output_item.done":
            items.append(event.item)
        elif kind in ("response.completed", "response.incomplete"):
            return _reply(event.response, items, request.turns)
        elif kind == "response.failed":
            why = event.response.error.message if event.response.error else "no reason given"
            raise ModelError(f"{name} failed: {why}", "server", retry=True)
        elif kind == "error":
            raise ModelError(f"{name} failed: {event.message}", "server", retry=True)
    raise cut_off_error(name)


def _reply(response: Any, items: Sequence[Any], turns: Sequence[Turn]) -> Reply:
    output = response.output or items  # some servers do not repeat at the end what they sent one by one
    function_calls = [item for item in output if item.type == "function_call"]
    calls = with_unique_ids(
        [ToolCall(item.call_id or "", item.name or "", item.arguments or "") for item in function_calls], turns
    )
    raw = [item.to_dict(mode="json") for item in output]
    for item, call in zip((item for item in raw if item["type"] == "function_call"), calls, strict=True):
        item.update(call_id=call.id, name=api_name(call))
    parts = [part for item in output if item.type == "message" for part in item.content or ()]
    text = "".join(text_of(getattr(part, "text", None) or getattr(part, "refusal", None)) for part in parts)
    usage = Usage()
    if response.usage:
        details = response.usage.input_tokens_details
        cached = count(details.cached_tokens) if details else 0
        usage = Usage(count(response.usage.input_tokens), count(response.usage.output_tokens), cached)
    turn = Turn("assistant", text, calls, raw={"api": _API, "content": raw})
    return Reply(turn, usage, cut=response.status == "incomplete")


def _build_items(turn: Turn) -> list[dict[str, object]]:
    if turn.role == "tools":
        return [build_function_output(result.id, result.text, result.blocks) for result in turn.results]
    if turn.raw and turn.raw["api"] == _API:
        return list(turn.raw["content"])
    content = build_response_content(turn.text, turn.blocks) if turn.blocks else turn.text
    messages: list[JsonObject] = [{"role": turn.role, "content": content}] if content else []
    calls = [
        {"type": "function_call", "call_id": call.id, "name": api_name(call), "arguments": call.arguments}
        for call in turn.calls
    ]
    return [*messages, *calls]
