"""Pydantic AI: the tools of a session as a toolset."""

from __future__ import annotations

import json

from handrail.errors.extras import needs
from handrail.integrations.common import GivenSession, async_session, sync_session
from handrail.wire.images import get_images, make_data_url

with needs("pydantic_ai"):
    from pydantic_ai import BinaryContent, RunContext, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool


class HandrailToolset(AbstractToolset[object]):
    """For `Agent(toolsets=[...])`. The session outlives the runs, and is closed by whoever opened it.

    Failures are ordinary returns: a return marked as failed reaches some models wrapped in JSON, ours as it is.
    """

    def __init__(self, session: GivenSession, id: str | None = "handrail") -> None:
        self._session = async_session(session)
        self._specs = sync_session(session).specs()
        self._id = id

    @property
    def id(self) -> str | None:
        return self._id

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:  # noqa: ARG002
        definitions = [
            ToolDefinition(
                name=spec.name,
                description=spec.description,
                parameters_json_schema=dict(spec.schema),
                strict=False,
                sequential=not spec.hints.read_only,
            )
            for spec in self._specs
        ]
        return {
            one.name: ToolsetTool(toolset=self, tool_def=one, max_retries=0, args_validator=_AsSent())
            for one in definitions
        }

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, object],
        ctx: RunContext[object],
        tool: ToolsetTool[object],  # noqa: ARG002
    ) -> object:
        arguments = tool_args.text if isinstance(tool_args, _Text) else tool_args
        result = await self._session.call(name, arguments, id=ctx.tool_call_id or "")
        images = [BinaryContent.from_data_uri(make_data_url(one)) for one in get_images(result)]
        return [result.full_text, *images] if images else result.full_text


class _Text(dict[str, object]):
    """Arguments that are not a JSON object: the session reports the error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class _AsSent:
    """Stands where a validator is wanted, and leaves the judgement to the session."""

    def validate_json(self, input: str | bytes | bytearray, **_: object) -> dict[str, object]:
        text = input if isinstance(input, str) else input.decode("utf-8", "replace")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return _Text(text)
        return value if isinstance(value, dict) else _Text(text)

    def validate_python(self, input: object, **_: object) -> object:
        return input
