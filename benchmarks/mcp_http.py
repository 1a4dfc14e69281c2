"""The MCP server over HTTP: the cost of a small Read on a connection that stays open."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.mcp import cpu_of, measure_reads, surroundings
from benchmarks.measure import Line, Scale

_TOKEN = "a-token-for-benchmarks-0123456789"
_MOST = 2e-3


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    what = "MCP over HTTP: server time of a small Read, of the whole round trip"
    if not Path("/proc/self/schedstat").exists():
        yield Line(what, "not measured: this system keeps no account of CPU time a thread in /proc")
        return
    place = folder / "mcp-http"
    place.mkdir()
    (place / "small.txt").write_text("".join(f"line {n}\n" for n in range(10)), encoding="utf-8")
    with HttpServer(place, surroundings(folder)) as server:
        yield measure_reads(what, server, scale.calls, _MOST)


class HttpServer:
    """A server, and a client with one connection to it."""

    def __init__(self, root: Path, variables: Mapping[str, str]) -> None:
        words = [sys.executable, "-m", "handrail", "mcp", "--http", "127.0.0.1:0", str(root), "--token", _TOKEN]
        self._process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(variables), encoding="utf-8"
        )
        assert self._process.stderr
        port = next(match[1] for row in self._process.stderr if (match := re.search(r"serving .*:(\d+)/mcp", row)))
        self._connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        self._session: dict[str, str] = {}
        self._number = 0

    def __enter__(self) -> HttpServer:
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", about)
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.communicate()

    def read_small(self) -> None:
        answer = self.ask("tools/call", {"name": "Read", "arguments": {"file_path": "small.txt"}})
        assert not answer["result"]["isError"], answer

    def cpu(self) -> float:
        """Seconds of all its threads."""
        return cpu_of(self._process.pid)

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._number += 1
        body = self._post({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        # One answer: as JSON, or as the last event of a stream.
        rows = [row.removeprefix(b"data:").strip() for row in body.splitlines() if row.startswith((b"data:", b"{"))]
        answer: dict[str, Any] = json.loads([row for row in rows if row][-1])
        return answer

    def _post(self, message: Mapping[str, Any]) -> bytes:
        headers = {
            "Authorization": f"Bearer {_TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **self._session,
        }
        try:
            self._connection.request("POST", "/mcp", json.dumps(message), headers)
            response = self._connection.getresponse()
        except (BrokenPipeError, http.client.RemoteDisconnected):  # idle for longer than the server waits
            self._connection.close()
            self._connection.request("POST", "/mcp", json.dumps(message), headers)
            response = self._connection.getresponse()
        body = response.read()
        assert response.status < 300, body
        if name := response.headers.get("Mcp-Session-Id"):
            self._session = {"Mcp-Session-Id": name, "MCP-Protocol-Version": "2025-06-18"}
        return body
