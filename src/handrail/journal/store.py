"""The journal as a file: SQLite in WAL mode, one short write transaction a record, many processes at once.

A process that is killed leaves whole records or none. Commits are not synced one by one: a power cut may cost the
newest records, never the older ones nor the database. A journal that cannot be opened stops nothing, unless it is
required: the result of each call says why.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `rows.py`
from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Mapping

from handrail.files.changes import Change
from handrail.journal import BeforeImage, JournalFailed, MovedEntry, PendingRecord, Record, Token, images
from handrail.journal.database import Database, Head
from handrail.journal.rows import (
    BEGIN,
    END,
    after_row,
    as_stored,
    begin_row,
    end_row,
    file_row,
    replaced_contents,
    split_changes,
)
from handrail.journal.writer import Writer, reason

BUDGET = 1 << 30
_WHOLE = f"seq, {BEGIN}, {END}"
_BEGUN = f"seq, {BEGIN}"
_ENDED = ", ".join(f"{name} = ?" for name in END.split(", "))


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
        """Whether changes that cannot be recorded are refused; if not, a failure is only reported."""
        self.budget = budget
        self._clock = clock
        self._writer = Writer(self.path)

    @property
    def failure(self) -> str:
        """Why the journal could not be used the last time; empty if it could, or was not used yet."""
        return self._writer.failure

    def require(self) -> None:
        """Raise `JournalFailed` if the journal cannot be opened now."""
        try:
            with self._database():
                pass
        except (sqlite3.Error, OSError) as error:
            raise JournalFailed(journal=self.path, why=reason(error)) from None

    def begin(self, pending: PendingRecord, token: Token | None = None) -> Token:
        try:
            return self._begin(pending, token)
        except (sqlite3.Error, OSError) as error:
            if self.required or any(isinstance(one, Change) and one.keep for one in pending.changes):
                raise JournalFailed(journal=self.path, why=reason(error)) from None
            return Token(token.seq if token else 0, -1, (), warning=reason(error))

    def record(self, record: Record) -> str:
        try:
            self._record(record)
        except (sqlite3.Error, OSError) as error:
            return reason(error)
        return ""

    def close(self) -> None:
        self._writer.close()

    def _database(self) -> contextlib.AbstractContextManager[Database]:
        return self._writer.database()

    def _begin(self, pending: PendingRecord, token: Token | None) -> Token:
        attempt = token.attempt + 1 if token and token.seq else 0
        changes = split_changes(pending.changes)
        contents = replaced_contents(changes)
        ready = self._pack_missing(contents)
        big = {digest for digest, one in ready.items() if len(one.data) > self._most()}
        must = any(isinstance(one, Change) and one.keep for one in pending.changes)
        if must and (big or sum(len(one.data) for one in ready.values()) > self.budget):
            raise JournalFailed(journal=self.path, why="it is larger than the journal may store")
        with self._database() as db, db.writing() as head:
            if token and token.seq:
                seq = token.seq
            else:
                seq = head.next_call()
                db.insert("calls", _BEGUN, (seq, *begin_row(pending, self._clock(), db.mask)))
            db.add_files(seq, attempt, [file_row(n, change) for n, change in enumerate(changes)])
            self._keep(db, head, seq, contents, ready)
            head.chain(seq, f"begin {attempt}")
        unkept = [_path(change) for change in changes if big and big & replaced_contents([change]).keys()]
        return Token(seq, attempt, tuple(changes), unkept=tuple(unkept))

    def _record(self, record: Record) -> None:
        token = record.token
        if token and token.seq and token.attempt >= 0:
            with self._database() as db:
                self._end(db, record, token)
            return
        changes = split_changes(record.changes)
        ready = self._pack_missing(replaced_contents(changes))
        with self._database() as db:
            self._record_complete(db, record, changes, ready)

    def _end(self, db: Database, record: Record, token: Token) -> None:
        end = end_row(record, self._clock(), db.mask)
        committed = bool(record.changes)
        with db.writing() as head:
            known = db.connection.execute(
                "SELECT before, planned FROM files WHERE seq = ? AND attempt = ? ORDER BY place",
                (token.seq, token.attempt),
            ).fetchall()
            for place, (change, was) in enumerate(zip(token.changes, known, strict=False)):
                db.connection.execute(
                    "UPDATE files SET after = ?, after_mode = ? WHERE seq = ? AND attempt = ? AND place = ?",
                    (*after_row(change, was[0], was[1], committed), token.seq, token.attempt, place),
                )
            db.connection.execute(f"UPDATE calls SET {_ENDED} WHERE seq = ?", (*end, token.seq))
            head.chain(token.seq, f"end {token.attempt}")

    def _record_complete(
        self,
        db: Database,
        record: Record,
        changes: list[Change | BeforeImage | MovedEntry],
        ready: dict[str, images.Packed],
    ) -> None:
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
        with db.writing() as head:
            seq = head.next_call()
            db.insert("calls", _WHOLE, (seq, *row))
            rows = [file_row(n, change) for n, change in enumerate(changes)]
            # The change is made already: the mode that stands there now is the one that it kept.
            afters = [after_row(change, row[3], row[5], True) for change, row in zip(changes, rows, strict=True)]
            db.add_files(seq, 0, rows, afters)
            self._keep(db, head, seq, replaced_contents(changes), ready)
            head.chain(seq, "whole 0")

    def _pack_missing(self, contents: Mapping[str, bytes]) -> dict[str, images.Packed]:
        """Compress the images that are not stored yet, before the database is locked, because it may take a while."""
        if not contents:
            return {}
        with self._database() as db:
            missing = images.missing(db.connection, contents)
        return {digest: images.pack(digest, contents[digest]) for digest in missing}

    def _most(self) -> int:
        """No single image may take more."""
        return self.budget // 2

    def _keep(
        self, db: Database, head: Head, seq: int, contents: dict[str, bytes], ready: dict[str, images.Packed]
    ) -> None:
        if not contents:
            return
        head.kept += images.keep(db.connection, seq, contents, ready, self._most())
        if head.kept > self.budget:
            head.trimmed = True
            head.kept -= images.trim(db.connection, head.kept - self.budget, seq)


def _path(change: Change | BeforeImage | MovedEntry) -> str:
    return change.path.named if isinstance(change, Change) else change.path
