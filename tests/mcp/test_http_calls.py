"""Calls over HTTP that take their time: a person is asked, a client gives up, the server ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from tests.mcp.http_server import ERAS, TOKEN, Served, call, envelope, serving


@pytest.fixture(scope="module")
def asks(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A door where a person is asked about every change: a start takes longer than most tests."""
    state = tmp_path_factory.mktemp("state")
    with serving(str(shared), "--token", TOKEN, "--mode", "ask", cwd=shared, state=state) as door:
        yield door


@pytest.fixture(scope="module")
def free(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A door where nobody is asked."""
    state = tmp_path_factory.mktemp("state")
    with serving(str(shared), "--token", TOKEN, "--mode", "full", cwd=shared, state=state) as door:
        yield door


def texts(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("action", "decision"), [("accept", "once"), ("accept", "no"), ("decline", None)])
def test_a_person_is_asked_through_the_client(
    asks: Served, shared: Path, era: str, action: str, decision: str | None
) -> None:
    asked: list[Any] = []
    target = shared / f"{era}-{action}-{decision}.txt"

    async def person(_: Any, params: Any) -> ElicitResult:
        asked.append(params)
        await asyncio.sleep(0 if decision else 0.5)  # a person needs a moment to read
        content = {"decision": decision, "reason": "not today"} if decision else None
        return ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    async def use() -> Any:
        async with asks.client(era, elicitation_callback=person) as client:
            assert not (await client.call_tool("LS", {"path": "."})).is_error  # the next call is a plain one
            return await client.call_tool("Write", {"file_path": target.name, "content": "made\n"})

    result = asyncio.run(use())
    assert len(asked) == 1 and "+made" in asked[0].message
    assert "always" not in json.dumps(asked[0].requested_schema)
    allowed = decision == "once"
    assert result.is_error != allowed and target.exists() == allowed
    assert allowed or "the user refused" in texts(result)


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_cannot_ask_gets_a_refusal_it_can_read(asks: Served, shared: Path, era: str) -> None:
    async def use() -> Any:
        async with asks.client(era) as client:
            return await client.call_tool("Write", {"file_path": "new.txt", "content": "made\n"})

    result = asyncio.run(use())
    assert result.is_error and "new.txt" in texts(result) and not (shared / "new.txt").exists()


def test_an_answer_counts_only_for_what_was_shown_and_only_once(asks: Served, shared: Path) -> None:
    def asking(**arguments: Any) -> dict[str, Any]:
        answer = call("Write", **arguments)
        answer["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
        return answer

    def sent(body: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = asks.post(body, **envelope("Write")).json()["result"]
        return result

    first = sent(asking(file_path="x.txt", content="shown"))
    assert first["resultType"] == "input_required"
    yes = {
        "inputResponses": {"approval": {"action": "accept", "content": {"decision": "once"}}},
        "requestState": first["requestState"],
    }
    other = asking(file_path="x.txt", content="not shown")
    other["params"] |= yes
    assert sent(other)["resultType"] == "input_required" and not (shared / "x.txt").exists()
    forged = asking(file_path="x.txt", content="shown")
    forged["params"] |= {**yes, "requestState": first["requestState"] + "x"}
    assert asks.post(forged, **envelope("Write")).json()["error"]["code"] == -32602
    same = asking(file_path="x.txt", content="shown")
    same["params"] |= yes
    assert sent(same)["isError"] is False
    (shared / "x.txt").unlink()
    assert sent(same)["resultType"] == "input_required" and not (shared / "x.txt").exists()


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def eventually(what: Callable[[], Any]) -> Any:
    """Waits for something that happens soon; the bound only keeps a failing test from hanging."""
    for _ in range(12_000):
        if actual := what():
            return actual
        time.sleep(0.05)
    raise AssertionError("it never happened")


SLEEP = "touch begun; exec sleep 600"
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks for the process in /proc")


@linux_only
@pytest.mark.parametrize(("era", "how"), list(zip(ERAS, (signal.SIGTERM, signal.SIGINT), strict=True)))
def test_the_end_of_the_server_ends_a_running_command(project: Path, era: str, how: signal.Signals) -> None:
    async def use(door: Served) -> None:
        code = None
        async with anyio.create_task_group() as group:

            async def run() -> None:
                async with door.client(era) as client:
                    with anyio.move_on_after(60):
                        await client.call_tool("Bash", {"command": SLEEP, "timeout": 300})

            group.start_soon(run)
            await anyio.to_thread.run_sync(lambda: eventually(lambda: namespaced_sleep(project)))
            code = await anyio.to_thread.run_sync(lambda: door.end(how))
            group.cancel_scope.cancel()
        assert code == 0

    with serving(str(project), "--token", TOKEN, "--mode", "full", cwd=project) as door:
        try:
            asyncio.run(use(door))
        except* (MCPError, httpx2.HTTPError):  # the client may notice that the server has gone
            pass
        assert door.process.poll() == 0
        assert not namespaced_sleep(project)


def namespaced_sleep(project: Path) -> list[str]:
    """Commands that still run in the project: found by their directory, since a sandbox has numbers of its own."""
    collected = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.readlink(f"/proc/{entry}/cwd") == str(project) and alive(int(entry)):
                    with open(f"/proc/{entry}/cmdline", encoding="utf-8", errors="replace") as file:
                        collected.append(file.read())
            except OSError:
                continue
    return [one for one in collected if "sleep" in one]


@linux_only
@pytest.mark.parametrize("era", ERAS)
def test_a_call_that_is_cancelled_ends_its_command_and_the_server_lives(free: Served, shared: Path, era: str) -> None:
    async def use() -> Any:
        async with free.client(era) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "Bash", {"command": SLEEP, "timeout": 300})
                await anyio.to_thread.run_sync(lambda: eventually(lambda: namespaced_sleep(shared)))
                group.cancel_scope.cancel()
            await anyio.to_thread.run_sync(lambda: eventually(lambda: not namespaced_sleep(shared)))
            return await client.call_tool("LS", {"path": "."})

    assert not asyncio.run(use()).is_error


@linux_only
def test_too_many_calls_at_once_are_told_so_and_can_still_be_cancelled(project: Path) -> None:
    words = ("--token", TOKEN, "--mode", "full", "--most-calls", "1")

    async def use(door: Served) -> None:
        async with door.client("2026-07-28") as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "Bash", {"command": SLEEP, "timeout": 300})
            await anyio.to_thread.run_sync(lambda: eventually(lambda: namespaced_sleep(project)))
            busy = await anyio.to_thread.run_sync(lambda: door.post(call("LS"), **envelope("LS")))
            assert busy.status_code == 429 and busy.headers["retry-after"]
            assert (await client.list_tools()).tools
            group.cancel_scope.cancel()
        answer = await anyio.to_thread.run_sync(
            lambda: eventually(lambda: door.post(call("LS"), **envelope("LS")).status_code == 200)
        )
        assert answer

    with serving(str(project), *words, cwd=project) as door:
        asyncio.run(use(door))


@pytest.mark.parametrize("era", ERAS)
def test_a_long_command_tells_that_it_still_runs(free: Served, shared: Path, era: str) -> None:
    heard: list[float] = []
    sign = f"go-{era}"

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)
        (shared / sign).touch()

    async def use() -> Any:
        async with free.client(era) as client:
            command = f"until [ -e {sign} ]; do sleep 0.1; done; echo heard"
            return await client.call_tool("Bash", {"command": command}, progress_callback=progress)

    result = asyncio.run(use())
    assert "heard" in texts(result) and heard and not result.is_error
