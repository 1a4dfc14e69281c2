"""LangChain and LangGraph: a session's tools as `BaseTool` objects. Needs the extra `langchain`.

    agent = create_agent(model, tools(session))

A call that fails comes back as a tool message with the status `error`, and never as an exception.
"""

from __future__ import annotations

from typing import Any

from pydantic import PrivateAttr

from handrail.dialects import Spec
from handrail.errors.extras import needs
from handrail.integrations.common import CallOrder, GivenSession, async_session, sync_session
from handrail.model import Result, as_json
from handrail.wire.images import get_images

with needs("langchain"):
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool


class LangChainTool(BaseTool):
    """One tool of a session."""

    response_format: str = "content_and_artifact"  # type: ignore[assignment]
    _session: GivenSession = PrivateAttr()
    _order: CallOrder = PrivateAttr()

    def __init__(self, session: GivenSession, order: CallOrder, spec: Spec) -> None:
        super().__init__(name=spec.name, description=spec.description, args_schema=dict(spec.schema))
        self._session, self._order = session, order

    def _to_args_and_kwargs(
        self, tool_input: object, tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, object]]:
        # As the model wrote them: the session checks arguments itself, and says all that is wrong with them at once.
        return (tool_input, tool_call_id or ""), {}

    def _run(self, arguments: dict[str, object] | str, call_id: str) -> tuple[object, object]:
        return self._reply(sync_session(self._session).call(self.name, arguments, id=call_id))

    async def _arun(self, arguments: dict[str, object] | str, call_id: str) -> tuple[object, object]:
        async with self._order.turn(self.name):
            return self._reply(await async_session(self._session).call(self.name, arguments, id=call_id))

    def _reply(self, result: Result) -> tuple[object, dict[str, object]]:
        """Return the text for the model, and the result for programs."""
        shown = get_images(result)
        content: Any = [{"type": "text", "text": result.full_text}, *map(dict, shown)] if shown else result.full_text
        facts = {name: value for name, value in as_json(result).items() if name not in ("text", "blocks")}
        if result.ok or not result.id:  # who calls a tool by hand, without the id of a call, gets the content alone
            return content, facts
        return ToolMessage(content, artifact=facts, tool_call_id=result.id, name=self.name, status="error"), facts


def tools(session: GivenSession) -> list[BaseTool]:
    """The session's tools, for `create_agent`, `ToolNode` or `bind_tools`."""
    order = CallOrder(session)
    return [LangChainTool(session, order, spec) for spec in sync_session(session).specs()]
