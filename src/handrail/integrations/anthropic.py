"""Anthropic: tools for the Messages API, for its tool runner, and the results of the calls that come back.

`predefined_tools` are the API's own text editor and bash; they need the dialect `anthropic`. The tools of
`agent_toolset_20260401` are called by a managed agent: `async_runnable_tools` of a session with the dialect
`anthropic-agent` are what its session runner takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.extras import needs
from handrail.integrations.common import AnySession, Ask, Turns, answers, async_answers, awaited, pictures, plain
from handrail.model import Result

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaBuiltinFunctionTool
    from anthropic.types import ContentBlock, ToolParam, ToolResultBlockParam, ToolUnionParam, ToolUseBlock

_PREDEFINED = {"str_replace_based_edit_tool": "text_editor_20250728", "bash": "bash_20250124"}


def tools(session: AnySession) -> list[ToolParam]:
    return [
        {"name": spec.name, "description": spec.description, "input_schema": dict(spec.schema)}
        for spec in plain(session).specs()
    ]


def predefined_tools(session: AnySession) -> list[ToolUnionParam]:
    """The text editor and bash by the API's own definitions; other tools of the dialect are left out."""
    if not plain(session).dialect.entries.keys() >= _PREDEFINED.keys():
        raise ValueError('the predefined tools need a session with dialect="anthropic"')
    found: list[Any] = [{"type": version, "name": name} for name, version in _PREDEFINED.items()]
    return found


def reply(session: AnySession, content: Iterable[ContentBlock]) -> list[ToolResultBlockParam]:
    """The results of the calls in `message.content`: the content of the user's next message."""
    return answers(session, _calls(content), _asks, _result)


async def async_reply(session: AnySession, content: Iterable[ContentBlock]) -> list[ToolResultBlockParam]:
    return await async_answers(session, _calls(content), _asks, _result)


def _calls(content: Iterable[ContentBlock]) -> list[ToolUseBlock]:
    return [block for block in content if block.type == "tool_use"]


def _asks(call: ToolUseBlock) -> Sequence[Ask]:
    return [Ask(call.name, call.input, call.id)]


def _result(call: ToolUseBlock, results: Sequence[Result]) -> ToolResultBlockParam:
    block: ToolResultBlockParam = {"type": "tool_result", "tool_use_id": call.id, "content": _content(results[0])}
    if not results[0].ok:
        block["is_error"] = True
    return block


def _content(result: Result) -> list[Any]:
    return content_blocks(result.text, pictures(result))


def content_blocks(text: str, images: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What a call came to, as the API wants it."""
    sources = [{"type": "base64", "media_type": one["mime_type"], "data": one["base64"]} for one in images]
    return [{"type": "text", "text": text or "(nothing)"}, *({"type": "image", "source": one} for one in sources)]


def runnable_tools(
    session: AnySession, definitions: Sequence[ToolUnionParam] | None = None
) -> list[BetaBuiltinFunctionTool]:
    """For `client.beta.messages.tool_runner(tools=...)`; ``definitions`` may be those of `predefined_tools`."""
    with needs("anthropic"):
        from anthropic.lib.tools import BetaBuiltinFunctionTool, BetaFunctionToolResultType, ToolError

    ours = plain(session)

    class Runnable(BetaBuiltinFunctionTool):
        def __init__(self, tool: ToolUnionParam) -> None:
            self._tool: Any = tool

        def to_dict(self) -> Any:
            return self._tool

        def call(self, input: object) -> BetaFunctionToolResultType:
            return _said(ours.call(self.name, _arguments(input)), ToolError)

    return [Runnable(tool) for tool in definitions or tools(session)]


def async_runnable_tools(
    session: AnySession, definitions: Sequence[ToolUnionParam] | None = None
) -> list[BetaAsyncBuiltinFunctionTool]:
    """For the tool runner of an `AsyncAnthropic`."""
    with needs("anthropic"):
        from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaFunctionToolResultType, ToolError

    ours, turns = awaited(session), Turns(session)

    class Runnable(BetaAsyncBuiltinFunctionTool):
        def __init__(self, tool: ToolUnionParam) -> None:
            self._tool: Any = tool

        def to_dict(self) -> Any:
            return self._tool

        async def call(self, input: object) -> BetaFunctionToolResultType:
            async with turns.turn(self.name):
                return _said(await ours.call(self.name, _arguments(input)), ToolError)

    return [Runnable(tool) for tool in definitions or tools(session)]


def _arguments(input: object) -> Mapping[str, Any] | str | None:
    return input if isinstance(input, Mapping | str) else None


def _said(result: Result, error: type[Exception]) -> list[Any]:
    """The content of a result; what went wrong is raised, since that is how a runner learns of it."""
    if not result.ok:
        raise error(_content(result))
    return _content(result)
