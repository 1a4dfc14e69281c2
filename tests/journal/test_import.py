"""A journal of an older version, in one SQLite database, is imported once, with its numbers and contents."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.files.versions import hash_bytes
from handrail.journal.browse import read_source
from handrail.journal.queries import UNFINISHED, JournalReader
from handrail.journal.records import BEGIN, FILE
from handrail.journal.records import END as NEW_END
from handrail.journal.store import SqliteJournal
from tests.journal.wired import Wired

END = NEW_END.removesuffix(", left_out, client, model")
SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE head (one INTEGER PRIMARY KEY, n INTEGER NOT NULL, seq INTEGER NOT NULL, hash TEXT, kept INTEGER);
CREATE TABLE chain (n INTEGER PRIMARY KEY, seq INTEGER NOT NULL, stage TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE lost (n INTEGER PRIMARY KEY, time INTEGER, anchor_n INTEGER, anchor_hash TEXT);
CREATE TABLE calls (seq INTEGER PRIMARY KEY, {BEGIN}, {END});
CREATE TABLE files (
    seq INTEGER NOT NULL, attempt INTEGER NOT NULL, {FILE}, after, after_mode, PRIMARY KEY (seq, attempt, place)
);
CREATE TABLE images (hash TEXT PRIMARY KEY, size INTEGER, stored INTEGER, used INTEGER, packed INTEGER, data BLOB);
"""
OLD, NEW = b"one\n" * 50, b"two\n"


@pytest.fixture
def path(journal: SqliteJournal, project: Path) -> str:
    """Two calls: a Write that changed `f`, and one that was killed; a Read waits in the spool."""
    os.makedirs(os.path.dirname(journal.path))
    (project / "f").write_bytes(NEW)
    place = os.fsencode(os.path.realpath(project))
    begin = ("s", place, "native", "Write", "", 1, '{"file_path": "f"}', 1, "[]", "allow", "r", "w", "")
    end = (2, "ok", None, None, 1.0, None, None, "done", 4, 4, "[]", "")
    file = (0, os.fsencode(project / "f"), 0, hash_bytes(OLD), 0o644, hash_bytes(NEW), None, "[]")
    with sqlite3.connect(journal.path) as db:
        db.executescript(SCHEMA)
        marks = ", ".join("?" * 27)
        db.execute(f"INSERT INTO calls VALUES ({marks})", (1, 10, *begin, *end))
        db.execute(f"INSERT INTO calls (seq, {BEGIN}) VALUES ({', '.join('?' * 15)})", (2, 20, *begin))
        db.execute("INSERT INTO files VALUES (1, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*file, hash_bytes(NEW), 0o644))
        packed = zlib.compress(OLD)
        db.execute("INSERT INTO images VALUES (?, ?, ?, 1, 1, ?)", (hash_bytes(OLD), len(OLD), len(packed), packed))
        db.execute("INSERT INTO head VALUES (1, 3, 2, 'x', 0)")
        db.execute("INSERT INTO meta VALUES ('client:s', 'a client')")
        db.execute("PRAGMA user_version = 1")
    db.close()
    Path(journal.path + ".anchor").write_text(f"{3:020d} {'0' * 64}\n", encoding="ascii")
    row = [30, *begin, *end]
    row[2] = place.decode("latin-1")
    text = json.dumps(row)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    Path(journal.path + ".spool").write_text(f"{digest} {text}\n", encoding="ascii")
    return journal.path


def read_rows(path: str) -> list[tuple[int, str]]:
    with JournalReader(path) as reader:
        assert reader.list_broken() == []
        return [(row.seq, row.status) for row in reader.read_calls()]


ALL = [(1, "ok"), (2, UNFINISHED), (3, "ok")]


@pytest.mark.parametrize("calls_first", [True, False])
def test_an_old_journal_is_imported_once_with_its_numbers(
    path: str, wired: Callable[..., Wired], project: Path, calls_first: bool
) -> None:
    session = wired()
    if not calls_first:
        assert read_rows(path) == ALL
    session.call("Read", {"file_path": "f"})
    assert session.both.warning == ""
    assert read_rows(path) == [*ALL, (4, "ok")]
    with JournalReader(path) as reader:
        assert read_source(reader, "s") == ("a client", "")
    assert session.undo(call=1).restored
    assert (project / "f").read_bytes() == OLD
    with sqlite3.connect(path + ".imported") as db:  # it stays readable
        assert db.execute("SELECT count(*) FROM calls").fetchone() == (2,)
    db.close()


def test_an_import_that_is_killed_is_made_again(path: str, wired: Callable[..., Wired]) -> None:
    child = os.fork()
    if child == 0:
        from handrail.journal import importing

        importing._read_spool = lambda _: os._exit(9)  # type: ignore[assignment]
        try:
            JournalReader(path)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert read_rows(path) == ALL


def test_of_a_damaged_journal_the_calls_before_the_damage_are_imported_and_no_number_is_used_twice(
    path: str, wired: Callable[..., Wired]
) -> None:
    with sqlite3.connect(path) as db:
        filler = "x" * 1500
        columns = f"seq, {BEGIN}, {END}"
        for seq in range(10, 60):
            db.execute(f"INSERT INTO calls ({columns}) SELECT ?, {BEGIN}, {END} FROM calls WHERE seq = 1", (seq,))
            db.execute("UPDATE calls SET output = ? WHERE seq = ?", (filler, seq))
        db.execute("UPDATE head SET seq = 59")
        size = db.execute("PRAGMA page_size").fetchone()[0]
    db.close()
    raw = Path(path).read_bytes()
    page = raw.index(filler.encode()) // size + 4
    Path(path).write_bytes(raw[: page * size] + bytes(size) + raw[(page + 1) * size :])
    numbers = [seq for seq, _ in read_rows(path)]
    assert numbers[:6] == [1, 2, 10, 11, 12, 13] and numbers[-1] == 60
    session = wired()
    session.call("Read", {"file_path": "f"})
    assert session.rows()[-1].seq == 61
