"""Tampering shows, and the first row that is not what was written is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.journal.database import BrokenEntry
from handrail.journal.queries import JournalReader
from handrail.journal.store import SqliteJournal
from tests.journal.wired import Wired


@pytest.fixture
def path(wired: Callable[..., Wired], journal: SqliteJournal, project: Path) -> str:
    """A journal with ten calls: reads and refusals at odd places, writes (two entries each) at even ones."""
    session = wired()
    for number in range(5):
        session.call("Read", {"file_path": "../outside" if number == 2 else f"f{number}"})
        session.call("Write", {"file_path": f"f{number}", "content": f"{number}\n"})
    journal.close()
    return journal.path


def verify(path: str) -> BrokenEntry | None:
    with JournalReader(path) as reader:
        return reader.verify()


def tamper(path: str, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for statement in statements:
            assert db.execute(statement).rowcount > 0
    db.close()


def test_an_untouched_journal_is_whole(path: str) -> None:
    assert verify(path) is None


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        ("UPDATE calls SET arguments = '{}' WHERE seq = 4", 4),
        ("UPDATE calls SET status = 'ok' WHERE seq = 5", 5),
        ("UPDATE calls SET time = time + 1 WHERE seq = 7", 7),
        ("UPDATE calls SET decision = 'allow', rule = 'other' WHERE seq = 2", 2),
        ("UPDATE files SET after = before WHERE seq = 6", 6),
        ("UPDATE files SET path = x'2f78' WHERE seq = 6", 6),
        ("UPDATE files SET before_mode = 511 WHERE seq = 8", 8),
        ("DELETE FROM files WHERE seq = 6", 6),
        ("DELETE FROM calls WHERE seq = 3", 3),
        ("UPDATE chain SET hash = replace(hash, substr(hash, 1, 1), 'z') WHERE seq = 3", 3),
        ("INSERT INTO calls (seq, tool) VALUES (11, 'Read')", 11),
        ("INSERT INTO files (seq, attempt, place, path) VALUES (9, 0, 0, x'2f78')", 9),
        ("INSERT INTO files (seq, attempt, place, path) VALUES (10, 1, 0, x'2f78')", 10),
    ],
)
def test_the_first_row_that_is_wrong_is_named(path: str, statement: str, seq: int) -> None:
    tamper(path, statement)
    broken = verify(path)
    assert broken
    assert broken.seq == seq


def test_a_row_that_is_cut_out_with_its_entry_is_missed(path: str) -> None:
    tamper(path, "DELETE FROM calls WHERE seq = 5", "DELETE FROM chain WHERE seq = 5")
    broken = verify(path)
    assert broken == BrokenEntry(5, "one or more entries are missing before this one")


def test_rows_deleted_at_the_end_are_missed(path: str) -> None:
    tamper(path, "DELETE FROM calls WHERE seq > 8", "DELETE FROM chain WHERE seq > 8")
    broken = verify(path)
    assert broken == BrokenEntry(9, "one or more rows are missing at the end")


CUT = (
    "DELETE FROM calls WHERE seq > 8",
    "DELETE FROM chain WHERE seq > 8",
    "UPDATE head SET seq = 8, n = (SELECT max(n) FROM chain), hash = (SELECT hash FROM chain ORDER BY n DESC LIMIT 1)",
)


def test_rows_deleted_at_the_end_are_missed_also_when_the_head_is_set_back(path: str) -> None:
    tamper(path, *CUT)
    broken = verify(path)
    assert broken
    assert broken.seq == 9
    assert "missing at the end" in broken.why


def test_a_cut_end_stays_visible_when_the_journal_goes_on(path: str, wired: Callable[..., Wired]) -> None:
    tamper(path, *CUT)
    session = wired()
    for _ in range(10):
        session.call("Read", {"file_path": "f1"})
    broken = verify(path)
    assert broken
    assert broken.seq == 9
    assert "is missing here" in broken.why


def test_a_journal_that_was_deleted_and_begun_anew_says_so(path: str, wired: Callable[..., Wired]) -> None:
    for end in ("", "-wal", "-shm"):
        Path(path + end).unlink(missing_ok=True)
    wired().call("Read", {"file_path": "f1"})
    broken = verify(path)
    assert broken
    assert "is missing here" in broken.why


def test_a_clock_that_goes_back_changes_nothing_about_the_order(project: Path, tmp_path: Path) -> None:
    times = iter(range(10**18, 0, -(10**15)))
    journal = SqliteJournal(str(tmp_path / "back.db"), clock=lambda: next(times))
    with Wired(project, journal) as session:
        session.call("Write", {"file_path": "f", "content": "a"})
        session.call("Edit", {"file_path": "f", "old_string": "a", "new_string": "b"})
        rows = session.rows()
        assert [row.tool for row in rows] == ["Write", "Edit"]
        assert rows[0].time > rows[1].time
        assert session.undo().calls == (2,)
        assert (project / "f").read_text(encoding="utf-8") == "a"
    journal.close()
    assert verify(journal.path) is None
