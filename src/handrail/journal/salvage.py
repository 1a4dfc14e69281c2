"""Reading a damaged database: the rows that can still be read, one by one.

A query that meets a damaged page fails as a whole. It is then made again on a copy in memory, which has every row that
can be reached from either end of its table or by its number. Old contents of files are not copied.
"""

# ruff: noqa: S608 - what is put into a query are names of tables, all constants of `records.py`

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from handrail.journal.database import GENESIS, is_damage, roll_back
from handrail.journal.records import SCHEMA, VERSION

_TABLES = ("meta", "head", "chain", "lost", "calls", "files")
_MOST_SINGLE = 20_000
"""Rows between two damaged places that are tried one by one."""


class TolerantQueries:
    """Queries on a database, or on what is left of it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._copy: sqlite3.Connection | None = None

    def execute(self, query: str, values: Sequence[Any] = (), /) -> TolerantRows:
        try:
            return TolerantRows(self, (self._copy or self._connection).execute(query, values), query, values)
        except sqlite3.Error as error:
            return TolerantRows(self, self.execute_on_copy(error, query, values), query, values)

    def execute_on_copy(self, error: sqlite3.Error, query: str, values: Sequence[Any]) -> sqlite3.Cursor:
        """Make a query again that failed with ``error``; raises that if the database is not damaged."""
        if self._copy or not is_damage(error):
            raise error
        self._copy = salvage(self._connection, error)
        return self._copy.execute(query, values)

    def roll_back(self) -> None:
        for connection in (self._connection, self._copy):
            if connection:
                roll_back(connection)

    def close(self) -> None:
        self._connection.close()
        if self._copy:
            self._copy.close()


class TolerantRows:
    """The rows of a query; behind a damaged place come those of the copy."""

    def __init__(self, queries: TolerantQueries, rows: sqlite3.Cursor, query: str, values: Sequence[Any]) -> None:
        self._queries, self._rows = queries, rows
        self._query, self._values = query, values
        self._count = 0

    def __iter__(self) -> Iterator[Any]:
        while (row := self.fetchone()) is not None:
            yield row

    def fetchone(self) -> Any:
        try:
            row = self._rows.fetchone()
        except sqlite3.Error as error:
            self._rows = self._queries.execute_on_copy(error, self._query, self._values)
            for _ in range(self._count):
                self._rows.fetchone()
            row = self._rows.fetchone()
        self._count += 1
        return row

    def fetchall(self) -> list[Any]:
        return list(self)


def salvage(source: sqlite3.Connection, error: sqlite3.Error) -> sqlite3.Connection:
    """A database in memory with every row that can be read; raises ``error`` if no call can."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    copy.text_factory = source.text_factory
    for statement in SCHEMA.split(";"):
        copy.execute(statement)
    copy.execute(f"PRAGMA user_version = {VERSION}")
    for table in _TABLES:
        marks = ", ".join("?" * len(copy.execute(f"PRAGMA table_info({table})").fetchall()))
        for row in _read_rows(source, table):
            with contextlib.suppress(sqlite3.Error):  # of a wrong type, or twice
                copy.execute(f"INSERT INTO {table} VALUES ({marks})", row)
    if copy.execute("SELECT 1 FROM calls LIMIT 1").fetchone() is None:
        copy.close()
        raise error
    if copy.execute("SELECT 1 FROM head").fetchone() is None:
        n, digest = copy.execute("SELECT n, hash FROM chain ORDER BY n DESC LIMIT 1").fetchone() or (0, GENESIS)
        copy.execute("INSERT INTO head SELECT 1, ?, max(seq), ?, 0 FROM calls", (n, digest))
    return copy


def _read_rows(source: sqlite3.Connection, table: str) -> Iterator[Sequence[Any]]:
    """The rows from the beginning to the first damaged place, those behind the last one, and those between."""
    query = f"SELECT rowid, * FROM {table} ORDER BY rowid"
    low, high = 0, None
    try:
        for rowid, *row in source.execute(query):
            low = rowid
            yield row
        return
    except sqlite3.Error:
        pass
    with contextlib.suppress(sqlite3.Error):
        for rowid, *row in source.execute(f"{query} DESC"):
            if rowid <= low:
                return
            high = rowid
            yield row
    for rowid in range(low + 1, min(high or low + _MOST_SINGLE, low + _MOST_SINGLE)):
        with contextlib.suppress(sqlite3.Error):
            if single := source.execute(f"SELECT * FROM {table} WHERE rowid = ?", (rowid,)).fetchone():
                yield single
