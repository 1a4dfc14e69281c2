"""Messages: Anthropic's API. The conversation is marked to be cached, so that long ones stay cheap."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.agent.messages import Reply, ToolCall, ToolResult, Turn, Usage
from handrail.agent.providers import ModelError, Request, cut_off_error
from handrail.agent.providers.clean_reply import api_arguments, api_name, count, text_of, with_unique_ids
from handrail.agent.providers.failures import translate_errors
from handrail.errors.extras import MissingExtra, needs
from handrail.json_types import JsonObject
from handrail.wire.anthropic import build_result_content, build_tool

if TYPE_CHECKING:
    from anthropic import Anthropic

_API = "anthropic"
_MOST_OUTPUT = 16_000
_CACHED = {"type": "ephemeral"}


def open_model(model: str, environ: Mapping[str, str], window: int) -> MessagesModel:
    base, key, token = (environ.get(f"ANTHROPIC_{name}") for name in ("BASE_URL", "API_KEY", "AUTH_TOKEN"))
    if not key and not token and not base:
        # Said before the SDK is imported, which takes seconds.
        raise ModelError("no API key for Anthropic: set ANTHROPIC_API_KEY", "auth")
    try:
        with needs("anthropic"):
            from anthropic import Anthropic
    except MissingExtra as error:
        raise ModelError(str(error), "missing") from None
    client = Anthropic(api_key=key or (None if token else "none"), auth_token=token, base_url=base, max_retries=0)
    return MessagesModel(model, environ, window, client)


class MessagesModel:
    """A model behind `/v1/messages`."""

    def __init__(self, name: str, environ: Mapping[str, str], window: int, client: Anthropic) -> None:
        self.name, self.window = name, window
        self._environ, self._client = environ, client

    def reply(self, request: Request) -> Reply:
        request_body: JsonObject = {
            "model": self.name,
            "max_tokens": _MOST_OUTPUT,
            "system": [{"type": "text", "text": request.system, "cache_control": _CACHED}],
            "messages": _build_messages(request.turns),
            # Also where none may be called: the results of earlier calls refer to them.
            "tools": [build_tool(spec) for spec in request.session.specs()],
        }
        if not request.tools:
            request_body["tool_choice"] = {"type": "none"}
        import anthropic

        where = self._environ.get("ANTHROPIC_BASE_URL") or "the Anthropic API"
        failures = translate_errors(anthropic, self.name, where, self._environ)
        with failures, self._client.messages.create(**request_body, stream=True) as stream:
            return _collect_reply(stream, request, self.name)
        raise AssertionError("unreachable")


def _collect_reply(stream: Any, request: Request, name: str) -> Reply:
    """The reply put together here, and not by the SDK, which completes broken JSON: a cut file would be written."""
    blocks: dict[int, dict[str, object]] = {}
    written: dict[int, str] = {}
    tokens_in, cached, tokens_out, reason = 0, 0, 0, ""
    for event in request.pieces(stream):
        if event.type == "message_start":
            counted = event.message.usage
            cached = count(counted.cache_read_input_tokens)
            tokens_in = count(counted.input_tokens) + cached + count(counted.cache_creation_input_tokens)
        elif event.type == "content_block_start":
            blocks[event.index] = event.content_block.to_dict(mode="json")
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            written[event.index] = written.get(event.index, "") + event.delta.partial_json
        elif event.type == "content_block_delta":
            _grow(blocks[event.index], event.delta)
            if event.delta.type == "text_delta":
                request.say(event.delta.text)
            elif event.delta.type == "thinking_delta":
                request.reason(text_of(event.delta.thinking))
        elif event.type == "message_delta":
            reason = event.delta.stop_reason or reason
            tokens_out = count(event.usage.output_tokens)
    if not reason:
        raise cut_off_error(name)
    order = sorted(blocks)
    turn = _turn([blocks[at] for at in order], [written.get(at, "") for at in order], request.turns)
    return Reply(turn, Usage(tokens_in, tokens_out, cached), cut=reason == "max_tokens")


def _grow(block: JsonObject, delta: object) -> None:
    """A piece of text, of thought, or the signature of a thought."""
    for name in ("text", "thinking", "signature"):
        piece = getattr(delta, name, None)
        if isinstance(piece, str):
            block[name] = (block.get(name) or "") + piece


def _turn(blocks: list[JsonObject], written: Sequence[str], turns: Sequence[Turn]) -> Turn:
    tool_uses = [(block, text) for block, text in zip(blocks, written, strict=True) if block["type"] == "tool_use"]
    calls = with_unique_ids(
        [ToolCall(block["id"], block["name"], text or json.dumps(block["input"])) for block, text in tool_uses], turns
    )
    for (block, _), call in zip(tool_uses, calls, strict=True):
        block.update(id=call.id, name=api_name(call), input=api_arguments(call))
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    return Turn("assistant", text, calls, raw={"api": _API, "content": blocks})


def _build_messages(turns: Sequence[Turn]) -> list[dict[str, object]]:
    """Turns as messages that take turns; the last one is marked, so that all before it is cached."""
    messages: list[JsonObject] = []
    for turn in turns:
        role, content = ("assistant" if turn.role == "assistant" else "user"), _build_content(turn)
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += content
        elif content:
            messages.append({"role": role, "content": content})
    if messages and messages[-1]["content"]:
        messages[-1]["content"][-1] = {**messages[-1]["content"][-1], "cache_control": _CACHED}
    return messages


def _build_content(turn: Turn) -> list[JsonObject]:
    if turn.role == "tools":
        return [_build_result(result) for result in turn.results]
    if turn.raw and turn.raw["api"] == _API:
        return [dict(block) for block in turn.raw["content"] if block["type"] != "text" or block["text"].strip()]
    if turn.blocks:
        return build_result_content(turn.text, turn.blocks)
    text_blocks = [{"type": "text", "text": turn.text}] if turn.text.strip() else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": api_name(call), "input": api_arguments(call)} for call in turn.calls
    ]
    return [*text_blocks, *calls]


def _build_result(result: ToolResult) -> dict[str, object]:
    content = build_result_content(result.text, result.blocks)
    return {"type": "tool_result", "tool_use_id": result.id, "content": content, "is_error": not result.ok}
