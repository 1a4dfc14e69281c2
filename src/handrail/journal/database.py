"""The database of the journal: opening and preparing it, and one write transaction at a time.

Each transaction takes the write lock first (`BEGIN IMMEDIATE`), reads the last hash and adds to the chain, so the order
is that of the numbers, whatever the clocks say.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `rows.py`
from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from handrail.journal.chain import GENESIS, Anchor, ChainEntry, entry_hash
from handrail.journal.rows import FILE, SCHEMA, VERSION, hashed_columns
from handrail.secrets.masking import Mask

_WAIT = 10.0
_WAL_KEPT = 16 << 20
_FILES = f"seq, attempt, {FILE}, after, after_mode"


class Database:
    """An open database and its state."""

    def __init__(self, path: str) -> None:
        self.path = path
        _require_possible(path)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        # Made by us, so that nobody else can read it, whatever the umask; SQLite gives its helper files the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self.anchor = Anchor(path + ".anchor")
        known = self.anchor.read()  # before the database is looked at: it may only be behind
        self._pid = os.getpid()
        self.connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
            self.mask = Mask(self._salt())
            self._note_loss(known)
        except BaseException:
            self.connection.close()
            raise
        status = os.stat(path)
        self._file = (status.st_dev, status.st_ino)

    def _prepare(self) -> None:
        run = self.connection.execute
        version = run("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"it was written by another version of Handrail (format {version})")
        if version == 0:
            run("PRAGMA auto_vacuum = INCREMENTAL")
            run("PRAGMA journal_mode = WAL")
            run("BEGIN IMMEDIATE")
            try:
                for statement in SCHEMA.split(";"):
                    run(statement)
                run("INSERT OR IGNORE INTO meta VALUES ('salt', ?)", (os.urandom(16),))
                run("INSERT OR IGNORE INTO head VALUES (1, 0, 0, ?, 0)", (GENESIS,))
                run(f"PRAGMA user_version = {VERSION}")
                run("COMMIT")
            except BaseException:
                run("ROLLBACK")
                raise
        run("PRAGMA synchronous = NORMAL")
        run(f"PRAGMA journal_size_limit = {_WAL_KEPT}")

    def _salt(self) -> bytes:
        row = self.connection.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone()
        if not row or not isinstance(row[0], bytes):
            raise sqlite3.DatabaseError("it is damaged: its salt is missing")
        return row[0]

    def _note_loss(self, known: ChainEntry | None) -> None:
        """Write down, for good, that entries which the anchor knows are not there."""
        if known is None or self._has(known):
            return
        with self.writing() as head:
            if not self._has(known):
                head.n = max(head.n, known.n) + 1
                self.insert("lost", "n, time, anchor_n, anchor_hash", (head.n, time.time_ns(), known.n, known.hash))
                head.enter(0, "lost", [known.n, known.hash])

    def _has(self, entry: ChainEntry) -> bool:
        at = "SELECT hash FROM chain WHERE n = ?"
        if self.connection.execute(at, (entry.n,)).fetchone() == (entry.hash,):
            return True
        seen = "SELECT 1 FROM lost WHERE anchor_n = ? AND anchor_hash = ?"
        return self.connection.execute(seen, (entry.n, entry.hash)).fetchone() is not None

    def inherited(self) -> bool:
        """Whether it came through a fork, and so belongs to the parent."""
        return self._pid != os.getpid()

    def is_current(self) -> bool:
        """Whether it was opened by this process, and its file still lies at the path."""
        if self.inherited():
            return False
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._file

    @contextlib.contextmanager
    def writing(self) -> Iterator[Head]:
        """One transaction, alone among all processes; the anchor follows when it is done."""
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        try:
            head = self._head()
            yield head
            run("UPDATE head SET n = ?, seq = ?, hash = ?, kept = ?", (head.n, head.seq, head.hash, head.kept))
            run("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                if self.connection.in_transaction:
                    run("ROLLBACK")
            raise
        self.anchor.move(ChainEntry(head.n, head.hash))
        if head.trimmed:
            run("PRAGMA incremental_vacuum(256)").fetchall()

    def _head(self) -> Head:
        row = self.connection.execute("SELECT n, seq, hash, kept FROM head").fetchone()
        if not row or [type(value) for value in row] != [int, int, str, int]:
            raise sqlite3.DatabaseError("it is damaged: the end of its chain is missing")
        return Head(self, *row)

    def insert(self, table: str, columns: str, values: Sequence[Any]) -> None:
        self.connection.execute(_insertion(table, columns), values)

    def add_files(
        self, seq: int, attempt: int, rows: Sequence[Sequence[Any]], afters: Sequence[Sequence[Any]] = ()
    ) -> None:
        for place, row in enumerate(rows):
            after = afters[place] if afters else (None, None)
            self.insert("files", _FILES, (seq, attempt, *row, *after))

    def close(self) -> None:
        self.anchor.close()
        if not self.inherited():  # one that came through a fork must not be touched
            self.connection.close()


class Head:
    """The end of the chain, inside a transaction."""

    def __init__(self, opened: Database, n: int, seq: int, last: str, stored: int) -> None:
        self._opened = opened
        self.n, self.seq, self.hash = n, seq, last
        self.kept = stored
        self.trimmed = False

    def next_call(self) -> int:
        self.seq += 1
        return self.seq

    def chain(self, seq: int, stage: str, content: Sequence[Any] | None = None) -> None:
        """Add the rows just written to the chain: ``content`` if it is known, else the rows in the tables."""
        self.n += 1
        self.enter(seq, stage, hashed_columns(self._opened.connection, seq, stage) if content is None else content)

    def enter(self, seq: int, stage: str, content: Sequence[Any]) -> None:
        self.hash = entry_hash(self.hash, self.n, seq, stage, content)
        self._opened.insert("chain", "n, seq, stage, hash", (self.n, seq, stage, self.hash))


@cache
def _insertion(table: str, columns: str) -> str:
    marks = ", ".join("?" * len(columns.split(", ")))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"


def _require_possible(path: str) -> None:
    """A name that no file can have is a failure of the journal like any other."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
