"""Import a journal in the format before the logs: one SQLite database, with a spool beside it.

Its calls become a log of their own, with the same numbers, and its old contents become files. The database stays
readable beside the new journal, under another name. A damaged page loses only the calls on it.
"""

# ruff: noqa: S608 - what is put into a query are names of tables, all constants of this module
from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import sqlite3
import zlib
from collections.abc import Iterator
from typing import Any

from handrail.files.versions import hash_bytes
from handrail.journal.log_lines import OLD, get_logs_path
from handrail.journal.logs import LogWriter

IMPORTED = ".imported"
"""Behind the name of a database that was imported."""
# The columns of that format, which never gets another one: `rows.py` fills up the rows that are written with these.
_BEGIN = "time, session, workspace, dialect, tool, call_id, pid, arguments, given, touches, decision, rule, why, source"
_END = "ended, status, error, message, duration, diff, exit_code, output, said, answer_bytes, notes, traceback"
_FILE = "place, path, kept, before, before_mode, planned, moved_from, made"
_AFTER = "after, after_mode"
_BEGIN_LENGTH, _FILE_LENGTH = len(_BEGIN.split(", ")), len(_FILE.split(", "))
_LENGTH = _BEGIN_LENGTH + len(_END.split(", "))
_WORKSPACE = 2


def import_old(path: str) -> None:
    """Import the old journal at ``path``, if there is one. Raises `OSError`."""
    if not os.path.exists(path + OLD) or not os.path.isfile(path):
        return
    os.makedirs(get_logs_path(path), mode=0o700, exist_ok=True)
    with open(os.path.join(get_logs_path(path), "importing"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path + OLD):  # nobody has done it meanwhile
            try:
                _Import(path).run()
            except sqlite3.Error as error:
                raise OSError(errno.EIO, f"it cannot be imported: {error}", path) from None
            for suffix in ("-wal", "-shm", ".spool", ".spool.anchor", "", OLD):  # the last one ends it
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path + suffix, path + IMPORTED + suffix)


class _Import:
    """One import. What an import that was killed has written is written again, with the same numbers."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")

    def run(self) -> None:
        writer = LogWriter(self._path)
        try:
            images = 0
            for digest, packed, data in self._read("images", "hash, packed, data"):
                with contextlib.suppress(zlib.error, TypeError, ValueError):
                    raw = zlib.decompress(data) if packed else bytes(data)
                    images += writer.contents.store(digest, raw) if hash_bytes(raw) == digest else 0
            last = 0
            for row in self._read("calls", f"seq, {_BEGIN}, {_END}"):
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
        has_ended = values[_BEGIN_LENGTH + 1] is not None
        files: list[tuple[Any, ...]] = []
        with contextlib.suppress(sqlite3.Error):
            query = f"SELECT attempt, {_FILE}, {_AFTER} FROM files WHERE seq = ? ORDER BY attempt, place"
            rows = self._db.execute(query, (seq,)).fetchall()
            files = [one[1:] for one in rows if one[0] == rows[-1][0]]
        if not isinstance(values[_WORKSPACE], bytes):
            values[_WORKSPACE] = b""
        if has_ended:
            writer.append("whole 0", (values, files), seq, images)
        else:
            writer.append("begin 0", (values[:_BEGIN_LENGTH], [one[:_FILE_LENGTH] for one in files]), seq, images)

    def _read(self, table: str, columns: str) -> Iterator[Any]:
        """The rows from the beginning to the first damaged place, and those behind the last one."""
        low = 0
        try:
            for row in self._db.execute(f"SELECT rowid, {columns} FROM {table} ORDER BY rowid"):
                low = row[0]
                yield list(row[1:])
            return
        except sqlite3.Error:
            pass
        behind: list[Any] = []
        with contextlib.suppress(sqlite3.Error):
            query = f"SELECT {columns} FROM {table} WHERE rowid > ? ORDER BY rowid DESC"
            behind.extend(self._db.execute(query, (low,)))
        yield from reversed(behind)


def _read_spool(path: str) -> Iterator[list[Any]]:
    """The rows that waited beside the old database."""
    with contextlib.suppress(FileNotFoundError), open(path + ".spool", "rb") as file:
        for raw in file:
            match = re.fullmatch(rb"[0-9a-f]{64} (.*)\n", raw)
            with contextlib.suppress(ValueError, TypeError, AttributeError, IndexError):
                row = json.loads(match[1]) if match else []
                row[_WORKSPACE] = row[_WORKSPACE].encode("latin-1")
                if len(row) == _LENGTH:
                    yield row
