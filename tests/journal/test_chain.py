"""Tampering shows, and the first call that is not what was written is named."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from handrail.journal import store
from handrail.journal.index import BrokenEntry
from handrail.journal.log_lines import get_logs_path, parse_line
from handrail.journal.logs import LogWriter
from handrail.journal.queries import JournalReader
from handrail.journal.store import SqliteJournal
from tests.journal.lines import edit_lines, find_line, find_logs
from tests.journal.wired import Wired
from tests.sizes import pick


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


def test_an_untouched_journal_is_whole(path: str) -> None:
    assert verify(path) is None


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(("seq", "stage"), [(3, "whole"), (4, "begin"), (4, "end"), (10, "end")])
def test_the_first_call_that_is_wrong_is_named(path: str, seq: int, stage: str, indexed: bool) -> None:
    if indexed:
        assert verify(path) is None
    (log,) = find_logs(path)
    place = find_line(log, seq, stage)
    old, new = (b'"native"', b'"natives"') if stage != "end" else (b'"ok"', b'"error"')
    edit_lines(log, lambda lines: [*lines[:place], lines[place].replace(old, new, 1), *lines[place + 1 :]])
    broken = verify(path)
    assert broken == BrokenEntry(seq, "the row was changed")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE calls SET arguments = '{}' WHERE seq = 4",
        "UPDATE files SET after = before WHERE seq = 6",
        "DELETE FROM files WHERE seq = 6",
        "DELETE FROM calls WHERE seq = 3",
        "INSERT INTO calls (seq, tool) VALUES (11, 'Read')",
        "INSERT INTO files (seq, attempt, place, path) VALUES (9, 0, 0, x'2f78')",
    ],
)
def test_an_index_that_says_something_else_than_the_logs_is_made_again(path: str, statement: str) -> None:
    assert verify(path) is None
    with JournalReader(path) as reader:
        before = [(row, reader.read_files(row.seq)) for row in reader.read_calls()]
    with sqlite3.connect(path) as db:
        assert db.execute(statement).rowcount > 0
    db.close()
    assert verify(path) is None
    with JournalReader(path) as reader:
        assert [(row, reader.read_files(row.seq)) for row in reader.read_calls()] == before


def test_a_line_that_is_cut_out_is_missed(path: str) -> None:
    (log,) = find_logs(path)
    place = find_line(log, 5)
    edit_lines(log, lambda lines: lines[:place] + lines[place + 1 :])
    assert verify(path) == BrokenEntry(5, "one or more entries are missing before this one")


@pytest.mark.parametrize("indexed", [True, False])
def test_a_cut_end_is_missed_and_stays_visible_when_the_journal_goes_on(
    path: str, wired: Callable[..., Wired], indexed: bool
) -> None:
    if indexed:
        assert verify(path) is None
    (log,) = find_logs(path)
    edit_lines(log, lambda lines: lines[: find_line(log, 9)])
    broken = verify(path)
    assert broken and ("missing at the end" in broken.why or "the end of it is lost" in broken.why)
    session = wired()
    for _ in range(10):
        session.call("Read", {"file_path": "f1"})
    assert verify(path)
    assert [row.seq for row in session.rows()][-10:] == list(range(11, 21))  # no number is used twice


def test_a_deleted_log_is_missed(path: str, wired: Callable[..., Wired]) -> None:
    find_logs(path)[0].unlink()
    wired().call("Read", {"file_path": "f1"})
    broken = verify(path)
    assert broken and "is missing" in broken.why


def test_logs_that_are_gone_are_reported_and_what_the_index_knew_is_kept(
    path: str, wired: Callable[..., Wired]
) -> None:
    from handrail.journal.index import list_lost

    assert verify(path) is None
    shutil.rmtree(get_logs_path(path))
    wired().call("Read", {"file_path": "f1"})
    with JournalReader(path) as reader:
        assert [row.seq for row in reader.read_calls()] == [1]
    (lost,) = list_lost(path)
    with sqlite3.connect(lost) as db:
        assert db.execute("SELECT count(*) FROM calls").fetchone() == (10,)
    db.close()


def test_a_number_file_that_is_deleted_is_made_again_with_the_same_numbers(
    path: str, wired: Callable[..., Wired]
) -> None:
    os.unlink(os.path.join(get_logs_path(path), "numbers"))
    session = wired()
    session.call("Read", {"file_path": "f1"})
    assert [row.seq for row in session.rows()] == list(range(1, 12))
    assert verify(path) is None


def test_random_tamperings_are_all_found(path: str) -> None:
    """A byte that is changed, removed or added anywhere in a log, and lines that are swapped, repeated or cut out."""
    choose = random.Random(7)
    (log,) = find_logs(path)
    raw = log.read_bytes()
    lines = raw.splitlines(keepends=True)
    with JournalReader(path) as reader:
        for _ in range(pick(60, 1000)):
            place, kind = choose.randrange(len(raw)), choose.randrange(6)
            one, other = sorted(choose.sample(range(len(lines)), 2))
            changed = [
                raw[:place] + bytes([raw[place] ^ (1 << choose.randrange(8))]) + raw[place + 1 :],
                raw[:place] + raw[place + 1 :],
                raw[:place] + bytes([choose.randrange(33, 127)]) + raw[place:],
                b"".join([*lines[:one], lines[other], *lines[one + 1 : other], lines[one], *lines[other + 1 :]]),
                b"".join([*lines[:other], lines[one], *lines[other:]]),
                b"".join(lines[:one] + lines[other:]),
            ][kind]
            if changed == raw:
                continue
            log.write_bytes(changed)
            assert reader.list_broken(), (kind, place, one, other)
            log.write_bytes(raw)
            os.unlink(path)  # what it knows of damage
        assert reader.list_broken() == []


def test_a_clock_that_goes_back_changes_nothing_about_the_order(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(10**18, 0, -(10**15)))
    monkeypatch.setattr(store, "time", SimpleNamespace(time_ns=lambda: next(times), monotonic=time.monotonic))
    journal = SqliteJournal(str(tmp_path / "back.db"))
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


def append_copies(path: str, change: Callable[[list[Any], list[Any]], tuple[Any, Any]]) -> None:
    """Write the first call again as call 11, as another version of Handrail would."""
    (log,) = find_logs(path)
    line = parse_line(log.read_bytes().splitlines()[find_line(log, 1)])
    assert line and line.stage == "whole 0"
    writer = LogWriter(path)
    writer.append("whole 0", change(*line.content), 11)
    writer.close()


@pytest.mark.parametrize("missing", [1, 2])
def test_a_shorter_row_of_an_older_version_is_filled_up(path: str, missing: int) -> None:
    file = [0, os.fsencode("/f"), 0, "", None, "a", None, "[]", "a", 0o644]
    append_copies(path, lambda row, _: (row[: -3 - missing], [file[:-missing]]))
    with JournalReader(path) as reader:
        assert reader.verify() is None
        call = reader.read_calls()[-1]
        assert (call.seq, call.status, call.traceback) == (11, "error", None)
        assert [(one.path, one.after_mode) for one in reader.read_files(11)] == [("/f", None)]


@pytest.mark.parametrize(
    "change",
    [
        lambda row, files: ([*row, None], files),
        lambda row, files: ([*row[:5], None, *row[5:-1]], files),
        lambda row, files: (row, [["a", "b"]]),
        lambda row, files: (row, [[0, os.fsencode("/f"), 0]]),  # without what was there before
        lambda row, files: ([1 << 63, *row[1:]], files),
        lambda row, files: ([row[0], row[1], "no digits", *row[3:]], files),
        lambda row, files: (row, files, []),
    ],
)
def test_a_row_that_cannot_be_read_is_reported(path: str, change: Callable[[Any, Any], Any]) -> None:
    append_copies(path, change)
    for _ in range(2):  # by every reader
        with JournalReader(path) as reader:
            assert len(reader.read_calls()) == 10
            assert reader.list_damage() == [BrokenEntry(11, "the row is in its log, but cannot be read")]
    assert verify(path) == BrokenEntry(11, "the row is in its log, but cannot be read")
