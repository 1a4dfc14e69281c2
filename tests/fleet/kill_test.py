"""The kill test: edits and commands in many workspaces, while servers and workers are killed.

Each edit and each command leaves a line of its own in a ledger inside the workspace. At the end every edit must be
there once, in order; every command at most once, and exactly once if it was answered with success.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from handrail import AnySession, FleetWorkspace
from handrail.journal.log_lines import get_logs_path, list_logs, parse_line
from handrail.journal.postgres_reader import PostgresReader
from handrail.journal.queries import JournalReader
from tests.command import handrail

EDITS = "end\n"
STEPS = 6


def make_tree(folder: Path) -> str:
    folder.mkdir()
    (folder / "edits.txt").write_text(EDITS, encoding="utf-8")
    return str(folder)


def make_steps(session: AnySession, workspace: FleetWorkspace) -> list[str]:
    """Edits and commands in turn; returns how each ended. Dies once between two of them, if its data says so."""
    chance = random.Random(f"{workspace.data['seed']} {workspace.name}")
    dies_at = chance.randrange(STEPS) if workspace.data["dies"] else -1
    mark = Path(workspace.data["marks"], workspace.name)
    cut_at = {chance.randrange(2 * STEPS) for _ in range(workspace.data["cuts"])}
    ends: list[str] = []
    for number in range(STEPS):
        if number == dies_at and not mark.exists():
            mark.write_text("", encoding="utf-8")
            workspace.data.get("die", kill_this_process)()
        edit = {"file_path": "edits.txt", "old_string": "end", "new_string": f"edit {number}\nend"}
        command = {"command": f"sleep 0.1; echo command {number} >> commands.txt; sleep 0.1"}
        for tool, arguments in (("Edit", edit), ("Bash", command)):
            delay = chance.random() * 0.5
            with cut_after(session, delay) if len(ends) in cut_at else contextlib.nullcontext():
                ends.append(end_of(session.call(tool, arguments)))
    return ends


def end_of(result: Any) -> str:
    return result.error.code if result.error else "done"


class WorkerDied(BaseException):
    """Raised in a worker instead of its death."""


def die() -> None:
    raise WorkerDied


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def cut_after(session: Any, seconds: float) -> Iterator[None]:
    """Kill the server of a session after a moment, at the latest when the block is left."""
    process = session._link.find_connection().pid

    def cut(over: threading.Event) -> None:
        over.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)

    with run_beside(cut):
        yield


@contextlib.contextmanager
def run_beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Do something in another thread, with an event that is set when the block is left."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def read_ledgers(session: AnySession, _: FleetWorkspace) -> tuple[list[str], list[str]]:
    """The lines of the ledger of edits, and of that of commands."""
    command = f"cat edits.txt; echo --; cat commands.txt 2>/dev/null || true  # {time.time_ns()}"
    edits, _mark, commands = session.call("Bash", {"command": command}).text.partition("--")
    return edits.split("\n")[:-1], commands.split("\n")[1:]


def check_ledgers(ends: list[str], edits: list[str], commands: list[str]) -> None:
    """Every edit once, no command twice."""
    assert edits == [*(f"edit {number}" for number in range(STEPS)), "end"], (ends, edits)
    assert ends[::2] == ["done"] * STEPS, ends
    assert len(set(commands)) == len(commands), commands
    for number, end in enumerate(ends[1::2]):
        assert end in ("done", "interrupted"), ends
        assert end != "done" or f"command {number}" in commands, (ends, commands)


def check_records(database: str, cwd: Path, variables: Mapping[str, str], edits: int) -> None:
    """Ship what is left: every record of every journal on this machine is in the database once, and no other is."""
    assert handrail("journal", "ship", cwd=cwd, variables=variables).returncode == 0
    status = json.loads(handrail("journal", "status", "--json", cwd=cwd, variables=variables).stdout)
    assert status["outstanding"] == 0
    with PostgresReader(database) as reader:
        assert reader.verify() is None
        for one in status["journals"]:
            _check_journal(reader, one["journal"])
        with reader.errors():
            assert reader.db.execute("SELECT count(*) FROM calls WHERE tool = 'Edit'").fetchone()[0] >= edits


def _check_journal(reader: JournalReader, path: str) -> None:
    """Every call and every entry of a local journal is in the database once, and no other of that journal."""
    with JournalReader(path):  # brings the index up to date
        pass
    with contextlib.closing(sqlite3.connect(path)) as db:
        calls = db.execute("SELECT seq, tool, arguments, status, output FROM calls ORDER BY seq").fetchall()
    raw = b"".join(Path(log).read_bytes() for log in list_logs(get_logs_path(path)).values())
    lines = [line for line in map(parse_line, raw.splitlines()) if line]
    names = [line.content[0][1] for line in lines if line.stage == "start"]
    entries = sorted((line.hash, line.n, line.seq, line.stage) for line in lines)
    digests = [file.parent.name + file.name for file in Path(get_logs_path(path), "contents").glob("*/*")]
    assert calls
    with reader.errors():
        where = "JOIN journals USING (journal) WHERE journals.id = ANY(?)"
        query = f"SELECT number, tool, arguments, status, output FROM calls {where} ORDER BY number"
        assert reader.db.execute(query, (names,)).fetchall() == calls
        query = f"SELECT chain.hash, chain.n, number, stage FROM chain {where} ORDER BY chain.hash"
        assert reader.db.execute(query, (names,)).fetchall() == entries
    assert reader.read_images(digests).keys() == set(digests)
