"""Agent Client Protocol: one conversation, whose tool calls the editor shows, and asks for where the rules say so."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from handrail.errors import ToolError
from handrail.extras import needs
from handrail.model import Access, Result
from handrail.pipeline.async_calls import AsyncCalls
from handrail.pipeline.prepared import Answer, Lasting, Prepared
from handrail.wire.images import images_of

with needs("acp"):
    import acp
    from acp.helpers import ContentBlock, ToolCallContentVariant
    from acp.schema import (
        AllowedOutcome,
        PermissionOption,
        StopReason,
        ToolCallLocation,
        ToolCallStatus,
        ToolCallUpdate,
        ToolKind,
    )

_KINDS: Mapping[ToolKind, Sequence[str]] = {
    "read": ("read", "ls"),
    "search": ("glob", "grep"),
    "edit": ("write", "edit", "multi_edit", "notebook_edit", "apply_patch", "replace"),
    "execute": ("bash", "bash_output", "bash_input", "bash_kill"),
}
_YES: Mapping[str, Lasting] = {"allow_once": "once", "allow_session": "session", "allow_always": "always"}

Content = list[ToolCallContentVariant]


class Conversation:
    """One session of the editor's, and what a driver can do in it."""

    def __init__(self, id: str, client: acp.Client, servers: Sequence[Any]) -> None:
        self.id = id
        self.mcp_servers = servers
        """Those that the editor wants to be used: for the driver, which tells the model what tools there are."""
        self.session: AsyncCalls
        self.turn: asyncio.Task[StopReason | None] | None = None
        self.cancelled = False
        self._client = client

    async def say(self, text: str) -> None:
        """A part of the answer."""
        await self._update(acp.update_agent_message_text(text))

    async def think(self, text: str) -> None:
        """A part of what leads to the answer."""
        await self._update(acp.update_agent_thought_text(text))

    async def call(self, tool: str, arguments: Mapping[str, Any] | str | None = None, *, id: str = "") -> Result:
        """One tool call, shown in the editor. Never raises for anything that a model did."""
        call = id or f"call-{secrets.token_hex(6)}"
        prepared, diffs = await asyncio.to_thread(self._looked_at, tool, arguments)
        accesses = prepared.accesses if prepared else ()
        asks = prepared is not None and prepared.verdict.decision == "ask"
        await self._update(
            acp.start_tool_call(
                call,
                _title(tool, accesses),
                kind=self._kind(tool),
                status="pending" if asks else "in_progress",
                locations=_places(accesses),
                raw_input=arguments,
            )
        )
        status: ToolCallStatus = "failed"
        content: Content = [acp.tool_content(acp.text_block("cancelled"))]
        places = None
        try:
            result = await self.session.call(tool, arguments, id=call)
            status = "completed" if result.ok else "failed"
            content = diffs if diffs and result.ok else _blocks(result)
            places = _places(result.accesses, result.data.get("first"))
            return result
        finally:
            with suppress(ConnectionError):  # an editor that has gone needs no report
                await self._update(acp.update_tool_call(call, status=status, content=content, locations=places))

    def asked(self, prepared: Prepared) -> Coroutine[Any, Any, Answer]:
        """The host's callback. What is shown is computed here, in the thread of the call; the loop asks."""
        return self._permission(prepared, _diffs(prepared) or [acp.tool_content(acp.text_block(_command(prepared)))])

    async def _permission(self, prepared: Prepared, content: Content) -> Answer:
        call, rule = prepared.call, prepared.verdict.allow
        options = [PermissionOption(option_id="allow_once", name="Allow", kind="allow_once")]
        if rule:
            options += [
                PermissionOption(option_id="allow_session", name="Allow for this session", kind="allow_always"),
                PermissionOption(option_id="allow_always", name=f"Always allow: {rule}", kind="allow_always"),
            ]
        options.append(PermissionOption(option_id="reject_once", name="Reject", kind="reject_once"))
        shown = ToolCallUpdate(
            tool_call_id=call.id,
            title=_title(call.tool, prepared.accesses),
            kind=self._kind(call.tool),
            status="pending",
            content=content,
            locations=_places(prepared.accesses),
            raw_input=dict(call.arguments),
        )
        try:
            answer = await self._client.request_permission(session_id=self.id, tool_call=shown, options=options)
        except (acp.RequestError, ConnectionError) as error:
            return Answer(False, f"the editor could not ask ({error})")
        if not isinstance(answer.outcome, AllowedOutcome):
            return Answer(False, "the turn was cancelled")
        lasting = _YES.get(answer.outcome.option_id)
        if lasting is None:
            return Answer(False)
        await self._update(acp.update_tool_call(call.id, status="in_progress"))
        return Answer(True, lasting=lasting)

    def _looked_at(self, tool: str, arguments: Mapping[str, Any] | str | None) -> tuple[Prepared | None, Content]:
        """What a call would touch and change, as far as that can be said beforehand."""
        try:
            prepared = self.session.session.prepare(tool, arguments)
        except (ToolError, OSError):  # the call itself will say why
            return None, []
        return prepared, _diffs(prepared) if prepared.verdict.decision != "deny" else []

    def _kind(self, tool: str) -> ToolKind:
        entry = self.session.session.dialect.entries.get(tool)
        return next((kind for kind, tools in _KINDS.items() if entry and entry.id in tools), "other")

    async def _update(self, update: Any) -> None:
        await self._client.session_update(session_id=self.id, update=update)


def _title(tool: str, accesses: Sequence[Access]) -> str:
    if not accesses:
        return tool
    return f"`{accesses[0].target}`" if accesses[0].action == "run" else f"{tool} {accesses[0].target}"


def _command(prepared: Prepared) -> str:
    """What a person is to judge, of a call that proposes no change to a file."""
    try:
        return prepared.preview() or _title(prepared.call.tool, prepared.accesses)
    except ToolError:
        return _title(prepared.call.tool, prepared.accesses)


def _places(accesses: Sequence[Access], line: int | None = None) -> list[ToolCallLocation]:
    files = dict.fromkeys(access.path for access in accesses if access.path and not access.by_command)
    return [ToolCallLocation(path=path, line=line) for path in files]


def _diffs(prepared: Prepared) -> Content:
    """What a call would change, file by file; what is no text is not shown like this, nor what a command may do."""
    actions = {access.action for access in prepared.accesses if not access.by_command}
    if "run" in actions or actions.isdisjoint(("write", "delete")):
        return []
    try:
        proposed = prepared.proposed()
    except (ToolError, OSError):
        return []
    found: Content = []
    for one in proposed:
        with suppress(UnicodeDecodeError):
            before = None if one.before is None else one.before.decode("utf-8")
            path = prepared.paths[one.path].real
            found.append(acp.tool_diff_content(path, (one.after or b"").decode("utf-8"), before))
    return found


def _blocks(result: Result) -> Content:
    blocks: list[ContentBlock] = [acp.text_block(result.text)]
    blocks += [acp.image_block(one["base64"], one["mime_type"]) for one in images_of(result)]
    return [acp.tool_content(block) for block in blocks]
