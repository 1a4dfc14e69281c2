"""Calls that change nothing are on record before their answer, in the order of all calls, once, and verifiably."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail.journal import database, queries
from handrail.journal.database import Database
from handrail.journal.queries import JournalReader
from handrail.journal.spool import get_spool_path
from handrail.journal.store import SqliteJournal
from tests.journal.wired import Wired
from tests.sizes import LONG

Make = Callable[..., Wired]


def read(session: Wired, *names: str) -> None:
    for name in names:
        session.call("Read", {"file_path": name})


def recorded(path: str) -> list[str]:
    with JournalReader(path) as reader:
        assert reader.verify() is None
        return [row.arguments["file_path"] for row in reader.read_calls()]


def test_a_read_is_a_line_of_the_spool_until_something_is_changed_or_read(wired: Make, journal: SqliteJournal) -> None:
    session = wired()
    read(session, "a", "b")
    waiting = Path(get_spool_path(journal.path))
    assert waiting.read_bytes().count(b"\n") == 2
    assert waiting.stat().st_mode & 0o777 == 0o600
    session.call("Write", {"file_path": "c", "content": "x\n"})
    assert waiting.stat().st_size == 0
    read(session, "d")
    assert waiting.stat().st_size > 0
    assert recorded(journal.path) == ["a", "b", "c", "d"]
    assert waiting.stat().st_size == 0
    with JournalReader(journal.path) as reader:
        assert [row.seq for row in reader.read_calls()] == [1, 2, 3, 4]


def test_a_reader_that_stays_open_sees_each_new_call(wired: Make, journal: SqliteJournal) -> None:
    session = wired()
    read(session, "a")
    with JournalReader(journal.path) as reader:
        since = reader.read_newest_entry()
        for name in ("b", "c"):
            read(session, name)
            rows, since = reader.read_ended_calls(since)
            assert [row.arguments["file_path"] for row in rows] == [name]
        assert [tool.calls for tool in reader.compute_stats()[0]] == [3]


def test_many_reads_are_moved_by_themselves(
    wired: Make, journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.journal.database.MOST_ROWS", 4)
    session = wired()
    read(session, *(f"f{number}" for number in range(10)))
    assert Path(get_spool_path(journal.path)).read_bytes().count(b"\n") == 2
    assert recorded(journal.path) == [f"f{number}" for number in range(10)]


def test_a_locked_database_keeps_no_read_from_being_recorded(
    wired: Make, journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.journal.database.MOST_ROWS", 4)
    monkeypatch.setattr("handrail.journal.database._WAIT", 0.05)
    session = wired()
    read(session, "a")
    other = sqlite3.connect(journal.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    names = [f"f{number}" for number in range(12)]
    for name in names:
        assert "journal" not in [note.code for note in session.call("Read", {"file_path": name}).notes]
    other.execute("ROLLBACK")
    other.close()
    assert recorded(journal.path) == ["a", *names]


def test_rows_are_merged_where_they_cannot_be_moved(
    wired: Make, journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = wired()
    session.call("Write", {"file_path": "a", "content": "x\n"})
    read(session, "b", "c")

    def refuse(_: str) -> Database:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(queries, "Database", refuse)
    with JournalReader(journal.path) as reader:
        for more in ("d", "e"):
            read(session, more)
            assert reader.verify() is None
            rows = reader.read_calls()
            assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
            assert rows[-1].arguments["file_path"] == more
            assert [row.seq for row in reader.iterate_calls(limit=2)] == [rows[-2].seq, rows[-1].seq]
            assert sum(tool.calls for tool in reader.compute_stats()[0]) == len(rows)
    monkeypatch.undo()
    assert recorded(journal.path) == ["a", "b", "c", "d", "e"]


def _change(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'\\"b\\"', b'\\"x\\"'))


def _drop_line(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1] + lines[2:]))


def _drop_end(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def _add_line(path: Path) -> None:
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[0])


def _garble(path: Path) -> None:
    path.write_bytes(b"no line at all\n" + path.read_bytes())


@pytest.mark.parametrize("spoil", [_change, _drop_line, _drop_end, _add_line, _garble, Path.unlink])
@pytest.mark.parametrize("movable", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_lines_that_are_changed_or_taken_away_are_detected(
    wired: Make,
    journal: SqliteJournal,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path], None],
    movable: bool,
    before: bool,
) -> None:
    session = wired()
    if before:
        session.call("Write", {"file_path": "z", "content": "x\n"})
    read(session, "a", "b", "c")
    spoil(Path(get_spool_path(journal.path)))
    if movable:
        session.call("Write", {"file_path": "w", "content": "x\n"})
    else:
        monkeypatch.setattr(queries, "Database", _raise_locked)
    with JournalReader(journal.path) as reader:
        broken = reader.verify()
        assert broken and "before they came into the database" in broken.why
        assert "w" in [row.arguments.get("file_path") for row in reader.read_calls()] or not movable


def _raise_locked(_: str) -> Database:
    raise sqlite3.OperationalError("database is locked")


class _Killed:
    """Ends the process before its operation of a number, as a kill would."""

    def __init__(self, at: int) -> None:
        self.at = at

    def count(self) -> None:
        self.at -= 1
        if self.at < 0:
            os._exit(9)


class _Connection:
    """A connection that may be killed before each statement."""

    def __init__(self, real: sqlite3.Connection, killed: _Killed) -> None:
        self._real, self._killed = real, killed

    def execute(self, *words: Any) -> sqlite3.Cursor:
        self._killed.count()
        return self._real.execute(*words)

    def executemany(self, *words: Any) -> sqlite3.Cursor:
        self._killed.count()
        return self._real.executemany(*words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _run_and_die(session: Wired, at: int, answered: int) -> None:
    """In a child: calls, each of which is reported when it is answered, until the operation of that number."""
    killed = _Killed(at)
    real_write, real_pwrite, real_truncate = os.write, os.pwrite, os.ftruncate

    def write(fd: int, data: bytes) -> int:
        if fd == answered:
            return real_write(fd, data)
        killed.at -= 1
        if killed.at < 0:
            real_write(fd, data[: len(data) // 2])  # torn
            os._exit(9)
        return real_write(fd, data)

    def pwrite(*words: Any) -> int:
        killed.count()
        return real_pwrite(*words)

    def truncate(*words: Any) -> None:
        killed.count()
        real_truncate(*words)

    class Calls:
        """The functions of `os` that the journal uses, some of which may be the last."""

        def __getattr__(self, name: str) -> Any:
            return {"write": write, "pwrite": pwrite, "ftruncate": truncate}.get(name) or getattr(os, name)

    database.os = Calls()  # type: ignore[assignment,attr-defined]

    def watch(db: database.Database) -> None:
        db.connection = _Connection(db.connection, killed)  # type: ignore[assignment]

    session.kept._use(watch)
    for number, tool in enumerate(("Read", "Read", "Write", "Read", "Read", "Write", "Read")):
        more = {"content": "x\n"} if tool == "Write" else {}
        session.call(tool, {"file_path": f"f{number}", **more})
        os.write(answered, b".")
    os._exit(0)


@pytest.mark.parametrize("at", range(0, 80, 1 if LONG else 3))
def test_a_kill_at_any_point_loses_and_doubles_no_answered_call(wired: Make, journal: SqliteJournal, at: int) -> None:
    session = wired()
    read(session, "first")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _run_and_die(session, at, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as file:
        answered = len(file.read())
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 9)
    names = recorded(journal.path)
    assert names[0] == "first"
    assert names[1:] in (
        [f"f{number}" for number in range(answered)],
        [f"f{number}" for number in range(answered + 1)],  # killed between record and answer
    )
    read(session, "last")
    assert recorded(journal.path)[-1] == "last"
