"""Programs that work in one project at the same time, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Client:
    """A process that answers each line of JSON with another one."""

    process: subprocess.Popen[bytes]

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool of an MCP server."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        result = self.ask(message)["result"]
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])


@dataclass
class Project:
    """A project, and the programs that work in a draft of it."""

    path: Path
    state: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.state.parent), "HANDRAIL_STATE": str(self.state)}

    def handrail(self, *words: str) -> str:
        command = [sys.executable, "-P", "-m", "handrail", *words]
        done = subprocess.run(
            command, cwd=self.path, env=self.environment, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def start_handrail(self, *words: str) -> AbstractContextManager[Client]:
        return self.start([sys.executable, "-P", "-m", "handrail", *words])

    @contextmanager
    def start(self, command: Sequence[str]) -> Iterator[Client]:
        environment = {**self.environment, "PYTHONPATH": os.getcwd()}
        with subprocess.Popen(
            command, cwd=self.path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            yield Client(process)
            assert process.stdin
            process.stdin.close()
            assert process.wait(60) == 0

    def list_words(self, name: str) -> list[str]:
        """The words that start an attached agent."""
        return [sys.executable, "-m", "tests.attach.scripted_client", name, str(self.state), str(self.path)]

    def list_library_words(self) -> list[str]:
        """The words that start a program with a session of its own."""
        return [sys.executable, "-m", "tests.attach.library_client", str(self.state), str(self.path)]
