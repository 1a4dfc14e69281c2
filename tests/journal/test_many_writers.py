"""Many processes at once, and processes that are killed: no row is lost, and the chain holds."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.journal.queries import UNFINISHED, JournalReader
from handrail.journal.store import SqliteJournal
from tests.command import TIMEOUT
from tests.journal.wired import Wired, tree

ROOT = Path(__file__).resolve().parents[2]


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.journal.hammer_driver", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def test_eight_processes_lose_no_row_and_keep_the_chain_whole(project: Path, journal: SqliteJournal) -> None:
    running = [start("writer", str(project), journal.path, f"p{n}", "40") for n in range(8)]
    for process in running:
        _, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, errors
    with JournalReader(journal.path) as reader:
        rows = reader.read_calls()
        assert reader.verify() is None
    assert [row.seq for row in rows] == list(range(1, 8 * 80 + 1))
    for n in range(8):
        of_one = [row for row in rows if row.session == f"p{n}"]
        assert [row.tool for row in of_one] == ["Read", "Write"] * 40
        written = [row.arguments["content"] for row in of_one if row.tool == "Write"]
        assert written == [f"{number}\n" for number in range(40)]


def test_killed_writers_leave_a_whole_journal_that_can_undo_all_that_they_did(
    project: Path, journal: SqliteJournal, wired: Callable[..., Wired]
) -> None:
    names = ("x", "y")
    for name in names:
        (project / name).write_text("before\n", encoding="utf-8")
    was = tree(project)
    answered = 0
    for _ in range(6):
        running = [start("endless", str(project), journal.path, name) for name in names]
        for process in running:
            assert process.stdout
            assert process.stdout.readline()  # it works by now
        time.sleep(random.uniform(0.0, 0.15))
        for process in running:
            process.send_signal(signal.SIGKILL)
            rest, _ = process.communicate(timeout=TIMEOUT)
            answered += 1 + rest.count("\n")
    session = wired()
    session.call("Read", {"file_path": "x"})  # mends what the killed ones had begun
    with JournalReader(journal.path) as reader:
        assert reader.verify() is None
        ended = [row for row in reader.read_calls() if row.tool == "Write" and row.status == "ok"]
        assert len(ended) >= answered  # what was answered was written down before
        first = reader.read_calls()[0].seq
        assert all(row.status in ("ok", "error", UNFINISHED) for row in reader.read_calls())
    report = session.undo(since=first)
    assert (report.conflicts, report.missing) == ((), ())
    assert tree(project) == was


@pytest.mark.parametrize(("when", "left"), [("begin", "before\n"), ("end", "after\n")])
def test_a_call_that_was_killed_on_the_way_is_unfinished_and_can_be_undone(
    project: Path, journal: SqliteJournal, wired: Callable[..., Wired], when: str, left: str
) -> None:
    (project / "f").write_text("before\n", encoding="utf-8")
    (project / "f").chmod(0o640)
    was = tree(project)
    process = start("dies", str(project), journal.path, when)
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == -signal.SIGKILL
    assert (project / "f").read_text(encoding="utf-8") == left
    session = wired()
    last = session.rows()[-1]
    assert (last.tool, last.status) == ("Write", UNFINISHED)
    with JournalReader(journal.path) as reader:
        assert reader.verify() is None
    report = session.undo(call=last.seq)
    assert (report.conflicts, report.missing) == ((), ())
    assert tree(project) == was


def test_threads_of_one_session_share_a_journal(project: Path, journal: SqliteJournal) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from handrail import Session, Settings
    from handrail.journal import Record

    class Direct(SqliteJournal):
        def record(self, record: Record) -> str:
            recorded = super().record(record)
            assert recorded == ""
            return recorded

    (project / "f").write_text("x\n", encoding="utf-8")
    direct = Direct(journal.path)
    with Session(project, journal=direct, settings=Settings(raise_bugs=True)) as session, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: session.call("Read", {"file_path": "f"}), range(100)))
    with JournalReader(journal.path) as reader:
        assert len(reader.read_calls()) == 100
        assert reader.verify() is None
    direct.close()
