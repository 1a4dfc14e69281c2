"""The journal as a file: SQLite in WAL mode, one short write transaction a record, many processes at once.

Each transaction takes the write lock first (`BEGIN IMMEDIATE`), reads the last hash and adds to the chain, so the order
is that of the numbers, whatever the clocks say. A process that is killed leaves whole records or none. Commits are not
synced one by one: a power cut may cost the newest records, never the older ones nor the database.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `rows.py`
from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from handrail.files.commit import Change
from handrail.journal import JournalFailed, Kept, Opening, Piece, Record, Token, images
from handrail.journal.chain import GENESIS, Anchor, Link, link
from handrail.journal.masking import Mask
from handrail.journal.rows import (
    BEGIN,
    END,
    FILE,
    SCHEMA,
    VERSION,
    after_row,
    as_stored,
    begin_row,
    contents,
    covered,
    end_row,
    file_row,
    pieces,
)

BUDGET = 1 << 30
_WAIT = 10.0
_WAL_KEPT = 16 << 20
_WHOLE = f"seq, {BEGIN}, {END}"
_BEGUN = f"seq, {BEGIN}"
_ENDED = ", ".join(f"{name} = ?" for name in END.split(", "))
_FILES = f"seq, attempt, {FILE}, after, after_mode"


def default_path(state: str) -> str:
    """Where the journal of a user lies, below the state directory."""
    return os.path.join(state, "journal", "journal.db")


class SqliteJournal:
    """A journal in one file. Made and opened when the first record comes."""

    def __init__(
        self, path: str, *, required: bool = False, budget: int = BUDGET, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self.path = os.path.abspath(path)
        self.required = required
        """Whether nothing may be changed that cannot be written down; if not, a failure is only told."""
        self.budget = budget
        self._clock = clock
        self._lock = threading.Lock()
        self._open: _Opened | None = None
        self._left: list[_Opened] = []
        """Those that came through a fork: to let go of them would close what belongs to the parent."""

    def begin(self, opening: Opening, token: Token | None = None) -> Token:
        try:
            return self._begin(opening, token)
        except (sqlite3.Error, OSError) as error:
            if self.required or any(isinstance(one, Change) and one.keep for one in opening.changes):
                raise JournalFailed(journal=self.path, why=_why(error)) from None
            return Token(token.seq if token else 0, -1, (), warning=_why(error))

    def record(self, record: Record) -> str:
        try:
            self._record(record)
        except (sqlite3.Error, OSError) as error:
            return _why(error)
        return ""

    def close(self) -> None:
        with self._lock:
            if self._open:
                self._open.close()
                self._open = None

    def _begin(self, opening: Opening, token: Token | None) -> Token:
        attempt = token.attempt + 1 if token and token.seq else 0
        with self._lock, self._opened() as db:
            changes = pieces(opening.changes)
            wanted = contents(changes)
            ready = images.lacking(db.connection, wanted)
            big = {digest for digest, one in ready.items() if len(one.data) > self._most()}
            must = any(isinstance(one, Change) and one.keep for one in opening.changes)
            if must and (big or sum(len(one.data) for one in ready.values()) > self.budget):
                raise JournalFailed(journal=self.path, why="it is larger than what the journal may keep")
            with db.writing() as head:
                if token and token.seq:
                    seq = token.seq
                else:
                    seq = head.next_call()
                    db.insert("calls", _BEGUN, (seq, *begin_row(opening, self._clock(), db.mask)))
                db.add_files(seq, attempt, [file_row(n, change) for n, change in enumerate(changes)])
                self._keep(db, head, seq, wanted, ready)
                head.chain(seq, f"begin {attempt}")
        unkept = [_path(change) for change in changes if big and big & contents([change]).keys()]
        return Token(seq, attempt, tuple(changes), unkept=tuple(unkept))

    def _record(self, record: Record) -> None:
        token = record.token
        with self._lock, self._opened() as db:
            if token and token.seq and token.attempt >= 0:
                self._end(db, record, token)
            else:
                self._whole(db, record)

    def _end(self, db: _Opened, record: Record, token: Token) -> None:
        end = end_row(record, self._clock(), db.mask)
        made = bool(record.changes)
        with db.writing() as head:
            known = db.connection.execute(
                "SELECT before, planned FROM files WHERE seq = ? AND attempt = ? ORDER BY place",
                (token.seq, token.attempt),
            ).fetchall()
            for place, (change, was) in enumerate(zip(token.changes, known, strict=False)):
                db.connection.execute(
                    "UPDATE files SET after = ?, after_mode = ? WHERE seq = ? AND attempt = ? AND place = ?",
                    (*after_row(change, was[0], was[1], made), token.seq, token.attempt, place),
                )
            db.connection.execute(f"UPDATE calls SET {_ENDED} WHERE seq = ?", (*end, token.seq))
            head.chain(token.seq, f"end {token.attempt}")

    def _whole(self, db: _Opened, record: Record) -> None:
        """A call that changed nothing, or whose beginning could not be written down."""
        end = end_row(record, self._clock(), db.mask)
        begun = self._clock() - int(record.result.time_ms * 1e6)
        row = (*begin_row(record, begun, db.mask), *end)
        if not record.changes:
            with db.writing() as head:
                seq = head.next_call()
                db.insert("calls", _WHOLE, (seq, *row))
                head.chain(seq, "whole 0", [row, []] if as_stored(row) else None)
            return
        changes = pieces(record.changes)
        wanted = contents(changes)
        ready = images.lacking(db.connection, wanted)
        with db.writing() as head:
            seq = head.next_call()
            db.insert("calls", _WHOLE, (seq, *row))
            rows = [file_row(n, change) for n, change in enumerate(changes)]
            # The change is made already: the mode that stands there now is the one that it kept.
            afters = [after_row(change, row[3], row[5], True) for change, row in zip(changes, rows, strict=True)]
            db.add_files(seq, 0, rows, afters)
            self._keep(db, head, seq, wanted, ready)
            head.chain(seq, "whole 0")

    def _most(self) -> int:
        """No single image may take more."""
        return self.budget // 2

    def _keep(
        self, db: _Opened, head: _Head, seq: int, wanted: dict[str, bytes], ready: dict[str, images.Packed]
    ) -> None:
        if not wanted:
            return
        head.kept += images.keep(db.connection, seq, wanted, ready, self._most())
        if head.kept > self.budget:
            head.trimmed = True
            head.kept -= images.trim(db.connection, head.kept - self.budget, seq)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[_Opened]:
        """The database, opened anew after a fork, or if another file lies at its path by now."""
        if self._open and not self._open.ours():
            self._left.append(self._open)
            self._open.close()
            self._open = None
        if self._open is None:
            self._open = _Opened(self.path)
        try:
            yield self._open
        except sqlite3.DatabaseError:
            with contextlib.suppress(sqlite3.Error):
                self._open.close()
            self._open = None
            raise


class _Opened:
    """An open database, and what is known of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        # Made by us, so that nobody else can read it, whatever the umask; SQLite gives its helper files the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self.anchor = Anchor(path + ".anchor")
        known = self.anchor.read()  # before the database is looked at: it may only be behind
        self._pid = os.getpid()
        self.connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
            self.mask = Mask(self.connection.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone()[0])
            self._note_loss(known)
        except BaseException:
            self.connection.close()
            raise
        found = os.stat(path)
        self._file = (found.st_dev, found.st_ino)

    def _prepare(self) -> None:
        run = self.connection.execute
        version = run("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"it was written by another version of this program (format {version})")
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

    def _note_loss(self, known: Link | None) -> None:
        """Write down, for good, that entries which the anchor knows are not there."""
        if known is None or self._has(known):
            return
        with self.writing() as head:
            if not self._has(known):
                head.n = max(head.n, known.n) + 1
                self.insert("lost", "n, time, anchor_n, anchor_hash", (head.n, time.time_ns(), known.n, known.hash))
                head.enter(0, "lost", [known.n, known.hash])

    def _has(self, entry: Link) -> bool:
        at = "SELECT hash FROM chain WHERE n = ?"
        if self.connection.execute(at, (entry.n,)).fetchone() == (entry.hash,):
            return True
        seen = "SELECT 1 FROM lost WHERE anchor_n = ? AND anchor_hash = ?"
        return self.connection.execute(seen, (entry.n, entry.hash)).fetchone() is not None

    def ours(self) -> bool:
        if self._pid != os.getpid():
            return False
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self._file

    @contextlib.contextmanager
    def writing(self) -> Iterator[_Head]:
        """One transaction, alone among all processes; the anchor follows when it is done."""
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        try:
            head = _Head(self, *run("SELECT n, seq, hash, kept FROM head").fetchone())
            yield head
            run("UPDATE head SET n = ?, seq = ?, hash = ?, kept = ?", (head.n, head.seq, head.hash, head.kept))
            run("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                if self.connection.in_transaction:
                    run("ROLLBACK")
            raise
        self.anchor.move(Link(head.n, head.hash))
        if head.trimmed:
            run("PRAGMA incremental_vacuum(256)").fetchall()

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
        if self._pid == os.getpid():  # one that came through a fork must not be touched
            self.connection.close()


class _Head:
    """The end of the chain, inside a transaction."""

    def __init__(self, opened: _Opened, n: int, seq: int, last: str, kept: int) -> None:
        self._opened = opened
        self.n, self.seq, self.hash = n, seq, last
        self.kept = kept
        self.trimmed = False

    def next_call(self) -> int:
        self.seq += 1
        return self.seq

    def chain(self, seq: int, stage: str, content: Sequence[Any] | None = None) -> None:
        """Add what was just written to the chain: ``content`` if that is known for sure, else what the tables say."""
        self.n += 1
        self.enter(seq, stage, covered(self._opened.connection, seq, stage) if content is None else content)

    def enter(self, seq: int, stage: str, content: Sequence[Any]) -> None:
        self.hash = link(self.hash, self.n, seq, stage, content)
        self._opened.insert("chain", "n, seq, stage, hash", (self.n, seq, stage, self.hash))


@cache
def _insertion(table: str, columns: str) -> str:
    marks = ", ".join("?" * len(columns.split(", ")))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"


def _path(change: Change | Kept | Piece) -> str:
    return change.path.named if isinstance(change, Change) else change.path


def _why(error: sqlite3.Error | OSError) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)
