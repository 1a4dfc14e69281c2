"""A client made of raw frames: what a test sends is exactly what the server gets, and the other way round."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from handrail.files.locks import state_directory
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path
from tests.command import TIMEOUT, surroundings
from tests.forked import as_fork

HANDRAIL = [sys.executable, "-m", "handrail"]
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"


def envelope(**capabilities: Any) -> dict[str, Any]:
    """`_meta` of a request in the era without a handshake."""
    info = {"io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"}}
    return {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: capabilities, **info}


class RawClient:
    """Starts a server, and ends it whatever the test came to."""

    def __init__(self, *words: str, cwd: Path, variables: Mapping[str, str] | None = None, at: str = "") -> None:
        pipe = subprocess.PIPE
        command, env = [*HANDRAIL, *(["--at", at] if at else []), "mcp", *words], surroundings(variables)
        self.process = subprocess.Popen(
            command, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, env=env, preexec_fn=as_fork(command, env)
        )
        self._number = 0
        self._frames: SimpleQueue[bytes] = SimpleQueue()
        self._stopped, self._stop = os.pipe()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        self.aside: list[dict[str, Any]] = []
        """Notifications and requests of the server that came while something else was waited for."""

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        os.close(self._stopped)
        os.close(self._stop)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                if pipe:
                    pipe.close()

    def send(self, frame: bytes | Mapping[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write((frame if isinstance(frame, bytes) else json.dumps(frame).encode()) + b"\n")
        self.process.stdin.flush()

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def begin(self, method: str, **params: Any) -> int:
        """Send a request, and do not wait."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def next(self) -> dict[str, Any]:
        """The next frame, of whatever kind."""
        try:
            line = self._frames.get(timeout=TIMEOUT)
        except Empty:
            raise AssertionError("the server says nothing") from None
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def answer_to(self, id: int | str | None) -> dict[str, Any]:
        while True:
            message = self.next()
            if "method" not in message and message["id"] == id:
                return message
            self.aside.append(message)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self.answer_to(self.begin(method, **params))

    def shake(self, version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
        info = {"name": "raw", "version": "1"}
        answer = self.ask("initialize", protocolVersion=version, capabilities=capabilities, clientInfo=info)
        self.notify("notifications/initialized")
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, tool: str, meta: Mapping[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        answer = self.ask("tools/call", **(params | ({"_meta": meta} if meta else {})))
        result: dict[str, Any] = answer["result"]
        return result

    def end(self) -> tuple[int, str]:
        """Close its stdin, as a client does that goes; its exit code, and what it has written to stderr."""
        assert self.process.stdin and self.process.stderr
        self.process.stdin.close()
        code = self.process.wait(TIMEOUT)
        return code, self.process.stderr.read().decode("utf-8")

    def left_over(self) -> list[bytes]:
        """Frames that nobody has taken; only after the end."""
        self._reader.join(TIMEOUT)
        collected = []
        while not self._frames.empty():
            collected.append(self._frames.get())
        return collected

    def stop_reading(self) -> None:
        """Close our end of its stdout, as the end of a client's process does."""
        os.write(self._stop, b"!")
        self._reader.join(TIMEOUT)
        assert self.process.stdout
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout
        held, source = b"", self.process.stdout.fileno()
        while self._stopped not in select.select([source, self._stopped], [], [])[0]:
            block = os.read(source, 1 << 16)
            *lines, held = (held + block).split(b"\n")
            for line in lines:
                self._frames.put(line + b"\n")
            if not block:
                return


def text_of(result: Mapping[str, Any]) -> str:
    """The text that the model reads."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def read_advice(result: dict[str, Any]) -> str:
    """What the last call tells the operator: it is in the journal, and nowhere in what the client gets."""
    with JournalReader(get_default_path(state_directory())) as reader:
        row = reader.find_call(reader.find_last_call())
    assert row and row.message
    advice = row.message.removeprefix(text_of(result)).strip()
    assert not any(json.dumps(line)[1:-1] in json.dumps(result) for line in advice.splitlines())
    return advice
