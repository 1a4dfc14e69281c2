"""OpenAI: tools for Chat Completions and for the Responses API, and the replies to the calls that come back.

With tools of your own beside these, filter the calls by name before they are given to a reply function: a tool that
the session does not have is answered with an error that names those it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.integrations import openai_hosted
from handrail.integrations.common import AnySession, Ask, answers, async_answers, data_url, pictures, plain
from handrail.model import Result

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
    from openai.types.chat.chat_completion_message_tool_call import ChatCompletionMessageToolCallUnion as ChatCall
    from openai.types.responses import FunctionToolParam, ResponseInputItemParam, ResponseOutputItem

hosted_tools = openai_hosted.tools


def chat_tools(session: AnySession) -> list[ChatCompletionToolParam]:
    functions: list[Any] = [
        {"name": spec.name, "description": spec.description, "parameters": dict(spec.schema)}
        for spec in plain(session).specs()
    ]
    return [{"type": "function", "function": function} for function in functions]


def chat_reply(session: AnySession, calls: Iterable[ChatCall] | None) -> list[ChatCompletionMessageParam]:
    """The messages that answer `message.tool_calls`."""
    return _messages(answers(session, calls or (), _chat_asks, lambda call, results: (call.id, results[0])))


async def async_chat_reply(session: AnySession, calls: Iterable[ChatCall] | None) -> list[ChatCompletionMessageParam]:
    replies = await async_answers(session, calls or (), _chat_asks, lambda call, results: (call.id, results[0]))
    return _messages(replies)


def _chat_asks(call: ChatCall) -> Sequence[Ask]:
    if call.type == "function":
        return [Ask(call.function.name, call.function.arguments, call.id)]
    return [Ask(call.custom.name, call.custom.input, call.id)]


def _messages(replies: Sequence[tuple[str, Result]]) -> list[ChatCompletionMessageParam]:
    said: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": call, "content": result.text} for call, result in replies
    ]
    return said + [shown(call, images) for call, result in replies if (images := pictures(result))]


def shown(call: str, images: Sequence[Mapping[str, Any]]) -> ChatCompletionMessageParam:
    """A tool message holds text only, so that pictures follow in a message of the user's."""
    urls: list[Any] = [{"type": "image_url", "image_url": {"url": data_url(one)}} for one in images]
    return {"role": "user", "content": [{"type": "text", "text": f"Shown by {call}:"}, *urls]}


def response_tools(session: AnySession) -> list[FunctionToolParam]:
    return [
        {
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": dict(spec.schema),
            "strict": False,  # that would want every argument required
        }
        for spec in plain(session).specs()
    ]


def response_reply(session: AnySession, output: Iterable[ResponseOutputItem]) -> list[ResponseInputItemParam]:
    """The input items that answer the calls in `response.output`; other items are passed over."""
    return answers(session, filter(_is_call, output), _asks, _output)


async def async_response_reply(
    session: AnySession, output: Iterable[ResponseOutputItem]
) -> list[ResponseInputItemParam]:
    return await async_answers(session, filter(_is_call, output), _asks, _output)


def _is_call(item: ResponseOutputItem) -> bool:
    return item.type == "function_call" or item.type in openai_hosted.CALLS


def _asks(call: ResponseOutputItem) -> Sequence[Ask]:
    if call.type == "function_call":
        return [Ask(call.name, call.arguments, call.call_id)]
    return openai_hosted.asks(call)


def _output(call: ResponseOutputItem, results: Sequence[Result]) -> ResponseInputItemParam:
    if call.type != "function_call":
        return openai_hosted.output(call, results)
    return output_item(call.call_id, results[0].text, pictures(results[0]))


def output_item(call: str, text: str, images: Sequence[Mapping[str, Any]]) -> ResponseInputItemParam:
    """What a function call came to."""
    parts: list[Any] = [{"type": "input_image", "image_url": data_url(one)} for one in images]
    said = [{"type": "input_text", "text": text}, *parts] if parts else text
    return {"type": "function_call_output", "call_id": call, "output": said}
