"""Chat Completions: OpenAI's older API, which nearly every other server speaks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.agent.providers import Cancelled, ModelError
from handrail.agent.providers.openai_common import client, failures
from handrail.agent.providers.uses import distinct
from handrail.agent.talk import Given, Reply, Turn, Usage, Use
from handrail.exports.common import data_url
from handrail.exports.openai import chat_tools
from handrail.session import Session

if TYPE_CHECKING:
    from openai import OpenAI


def open_model(model: str, environ: Mapping[str, str], window: int) -> ChatModel:
    return ChatModel(model, environ, window, client(environ))


class ChatModel:
    """A model behind `/chat/completions`."""

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
        messages: list[Any] = [{"role": "system", "content": system}]
        messages += [message for turn in turns for message in _messages(turn)]
        asked: dict[str, Any] = {"model": self.name, "messages": messages, "stream": True}
        asked["stream_options"] = {"include_usage": True}
        if tools:
            asked["tools"] = chat_tools(session)
        with failures(self.name, self._environ), self._client.chat.completions.create(**asked) as stream:
            return _collected(stream, say, cancel, self.name)
        raise AssertionError("unreachable")


def _collected(stream: Any, say: Callable[[str], None], cancel: threading.Event, name: str) -> Reply:
    text: list[str] = []
    parts: dict[int, list[str]] = {}
    usage, ended = Usage(), ""
    for chunk in stream:
        if cancel.is_set():
            raise Cancelled
        if chunk.usage:
            details = chunk.usage.prompt_tokens_details
            cached = (details.cached_tokens or 0) if details else 0
            usage = Usage(chunk.usage.prompt_tokens, chunk.usage.completion_tokens, cached)
        for choice in chunk.choices[:1]:
            ended = choice.finish_reason or ended
            if choice.delta.content:
                text.append(choice.delta.content)
                say(choice.delta.content)
            for call in choice.delta.tool_calls or ():
                part = parts.setdefault(_place(call, parts), ["", "", ""])
                part[0] = part[0] or call.id or ""
                if call.function:
                    part[1] = part[1] or call.function.name or ""
                    part[2] += call.function.arguments or ""
    if not ended:
        raise ModelError(f"the answer of {name} was cut off in the middle", "cut", retry=True)
    uses = distinct([Use(*part) for _, part in sorted(parts.items())])
    return Reply(Turn("assistant", "".join(text), uses), usage, cut=ended == "length")


def _place(call: Any, parts: Mapping[int, Sequence[str]]) -> int:
    """Which call a piece belongs to. Some servers number every call 0: a new id or name tells them apart."""
    known = parts.get(call.index)
    if known and call.id and known[0] and call.id != known[0]:
        return max(parts) + 1
    if known and call.id and call.id == known[0] and call.function and call.function.name and known[2]:
        return max(parts) + 1  # two calls with one id
    return int(call.index)


def _messages(turn: Turn) -> list[dict[str, Any]]:
    if turn.role == "tools":
        said: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": given.id, "content": given.text} for given in turn.given
        ]
        return said + [_pictures(given) for given in turn.given if given.blocks]
    message: dict[str, Any] = {"role": turn.role, "content": turn.text or None}
    if turn.uses:
        message["tool_calls"] = [
            {"id": use.id, "type": "function", "function": {"name": use.name, "arguments": use.arguments}}
            for use in turn.uses
        ]
    return [message]


def _pictures(given: Given) -> dict[str, Any]:
    """A tool message holds text only, so that pictures follow in a message of the user's."""
    images = [{"type": "image_url", "image_url": {"url": data_url(block)}} for block in given.blocks]
    return {"role": "user", "content": [{"type": "text", "text": f"Shown by {given.id}:"}, *images]}
