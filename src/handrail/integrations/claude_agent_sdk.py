"""Claude Agent SDK: the tools of a session as a server inside the same process.

The SDK's own `create_sdk_mcp_server` checks arguments against the schema in words of its own, and refuses a "12" where
a number is meant; the server here leaves both to the session.
"""

from __future__ import annotations

from dataclasses import asdict

from handrail.dialects import Spec
from handrail.errors.extras import needs
from handrail.integrations.common import CallOrder, GivenSession, async_session, sync_session
from handrail.model import Result
from handrail.wire import mcp

with needs("claude_agent_sdk"):
    from claude_agent_sdk import McpSdkServerConfig
    from mcp.server import Server
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, Tool


def server(session: GivenSession, name: str = "handrail") -> McpSdkServerConfig:
    """For `ClaudeAgentOptions(mcp_servers={name: ...})`; Claude sees `mcp__NAME__TOOL`."""
    ours, order = async_session(session), CallOrder(session)
    most = sync_session(session).settings.answer_chars
    listed = ListToolsResult(tools=[_build_tool(spec, most) for spec in sync_session(session).specs()])

    async def list_tools(*_: object) -> ListToolsResult:
        return listed

    async def call_tool(_: object, request: CallToolRequestParams) -> CallToolResult:
        async with order.turn(request.name):
            return _build_result(await ours.call(request.name, request.arguments))

    instance = Server(name, on_list_tools=list_tools, on_call_tool=call_tool)
    return McpSdkServerConfig(type="sdk", name=name, instance=instance)


def allowed_tools(session: GivenSession, name: str = "handrail") -> list[str]:
    """For `ClaudeAgentOptions(allowed_tools=...)`: the session judges each call itself."""
    return [f"mcp__{name}__{spec.name}" for spec in sync_session(session).specs()]


def _build_tool(spec: Spec, most_chars: int) -> Tool:
    hints = mcp.convert_hints(asdict(spec.hints))
    # Offered from the start, and answers come whole: what is too long the session has cut already.
    meta = {**mcp.ALWAYS_LOAD, "anthropic/maxResultSizeChars": most_chars}
    shape = {"name": spec.name, "description": spec.description, "inputSchema": dict(spec.schema)}
    return Tool.model_validate({**shape, "annotations": hints, "_meta": meta})


def _build_result(result: Result) -> CallToolResult:
    content = mcp.build_content(result.blocks, result.text)
    return CallToolResult.model_validate({"content": content, "isError": not result.ok})
