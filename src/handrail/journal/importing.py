"""Import a journal in the format before the logs: one SQLite database, with a spool beside it.

Its calls become a log of their own, with the same numbers, and its old contents become files. The database stays
readable beside the new journal, under another name. Of a damaged database the calls before the damage are imported.
"""

# ruff: noqa: S608 - what is put into a query are names of tables, all constants of this module
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator
from typing import Any

from handrail.journal.log_lines import OLD, get_logs_path
from handrail.journal.logs import LogWriter
from handrail.journal.records import BEGIN, FILE

IMPORTED = ".imported"
"""Behind the name of a database that was imported."""
# The columns of that format, which never gets another one: `rows.py` fills up the rows that are written with these.
_END = "ended, status, error, message, duration, diff, exit_code, output, said, answer_bytes, notes, traceback"
_BEGIN_LENGTH, _FILE_LENGTH = len(BEGIN.split(", ")), len(FILE.split(", "))
_STATUS = _BEGIN_LENGTH + 1
_SESSION, _WORKSPACE = 1, 2


def import_old(path: str) -> None:
    """Import the old journal at ``path``, if there is one. Raises `OSError`."""
    if not os.path.exists(path + OLD) or not os.path.isfile(path):
        return
    os.makedirs(get_logs_path(path), mode=0o700, exist_ok=True)
    with open(os.path.join(get_logs_path(path), "importing"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path + OLD):  # nobody has done it meanwhile
            with contextlib.closing(sqlite3.connect(path)) as db, contextlib.closing(LogWriter(path)) as writer:
                _import(path, db, writer)
            for suffix in ("-wal", "-shm", ".spool", ".spool.anchor", "", OLD):  # the last one ends it
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path + suffix, path + IMPORTED + suffix)


def _import(path: str, db: sqlite3.Connection, writer: LogWriter) -> None:
    """One import. What an import that was killed has written is written again, with the same numbers."""
    db.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
    sources = {str(key): str(value) for key, value in _read(db, "SELECT key, value FROM meta")}
    added = 0
    last = next(_read(db, "SELECT coalesce(max(seq), 0) FROM calls"), (0,))[0]
    for digest, packed, data in _read(db, "SELECT hash, packed, data FROM images"):
        with contextlib.suppress(zlib.error):
            added += writer.contents.store(digest, zlib.decompress(data) if packed else data)
    for seq, *row in _read(db, f"SELECT seq, {BEGIN}, {_END} FROM calls ORDER BY seq"):
        query = (
            f"SELECT {FILE}, after, after_mode FROM files WHERE seq = :seq "
            "AND attempt = (SELECT max(attempt) FROM files WHERE seq = :seq) ORDER BY place"
        )
        files = list(_read(db, query, {"seq": seq}))
        if row[_STATUS] is not None:
            client, model = (sources.get(f"{kind}:{row[_SESSION]}", "") for kind in ("client", "model"))
            writer.append("whole 0", ([*row, None, client, model], files), seq, added)
        else:
            writer.append("begin 0", (row[:_BEGIN_LENGTH], [one[:_FILE_LENGTH] for one in files]), seq, added)
        added = 0
    for number, row in enumerate(_read_spool(path), last + 1):
        writer.append("whole 0", (row, []), number)


def _read(db: sqlite3.Connection, query: str, values: Any = ()) -> Iterator[Any]:
    """The rows of a query, up to the first damaged place."""
    with contextlib.suppress(sqlite3.Error):
        yield from db.execute(query, values)


def _read_spool(path: str) -> Iterator[list[Any]]:
    """The rows that waited beside the old database: each behind its hash, the last one perhaps cut off."""
    with contextlib.suppress(FileNotFoundError, ValueError), open(path + ".spool", encoding="ascii") as file:
        for line in file:
            row = json.loads(line.partition(" ")[2])
            row[_WORKSPACE] = row[_WORKSPACE].encode("latin-1")
            yield row
