"""Read a shared journal: the queries of `JournalReader` on PostgreSQL, and the check of each machine's chain."""

# ruff: noqa: S608 - only names of tables and columns are put into queries, all of them constants
from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from itertools import starmap, zip_longest
from typing import TYPE_CHECKING, Any

from handrail.files.versions import hash_bytes
from handrail.journal.index import BrokenEntry, ChainWalk
from handrail.journal.log_lines import GENESIS, ChainEntry
from handrail.journal.logs import encode
from handrail.journal.postgres import PostgresDatabase
from handrail.journal.queries import ADDED_CALL, ADDED_FILE, JournalReader, StorageUse, bound
from handrail.journal.records import BEGIN, CALL_COLUMNS, END, FILE, FILE_COLUMNS
from handrail.settings.journal_address import JournalAddress, is_database_url

if TYPE_CHECKING:
    import psycopg

_PAGE = 500
"""The most entries of a chain in memory at once."""
_TABLES = ("journals", "calls", "files", "chain", "images", "meta")


class PostgresReader(JournalReader):
    """The shared journal of a tenant. Calls are numbered by arrival; `CallRow.number` is the number on the machine."""

    calls = (
        f"SELECT {', '.join(CALL_COLUMNS)}, "
        "(SELECT host FROM journals WHERE journals.journal = calls.journal), number FROM calls"
    )
    _workspace = "workspace"

    def __init__(self, url: str) -> None:
        self._database = PostgresDatabase(JournalAddress.parse(url))
        try:
            self._database.require_version()
        except BaseException:
            self._database.close()
            raise
        self.path = self._database.address.shown
        self.db = _Translated(self._database.connection)

    def close(self) -> None:
        self._database.close()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Run a transaction on the tenant's tables. Errors become `JournalFailed`."""
        with self._database.transaction():
            yield

    def list_ended(self, since: int, limit: int = -1) -> list[tuple[int, int]]:
        # Transactions may end in a different order than they began: an entry counts once all earlier ones have ended.
        query = (
            "SELECT position, calls.seq FROM chain JOIN calls USING (journal, number) "
            "WHERE position > ? AND position < pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 10 "
            "AND stage !~ '^begin' ORDER BY position LIMIT ?"
        )
        return self.query(query, (since, bound(limit)))

    def read_newest_entry(self) -> int:
        return int(self.read_value("SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 10) - 1"))

    def count_entries(self) -> int:
        return int(self.read_value("SELECT coalesce(sum(n), 0)::bigint FROM journals"))

    def read_images(self, digests: Sequence[str]) -> dict[str, bytes]:
        contents: dict[str, bytes] = {}
        for digest in digests:
            raw = b"".join(
                part for (part,) in self.query("SELECT data FROM images WHERE hash = ? ORDER BY part", (digest,))
            )
            if hash_bytes(raw) == digest:
                contents[digest] = raw
        return contents

    def measure_use(self) -> StorageUse:
        return StorageUse(*self.query("SELECT count(*), coalesce(sum(size), 0)::bigint FROM images WHERE part = 0")[0])

    def measure_journal(self) -> int:
        sizes = " + ".join(f"pg_total_relation_size('{table}')" for table in _TABLES)
        return int(self.read_value(f"SELECT {sizes}"))

    def list_damage(self) -> list[BrokenEntry]:
        return []

    def list_broken(self) -> list[BrokenEntry]:
        """The first broken place in the chain of each machine."""
        places = []
        for journal, host, n, digest in self.query("SELECT journal, host, n, hash FROM journals ORDER BY journal"):
            if broken := self._verify_journal(journal, ChainEntry(n, digest)):
                known = self.read_value("SELECT seq FROM calls WHERE journal = ? AND number = ?", (journal, broken.seq))
                places.append(BrokenEntry(known or 0, f"{broken.why} (machine {host}, call {broken.seq} there)"))
        return places

    def _verify_journal(self, journal: int, newest: ChainEntry) -> BrokenEntry | None:
        walk, at = ChainWalk(ChainEntry(0, GENESIS)), 0
        columns = "n, number, stage, hash, content"
        query = f"SELECT {columns} FROM chain WHERE journal = ? AND n > ? AND n <= ? ORDER BY n LIMIT ?"
        while True:
            entries = self.query(query, (journal, at, newest.n, _PAGE))
            contents = _PageContents(self, journal, sorted({entry[1] for entry in entries}))
            for n, number, stage, digest, text in entries:
                at = n
                content = _parse_content(text)
                if stage.startswith(("begin", "end", "whole")):
                    content = contents.read(number, stage, content)
                missing = content[:1] == [None]
                hashed = encode([n, number, stage, content]).encode("ascii")
                if broken := walk.check(n, number, digest, hashed, missing):
                    return broken
            if len(entries) < _PAGE:
                return walk.check_end(newest) or self._find_added(journal)

    def _find_added(self, journal: int) -> BrokenEntry | None:
        """Find rows that belong to no chain."""
        calls = (
            "SELECT min(number) FROM calls WHERE journal = ? AND NOT EXISTS "
            "(SELECT 1 FROM chain WHERE chain.journal = calls.journal AND chain.number = calls.number)"
        )
        files = (
            "SELECT min(number) FROM (SELECT number, max(attempt) AS attempt FROM files JOIN calls USING (seq) "
            "WHERE journal = ? GROUP BY number) AS written LEFT JOIN (SELECT number, count(*) AS attempts FROM chain "
            "WHERE journal = ? AND stage !~ '^end' GROUP BY number) AS begun USING (number) "
            "WHERE attempt >= coalesce(attempts, 0)"
        )
        number = self.read_value(calls, (journal,))
        if number is not None:
            return BrokenEntry(number, ADDED_CALL)
        number = self.read_value(files, (journal, journal))
        return BrokenEntry(number, ADDED_FILE) if number is not None else None


