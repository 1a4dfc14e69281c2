"""A scripted editor on one end of a socket, the real library and our agent on the other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import acp
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ToolCallUpdate,
    WriteTextFileResponse,
)

from handrail import Result, Settings
from handrail.agent.acp import Conversation, Driver, HandrailAgent, serve
from handrail.journal import NoJournal, Record

SETTINGS = Settings(raise_bugs=True, drafts=False)  # tests look at files of a command while it runs


class ScriptedEditor:
    """A client with buffers, some of them unsaved, and a person who answers as told."""

    def __init__(self, *answers: str) -> None:
        self.buffers: dict[str, str] = {}
        self.answers = list(answers)
        self.asked: list[tuple[ToolCallUpdate, list[PermissionOption]]] = []
        self.updates: list[Any] = []
        self.writes: list[tuple[str, str]] = []
        self.wakes = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, options))
        self.wakes.set()
        answer = self.answers.pop(0)
        if answer == "never":
            await asyncio.sleep(3600)
        if answer == "cancelled":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=answer))

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        if path in self.buffers:
            return ReadTextFileResponse(content=self.buffers[path])
        try:
            return ReadTextFileResponse(content=Path(path).read_bytes().decode("utf-8").replace("\r\n", "\n"))
        except (OSError, UnicodeDecodeError):
            raise acp.RequestError.resource_not_found(path) from None

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        self.writes.append((path, content))
        self.buffers.pop(path, None)
        Path(path).write_bytes(content.encode("utf-8"))
        return WriteTextFileResponse()

    def of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]


class Recorded(NoJournal):
    """Keeps what calls came to, in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def record(self, record: Record) -> str:
        self.records.append(record)
        return super().record(record)


def calls(*wanted: tuple[str, dict[str, Any]], into: list[Result]) -> Driver:
    """A driver whose model wants these calls."""

    async def drive(conversation: Conversation, _: Any) -> None:
        for tool, arguments in wanted:
            into.append(await conversation.call(tool, arguments))
        await conversation.say("done")

    return drive


@asynccontextmanager
async def connected(
    driver: Driver, editor: ScriptedEditor, read: bool = False, write: bool = False, **options: Any
) -> AsyncIterator[acp.Agent]:
    """A connection from the editor to the agent, initialized."""
    ours, theirs = socket.socketpair()
    from_client, to_client = await asyncio.open_connection(sock=ours, limit=1 << 24)
    from_agent, to_agent = await asyncio.open_connection(sock=theirs, limit=1 << 24)
    agent = HandrailAgent(driver, **{"settings": SETTINGS, **options})
    serving = asyncio.create_task(serve(agent, to_client, from_client))
    connection = acp.connect_to_agent(editor, to_agent, from_agent)  # type: ignore[arg-type]
    may = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=read, write_text_file=write))
    begun = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=may)
    assert begun.protocol_version == acp.PROTOCOL_VERSION and begun.agent_info and begun.agent_info.name == "handrail"
    try:
        yield connection
    finally:
        await connection.close()
        to_agent.close()
        with suppress(ConnectionError):
            await serving
        to_client.close()


async def prompted(connection: acp.Agent, root: Path, text: str = "go") -> str:
    opened = await connection.new_session(cwd=str(root), mcp_servers=[])
    return (await connection.prompt(session_id=opened.session_id, prompt=[acp.text_block(text)])).stop_reason


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def content(asked: ToolCallUpdate) -> list[Any]:
    """What a question shows; it always shows something."""
    assert asked.content
    return list(asked.content)
