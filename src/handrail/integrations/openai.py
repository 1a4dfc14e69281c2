"""OpenAI: tools for Chat Completions and for the Responses API, and the replies to the calls that come back.

With tools of your own beside these, filter the calls by name before they are given to a reply function: a tool that
the session does not have is answered with an error that names those it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from handrail.integrations import openai_hosted
from handrail.integrations.common import GivenSession, RequestedCall, answer_calls, async_answer_calls, sync_session
from handrail.model import Result
from handrail.wire import openai as wire
from handrail.wire.images import get_images

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
    from openai.types.chat.chat_completion_message_tool_call import ChatCompletionMessageToolCallUnion as ChatCall
    from openai.types.responses import FunctionToolParam, ResponseInputItemParam, ResponseOutputItem

hosted_tools = openai_hosted.tools


def chat_tools(session: GivenSession) -> list[ChatCompletionToolParam]:
    """Tool definitions for Chat Completions."""
    definitions: list[Any] = [wire.build_chat_tool(spec) for spec in sync_session(session).specs()]
    return definitions


def chat_reply(session: GivenSession, calls: Iterable[ChatCall] | None) -> list[ChatCompletionMessageParam]:
    """The messages that answer `message.tool_calls`."""
    return _build_messages(
        answer_calls(session, calls or (), _parse_chat_calls, lambda call, results: (call.id, results[0]))
    )


async def async_chat_reply(session: GivenSession, calls: Iterable[ChatCall] | None) -> list[ChatCompletionMessageParam]:
    replies = await async_answer_calls(
        session, calls or (), _parse_chat_calls, lambda call, results: (call.id, results[0])
    )
    return _build_messages(replies)


def _parse_chat_calls(call: ChatCall) -> Sequence[RequestedCall]:
    if call.type == "function":
        return [RequestedCall(call.function.name, call.function.arguments, call.id)]
    return [RequestedCall(call.custom.name, call.custom.input, call.id)]


def _build_messages(replies: Sequence[tuple[str, Result]]) -> list[ChatCompletionMessageParam]:
    messages: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": call, "content": result.full_text} for call, result in replies
    ]
    shown: list[Any] = [
        wire.build_chat_image_message(call, images) for call, result in replies if (images := get_images(result))
    ]
    return messages + shown


def response_tools(session: GivenSession) -> list[FunctionToolParam]:
    """Tool definitions for the Responses API."""
    definitions: list[Any] = [wire.build_response_tool(spec) for spec in sync_session(session).specs()]
    return definitions


def response_reply(session: GivenSession, output: Iterable[ResponseOutputItem]) -> list[ResponseInputItemParam]:
    """Answer the calls in `response.output` as input items; other items are ignored."""
    return answer_calls(session, filter(_is_call, output), _parse_calls, _build_output)


async def async_response_reply(
    session: GivenSession, output: Iterable[ResponseOutputItem]
) -> list[ResponseInputItemParam]:
    return await async_answer_calls(session, filter(_is_call, output), _parse_calls, _build_output)


def _is_call(item: ResponseOutputItem) -> bool:
    return item.type == "function_call" or item.type in openai_hosted.CALLS


def _parse_calls(call: ResponseOutputItem) -> Sequence[RequestedCall]:
    if call.type == "function_call":
        return [RequestedCall(call.name, call.arguments, call.call_id)]
    return openai_hosted.tool_calls(call)


def _build_output(call: ResponseOutputItem, results: Sequence[Result]) -> ResponseInputItemParam:
    if call.type != "function_call":
        return openai_hosted.output(call, results)
    item: Any = wire.build_function_output(call.call_id, results[0].full_text, get_images(results[0]))
    typed: ResponseInputItemParam = item
    return typed
