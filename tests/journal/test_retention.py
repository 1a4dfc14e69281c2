"""A journal that has too many calls loses the oldest logs; what is left can be verified and undone."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.journal import logs, retention
from handrail.journal.index import BrokenEntry
from handrail.journal.queries import JournalReader
from handrail.journal.records import Origin, PendingRecord, Record
from handrail.journal.store import SqliteJournal
from handrail.model import Call, Result
from tests.journal.lines import find_logs
from tests.journal.wired import Wired, open_like_another_process

_AMPLE = 1 << 40


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "FEWEST_CALLS", 4)
    monkeypatch.setattr(logs, "SEGMENT", 1_500)


def shorten(journal: SqliteJournal, most_calls: int, most_bytes: int = _AMPLE) -> None:
    journal._use(lambda log: retention.remove_oldest(log, most_calls, most_bytes))


def verify(journal: SqliteJournal) -> BrokenEntry | None:
    with JournalReader(journal.path) as reader:
        return reader.verify()


def list_numbers(journal: SqliteJournal) -> list[int]:
    with JournalReader(journal.path) as reader:
        return [row.seq for row in reader.read_calls()]


@pytest.fixture
def session(wired: Callable[..., Wired]) -> Wired:
    """A session that made twenty calls: ten Reads, and ten Writes, which are two entries each."""
    session = wired()
    for number in range(10):
        session.call("Write", {"file_path": "f", "content": f"{number}\n" * 50})
        session.call("Read", {"file_path": "f"})
    return session


@pytest.mark.parametrize("indexed", [True, False])
def test_the_newest_calls_stay_and_can_be_undone(
    session: Wired, journal: SqliteJournal, project: Path, indexed: bool
) -> None:
    if indexed:
        assert list_numbers(journal) == list(range(1, 21))
    shorten(journal, 6)
    left = list_numbers(journal)
    assert 6 <= len(left) <= 9 and left == list(range(left[0], 21))
    assert verify(journal) is None
    with JournalReader(journal.path) as reader:
        assert reader.measure_use().count <= 5  # the contents that only removed calls replaced are gone, too
        assert "not in the journal any more" in reader.describe_unknown(left[0] - 1)
        assert "unknown call 21" in reader.describe_unknown(21)
    session.undo(call=19)
    assert (project / "f").read_text(encoding="utf-8") == "8\n" * 50
    session.call("Read", {"file_path": "f"})
    shorten(journal, 4)
    assert list_numbers(journal)[-1] == 22 and verify(journal) is None


def test_too_many_bytes_count_as_well(session: Wired, journal: SqliteJournal) -> None:
    shorten(journal, 1_000, most_bytes=0)
    assert 4 <= len(list_numbers(journal)) <= 7
    assert verify(journal) is None


def test_a_log_that_somebody_deletes_from_a_shortened_journal_is_reported(
    session: Wired, journal: SqliteJournal
) -> None:
    shorten(journal, 12)
    assert verify(journal) is None
    find_logs(journal.path)[0].unlink()
    assert verify(journal) is not None


@pytest.mark.parametrize("seed", range(8))
def test_calls_that_overlap_are_recorded_however_often_the_journal_is_shortened(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    journals = [open_like_another_process(str(tmp_path / "journal.db")) for _ in range(2)]
    running, collected, ended = [], 0, set[str]()
    for _ in range(120):
        step, journal = chance.random(), chance.choice(journals)
        if step < 0.4:
            call = Call("Write", {"number": collected}, id=f"id{collected}")
            collected += 1
            pending = PendingRecord(call, (), None, (), Origin("s", "native", str(tmp_path)))
            running.append((journal, pending, journal.begin(pending)))
        elif step < 0.8 and running:
            journal, pending, token = running.pop(chance.randrange(len(running)))
            end = Record(pending.call, (), None, (), pending.origin, result=Result("Write", "ok", ""), token=token)
            assert journal.record(end) == ""
            ended.add(pending.call.id)
        elif step < 0.9:
            journal.close()
        else:
            shorten(journal, chance.randrange(4, 12))
            assert verify(journal) is None, f"seed {seed}"
    assert verify(journals[0]) is None
    with JournalReader(journals[0].path) as reader:
        rows = reader.read_calls()
    assert len({row.call_id for row in rows}) == len(rows)
    assert {row.call_id for row in rows if row.status == "ok"} <= ended
    for journal in journals:
        journal.close()


def test_a_session_shortens_its_journal_by_itself(wired: Callable[..., Wired], journal: SqliteJournal) -> None:
    journal._most_calls = 5
    session = wired()
    for number in range(40):
        session.call("Write", {"file_path": f"f{number}", "content": "x"})
    assert len(list_numbers(journal)) <= 5 + 2 * 2
    assert verify(journal) is None
