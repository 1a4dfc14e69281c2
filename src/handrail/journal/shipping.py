"""Ship the logs of the local journal to the shared one: entries and old contents, in batches, each exactly once.

Each log is a journal of its own there, with the position up to which it arrived: the number and the hash of its newest
entry. The position is kept in the shared database, in the transaction that adds the rows, under a lock of the row of
that log: whoever ships at the same time, or was killed in between, continues there. A copy in a file beside the logs
says what is outstanding without asking the database, and which contents must not be removed yet. Besides, the rows have
unique keys (log and number), so that a row that is sent twice is there once.

Nothing here takes part in a call. `shipper.py` runs it in the background.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `records.py`
from __future__ import annotations

import contextlib
import json
import os
import platform
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any

from handrail.frozen import frozen
from handrail.journal import JournalFailed
from handrail.journal.log_lines import (
    GENESIS,
    ChainEntry,
    Head,
    LogLine,
    get_log_path,
    get_logs_path,
    list_logs,
    read_heads,
    read_lines,
    read_start,
)
from handrail.journal.logs import OldContents, lock_numbers
from handrail.journal.postgres import PostgresDatabase, escape_nul
from handrail.journal.records import CALL_COLUMNS, DIRECTORY, END, FILE_COLUMNS, LINK
from handrail.journal.retention import SHIPPING, ShippingState, read_shipping_state
from handrail.journal.rows import LogRows, is_complete, make_upsert
from handrail.settings.journal_address import JournalAddress

if TYPE_CHECKING:
    import psycopg

MOST_ENTRIES = 500
"""Entries of a log in one transaction; below 1024, because of their positions in the shared journal."""
_MOST_BYTES = 4 << 20
"""Of the rows of one transaction, if it has more than one call; images are sent before, in groups of this size."""
_PART = 4 << 20
"""Larger contents are stored in parts of this size."""
_LONGEST_KEY = 2_000
_END = END.split(", ")
_PUT_CALL = make_upsert("calls", ["journal", "number"], [*CALL_COLUMNS[1:]], "%s")
_END_CALL = f"UPDATE calls SET {', '.join(f'{name} = %s' for name in _END)} WHERE journal = %s AND number = %s"
_PUT_FILE = make_upsert("files", ["seq", "attempt", "place"], FILE_COLUMNS[1:], "%s")
_PUT_ENTRY = (
    "INSERT INTO chain (journal, n, number, stage, hash, content, position) VALUES (%s, %s, %s, %s, %s, %s, %s) "
    "ON CONFLICT (journal, n) DO NOTHING"
)
_PUT_IMAGE = "INSERT INTO images VALUES (%s, %s, %s, %s) ON CONFLICT (hash, part) DO NOTHING"


class CopiedJournal(JournalFailed):
    """The shared journal continues in another way than the local one."""

    code = JournalFailed.code


class LocalJournal:
    """The local journal as the one who ships sees it. Raises `JournalFailed`."""

    def __init__(self, path: str, address: JournalAddress) -> None:
        self.path = path
        self.directory = get_logs_path(path)
        self.contents = OldContents(self.directory)
        self._state = os.path.join(self.directory, SHIPPING + address.key)
        with self.errors():
            if not os.path.isfile(os.path.join(self.directory, "numbers")):
                raise JournalFailed(journal=path, why="there is no journal yet")

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JournalFailed(journal=self.path, why=str(error)) from None

    def renew_id(self) -> None:
        """Give its logs other names: all of it is shipped again under those."""
        self.write_state(ShippingState(renamed=uuid.uuid4().hex))

    def read_state(self) -> ShippingState:
        return read_shipping_state(self._state)

    def write_state(self, state: ShippingState) -> None:
        with self.errors():
            name = f"{self._state}.{os.getpid()}.{time.monotonic_ns()}"
            with open(name, "x", encoding="ascii") as file:
                json.dump(asdict(state), file)
            os.replace(name, self._state)

    def read_heads(self) -> dict[int, Head]:
        """The heads of the logs that are there: every entry up to them is in its log."""
        with self.errors(), lock_numbers(self.directory):
            there = list_logs(self.directory)
            return {log: head for log, head in read_heads(self.directory).items() if log in there}

    def count_outstanding(self) -> int:
        """How many entries did not arrive yet."""
        shipped = self.read_state().logs
        return sum(max(0, head.n - shipped.get(str(log), 0)) for log, head in self.read_heads().items())

    def read_id(self, log: int) -> str:
        """The name of a log among all that are shipped; empty if its beginning is damaged."""
        with self.errors():
            name, _ = read_start(get_log_path(self.directory, log))
        return name and f"{name}{self.read_state().renamed}"


@frozen
class Batch:
    """Entries of a log that follow each other, and the rows that they are about."""

    entries: list[tuple[int, int, str, str, str | None]] = field(default_factory=list)
    """Place, call, stage and hash; and the text, where the rows do not say it: there is no call, or fewer columns."""
    rows: LogRows = field(default_factory=LogRows)

    @property
    def last(self) -> ChainEntry:
        return ChainEntry(self.entries[-1][0], self.entries[-1][3])

    def take(self, line: LogLine) -> None:
        """Add an entry."""
        text: str | None = line.text.decode("ascii")
        with contextlib.suppress(ValueError, TypeError, IndexError, AttributeError):  # the check of the chain says so
            self.rows.take(line)
            text = None if line.seq and is_complete(line) else text
        self.entries.append((line.n, line.seq, line.stage, line.hash, text))

    def list_digests(self) -> list[str]:
        """The hashes of the contents that were replaced."""
        place = FILE_COLUMNS.index("before")
        befores = (row[place] for _, _, row in self.rows.files)
        return [before.removeprefix(LINK) for before in befores if before and before != DIRECTORY]


def read_batch(local: LocalJournal, log: int, after: ChainEntry, last: int) -> Batch:
    """The next entries of a log after ``after``, up to number ``last``; as many as one transaction takes.

    Raises `CopiedJournal` if the log does not go through ``after``.
    """
    batch, begun, same = Batch(), 0, not after.n
    path = get_log_path(local.directory, log)
    with local.errors():
        for line, end in read_lines(path):
            if line and line.n == after.n:
                same = line.hash == after.hash
            if line and same and after.n < line.n <= last:
                batch.take(line)
                if end - begun > _MOST_BYTES or len(batch.entries) >= MOST_ENTRIES:
                    break
            elif not batch.entries:
                begun = end
    if not same:
        why = (
            f"the shared journal continues in another way: entry {after.n} differs. This file is a "
            "copy, or older than it was; `handrail journal ship --as-new` ships it under a name of its own"
        )
        raise CopiedJournal(journal=path, why=why)
    return batch


class Shipment:
    """A connection to the shared journal over which the logs of one local journal are shipped."""

    def __init__(self, local: LocalJournal, database: PostgresDatabase) -> None:
        self.local = local
        self.database = database
        database.migrate()
        self._arrived: dict[int, int] = {}
        """The newest entry of each log that the shared journal has."""

    def ship_next(self) -> int:
        """Ship one batch; returns the number of entries, 0 if nothing is left."""
        begun = time.time()
        for number, head in self.local.read_heads().items():
            if self._arrived.get(number, -1) < head.n and (count := self._ship_batch(number, head.n)):
                return count
        self._note(begun)
        return 0

    def _ship_batch(self, number: int, last: int) -> int:
        name = self.local.read_id(number)
        if not name:
            return 0
        journal, arrived = self._find_position(name)
        self._arrived[number] = arrived.n
        batch = read_batch(self.local, number, arrived, last)
        if batch.entries:
            self._send_images(batch.list_digests())
            with self.database.transaction() as cursor:
                query = "SELECT n, hash FROM journals WHERE journal = %s FOR UPDATE"
                if cursor.execute(query, (journal,)).fetchall() != [arrived]:
                    return len(batch.entries)  # another process was faster: continue where it ended
                self._put(cursor, journal, batch)
            self._arrived[number] = batch.last.n
        self._note()
        return len(batch.entries)

    def _find_position(self, name: str) -> tuple[int, ChainEntry]:
        """The number of a log in the shared journal, and the newest entry that arrived."""
        query = "SELECT journal, n, hash FROM journals WHERE id = %s"
        put = "INSERT INTO journals (id, host, hash) VALUES (%s, %s, %s) ON CONFLICT (id) DO NOTHING"
        with self.database.transaction() as cursor:
            if cursor.execute(query, (name,)).fetchone() is None:
                cursor.execute(put, (name, escape_nul(platform.node()[:200]), GENESIS))
            journal, n, digest = cursor.execute(query, (name,)).fetchall()[0]
        return journal, ChainEntry(n, digest)

    def _put(self, cursor: psycopg.Cursor[Any], journal: int, batch: Batch) -> None:
        rows = batch.rows
        begun = [_convert_call(journal, seq, row) for seq, _, row in rows.calls if row[0] is not None]
        cursor.executemany(_PUT_CALL, begun)
        # An upsert would use up a number for each end.
        ended = [(*map(_convert, row[-len(_END) :]), journal, seq) for seq, _, row in rows.calls if row[0] is None]
        cursor.executemany(_END_CALL, ended)
        numbers = list({number for number, _, _ in rows.files})
        query = "SELECT number, seq FROM calls WHERE journal = %s AND number = ANY(%s)"
        seqs = dict(cursor.execute(query, (journal, numbers)).fetchall())
        files = [(seqs[number], attempt, *map(_convert, row)) for number, attempt, row in rows.files]
        cursor.executemany(_PUT_FILE, files)
        base = int(cursor.execute("SELECT pg_current_xact_id()::text::bigint << 10").fetchall()[0][0])
        cursor.executemany(_PUT_ENTRY, [(journal, *entry, base + place) for place, entry in enumerate(batch.entries)])
        cursor.execute(
            "UPDATE journals SET n = %s, hash = %s, shipped = now() WHERE journal = %s", (*batch.last, journal)
        )

    def _note(self, complete: float = 0.0) -> None:
        """Write down locally what has arrived."""
        known = self.local.read_state()
        logs = known.logs | {str(number): n for number, n in self._arrived.items()}
        if logs == known.logs and known.shipped and not known.failure and not complete:
            return
        there = list_logs(self.local.directory)
        kept = {number: n for number, n in logs.items() if int(number) in there}
        shipped = time.time() if kept != known.logs or not known.shipped else known.shipped
        self.local.write_state(ShippingState(kept, complete or known.complete, shipped, renamed=known.renamed))

    def _send_images(self, digests: list[str]) -> None:
        """Send the images that the shared journal lacks, and that are still here.

        They are sent before the rows that name them, and stored by their hash: equal contents once, from any machine.
        """
        if not digests:
            return
        with self.database.transaction() as cursor:
            query = "SELECT hash FROM images WHERE part = 0 AND hash = ANY(%s)"
            stored = {row[0] for row in cursor.execute(query, (digests,))}
        group = list[Any]()
        for digest in digests:
            if digest in stored:
                continue
            with (
                contextlib.suppress(FileNotFoundError),
                open(self.local.contents.get_path(digest), "rb") as file,
            ):
                size = os.fstat(file.fileno()).st_size
                for part in reversed(range(-(-size // _PART) or 1)):  # the first comes last: then all are there
                    file.seek(part * _PART)
                    group.append((digest, part, size, file.read(_PART)))
                    if sum(len(one[-1]) for one in group) >= _MOST_BYTES:
                        self._put_images(group)
                        group = []
        self._put_images(group)

    def _put_images(self, group: list[Any]) -> None:
        with self.database.transaction() as cursor:
            # In one order everywhere: two machines with the same files must not wait for each other.
            cursor.executemany(_PUT_IMAGE, sorted(group))


def _convert_call(journal: int, number: int, row: Sequence[object]) -> tuple[Any, ...]:
    named = dict(zip(CALL_COLUMNS[1:], map(_convert, row), strict=True))
    for name in ("session", "workspace"):  # PostgreSQL does not index longer values
        named[name] = (named[name] or "")[:_LONGEST_KEY]
    return (journal, number, *named.values())


def _convert(value: object) -> Any:
    """A value as PostgreSQL takes it."""
    if type(value) is not str:
        return value
    return escape_nul(value.encode("utf-8", "backslashreplace").decode("utf-8") if not value.isascii() else value)


def ship_all(
    local: LocalJournal,
    database: PostgresDatabase,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Ship until nothing is outstanding; returns how many entries were shipped.

    ``progress`` gets how many that are so far, and how many are left.
    """
    shipment = Shipment(local, database)
    shipped = 0
    while count := shipment.ship_next():
        shipped += count
        if progress:
            progress(shipped, local.count_outstanding())
    return shipped


def note_failure(local: LocalJournal, why: str, now: float, first: float = 1.0, longest: float = 60.0) -> ShippingState:
    """Write down that an attempt failed, and when any process may try again: each time later, up to a minute."""
    state = local.read_state()
    pause = min(longest, first * 2**state.failures)
    failed = replace(state, failure=why, failed=now, retry=now + pause, failures=min(state.failures + 1, 30))
    local.write_state(failed)
    return failed
