"""The official SDK's client against our stdio door, in both eras: what it lists, it can call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from handrail import dialects
from tests.command import surroundings
from tests.drafts.machine import find_obstacle
from tests.mcp.stdio_client import HANDRAIL
from tests.mcp.test_stdio_calls import Sleeper

mcp = pytest.importorskip("mcp", reason="the official SDK is an extra")
types = pytest.importorskip("mcp_types", reason="the official SDK is an extra")

ERAS = ["legacy", "2026-07-28", "auto"]
PATCH = "*** Begin Patch\n*** Add File: patched.txt\n+patched\n*** End Patch\n"
NOTEBOOK = (
    '{"cells": [{"cell_type": "code", "execution_count": null, "id": "c1", "metadata": {}, "outputs": [], '
    '"source": ["1"]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
)
EVERY_TOOL: list[tuple[str, dict[str, Any], str]] = [
    ("Read", {"file_path": "a.txt"}, "one"),
    ("Write", {"file_path": "new.txt", "content": "new\n"}, "new.txt"),
    ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"}, "a.txt"),
    ("MultiEdit", {"file_path": "a.txt", "edits": [{"old_string": "two", "new_string": "2"}]}, "a.txt"),
    ("Read", {"file_path": "n.ipynb"}, "c1"),
    ("NotebookEdit", {"notebook_path": "n.ipynb", "cell_id": "c1", "new_source": "2"}, ""),
    ("LS", {"path": "."}, "a.txt"),
    ("Glob", {"pattern": "*.txt"}, "a.txt"),
    ("Grep", {"pattern": "three"}, "a.txt"),
    ("ApplyPatch", {"patch": PATCH}, "patched.txt"),
    ("Replace", {"pattern": "three", "replacement": "3", "dry_run": True}, "a.txt"),
    ("Replace", {"pattern": "three", "replacement": "3", "expected": 1}, "a.txt"),
    ("Move", {"source_path": "new.txt", "target_path": "moved.txt"}, "moved.txt"),
    ("Trash", {"path": "moved.txt"}, "moved.txt"),
    ("Undo", {}, "moved.txt"),
    ("Script", {"code": "print(len(ls(path='.')) > 0)"}, "True"),
    ("Bash", {"command": "echo said"}, "said"),
    ("Bash", {"command": "read line; echo got $line; sleep 600", "background": True}, ""),
]


def connected(
    root: Path, use: Callable[[Any], Awaitable[None]], *words: str, mode: str = "auto", **options: Any
) -> None:
    """Run ``use`` with a client that has started a server of ours."""

    async def run() -> None:
        command = mcp.StdioServerParameters(
            command=HANDRAIL[0], args=[*HANDRAIL[1:], "mcp", str(root), *words], env=surroundings()
        )
        async with mcp.Client(command, mode=mode, **options) as client:
            await use(client)

    anyio.run(run)


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


@pytest.mark.parametrize("mode", ERAS)
def test_every_native_tool_is_listed_and_can_be_called(mode: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (tmp_path / "n.ipynb").write_text(NOTEBOOK, encoding="utf-8")
    called = set()

    async def use(client: Any) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(listed) == list(dialects.load("native").entries)
        assert listed["Read"].annotations.read_only_hint is True

        async def call(name: str, arguments: dict[str, Any], expected: str) -> Any:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, (name, text_of(result))
            assert result.structured_content is None
            assert expected in text_of(result), (name, text_of(result))
            called.add(name)
            return result

        for name, arguments, expected in EVERY_TOOL:
            last = await call(name, arguments, expected)
        job = last.meta["handrail/result"]["data"]["job"]
        await call("BashInput", {"job": job, "text": "hello\n"}, "")
        await call("BashOutput", {"job": job}, "")
        await call("BashKill", {"job": job}, "")

    connected(tmp_path, use, "--tools", "all", "--mode", "full", mode=mode)
    assert called == set(dialects.load("native").entries)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "1\n2\n3\n"
    assert (tmp_path / "patched.txt").read_text(encoding="utf-8") == "patched\n"


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("decision", ["once", "no"])
def test_the_person_behind_the_client_decides(mode: str, decision: str, tmp_path: Path) -> None:
    shown: list[str] = []

    async def answer(context: Any, params: Any) -> Any:
        shown.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": decision, "reason": "as I please"})

    async def use(client: Any) -> None:
        result = await client.call_tool("Bash", {"command": "touch made"})
        # Where there are drafts the question is about its changes, after it ran.
        assert result.is_error is (decision == "no" and bool(find_obstacle()))
        assert ("as I please" in text_of(result)) is (decision == "no")

    connected(tmp_path, use, "--mode", "ask", mode=mode, elicitation_callback=answer)
    assert len(shown) == 1 and "touch made" in shown[0]
    assert (tmp_path / "made").exists() is (decision == "once")


@pytest.mark.parametrize("mode", ERAS)
def test_progress_and_many_calls_at_once_reach_the_client(mode: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    collected: list[float] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        collected.append(progress)

    async def use(client: Any) -> None:
        async def read() -> None:
            assert "one" in text_of(await client.call_tool("Read", {"file_path": "a.txt"}))

        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.call_tool("Bash", {"command": "sleep 2.5"}, progress_callback=heard))
            for _ in range(64):
                group.start_soon(read)

    connected(tmp_path, use, "--mode", "full", mode=mode)
    assert collected


@pytest.mark.parametrize("mode", ERAS)
def test_a_call_that_the_client_gives_up_is_stopped(mode: str, tmp_path: Path) -> None:
    sleeper = Sleeper()

    async def use(client: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.call_tool("Bash", {"command": sleeper.command}))
            await anyio.to_thread.run_sync(lambda: sleeper.wait_until(running=True))
            group.cancel_scope.cancel()
        await anyio.to_thread.run_sync(lambda: sleeper.wait_until(running=False))
        assert not (await client.call_tool("LS", {"path": "."})).is_error

    connected(tmp_path, use, "--mode", "full", mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_an_unknown_tool_is_an_error_of_the_protocol(mode: str, tmp_path: Path) -> None:
    async def use(client: Any) -> None:
        with pytest.raises(mcp.MCPError, match="Fly"):
            await client.call_tool("Fly", {})

    connected(tmp_path, use, mode=mode)
