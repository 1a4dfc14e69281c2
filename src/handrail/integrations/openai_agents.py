"""OpenAI Agents SDK: the tools of a session as `FunctionTool`s, and a run configuration that knows of them."""

from __future__ import annotations

from typing import Any

from handrail.dialects import Spec
from handrail.errors.extras import needs
from handrail.integrations.common import CallOrder, GivenSession, async_session, sync_session
from handrail.model import Result
from handrail.wire.images import get_images, make_data_url

with needs("openai_agents"):
    from agents import FunctionTool, RunConfig, Tool, ToolErrorFormatterArgs, ToolOutputImage, ToolOutputText
    from agents.tool_context import ToolContext


def tools(session: GivenSession) -> list[Tool]:
    """For `Agent(tools=...)`. Calls of one turn that only read run at once, others in the order they came."""
    ours, order = async_session(session), CallOrder(session)

    def tool(spec: Spec) -> FunctionTool:
        async def invoke(context: ToolContext[object], arguments: str) -> object:
            async with order.turn(spec.name):
                return _build_output(await ours.call(spec.name, arguments or None, id=context.tool_call_id))

        return FunctionTool(spec.name, spec.description, dict(spec.schema), invoke, strict_json_schema=False)

    return [tool(spec) for spec in sync_session(session).specs()]


def run_config(session: GivenSession, **options: Any) -> RunConfig:
    """For `Runner.run(run_config=...)`: a tool that does not exist is answered, and does not end the run."""
    ours = async_session(session)

    async def format_error(error: ToolErrorFormatterArgs[object]) -> str | None:
        if error.kind != "tool_not_found":
            return None
        return (await ours.call(error.tool_name, id=error.call_id)).text

    return RunConfig(tool_not_found_behavior="return_error_to_model", tool_error_formatter=format_error, **options)


def _build_output(result: Result) -> str | list[ToolOutputText | ToolOutputImage]:
    images = [ToolOutputImage(image_url=make_data_url(one)) for one in get_images(result)]
    return [ToolOutputText(text=result.full_text), *images] if images else result.full_text
