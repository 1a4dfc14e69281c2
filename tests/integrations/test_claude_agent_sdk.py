"""The in-process server for the Claude Agent SDK: its real client, with a script in place of the `claude` program."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Transport

from handrail import Session
from handrail.integrations import claude_agent_sdk as export
from tests.integrations.scripted import draw

Make = Callable[..., Session]
EDIT = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
UNREAD = {**EDIT, "old_string": "on"}
"""Refused while the file was not read: no whole line of it is quoted."""


class Program(Transport):
    """Stands for the `claude` program: says what it would say, and hears what it would be told."""

    def __init__(self) -> None:
        self._out: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[Any]] = {}

    async def connect(self) -> None:
        pass

    async def write(self, data: str) -> None:
        heard = json.loads(data)
        if heard["type"] == "control_request":
            response = {"subtype": "success", "request_id": heard["request_id"], "response": {}}
            self._out.put_nowait({"type": "control_response", "response": response})
        elif heard["type"] == "control_response":
            self._answers[heard["response"]["request_id"]].set_result(heard["response"]["response"])

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._out.get()) is not None:
            yield message

    async def close(self) -> None:
        self._out.put_nowait(None)

    async def end_input(self) -> None:
        pass

    def is_ready(self) -> bool:
        return True

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """One request to the server, as the program sends it."""
        number = len(self._answers)
        self._answers[str(number)] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        asked = {"subtype": "mcp_message", "server_name": "handrail", "message": message}
        self._out.put_nowait({"type": "control_request", "request_id": str(number), "request": asked})
        answer = (await self._answers[str(number)])["mcp_response"]
        assert "error" not in answer, answer
        return answer["result"]

    async def greet(self) -> None:
        client = {"name": "claude-code", "version": "2"}
        await self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})


def talk(session: Session, *calls: tuple[str, dict[str, Any]], at_once: bool = False) -> tuple[list[Any], list[Any]]:
    """What the server lists, and what it answers."""

    async def main() -> tuple[list[Any], list[Any]]:
        program = Program()
        options = ClaudeAgentOptions(mcp_servers={"handrail": export.server(session)})
        async with ClaudeSDKClient(options, transport=program):
            await program.greet()
            listed: list[Any] = (await program.ask("tools/list", {}))["tools"]
            steps = [{"name": name, "arguments": arguments} for name, arguments in calls]
            if at_once:
                answers = await asyncio.gather(*(program.ask("tools/call", step) for step in steps))
            else:
                answers = [await program.ask("tools/call", step) for step in steps]
        return listed, answers

    return asyncio.run(main())


def test_the_server_lists_our_tools_and_answers_in_our_words(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session, twin = make_session(), make_session()
    steps: list[tuple[str, dict[str, Any]]] = [
        ("Edit", UNREAD),
        ("Read", {"file_path": "a.txt", "limit": "1"}),
        ("Read", {"file_path": 7, "nonsense": 1}),
        ("Nope", {}),
    ]
    expected = [twin.call(name, arguments) for name, arguments in steps]
    listed, answers = talk(session, *steps, ("Edit", EDIT))
    assert [(one["name"], one["description"], one["inputSchema"]) for one in listed] == [
        (spec.name, spec.description, spec.schema) for spec in session.specs()
    ]
    hints = {one["name"]: one["annotations"] for one in listed}
    assert hints["Read"]["readOnlyHint"] is True and hints["Bash"]["destructiveHint"] is True
    assert listed[0]["_meta"]["anthropic/alwaysLoad"] is True
    assert [one["content"] for one in answers[:4]] == [[{"type": "text", "text": one.text}] for one in expected]
    assert [one.get("isError", False) for one in answers] == [True, False, True, True, False]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "two\n"


def test_pictures_come_after_the_text(make_session: Make, tmp_path: Path) -> None:
    draw(tmp_path / "red.png")
    session = make_session()
    _, (answer,) = talk(session, ("Read", {"file_path": "red.png"}))
    assert [block["type"] for block in answer["content"]] == ["text", "image"]
    picture = session.call("Read", {"file_path": "red.png"}).blocks[1]
    assert answer["content"][1]["data"] == picture["base64"]
    assert answer["content"][1]["mimeType"] == picture["mime_type"]


def test_calls_that_come_at_once_change_files_in_their_order(make_session: Make, tmp_path: Path) -> None:
    writes = [("Write", {"file_path": "a.txt", "content": str(n)}) for n in range(20)]
    _, answers = talk(make_session(), *writes, ("Read", {"file_path": "a.txt"}), at_once=True)
    assert "19" in answers[-1]["content"][0]["text"]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "19"


def test_tools_are_allowed_by_the_names_that_claude_sees(make_session: Make) -> None:
    session = make_session()
    names = [f"mcp__hands__{spec.name}" for spec in session.specs()]
    assert export.allowed_tools(session, "hands") == names and "mcp__hands__Read" in names
