"""A journal that has too many calls loses the oldest ones; what is left can be verified and undone."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.journal import retention
from handrail.journal.database import BrokenEntry
from handrail.journal.queries import JournalReader
from handrail.journal.records import Origin, PendingRecord, Record
from handrail.journal.store import SqliteJournal
from handrail.model import Call, Result
from tests.journal.wired import Wired

_AMPLE = 1 << 40


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "FEWEST_CALLS", 4)
    monkeypatch.setattr(retention, "EVERY", 2)
    monkeypatch.setattr(retention, "_AT_ONCE", 8)


def shorten(journal: SqliteJournal, most_calls: int, most_bytes: int = _AMPLE, times: int = 20) -> None:
    for _ in range(times):
        journal._use(lambda db: retention.remove_oldest(db, most_calls, most_bytes))


def verify(journal: SqliteJournal) -> BrokenEntry | None:
    with JournalReader(journal.path) as reader:
        return reader.verify()


def list_numbers(journal: SqliteJournal) -> list[int]:
    with JournalReader(journal.path) as reader:
        return [row.seq for row in reader.read_calls()]


@pytest.fixture
def session(wired: Callable[..., Wired]) -> Wired:
    """A session that made twenty calls: ten Reads, and ten Writes, which are two entries of the chain each."""
    session = wired()
    for number in range(10):
        session.call("Write", {"file_path": "f", "content": f"{number}\n" * 50})
        session.call("Read", {"file_path": "f"})
    return session


def test_the_newest_calls_stay_and_can_be_undone(session: Wired, journal: SqliteJournal, project: Path) -> None:
    shorten(journal, 6)
    assert list_numbers(journal) == [15, 16, 17, 18, 19, 20]
    assert verify(journal) is None
    with JournalReader(journal.path) as reader:
        assert reader.measure_use().count <= 3  # the contents that only removed calls replaced are gone, too
        assert "not in the journal any more" in reader.describe_unknown(14)
        assert "unknown call 21" in reader.describe_unknown(21)
    session.undo(call=19)
    assert (project / "f").read_text(encoding="utf-8") == "8\n" * 50
    session.call("Read", {"file_path": "f"})
    shorten(journal, 4)
    assert list_numbers(journal)[-1] == 22 and verify(journal) is None


def test_too_many_bytes_count_as_well(session: Wired, journal: SqliteJournal) -> None:
    shorten(journal, 1_000, most_bytes=0)
    assert list_numbers(journal) == [17, 18, 19, 20]
    assert verify(journal) is None


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM chain WHERE n = (SELECT min(n) FROM chain)",
        "DELETE FROM calls WHERE seq = (SELECT min(seq) FROM calls)",
        "DELETE FROM meta WHERE key GLOB 'removed:*'",
        "UPDATE meta SET value = '5 ' || substr(value, instr(value, ' ') + 1) WHERE key GLOB 'removed:*'",
        "DELETE FROM chain WHERE stage = 'removed'",
        "UPDATE calls SET tool = 'Other' WHERE seq = 16",
    ],
)
def test_a_shortened_journal_that_somebody_changes_is_reported(
    session: Wired, journal: SqliteJournal, statement: str
) -> None:
    shorten(journal, 6)
    journal.close()
    with sqlite3.connect(journal.path) as db:
        assert db.execute(statement).rowcount > 0
    db.close()
    assert verify(journal) is not None


@pytest.mark.parametrize("seed", range(8))
def test_calls_that_overlap_are_recorded_however_often_the_journal_is_shortened(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    journal = SqliteJournal(str(tmp_path / "journal.db"))
    running, collected = [], 0
    for _ in range(120):
        step = chance.random()
        if step < 0.4:
            call = Call("Write", {"number": collected}, id=f"id{collected}")
            collected += 1
            pending = PendingRecord(call, (), None, (), Origin("s", "native", str(tmp_path)))
            running.append((pending, journal.begin(pending)))
        elif step < 0.8 and running:
            pending, token = running.pop(chance.randrange(len(running)))
            ended = Record(pending.call, (), None, (), pending.origin, result=Result("Write", "ok", ""), token=token)
            assert journal.record(ended) == ""
        else:
            shorten(journal, chance.randrange(4, 12), times=1)
            assert verify(journal) is None, f"seed {seed}"
    assert verify(journal) is None
    journal.close()


def test_a_session_shortens_its_journal_by_itself(
    wired: Callable[..., Wired], journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.journal.store.EVERY", 2)
    journal._most_calls = 5
    session = wired()
    for number in range(40):
        session.call("Write", {"file_path": f"f{number}", "content": "x"})
    assert len(list_numbers(journal)) <= 5 + 2 * 2
    assert verify(journal) is None
