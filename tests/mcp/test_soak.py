"""A thousand calls of every kind over each transport: descriptors, threads and memory of the server do not grow.

Takes a minute or two: `make test-long` runs it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from PIL import Image

from tests.mcp.http_server import TOKEN, Served, serving
from tests.mcp.stdio_client import RawClient

CALLS = 1000
AT_ONCE = 12
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors and threads in /proc"),
]
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("Read", {"file_path": "a.txt"}),
    ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "one "}),
    ("Write", {"file_path": "new.txt", "content": "x" * 5000}),
    ("Grep", {"pattern": "two"}),
    ("Glob", {"pattern": "**/*.txt"}),
    ("Bash", {"command": "seq 2000"}),
    ("Read", {"file_path": "red.png"}),
    ("Read", {"file_path": "missing.txt"}),
    ("LS", {"path": "."}),
]


class Watch:
    """What the server holds, at the fifths of the way."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = 0
        self.seen: list[dict[str, int]] = []

    def count(self) -> None:
        self._done += 1
        if self._done % (CALLS // 5) == 0:
            status = Path(f"/proc/{self._pid}/status").read_text(encoding="utf-8")
            facts = {name: int(status.split(f"{name}:")[1].split()[0]) for name in ("Threads", "VmRSS")}
            self.seen.append({**facts, "fds": len(os.listdir(f"/proc/{self._pid}/fd"))})

    def require_flat(self) -> None:
        print(*self.seen, sep="\n")
        first, last = self.seen[1], self.seen[-1]
        assert last["Threads"] <= first["Threads"] + 2
        assert last["fds"] <= first["fds"] + 60  # a session has a few of them, and which are open changes
        assert last["VmRSS"] <= first["VmRSS"] * 1.15


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    Image.new("RGB", (64, 64), "red").save(root / "red.png")
    return root


def kind(number: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    tool, arguments = KINDS[number % len(KINDS)]
    return tool, arguments, {"threadId": f"t{number % 25}"} if number % 7 == 0 else {}


def test_over_stdio_nothing_grows(project: Path) -> None:
    with RawClient("--mode", "full", cwd=project) as client:
        client.shake()
        watch, under_way = Watch(client.process.pid), set[int]()
        for number in range(CALLS):
            tool, arguments, meta = kind(number)
            under_way.add(client.begin("tools/call", name=tool, arguments=arguments, _meta=meta))
            while len(under_way) >= AT_ONCE or (number == CALLS - 1 and under_way):
                under_way.remove(client.next()["id"])
                watch.count()
        watch.require_flat()
        assert client.end()[0] == 0


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_over_http_nothing_grows(project: Path, era: str) -> None:
    async def use(door: Served, watch: Watch) -> None:
        room = anyio.CapacityLimiter(AT_ONCE)

        async def one(client: Any, number: int) -> None:
            tool, arguments, meta = kind(number)
            async with room:
                await client.call_tool(tool, arguments, meta=meta or None)
            watch.count()

        async with door.client(era) as client, anyio.create_task_group() as group:
            for number in range(CALLS):
                group.start_soon(one, client, number)

    with serving(str(project), "--token", TOKEN, "--mode", "full", cwd=project) as door:
        watch = Watch(door.process.pid)
        asyncio.run(use(door, watch))
        watch.require_flat()
        assert door.end() == 0
