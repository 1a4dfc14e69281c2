"""Several agents as processes of their own change the same files of one checkout, by commands and by edits.

Each line that was answered as kept is in the files once, no other line is, and a conflict shows both sides.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.command import TIMEOUT
from tests.drafts.machine import require_drafts
from tests.sizes import pick

pytestmark = pytest.mark.slow  # starts many processes

FILES = ("a.py", "b.py", "c.py")
SLOTS = 40
TASKS = pick(40, 300)
AGENT = """
import json, sys
from handrail import Session, Settings
with Session(sys.argv[1], mode="full", settings=Settings(durable=False)) as session:
    for row in sys.stdin:
        result = session.call(*json.loads(row))
        print(json.dumps([result.status, result.text]), flush=True)
"""
OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Agent:
    """A process with a session, which one call at a time is sent to."""

    def __init__(self, words: list[str], work: Path, errors: Path) -> None:
        with errors.open("wb") as log:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(words, cwd=work, stdin=pipe, stdout=pipe, stderr=log, encoding="utf-8")

    def _send(self, message: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _receive(self) -> object:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def start(self, tool: str, arguments: dict[str, str]) -> None:
        self._send([tool, arguments])

    def finish(self) -> str:
        """The text of the answer."""
        answer = self._receive()
        assert isinstance(answer, list)
        return str(answer[1])

    def close(self) -> None:
        self.process.communicate(timeout=TIMEOUT)


class Client(Agent):
    """An MCP client with a server."""

    def __init__(self, words: list[str], work: Path, errors: Path) -> None:
        super().__init__(words, work, errors)
        self._send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OPENING})
        self._receive()
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def start(self, tool: str, arguments: dict[str, str]) -> None:
        call = {"name": tool, "arguments": arguments}
        self._send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})

    def finish(self) -> str:
        while True:
            answer = self._receive()
            assert isinstance(answer, dict)
            if answer.get("id") == 1:
                return "".join(part.get("text", "") for part in answer["result"]["content"])


def test_kept_lines_are_there_once_and_conflicts_show_both_sides(tmp_path: Path) -> None:
    require_drafts()
    work = tmp_path / "work"
    work.mkdir()
    first = [f"slot {number}" for number in range(SLOTS)]
    for name in FILES:
        (work / name).write_text("\n\n".join(first) + "\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    library = [sys.executable, "-c", AGENT, str(work)]
    server = [sys.executable, "-P", "-m", "handrail.cli", "mcp", "--mode", "full", "--tools", "all"]
    agents = [Agent(library, work, tmp_path / f"errors-{number}") for number in range(4)]
    agents += [Client(server, work, tmp_path / f"errors-mcp-{number}") for number in range(2)]
    rng = random.Random(4)
    kept: list[tuple[str, str]] = []
    refused: list[str] = []
    running: dict[int, tuple[str, str]] = {}
    try:
        for task in range(TASKS):
            number = task % len(agents)
            if number in running:
                _settle(agents[number].finish(), running.pop(number), kept, refused)
            name, slot, line = rng.choice(FILES), rng.choice(first), f"line {task} of agent {number}"
            running[number] = name, line
            if rng.random() < 0.25:
                edit = {"file_path": name, "old_string": f"{slot}\n", "new_string": f"{slot}\n{line}\n"}
                agents[number].start("Edit", edit)
            else:
                pause = rng.choice(["", "sleep 0.2; ", "sleep 0.6; "])
                agents[number].start("Bash", {"command": f"sed -i 's/^{slot}$/&\\n{line}/' {name}; {pause}true"})
        for number, task_of in running.items():
            _settle(agents[number].finish(), task_of, kept, refused)
    finally:
        for agent in agents:
            agent.close()
    lines = Counter(
        (name, line) for name in FILES for line in (work / name).read_text(encoding="utf-8").splitlines() if line
    )
    expected = Counter([*kept, *((name, slot) for name in FILES for slot in first)])
    assert lines == expected
    assert len(kept) > TASKS / 2
    print(f"{len(kept)} kept, {len(refused)} refused")
    for text in refused:
        assert "changed" in text, text
        assert ("<<<<<<< draft" in text and ">>>>>>> workspace" in text) or "draft" not in text, text


def _settle(text: str, task: tuple[str, str], kept: list[tuple[str, str]], refused: list[str]) -> None:
    """Count a task as kept if its answer does not say otherwise."""
    is_refused = "not kept" in text or "conflict" in text.lower() or "Nothing was changed" in text
    refused.append(text) if is_refused else kept.append(task)
