"""Chat Completions: OpenAI's older API, which nearly every other server speaks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.agent.messages import Reply, ToolCall, Turn, Usage
from handrail.agent.providers import Request, cut_off_error
from handrail.agent.providers.clean_reply import api_arguments, api_name, count, text_of, with_unique_ids
from handrail.agent.providers.openai_common import client, failures
from handrail.wire.openai import build_chat_content, build_chat_image_message, build_chat_tool

if TYPE_CHECKING:
    from openai import OpenAI


def open_model(model: str, environ: Mapping[str, str], window: int) -> ChatModel:
    return ChatModel(model, environ, window, client(environ))


class ChatModel:
    """A model behind `/chat/completions`."""

    def __init__(self, name: str, environ: Mapping[str, str], window: int, client: OpenAI) -> None:
        self.name, self.window = name, window
        self._environ, self._client = environ, client

    def reply(self, request: Request) -> Reply:
        messages: list[object] = [{"role": "system", "content": request.system}]
        messages += [message for turn in request.turns for message in _build_messages(turn)]
        request_body: dict[str, Any] = {"model": self.name, "messages": messages, "stream": True}
        request_body["stream_options"] = {"include_usage": True}
        if request.tools:
            request_body["tools"] = [build_chat_tool(spec) for spec in request.session.specs()]
        with failures(self.name, self._environ), self._client.chat.completions.create(**request_body) as stream:
            return _collect_reply(stream, request, self.name)
        raise AssertionError("unreachable")


def _collect_reply(stream: Any, request: Request, name: str) -> Reply:
    """The reply put together. Many servers speak this API nearly: nothing is taken for granted but an end."""
    text: list[str] = []
    parts: dict[int, list[str]] = {}
    usage, ended = Usage(), ""
    for chunk in request.pieces(stream):
        choices = getattr(chunk, "choices", None) or ()
        if counted := getattr(chunk, "usage", None):
            usage = _read_usage(counted)
            ended = ended or ("" if choices else "stop")  # figures alone are the last thing that is sent
        for choice in choices[:1]:
            ended = choice.finish_reason or ended
            if choice.delta is None:
                continue
            if thought := _read_reasoning(choice.delta):
                request.reason(thought)
            if piece := text_of(choice.delta.content):
                text.append(piece)
                request.say(piece)
            for call in choice.delta.tool_calls or ():
                part = parts.setdefault(_place(call, parts), ["", "", ""])
                part[0] = part[0] or call.id or ""
                if call.function:
                    part[1] = part[1] or call.function.name or ""
                    part[2] += _write_arguments(call.function.arguments)
    if not ended:
        raise cut_off_error(name)
    calls = with_unique_ids([ToolCall(*part) for _, part in sorted(parts.items())], request.turns)
    return Reply(Turn("assistant", "".join(text), calls), usage, cut=ended == "length")


def _read_reasoning(delta: object) -> str:
    """A piece of reasoning, by either name that servers use for it."""
    return text_of(getattr(delta, "reasoning_content", None)) or text_of(getattr(delta, "reasoning", None))


def _read_usage(counted: Any) -> Usage:
    details = counted.prompt_tokens_details
    cached = count(details.cached_tokens) if details else 0
    return Usage(count(counted.prompt_tokens), count(counted.completion_tokens), cached)


def _write_arguments(arguments: object) -> str:
    """Arguments are a text that holds JSON; some servers send the object itself."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""


def _place(call: Any, parts: Mapping[int, Sequence[str]]) -> int:
    """Which call a piece belongs to. Some servers number every call 0, or none: a new id or name tells them apart."""
    last, named = max(parts, default=-1), bool(call.function and call.function.name)
    if not isinstance(call.index, int):
        return last + 1 if last < 0 or named else last
    known = parts.get(call.index)
    if known and call.id and known[0] and call.id != known[0]:
        return last + 1
    if known and call.id and call.id == known[0] and named and known[2]:
        return last + 1  # two calls with one id
    return call.index


def _build_messages(turn: Turn) -> list[dict[str, object]]:
    if turn.role == "tools":
        messages: list[dict[str, object]] = [
            {"role": "tool", "tool_call_id": result.id, "content": result.text or "(nothing)"}
            for result in turn.results
        ]
        return messages + [
            build_chat_image_message(result.id, result.blocks) for result in turn.results if result.blocks
        ]
    content = build_chat_content(turn.text, turn.blocks) if turn.blocks else turn.text or None
    message: dict[str, object] = {"role": turn.role, "content": content}
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": api_name(call), "arguments": json.dumps(api_arguments(call))},
            }
            for call in turn.calls
        ]
    return [message]
