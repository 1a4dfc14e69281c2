"""Anthropic: tools for the Messages API and for its tool runner, and the results of calls.

`predefined_tools` are the API's own text editor and bash; they need the dialect `anthropic`. The tools of
`agent_toolset_20260401` are called by a managed agent: `async_runnable_tools` of a session with the dialect
`anthropic-agent` are for its session runner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.errors.extras import needs
from handrail.integrations.common import (
    CallOrder,
    GivenSession,
    RequestedCall,
    answer_calls,
    async_answer_calls,
    async_session,
    sync_session,
)
from handrail.model import Result
from handrail.wire import anthropic as wire
from handrail.wire.images import get_images

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaBuiltinFunctionTool
    from anthropic.types import ContentBlock, ToolParam, ToolResultBlockParam, ToolUnionParam, ToolUseBlock

_PREDEFINED = {"str_replace_based_edit_tool": "text_editor_20250728", "bash": "bash_20250124"}


def tools(session: GivenSession) -> list[ToolParam]:
    """Tool definitions for the Messages API."""
    definitions: list[Any] = [wire.build_tool(spec) for spec in sync_session(session).specs()]
    return definitions


def predefined_tools(session: GivenSession) -> list[ToolUnionParam]:
    """The text editor and bash by the API's own definitions; other tools of the dialect are left out."""
    if not sync_session(session).dialect.entries.keys() >= _PREDEFINED.keys():
        raise ValueError('the predefined tools need a session with dialect="anthropic"')
    definitions: list[Any] = [{"type": version, "name": name} for name, version in _PREDEFINED.items()]
    return definitions


def reply(session: GivenSession, content: Iterable[ContentBlock]) -> list[ToolResultBlockParam]:
    """Make the calls in `message.content`; returns the content of the next user message."""
    return answer_calls(session, _list_calls(content), _parse_calls, _build_result)


async def async_reply(session: GivenSession, content: Iterable[ContentBlock]) -> list[ToolResultBlockParam]:
    return await async_answer_calls(session, _list_calls(content), _parse_calls, _build_result)


def _list_calls(content: Iterable[ContentBlock]) -> list[ToolUseBlock]:
    return [block for block in content if block.type == "tool_use"]


def _parse_calls(call: ToolUseBlock) -> Sequence[RequestedCall]:
    return [RequestedCall(call.name, call.input, call.id)]


def _build_result(call: ToolUseBlock, results: Sequence[Result]) -> ToolResultBlockParam:
    block: ToolResultBlockParam = {"type": "tool_result", "tool_use_id": call.id, "content": _build_content(results[0])}
    if not results[0].ok:
        block["is_error"] = True
    return block


def _build_content(result: Result) -> list[Any]:
    return wire.build_result_content(result.full_text, get_images(result))


def runnable_tools(
    session: GivenSession, definitions: Sequence[ToolUnionParam] | None = None
) -> list[BetaBuiltinFunctionTool]:
    """For `client.beta.messages.tool_runner(tools=...)`; ``definitions`` may be those of `predefined_tools`."""
    with needs("anthropic"):
        from anthropic.lib.tools import BetaBuiltinFunctionTool, BetaFunctionToolResultType, ToolError

    ours = sync_session(session)

    class Runnable(BetaBuiltinFunctionTool):
        def __init__(self, tool: ToolUnionParam) -> None:
            self._tool: object = tool

        def to_dict(self) -> Any:
            return self._tool

        def call(self, input: object) -> BetaFunctionToolResultType:
            return _build_content_or_raise(ours.call(self.name, _read_arguments(input)), ToolError)

    return [Runnable(tool) for tool in definitions or tools(session)]


def async_runnable_tools(
    session: GivenSession, definitions: Sequence[ToolUnionParam] | None = None
) -> list[BetaAsyncBuiltinFunctionTool]:
    """For the tool runner of an `AsyncAnthropic`."""
    with needs("anthropic"):
        from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaFunctionToolResultType, ToolError

    ours, order = async_session(session), CallOrder(session)

    class AsyncRunnable(BetaAsyncBuiltinFunctionTool):
        def __init__(self, tool: ToolUnionParam) -> None:
            self._tool: object = tool

        def to_dict(self) -> Any:
            return self._tool

        async def call(self, input: object) -> BetaFunctionToolResultType:
            async with order.turn(self.name):
                return _build_content_or_raise(await ours.call(self.name, _read_arguments(input)), ToolError)

    return [AsyncRunnable(tool) for tool in definitions or tools(session)]


def _read_arguments(input: object) -> Mapping[str, object] | str | None:
    return input if isinstance(input, Mapping | str) else None


def _build_content_or_raise(result: Result, error: type[Exception]) -> list[Any]:
    """Return the content of a result; raise ``error`` for a failure, as a tool runner expects."""
    if not result.ok:
        raise error(_build_content(result))
    return _build_content(result)
