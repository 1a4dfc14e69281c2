"""Import a journal in the format before the logs: one SQLite database, with a spool beside it.

Its calls become a log of their own, with the same numbers, and its old contents become files. The database stays
readable beside the new journal, under another name. A damaged page loses only the calls on it.
"""

# ruff: noqa: S608 - what is put into a query are names of tables, all constants of this module
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import sqlite3
import zlib
from collections.abc import Iterator
from typing import Any

from handrail.files.versions import hash_bytes
from handrail.journal.log_lines import get_logs_path
from handrail.journal.logs import LogWriter
from handrail.journal.records import BEGIN, CALL_COLUMNS, END, FILE

IMPORTED = ".imported"
"""Behind the name of a database that was imported."""
_OLD = 1
"""The version of its tables."""
_MOST_SINGLE = 20_000
"""Rows between two damaged places that are tried one by one."""
_FILES = f"attempt, {FILE}, after, after_mode"
_WORKSPACE = 2


def read_newest_number(path: str) -> int:
    """The number of the newest call of the old journal at ``path``; of a damaged one, a number that is not less."""
    with contextlib.suppress(sqlite3.Error, TypeError), contextlib.closing(_connect(path)) as db:
        if db.execute("PRAGMA user_version").fetchone()[0] == _OLD:
            return int(db.execute("SELECT seq FROM head").fetchone()[0]) + len(list(_read_spool(path)))
        return 0
    with contextlib.suppress(OSError, ValueError, IndexError), open(path + ".anchor", encoding="ascii") as file:
        return int(file.read(20)) + len(list(_read_spool(path)))
    return 0


def import_old(path: str) -> None:
    """Import the old journal at ``path``, if there is one. Raises `OSError` or `sqlite3.Error`."""
    if not os.path.exists(path + ".anchor") or not os.path.isfile(path):
        return
    os.makedirs(get_logs_path(path), mode=0o700, exist_ok=True)
    with open(os.path.join(get_logs_path(path), "importing"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path + ".anchor"):  # nobody has done it meanwhile
            _Import(path).run()
            for suffix in ("-wal", "-shm", ".spool", ".spool.anchor", "", ".anchor"):  # the last one ends it
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path + suffix, path + IMPORTED + suffix)


def _connect(path: str) -> sqlite3.Connection:
    from handrail.journal.index import connect

    return connect(path, like=path)


class _Import:
    """One import. What an import that was killed has written is written again, with the same numbers."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._db = _connect(path)

    def run(self) -> None:
        writer = LogWriter(self._path)
        try:
            images = 0
            for digest, packed, data in self._read("images", "hash, packed, data"):
                with contextlib.suppress(zlib.error, TypeError, ValueError):
                    raw = zlib.decompress(data) if packed else bytes(data)
                    images += writer.contents.store(digest, raw) if hash_bytes(raw) == digest else 0
            last = 0
            for row in self._read("calls", ", ".join(CALL_COLUMNS)):
                with contextlib.suppress(TypeError, ValueError, AttributeError):
                    self._write(writer, row, images)
                    last, images = max(last, row[0]), 0
            for row in _read_spool(self._path):
                last += 1
                writer.append("whole 0", (row, []), last)
            for key, value in self._read("meta", "key, value"):
                kind, _, session = str(key).partition(":")
                if kind in ("client", "model") and isinstance(value, str):
                    names = (session, value, "") if kind == "client" else (session, "", value)
                    writer.append("source", (names, []))
        finally:
            writer.close()
            self._db.close()

    def _write(self, writer: LogWriter, row: tuple[Any, ...], images: int) -> None:
        seq, *values = row
        begin, ended = len(BEGIN.split(", ")), values[len(BEGIN.split(", ")) + 1] is not None
        files: list[tuple[Any, ...]] = []
        with contextlib.suppress(sqlite3.Error):
            query = f"SELECT {_FILES} FROM files WHERE seq = ? ORDER BY attempt, place"
            rows = self._db.execute(query, (seq,)).fetchall()
            files = [one[1:] for one in rows if one[0] == rows[-1][0]]
        if not isinstance(values[_WORKSPACE], bytes):
            values[_WORKSPACE] = b""
        if ended:
            writer.append("whole 0", (values, files), seq, images)
        else:
            writer.append("begin 0", (values[:begin], [one[: len(FILE.split(", "))] for one in files]), seq, images)

    def _read(self, table: str, columns: str) -> Iterator[Any]:
        """The rows from the beginning to the first damaged place, those behind the last one, and those between."""
        query = f"SELECT rowid, {columns} FROM {table} ORDER BY rowid"
        low, high = 0, None
        try:
            for rowid, *row in self._db.execute(query):
                low = rowid
                yield row
            return
        except sqlite3.Error:
            pass
        behind = []
        with contextlib.suppress(sqlite3.Error):
            for rowid, *row in self._db.execute(f"{query} DESC"):
                if rowid <= low:
                    break
                high = rowid
                behind.append(row)
        for rowid in range(low + 1, min(high or low + _MOST_SINGLE, low + _MOST_SINGLE)):
            with contextlib.suppress(sqlite3.Error):
                if single := self._db.execute(f"SELECT {columns} FROM {table} WHERE rowid = ?", (rowid,)).fetchone():
                    yield single
        yield from reversed(behind)


def _read_spool(path: str) -> Iterator[list[Any]]:
    """The rows that waited beside the old database."""
    with contextlib.suppress(FileNotFoundError), open(path + ".spool", "rb") as file:
        for raw in file:
            match = re.fullmatch(rb"[0-9a-f]{64} (.*)\n", raw)
            with contextlib.suppress(ValueError, TypeError, AttributeError, IndexError):
                row = json.loads(match[1]) if match else []
                row[_WORKSPACE] = row[_WORKSPACE].encode("latin-1")
                if len(row) == len(BEGIN.split(", ")) + len(END.split(", ")):
                    yield row
