"""Messages: Anthropic's API. The conversation is marked to be cached, so that long ones stay cheap."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from handrail.agent.providers import Cancelled, ModelError
from handrail.agent.providers.failures import from_status
from handrail.agent.providers.uses import distinct
from handrail.agent.talk import Given, Reply, Turn, Usage, Use
from handrail.exports.anthropic import tools as tool_params
from handrail.session import Session

if TYPE_CHECKING:
    from anthropic import Anthropic

_API = "anthropic"
_MOST_OUTPUT = 16_000
_CACHED = {"type": "ephemeral"}


def open_model(model: str, environ: Mapping[str, str], window: int) -> MessagesModel:
    try:
        from anthropic import Anthropic
    except ImportError:
        raise ModelError("the anthropic package is not installed: pip install 'handrail[agent]'", "missing") from None
    base, key, token = (environ.get(f"ANTHROPIC_{name}") for name in ("BASE_URL", "API_KEY", "AUTH_TOKEN"))
    if not key and not token and not base:
        raise ModelError("there is no key for Anthropic: set ANTHROPIC_API_KEY", "auth")
    made = Anthropic(api_key=key or (None if token else "none"), auth_token=token, base_url=base, max_retries=0)
    return MessagesModel(model, environ, window, made)


class MessagesModel:
    """A model behind `/v1/messages`."""

    def __init__(self, name: str, environ: Mapping[str, str], window: int, client: Anthropic) -> None:
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
            "max_tokens": _MOST_OUTPUT,
            "system": [{"type": "text", "text": system, "cache_control": _CACHED}],
            "messages": _messages(turns),
            "tools": tool_params(session),  # also where none may be called: the results of calls refer to them
        }
        if not tools:
            asked["tool_choice"] = {"type": "none"}
        with self._failures(), self._client.messages.stream(**asked) as stream:
            for event in stream:
                if cancel.is_set():
                    raise Cancelled
                if event.type == "text":
                    say(event.text)
            if not stream.current_message_snapshot.stop_reason:
                raise ModelError(f"the answer of {self.name} was cut off in the middle", "cut", retry=True)
            return _reply(stream.get_final_message())
        raise AssertionError("unreachable")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """The SDK's exceptions as ours."""
        import anthropic
        import httpx2

        where = self._environ.get("ANTHROPIC_BASE_URL") or "the Anthropic API"
        try:
            yield
        except anthropic.APIStatusError as error:
            status, headers = error.status_code, error.response.headers
            raise from_status(status, str(error.message), headers, self.name, where) from None
        except anthropic.APITimeoutError:
            raise ModelError(f"{where} did not answer in time", "connection", retry=True) from None
        except anthropic.APIConnectionError as error:
            why = error.__cause__ or error
            raise ModelError(f"{where} cannot be reached: {why}", "connection", retry=True) from None
        except anthropic.APIError as error:
            raise ModelError(f"{where} broke off: {error.message}", "cut", retry=True) from None
        except httpx2.HTTPError as error:
            raise ModelError(f"the answer of {where} was cut off: {error}", "cut", retry=True) from None


def _reply(message: Any) -> Reply:
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [block for block in message.content if block.type == "tool_use"]
    uses = distinct([Use(block.id, block.name, json.dumps(block.input)) for block in calls])
    raw = [block.to_dict(mode="json") for block in message.content]
    for block, use in zip((block for block in raw if block["type"] == "tool_use"), uses, strict=True):
        block["id"] = use.id
    counted = message.usage
    cached = counted.cache_read_input_tokens or 0
    given = counted.input_tokens + cached + (counted.cache_creation_input_tokens or 0)
    turn = Turn("assistant", text, uses, raw={"api": _API, "content": raw})
    return Reply(turn, Usage(given, counted.output_tokens, cached), cut=message.stop_reason == "max_tokens")


def _messages(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Turns as messages that take turns; the last one is marked, so that all before it is cached."""
    messages: list[dict[str, Any]] = []
    for turn in turns:
        role, content = ("assistant" if turn.role == "assistant" else "user"), _content(turn)
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += content
        else:
            messages.append({"role": role, "content": content})
    if messages and messages[-1]["content"]:
        messages[-1]["content"][-1] = {**messages[-1]["content"][-1], "cache_control": _CACHED}
    return messages


def _content(turn: Turn) -> list[dict[str, Any]]:
    if turn.role == "tools":
        return [_result(given) for given in turn.given]
    if turn.raw and turn.raw["api"] == _API:
        return [dict(block) for block in turn.raw["content"]]
    said = [{"type": "text", "text": turn.text}] if turn.text.strip() else []
    return [*said, *({"type": "tool_use", "id": use.id, "name": use.name, "input": _input(use)} for use in turn.uses)]


def _input(use: Use) -> Any:
    try:
        value = json.loads(use.arguments)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _result(given: Given) -> dict[str, Any]:
    sources = [{"type": "base64", "media_type": one["mime_type"], "data": one["base64"]} for one in given.blocks]
    content = [{"type": "text", "text": given.text or "(nothing)"}, *({"type": "image", "source": s} for s in sources)]
    return {"type": "tool_result", "tool_use_id": given.id, "content": content, "is_error": not given.ok}
