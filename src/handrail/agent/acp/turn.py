"""Agent Client Protocol: one conversation, whose tool calls the editor shows, and asks for where the rules say so."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from handrail.errors import ToolError
from handrail.errors.extras import needs
from handrail.model import Answer, Question, Result
from handrail.pipeline.async_calls import AsyncCalls
from handrail.pipeline.call_state import Judged
from handrail.pipeline.question import file_diff
from handrail.wire.images import get_images

with needs("acp"):
    import acp
    from acp.helpers import ContentBlock
    from acp.schema import StopReason, ToolCallStatus, ToolKind

    from handrail.approval.acp import Content, ask, list_locations, make_diffs, make_title

_KINDS: Mapping[ToolKind, Sequence[str]] = {
    "read": ("read", "ls"),
    "search": ("glob", "grep"),
    "edit": ("write", "edit", "multi_edit", "notebook_edit", "apply_patch", "replace"),
    "execute": ("bash", "bash_output", "bash_input", "bash_kill"),
}


class Conversation:
    """One session of the editor, with the operations of a driver."""

    def __init__(self, id: str, client: acp.Client, servers: Sequence[object]) -> None:
        self.id = id
        self.mcp_servers = servers
        """The MCP servers of the editor, for the driver."""
        self.session: AsyncCalls
        self.turn: asyncio.Task[StopReason | None] | None = None
        self.cancelled = False
        self._client = client

    async def say(self, text: str) -> None:
        """A part of the answer."""
        await self._update(acp.update_agent_message_text(text))

    async def think(self, text: str) -> None:
        """Send a part of the model's reasoning."""
        await self._update(acp.update_agent_thought_text(text))

    async def call(self, tool: str, arguments: Mapping[str, object] | str | None = None, *, id: str = "") -> Result:
        """One tool call, shown in the editor. Never raises for anything that a model did."""
        call = id or f"call-{secrets.token_hex(6)}"
        prepared, changes = await asyncio.to_thread(self._prepare, tool, arguments)
        accesses = prepared.accesses if prepared else ()
        asks = prepared is not None and prepared.verdict.decision == "ask"
        await self._update(
            acp.start_tool_call(
                call,
                make_title(tool, accesses),
                kind=self._choose_kind(tool),
                status="pending" if asks else "in_progress",
                locations=list_locations(accesses),
                raw_input=arguments,
            )
        )
        status: ToolCallStatus = "failed"
        content: Content = [acp.tool_content(acp.text_block("cancelled"))]
        places = None
        try:
            result = await self.session.call(tool, arguments, id=call)
            status = "completed" if result.ok else "failed"
            content = changes if changes and result.ok else _build_blocks(result)
            places = list_locations(result.accesses, result.data.get("first"))
            return result
        finally:
            with suppress(ConnectionError):  # an editor that has gone needs no report
                await self._update(acp.update_tool_call(call, status=status, content=content, locations=places))

    async def approve(self, question: Question) -> Answer:
        """The `approve` of the session: asks in the editor."""
        answer = await ask(question, self._client, self.id, self._choose_kind(question.call.tool))
        if answer.yes:
            await self._update(acp.update_tool_call(question.call.id, status="in_progress"))
        return answer

    def _prepare(self, tool: str, arguments: Mapping[str, object] | str | None) -> tuple[Judged | None, Content]:
        """The call and the changes that it would make, as far as they are known before it runs."""
        try:
            prepared = self.session.session.prepare(tool, arguments)
        except (ToolError, OSError):  # the call itself will say why
            return None, []
        actions = {access.action for access in prepared.accesses if not access.by_command}
        if prepared.verdict.decision == "deny" or "run" in actions or actions.isdisjoint(("write", "delete")):
            return prepared, []
        try:
            return prepared, make_diffs([file_diff(one) for one in prepared.proposed()], prepared.accesses)
        except (ToolError, OSError):
            return prepared, []

    def _choose_kind(self, tool: str) -> ToolKind:
        entry = self.session.session.dialect.entries.get(tool)
        return next((kind for kind, tools in _KINDS.items() if entry and entry.id in tools), "other")

    async def _update(self, update: Any) -> None:
        await self._client.session_update(session_id=self.id, update=update)


def _build_blocks(result: Result) -> Content:
    blocks: list[ContentBlock] = [acp.text_block(result.text)]
    blocks += [acp.image_block(one["base64"], one["mime_type"]) for one in get_images(result)]
    return [acp.tool_content(block) for block in blocks]