def _parse_content(text: str | None) -> list[Any]:
    """The content of an entry, from its text; empty where that is not kept, or was changed."""
    try:
        return list(json.loads(text or "[]")[3])
    except (ValueError, TypeError, IndexError, KeyError):
        return []


def _cut(values: Sequence[object], like: Sequence[object]) -> list[Any]:
    """The columns of an older version, which has fewer; what somebody wrote into the others stays."""
    return [*values[: len(like)], *(value for value in values[len(like) :] if value is not None)]


def open_reader(journal: str) -> JournalReader:
    """Open the journal at a path, or the shared journal at a URL. Raises `JournalFailed`; for a URL, `MissingExtra`."""
    return PostgresReader(journal) if is_database_url(journal) else JournalReader(journal)


class _Translated:
    """Executes queries written for SQLite, with the placeholders of PostgreSQL."""

    def __init__(self, connection: psycopg.Connection[object]) -> None:
        self._connection = connection

    def execute(self, query: str, values: Sequence[object] = ()) -> psycopg.Cursor[Any]:
        return self._connection.execute(_translate(query), values)


@functools.lru_cache(256)
def _translate(query: str) -> bytes:
    return query.replace("%", "%%").replace("?", "%s").encode("utf-8")


class _PageContents:
    """The hashed columns of some calls."""

    def __init__(self, reader: JournalReader, journal: int, numbers: list[int]) -> None:
        calls = f"SELECT seq, number, {BEGIN}, {END} FROM calls WHERE journal = ? AND number = ANY(?)"
        files = f"SELECT seq, attempt, {', '.join(FILE_COLUMNS)} FROM files WHERE seq = ANY(?) ORDER BY place"
        rows = reader.query(calls, (journal, numbers))
        self._calls: dict[int, tuple[int, tuple[Any, ...]]] = {row[1]: (row[0], row[2:]) for row in rows}
        self._files: dict[tuple[int, int], list[tuple[Any, ...]]] = {}
        for seq, attempt, *values in reader.query(files, ([row[0] for row in rows],)):
            self._files.setdefault((seq, attempt), []).append(tuple(values))

    def read(self, number: int, stage: str, older: list[Any]) -> list[Any]:
        """The columns of a call at a stage, and those of its files; ``older``: what an older version wrote."""
        if number not in self._calls:
            return [None, []]
        what, _, attempt = stage.partition(" ")
        seq, row = self._calls[number]
        files = self._files.get((seq, int(attempt)), [])
        begin, planned = len(BEGIN.split(", ")), len(FILE.split(", "))
        if what == "begin":
            row, files = row[:begin], [file[:planned] for file in files]
        elif what == "end":
            row, files = row[begin:], [(file[0], *file[planned:]) for file in files]
        if not older:
            return [row, files]
        return [_cut(row, older[0]), list(starmap(_cut, zip_longest(files, older[1], fillvalue=())))]
