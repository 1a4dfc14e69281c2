"""Peers as child processes: a driver of ours in the peer's environment, or an MCP server on stdio."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_TICKS = os.sysconf("SC_CLK_TCK")
_LIMIT = 120


class Connection:
    """A child that answers one JSON object a line."""

    def __init__(self, command: list[str], root: Path) -> None:
        self.root = root
        # Without the variables of whoever runs this: a key of an editor or a model is nothing to a benchmark.
        environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer: `ok` and `text`, or `missing` if the peer has no such tool."""
        return self._exchange(request)

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the peer ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def cpu(self) -> float:
        """Seconds of processor time of the child, and of its children that have ended."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


class McpConnection(Connection):
    """The MCP filesystem server. It finds files by name only, so it has no Grep."""

    def __init__(self, command: list[str], root: Path) -> None:
        super().__init__(command, root)
        self._number = 0
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self._call("initialize", about)
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        answer = self._exchange({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while answer.get("id") != self._number or "method" in answer:  # a question or a notification of the server
            assert self.process.stdout
            answer = json.loads(self.process.stdout.readline())
        return answer

    def ask(self, **request: Any) -> dict[str, Any]:
        path = str(self.root / request.get("path", ""))
        if request["do"] == "edit":
            edits = [{"oldText": request["old"], "newText": request["new"]}]
            answer = self._call("tools/call", {"name": "edit_file", "arguments": {"path": path, "edits": edits}})
        elif request["do"] == "read":  # it has no offset: all lines up to the one that is asked for
            arguments = {"path": path, "head": request["line"] + 99}
            answer = self._call("tools/call", {"name": "read_text_file", "arguments": arguments})
        else:
            return {"missing": True}
        result = answer.get("result", {})
        return {"ok": "error" not in answer and not result.get("isError"), "text": json.dumps(result)}
