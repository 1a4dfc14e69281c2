"""Eight processes, some of them killed: every call that was answered `ok` is in the journal, and the chain is intact.

The long form makes 500 calls in each process, kills 200 of them, and goes on for ten minutes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from handrail import Session
from handrail.files.locks import state_directory
from handrail.journal.call_changes import read_undos
from handrail.journal.queries import UNFINISHED, JournalReader
from handrail.journal.store import get_default_path
from tests.forked import as_fork
from tests.journal import mixed_calls
from tests.sizes import pick

PROCESSES = 8
CALLS = pick(20, 500)
"""Of each process."""
KILLS = pick(8, 200)
SECONDS = pick(0, 600)
"""It goes on for at least that long."""


@dataclass
class Seat:
    """One process at a time: when one is killed or has done its work, the next one goes on."""

    root: Path
    name: str
    until: float
    kills: int
    calls: int = 0
    killed: int = 0
    answers: list[list[str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def run(self) -> None:
        choose = random.Random(self.name)
        number = 0
        while (self.calls < CALLS or self.killed < self.kills or time.monotonic() < self.until) and not self.failures:
            number += 1
            dies = self.killed < self.kills and (number % 4 != 0 or self.calls >= CALLS)
            left = choose.randrange(1, max(2, CALLS // 4)) if dies else -1
            self.run_one(f"{self.name}.{number}", left, choose.randrange(1 << 30))

    def run_one(self, name: str, left: int, seed: int) -> None:
        """Run a process to its end, or kill it after ``left`` answers."""
        # The module is imported here, so that no fork has to.
        code = f"import {mixed_calls.__name__} as mixed; mixed.work({str(self.root)!r}, {name!r}, {CALLS}, {seed})"
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
            preexec_fn=as_fork(command, dict(os.environ)),
        )  # fmt: skip
        assert process.stdout and process.stderr
        for line in process.stdout:
            self.answers.append(line.split())
            self.calls += line.startswith("ok")
            left -= 1
            if left == 0:
                process.kill()
                self.killed += 1
        errors = process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        if process.wait() not in (0, -9):
            self.failures.append(errors)


@pytest.mark.slow
def test_every_call_that_was_answered_is_recorded_whatever_is_killed(tmp_path: Path) -> None:
    with Session(tmp_path, mode="full", settings=mixed_calls.SETTINGS) as session:
        assert session.call("LS", {"path": "."}).ok  # a process may begin with an undo, which needs a journal
    until = time.monotonic() + SECONDS
    seats = [Seat(tmp_path, f"p{number}", until, KILLS // PROCESSES) for number in range(PROCESSES)]
    threads = [threading.Thread(target=seat.run) for seat in seats]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [failure for seat in seats for failure in seat.failures] == []
    answers = [answer for seat in seats for answer in seat.answers]
    with JournalReader(get_default_path(state_directory())) as reader:
        assert reader.verify() is None
        recorded = {(row.call_id, row.tool) for row in reader.read_calls() if row.status not in (UNFINISHED, "error")}
        undone = {seq for undo in read_undos(reader) if undo.status == "ok" for seq in undo.undone}
    assert [(name, tool) for how, name, tool in answers if how == "ok" and (name, tool) not in recorded] == []
    assert [name for how, name, _ in answers if how == "undone" and int(name) not in undone] == []
    assert [name for how, name, _ in answers if how == "unrecorded"] == []
    kills = sum(seat.killed for seat in seats)
    assert kills == KILLS // PROCESSES * PROCESSES
    undos = sum(how == "undone" for how, _, _ in answers)
    print(f"{len(answers) - undos} calls and {undos} undos answered, {len(recorded)} recorded, {kills} kills")
