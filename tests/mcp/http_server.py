"""The HTTP door as a process of its own, and the official client for it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import handrail.mcp.http.serve  # noqa: F401 - here, so that the forks have it
from handrail import Session, Settings
from tests.command import TIMEOUT
from tests.forked import as_fork

TOKEN = "a-token-for-tests-0123456789"
ERAS = ["legacy", "2026-07-28"]


class Served:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], url: str, lines: list[str]) -> None:
        self.process = process
        self.url = url
        self.lines = lines
        self.port = int(url.rsplit(":", 1)[1].split("/")[0])

    def post(self, body: Any, token: str = TOKEN, **headers: str) -> httpx2.Response:
        """One raw request, as somebody sends it who knows what the protocol wants."""
        usual = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        given = {"content": body} if isinstance(body, (bytes, Iterator)) else {"json": body}
        sent = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return httpx2.post(self.url, headers=sent, timeout=TIMEOUT, **given)

    @contextlib.asynccontextmanager
    async def client(self, mode: str, token: str = TOKEN, **more: Any) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30)) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode, **more) as client,
        ):
            yield client

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=TIMEOUT)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A `tools/call` of the era without a handshake."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "0"},
    }
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": meta},
    }


def envelope(tool: str) -> dict[str, str]:
    """The headers that go with `call`."""
    return {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call", "Mcp_Name": tool}


@contextlib.contextmanager
def serving(*words: str, cwd: Path, state: Path | None = None) -> Iterator[Served]:
    """`handrail mcp --http` on a free port."""
    command = [sys.executable, "-m", "handrail", "mcp", "--http", "127.0.0.1:0", *words]
    environment = {**os.environ, "HANDRAIL_STATE": str(state)} if state else os.environ.copy()
    process = subprocess.Popen(
        command,
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=as_fork(command, environment),
    )
    assert process.stderr
    collected: list[str] = []
    try:
        for line in process.stderr:
            collected.append(line)
            if "serving MCP at " in line:
                break
        else:
            raise AssertionError(f"the server did not start: {collected}")
        yield Served(process, collected[-1].rsplit(" ", 1)[1].strip(), collected)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stderr.close()


def need_hiding_sandbox(root: Path) -> None:
    """Skip a test where the server would not keep several principals apart."""
    with Session(root, journal=None, settings=Settings()) as session:
        if not session.services.command_host().boundary.namespaced:
            pytest.skip("no sandbox here hides files from commands")
