"""Agent Client Protocol: an agent that an editor can start. Needs the extra `acp`.

    asyncio.run(serve(HandrailAgent(driver)))

Each `session/new` opens a session on the files as the editor has them (`files.py`). Every prompt goes to the
``driver``, an async function that talks to a model. The editor shows its calls while they run, with their kind, files
and diff, and asks the user for approval.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Unpack, cast

from handrail.agent.acp.files import EditorClient, EditorSession
from handrail.agent.acp.turn import Conversation
from handrail.errors.extras import needs
from handrail.pipeline.async_calls import AsyncCalls
from handrail.pipeline.options import SessionOptions, Setup
from handrail.version import __version__
from handrail.workspace import Root

with needs("acp"):
    import acp
    from acp.helpers import ContentBlock
    from acp.schema import (
        AgentCapabilities,
        ClientCapabilities,
        Implementation,
        InitializeResponse,
        NewSessionResponse,
        PromptCapabilities,
        PromptResponse,
        StopReason,
    )

__all__ = ["Conversation", "Driver", "HandrailAgent", "serve"]

Driver = Callable[[Conversation, Sequence[ContentBlock]], Coroutine[object, object, StopReason | None]]
"""Runs one turn: asks a model, makes its calls, says the answer. Returns why it stopped; None: it is done."""


class HandrailAgent:
    """The agent side of the protocol. ``options`` are those of `Session`, but for the approval."""

    def __init__(
        self,
        driver: Driver,
        *,
        images: bool = False,
        **options: Unpack[SessionOptions],
    ) -> None:
        self._driver = driver
        self._options = options
        self._images = images
        self._may: ClientCapabilities | None = None
        self._conversations: dict[str, Conversation] = {}
        self._client: acp.Client

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(
        self,
        protocol_version: int,  # noqa: ARG002 - there is one version so far: an editor that wants another hangs up
        client_capabilities: ClientCapabilities | None = None,
        **_: object,
    ) -> InitializeResponse:
        self._may = client_capabilities
        can = PromptCapabilities(image=self._images, embedded_context=True)
        return InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(load_session=False, prompt_capabilities=can),
            agent_info=Implementation(name="handrail", title="Handrail", version=__version__),
        )

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[object] | None = None,
        **_: object,
    ) -> NewSessionResponse:
        for path in (cwd, *(additional_directories or ())):
            if not os.path.isabs(path) or not os.path.isdir(path):
                raise acp.RequestError.invalid_params({"details": f"{path} is not the absolute path of a directory"})
        opened = Conversation(secrets.token_hex(8), self._client, mcp_servers or [])
        editor = EditorClient(self._client, opened.id, self._may)
        setup = self._options.get("setup", Setup())
        setup = replace(setup, roots=[*setup.roots, *map(Root, additional_directories or ())])
        options: SessionOptions = {**self._options, "setup": setup}
        opened.session = AsyncCalls(EditorSession(cwd, editor, opened.approve, **options))
        self._conversations[opened.id] = opened
        return NewSessionResponse(session_id=opened.id)

    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: object) -> PromptResponse:
        opened = self._conversations.get(session_id)
        if opened is None:
            raise acp.RequestError.invalid_params({"details": f"there is no session {session_id}"})
        if opened.turn:
            raise acp.RequestError.invalid_request({"details": "the last prompt of this session is still running"})
        opened.cancelled = False
        opened.turn = asyncio.create_task(self._driver(opened, prompt))
        try:
            reason = await opened.turn
        except asyncio.CancelledError:
            if not opened.cancelled:
                raise
            reason = None
        finally:
            opened.turn = None
        return PromptResponse(stop_reason="cancelled" if opened.cancelled else reason or "end_turn")

    async def cancel(self, session_id: str, **_: object) -> None:
        opened = self._conversations.get(session_id)
        if opened and opened.turn:
            opened.cancelled = True
            opened.turn.cancel()

    async def close(self) -> None:
        """End all sessions and the commands that still run in them."""
        while self._conversations:
            await self._conversations.popitem()[1].session.close()


async def serve(agent: HandrailAgent, to_client: object = None, from_client: object = None) -> None:
    """Speak with an editor until it hangs up: over stdin and stdout, or these streams."""
    try:
        await acp.run_agent(cast("acp.Agent", agent), to_client, from_client)
    finally:
        await agent.close()
