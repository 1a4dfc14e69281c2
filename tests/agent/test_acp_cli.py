"""`handrail acp`: the real command, the real protocol library as the editor, a scripted model, real files."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import ClientCapabilities

from handrail_demo.scripted_server import Line, ScriptedServer, in_order
from tests.forked import as_fork, run_python
from tests.integrations.acp_editor import ScriptedEditor


@asynccontextmanager
async def started(tmp_path: Path, url: str, editor: ScriptedEditor) -> AsyncIterator[tuple[Any, str]]:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    environ = {**os.environ, "OPENAI_BASE_URL": url, "XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    words = [sys.executable, "-m", "handrail", "acp", "--model", "scripted"]
    pipe, fork = asyncio.subprocess.PIPE, as_fork(words, environ)
    child = await asyncio.create_subprocess_exec(
        *words, stdin=pipe, stdout=pipe, env=environ, cwd=tmp_path, limit=1 << 24, preexec_fn=fork
    )
    connection = acp.connect_to_agent(editor, child.stdin, child.stdout)  # type: ignore[arg-type]
    await connection.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=ClientCapabilities())
    opened = await connection.new_session(cwd=str(project), mcp_servers=[])
    try:
        yield connection, opened.session_id
    finally:
        await connection.close()
        assert child.stdin
        child.stdin.close()
        await asyncio.wait_for(child.wait(), 60)


def test_a_prompt_is_worked_on_and_the_editor_is_asked(tmp_path: Path) -> None:
    edit = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
    lines = [Line("I look.", [("Read", {"file_path": "a.txt"})]), Line("", [("Edit", edit)]), Line("It is done.")]

    async def test(url: str) -> None:
        editor = ScriptedEditor("allow_once")
        async with started(tmp_path, url, editor) as (connection, session):
            (tmp_path / "project/a.txt").write_text("one\n", encoding="utf-8")
            answer = await connection.prompt(session_id=session, prompt=[acp.text_block("make it two")])
        assert answer.stop_reason == "end_turn"
        assert [call.title for call in editor.of("tool_call")] == ["Read a.txt", "Edit a.txt"]
        assert len(editor.asked) == 1
        message = "".join(update.content.text for update in editor.of("agent_message_chunk"))
        assert message == "I look.It is done."

    with ScriptedServer(in_order(lines)) as server:
        asyncio.run(test(server.url))
        assert "make it two" in str(server.requests[0].body["messages"][1])
    assert (tmp_path / "project/a.txt").read_text(encoding="utf-8") == "two\n"


@pytest.mark.usefixtures("without_drafts")
def test_a_cancelled_turn_ends_its_command_and_the_next_prompt_is_answered(tmp_path: Path) -> None:
    lines = [Line("", [("Bash", {"command": "touch begun; sleep 600"})]), Line("Here I am.")]

    async def test(url: str) -> None:
        editor = ScriptedEditor("allow_once")
        async with started(tmp_path, url, editor) as (connection, session):
            turn = asyncio.ensure_future(connection.prompt(session_id=session, prompt=[acp.text_block("wait")]))
            while not (tmp_path / "project/begun").exists():
                assert not turn.done(), turn.result()
                await asyncio.sleep(0.02)
            await connection.cancel(session_id=session)
            assert (await turn).stop_reason == "cancelled"
            answer = await connection.prompt(session_id=session, prompt=[acp.text_block("still there?")])
        assert answer.stop_reason == "end_turn"

    with ScriptedServer(in_order(lines)) as server:
        asyncio.run(test(server.url))
        assert [message["role"] for message in server.requests[1].body["messages"]][-2:] == ["tool", "user"]


def test_without_a_model_it_says_what_to_set(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HANDRAIL", "OPENAI"))}
    done = run_python("-m", "handrail", "acp", cwd=tmp_path, env={**environ, "HOME": str(tmp_path)})
    assert done.returncode == 2 and "no model is set" in done.stderr
