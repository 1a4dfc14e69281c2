"""Agent Client Protocol, the agent: the real library on both ends of a socket, a scripted editor, real files."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import acp
import pytest
from PIL import Image

from handrail import Result
from handrail.agent.acp import Conversation
from tests.integrations.acp_editor import Recorded, ScriptedEditor, calls, connected, content, prompted, run
from tests.integrations.examples import example

EDIT = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}
READ = {"file_path": "a.txt"}


def test_a_turn_shows_each_call_with_its_kind_place_and_diff(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    collected: list[Result] = []

    async def test() -> None:
        editor = ScriptedEditor()
        driver = calls(
            ("Read", {**READ, "offset": 2}), ("Edit", EDIT), ("Bash", {"command": "echo hi"}), into=collected
        )
        async with connected(driver, editor) as connection:
            assert await prompted(connection, tmp_path) == "end_turn"
        starts, ends = editor.of("tool_call"), editor.of("tool_call_update")
        assert [(start.kind, start.status) for start in starts] == [
            ("read", "in_progress"),
            ("edit", "in_progress"),
            ("execute", "in_progress"),
        ]
        assert [start.title for start in starts] == ["Read a.txt", "Edit a.txt", "`echo hi`"]
        assert starts[1].locations[0].path == str(tmp_path / "a.txt") and starts[1].raw_input == EDIT
        assert [end.status for end in ends] == ["completed"] * 3
        assert ends[0].locations[0].line == 2 and ends[0].content[0].content.text == "2\ttwo"
        diff = ends[1].content[0]
        assert (diff.type, diff.path) == ("diff", str(tmp_path / "a.txt"))
        assert (diff.old_text, diff.new_text) == ("one\ntwo\n", "one\n2\n")
        assert "hi" in ends[2].content[0].content.text
        assert {start.tool_call_id for start in starts} == {end.tool_call_id for end in ends}
        assert editor.of("agent_message_chunk")[0].content.text == "done"

    run(test)
    assert [result.ok for result in collected] == [True] * 3
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one\n2\n"


def test_a_call_that_fails_is_shown_as_failed_and_the_turn_goes_on(tmp_path: Path) -> None:
    collected: list[Result] = []

    async def test() -> None:
        editor = ScriptedEditor()
        wanted = [("Read", {"file_path": "../x"}), ("Nonsense", {}), ("Read", {"file_path": "none"})]
        async with connected(calls(*wanted, into=collected), editor) as connection:
            assert await prompted(connection, tmp_path) == "end_turn"
        assert [end.status for end in editor.of("tool_call_update")] == ["failed"] * 3
        assert editor.of("tool_call")[1].kind == "other"
        assert editor.of("tool_call_update")[2].content[0].content.text == collected[2].text

    run(test)


def test_a_picture_goes_to_the_editor_beside_its_text(tmp_path: Path) -> None:
    Image.new("RGB", (4, 3), "red").save(tmp_path / "p.png")

    async def test() -> None:
        editor = ScriptedEditor()
        async with connected(calls(("Read", {"file_path": "p.png"}), into=[]), editor) as connection:
            await prompted(connection, tmp_path)
        text, picture = editor.of("tool_call_update")[0].content
        assert "4 x 3" in text.content.text and picture.content.mime_type == "image/png"

    run(test)


def test_what_needs_a_person_is_asked_with_the_diff_and_done_after_a_yes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    collected: list[Result] = []

    async def test() -> None:
        editor = ScriptedEditor("allow_once", "reject_once")
        driver = calls(("Read", READ), ("Edit", EDIT), ("Bash", {"command": "touch made"}), into=collected)
        async with connected(driver, editor, mode="ask") as connection:
            assert await prompted(connection, tmp_path) == "end_turn"
        edit, command = (asked for asked, _ in editor.asked)
        assert (edit.kind, edit.status, content(edit)[0].new_text) == ("edit", "pending", "one\n2\n")
        assert content(command)[0].content.text == "$ touch made\n"
        assert [option.kind for option in editor.asked[0][1]] == [
            "allow_once",
            "allow_always",
            "allow_always",
            "reject_once",
        ]
        steps = [(one.tool_call_id, one.status) for one in editor.updates if hasattr(one, "tool_call_id")]
        assert [status for call, status in steps if call == edit.tool_call_id] == [
            "pending",
            "in_progress",
            "completed",
        ]
        assert [status for call, status in steps if call == command.tool_call_id] == ["pending", "failed"]

    run(test)
    assert [result.status for result in collected] == ["ok", "ok", "denied"]
    assert "the user refused" in collected[2].text
    assert not (tmp_path / "made").exists()


def test_a_yes_for_the_session_is_not_asked_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    collected: list[Result] = []

    async def test() -> None:
        editor = ScriptedEditor("allow_session")
        again = {**EDIT, "old_string": "2", "new_string": "two"}
        driver = calls(("Read", READ), ("Edit", EDIT), ("Edit", again), into=collected)
        async with connected(driver, editor, mode="ask") as connection:
            await prompted(connection, tmp_path)
        assert len(editor.asked) == 1

    run(test)
    assert [result.status for result in collected] == ["ok"] * 3


def test_an_answer_that_is_none_of_the_options_is_a_no(tmp_path: Path) -> None:
    collected: list[Result] = []

    async def test() -> None:
        editor = ScriptedEditor("whatever", "cancelled")
        write = ("Write", {"file_path": "n.txt", "content": "x"})
        async with connected(calls(write, write, into=collected), editor, mode="ask") as connection:
            await prompted(connection, tmp_path)

    run(test)
    assert [result.status for result in collected] == ["denied"] * 2
    assert not (tmp_path / "n.txt").exists()


def test_a_cancelled_turn_ends_its_command_and_says_so_before_it_answers(tmp_path: Path) -> None:
    journal = Recorded()

    async def test() -> None:
        editor = ScriptedEditor()
        driver = calls(("Bash", {"command": "touch begun; sleep 600"}), into=[])
        async with connected(driver, editor, journal=journal) as connection:
            opened = await connection.new_session(cwd=str(tmp_path), mcp_servers=[])
            turn = asyncio.create_task(connection.prompt(session_id=opened.session_id, prompt=[acp.text_block("go")]))
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.01)
            await connection.cancel(session_id=opened.session_id)
            assert (await turn).stop_reason == "cancelled"
            assert [record.result.data["cancelled"] for record in journal.records] == [True]
            assert editor.of("tool_call_update")[-1].status == "failed"

    run(test)


def test_a_turn_can_be_cancelled_while_the_editor_is_asked(tmp_path: Path) -> None:
    async def test() -> None:
        editor = ScriptedEditor("never")
        driver = calls(("Write", {"file_path": "n.txt", "content": "x"}), into=[])
        async with connected(driver, editor, mode="ask") as connection:
            opened = await connection.new_session(cwd=str(tmp_path), mcp_servers=[])
            turn = asyncio.create_task(connection.prompt(session_id=opened.session_id, prompt=[acp.text_block("go")]))
            await editor.wakes.wait()
            await connection.cancel(session_id=opened.session_id)
            assert (await turn).stop_reason == "cancelled"
        assert not (tmp_path / "n.txt").exists()

    run(test)


def test_bad_requests_get_the_proper_error_and_the_agent_lives_on(tmp_path: Path) -> None:
    async def test() -> None:
        started = asyncio.Event()

        async def waits(conversation: Conversation, _: Any) -> None:
            started.set()
            await asyncio.sleep(3600)

        async with connected(waits, ScriptedEditor()) as connection:
            for cwd in ("relative", str(tmp_path / "none")):
                with pytest.raises(acp.RequestError) as wrong:
                    await connection.new_session(cwd=cwd, mcp_servers=[])
                assert wrong.value.code == -32602
            with pytest.raises(acp.RequestError) as wrong:
                await connection.prompt(session_id="none", prompt=[acp.text_block("go")])
            assert wrong.value.code == -32602
            with pytest.raises(acp.RequestError) as wrong:
                await connection.load_session(cwd=str(tmp_path), session_id="x", mcp_servers=[])
            assert wrong.value.code == -32601
            opened = await connection.new_session(cwd=str(tmp_path), mcp_servers=[])
            first = asyncio.create_task(connection.prompt(session_id=opened.session_id, prompt=[acp.text_block("go")]))
            await started.wait()
            with pytest.raises(acp.RequestError) as wrong:
                await connection.prompt(session_id=opened.session_id, prompt=[acp.text_block("go")])
            assert wrong.value.code == -32600
            await connection.cancel(session_id=opened.session_id)
            assert (await first).stop_reason == "cancelled"

    run(test)


def test_an_editor_that_hangs_up_ends_what_runs(tmp_path: Path) -> None:
    journal = Recorded()

    async def test() -> None:
        driver = calls(("Bash", {"command": "touch begun; sleep 600"}), into=[])
        async with connected(driver, ScriptedEditor(), journal=journal) as connection:
            opened = await connection.new_session(cwd=str(tmp_path), mcp_servers=[])
            turn = asyncio.create_task(connection.prompt(session_id=opened.session_id, prompt=[acp.text_block("go")]))
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.01)
        with suppress(ConnectionError, asyncio.CancelledError):
            await turn

    run(test)
    assert [record.result.data["cancelled"] for record in journal.records] == [True]


def test_an_editor_can_start_the_example_of_the_documentation_as_a_program(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n", encoding="utf-8")

    async def test() -> None:
        editor = ScriptedEditor()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            example("Agent Client Protocol"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        connection = acp.connect_to_agent(editor, process.stdin, process.stdout)  # type: ignore[arg-type]
        await connection.initialize(protocol_version=1)
        assert await prompted(connection, tmp_path, "a.txt") == "end_turn"
        await connection.close()
        assert process.stdin
        process.stdin.close()
        await process.wait()
        assert editor.of("agent_message_chunk")[0].content.text == "1\thello"

    run(test)
