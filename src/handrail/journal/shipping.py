"""Ship the local journal to the shared one: rows and before-images, in batches, each exactly once.

The entries of the hash chain are what is counted: `n` of the newest one that arrived is the position. It is kept in the
shared database, in the transaction that adds the rows, under a lock of the row of this journal: whoever ships at the
same time, or was killed in between, continues there. A copy in the local journal says what is outstanding without
asking the database, and which before-images must not be removed yet. Besides, the rows have unique keys (journal and
number), so that a row that is sent twice is there once.

Nothing here takes part in a call. `shipper.py` runs it in the background.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `records.py`
from __future__ import annotations

import contextlib
import json
import os
import platform
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from handrail.frozen import frozen
from handrail.journal import JournalFailed
from handrail.journal.database import GENESIS, SHIPPED, ChainEntry, Database, connect, roll_back
from handrail.journal.postgres import PostgresDatabase, escape_nul
from handrail.journal.records import CALL_COLUMNS, DIRECTORY, END, FILE_COLUMNS, LINK
from handrail.journal.retention import STAGE, read_removed
from handrail.journal.spool import has_spooled
from handrail.settings.journal_address import JournalAddress

if TYPE_CHECKING:
    import psycopg

MOST_ENTRIES = 500
"""Entries of the chain in one transaction; below 1024, see `_position`."""
_MOST_BYTES = 4 << 20
"""Of the rows of one transaction, if it has more than one call; images are sent before, in groups of this size."""
_PART = 4 << 20
"""A larger image is stored in parts of this size."""
_ID = "journal"
"""In the table `meta`: the name of this journal among all that are shipped."""
_LONGEST_KEY = 2_000
"""PostgreSQL does not index longer values."""
_INTEGERS = frozenset(
    (
        "seq",
        "time",
        "pid",
        "given",
        "ended",
        "exit_code",
        "said",
        "answer_bytes",
        "place",
        "kept",
        "before_mode",
        "after_mode",
    )
)
_BYTES = frozenset(("workspace", "path", "moved_from"))
_NOT_TEXT = _INTEGERS | _BYTES | {"duration"}
_CALLS = f"SELECT {', '.join(CALL_COLUMNS)} FROM calls WHERE seq = ?"
_FILES = f"SELECT attempt, {', '.join(FILE_COLUMNS)} FROM files WHERE seq = ? ORDER BY attempt, place"
_CALL_NAMES = ("journal", "number", *CALL_COLUMNS[1:], "accesses", "action", "target")
_FILE_NAMES = ("seq", "attempt", *FILE_COLUMNS)
_ENDED = ", ".join(f"{name} = excluded.{name}" for name in END.split(", "))
_PUT_CALL = (
    f"INSERT INTO calls ({', '.join(_CALL_NAMES)}) VALUES ({', '.join(['%s'] * len(_CALL_NAMES))}) "
    f"ON CONFLICT (journal, number) DO UPDATE SET {_ENDED}"
)
_PUT_FILE = (
    f"INSERT INTO files ({', '.join(_FILE_NAMES)}) VALUES ({', '.join(['%s'] * len(_FILE_NAMES))}) "
    "ON CONFLICT (seq, attempt, place) DO UPDATE SET after = excluded.after, after_mode = excluded.after_mode"
)
_PUT_ENTRY = (
    "INSERT INTO chain (journal, n, number, stage, hash, position) VALUES (%s, %s, %s, %s, %s, %s) "
    "ON CONFLICT (journal, n) DO NOTHING"
)
_PUT_LOST = "INSERT INTO lost VALUES (%s, %s, %s, %s, %s) ON CONFLICT (journal, n) DO NOTHING"
_PUT_REMOVED = "INSERT INTO removed VALUES (%s, %s, %s, %s, %s) ON CONFLICT (journal, n) DO NOTHING"
_PUT_SOURCE = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_PUT_IMAGE = "INSERT INTO images VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (hash, part) DO NOTHING"


@frozen
class ShippingState:
    """How far the local journal has been shipped to one shared journal, as the local one knows it."""

    n: int = 0
    """The newest entry of the chain that arrived."""
    seq: int = 0
    """All calls up to this number have arrived, at least their beginnings."""
    shipped: float = 0.0
    """When that was; seconds since 1970."""
    failure: str = ""
    """Why the last attempt failed; empty if it did not."""
    failed: float = 0.0
    retry: float = 0.0
    """Not tried again before this time, by any process."""
    failures: int = 0
    """In a row."""


class CopiedJournal(JournalFailed):
    """The shared journal continues in another way than the local one."""


class LocalJournal:
    """The local journal as the one who ships sees it. Raises `JournalFailed`."""

    def __init__(self, path: str, address: JournalAddress) -> None:
        self.path = path
        self._key = SHIPPED + address.key
        with self.errors():
            if not os.path.isfile(path):
                raise JournalFailed(journal=path, why="there is no journal yet")
            self.db = connect(path, mode="rw")
            self.db.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        self.db.close()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise JournalFailed(journal=self.path, why=str(error)) from None

    def read_id(self) -> str:
        """The name of this journal; it gets one if it has none."""
        with self.errors():
            self.db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (_ID, uuid.uuid4().hex))
            return str(self.db.execute("SELECT value FROM meta WHERE key = ?", (_ID,)).fetchone()[0])

    def renew_id(self) -> None:
        """Give it another name: all of it is shipped again under that."""
        with self.errors():
            self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_ID, uuid.uuid4().hex))
            self.db.execute("DELETE FROM meta WHERE key LIKE ?", (SHIPPED + "%",))

    def read_state(self) -> ShippingState:
        with self.errors():
            row = self.db.execute("SELECT value FROM meta WHERE key = ?", (self._key,)).fetchone()
        try:
            return ShippingState(**json.loads(row[0])) if row else ShippingState()
        except (ValueError, TypeError):  # of another version: the shared journal knows the position
            return ShippingState()

    def write_state(self, state: ShippingState) -> None:
        with self.errors():
            self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (self._key, json.dumps(asdict(state))))

    def move_spooled(self) -> None:
        """Rows that wait in the spool come into the tables, where they get their numbers."""
        if has_spooled(self.path):
            with self.errors():
                Database(self.path).close()

    def read_head(self) -> ChainEntry:
        with self.errors():
            return ChainEntry(*self.db.execute("SELECT n, hash FROM head").fetchone())

    def count_outstanding(self, after: int) -> int:
        """How many entries follow entry ``after``; rows in the spool are not counted."""
        with self.errors():
            return int(self.db.execute("SELECT count(*) FROM chain WHERE n > ?", (after,)).fetchone()[0])

    def find_start(self) -> ChainEntry:
        """The entry behind which the chain begins: older ones were removed."""
        with self.errors():
            removed = read_removed(self.db)
        return ChainEntry(removed.n, removed.hash or GENESIS)

    def has_entry(self, entry: ChainEntry) -> bool:
        """Whether the chain goes through this entry, as far as it is still known."""
        start = self.find_start()
        if entry.n <= start.n:
            return entry.n < start.n or entry == start
        with self.errors():
            row = self.db.execute("SELECT hash FROM chain WHERE n = ?", (entry.n,)).fetchone()
        return bool(row == (entry.hash,))

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """One state of the tables. Never held while the network is waited for: the file could not be cleaned up."""
        with self.errors():
            self.db.execute("BEGIN")
            try:
                yield
            finally:
                roll_back(self.db)


@frozen
class Batch:
    """Entries of the chain that follow each other, and the rows that they are about."""

    after: ChainEntry
    entries: list[tuple[int, int, str, str]]
    calls: list[tuple[Any, ...]]
    files: list[tuple[Any, ...]]
    """Each begins with the number of its call."""
    lost: list[tuple[Any, ...]]
    removed: list[tuple[Any, ...]]
    """The entries that say that older ones were removed from the local journal."""
    sources: list[tuple[str, str]]
    """Keys and values of `meta`: the client and the model of each session."""
    digests: list[str]

    @property
    def last(self) -> ChainEntry:
        return ChainEntry(self.entries[-1][0], self.entries[-1][3])


def read_batch(local: LocalJournal, after: ChainEntry) -> Batch | None:
    """The next entries after ``after``; None if there are none."""
    batch = Batch(after, [], [], [], [], [], [], [])
    size, numbers = 0, set[int]()
    sessions, digests = dict[str, None](), dict[str, None]()
    with local.snapshot():
        query = "SELECT n, seq, stage, hash FROM chain WHERE n > ? ORDER BY n LIMIT ?"
        for entry in local.db.execute(query, (after.n, MOST_ENTRIES)).fetchall():
            n, seq, stage, _ = entry
            if stage == "lost":
                batch.lost.extend(local.db.execute("SELECT * FROM lost WHERE n = ?", (n,)).fetchall())
            elif stage == STAGE:
                batch.removed.append((n, *read_removed(local.db, n)))
            elif seq not in numbers:
                numbers.add(seq)
                call = local.db.execute(_CALLS, (seq,)).fetchone()
                if call is not None:  # if it was deleted, the check of the chain says so there, too
                    batch.calls.append(call)
                    sessions[str(call[CALL_COLUMNS.index("session")])] = None
                files = [(seq, *row) for row in local.db.execute(_FILES, (seq,))] if call is not None else []
                batch.files.extend(files)
                digests.update(dict.fromkeys(_list_digests(files)))
                size += sum(_measure(row) for row in (call or (), *files))
            batch.entries.append(entry)
            if size > _MOST_BYTES:
                break
        for session in sessions:
            keys = (f"client:{session}", f"model:{session}")
            batch.sources.extend(local.db.execute("SELECT key, value FROM meta WHERE key IN (?, ?)", keys).fetchall())
    batch.digests.extend(digests)
    return batch if batch.entries else None


def _list_digests(files: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The hashes of the contents that were replaced."""
    place = 2 + FILE_COLUMNS.index("before")
    for row in files:
        before = row[place]
        if isinstance(before, str) and before not in ("", DIRECTORY):
            yield before.removeprefix(LINK)


def _measure(row: Sequence[Any]) -> int:
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)


class ImagePart(NamedTuple):
    """A row of the shared images."""

    hash: str
    part: int
    size: int
    stored: int
    packed: bool
    data: bytes


class _Removed(Exception):
    """An image was removed from the local journal while it was sent."""


class Shipment:
    """A connection to the shared journal over which one local journal is shipped."""

    def __init__(self, local: LocalJournal, database: PostgresDatabase) -> None:
        self.local = local
        self.database = database
        self.arrived = ChainEntry(0, GENESIS)
        """The newest entry that the shared journal has."""
        database.migrate()
        self._id = local.read_id()
        with database.transaction() as cursor:
            host = escape_nul(platform.node()[:200])
            put = "INSERT INTO journals (id, host, hash) VALUES (%s, %s, %s) ON CONFLICT (id) DO NOTHING"
            if cursor.execute("SELECT 1 FROM journals WHERE id = %s", (self._id,)).fetchone() is None:
                cursor.execute(put, (self._id, host, GENESIS))
            self._journal, self.arrived = self._read_position(cursor)
        self._require_same()

    def _read_position(self, cursor: psycopg.Cursor[Any], lock: str = "") -> tuple[int, ChainEntry]:
        query = f"SELECT journal, n, hash FROM journals WHERE id = %s {lock}"
        row = cursor.execute(query.encode("ascii"), (self._id,)).fetchone()
        if row is None:
            raise JournalFailed(journal=self.database.address.shown, why="the row of this journal was deleted there")
        return row[0], ChainEntry(row[1], row[2])

    def _require_same(self) -> None:
        if not self.local.has_entry(self.arrived):
            why = (
                f"it continues in another way than {self.local.path}: entry {self.arrived.n} differs. That file is a "
                "copy, or older than it was; `handrail journal ship --as-new` ships it under a name of its own"
            )
            raise CopiedJournal(journal=self.database.address.shown, why=why)

    def ship_next(self) -> int:
        """Ship one batch; returns the number of entries, 0 if nothing is left."""
        batch = read_batch(self.local, max(self.arrived, self.local.find_start()))
        if batch is None:
            self._note(self.arrived, 0)
            return 0
        unsent = self._send_images(batch.digests)
        with self.database.transaction() as cursor:
            self._journal, at = self._read_position(cursor, "FOR UPDATE")
            if at == self.arrived:
                self._put(cursor, batch, unsent)
                at = batch.last
        if at != batch.last:  # another process was faster: continue where it ended
            self.arrived = at
            self._require_same()
            return len(batch.entries)
        self.arrived = at
        self._note(at, max((row[0] for row in batch.calls), default=0))
        return len(batch.entries)

    def _put(self, cursor: psycopg.Cursor[Any], batch: Batch, unsent: int) -> None:
        journal = self._journal
        cursor.executemany(_PUT_CALL.encode("ascii"), [_convert_call(journal, row) for row in batch.calls])
        numbers = [row[0] for row in batch.calls]
        query = "SELECT number, seq FROM calls WHERE journal = %s AND number = ANY(%s)"
        seqs = dict(cursor.execute(query, (journal, numbers)).fetchall())
        cursor.executemany(
            _PUT_FILE.encode("ascii"),
            [(seqs[row[0]], row[1], *_convert(FILE_COLUMNS, row[2:])) for row in batch.files],
        )
        base = int(cursor.execute("SELECT pg_current_xact_id()::text::bigint << 10").fetchall()[0][0])
        entries = [(journal, *entry, base + place) for place, entry in enumerate(batch.entries)]
        cursor.executemany(_PUT_ENTRY, entries)
        cursor.executemany(_PUT_REMOVED, [(journal, *row) for row in batch.removed])
        cursor.executemany(_PUT_LOST, [(journal, *row) for row in batch.lost])
        cursor.executemany(
            _PUT_SOURCE, sorted((escape_nul(key), escape_nul(str(value))) for key, value in batch.sources)
        )
        cursor.execute(
            "UPDATE journals SET n = %s, hash = %s, shipped = now(), unsent_entries = unsent_entries + %s, "
            "unsent_images = unsent_images + %s WHERE journal = %s",
            (*batch.last, batch.after.n - self.arrived.n, unsent, journal),
        )

    def _note(self, at: ChainEntry, seq: int) -> None:
        """Write down locally what has arrived."""
        known = self.local.read_state()
        if known.n == at.n and known.shipped and not known.failure:
            return
        newest = seq if at.n < known.n else max(seq, known.seq)
        self.local.write_state(ShippingState(at.n, newest, time.time()))

    def _send_images(self, digests: list[str]) -> int:
        """Send the images that the shared journal lacks; returns how many are not here either.

        They are sent before the rows that name them, and stored by their hash: equal contents once, from any machine.
        """
        if not digests:
            return 0
        with self.database.transaction() as cursor:
            query = "SELECT hash FROM images WHERE part = 0 AND hash = ANY(%s)"
            stored = {row[0] for row in cursor.execute(query, (digests,))}
        group, size, missing = list[ImagePart](), 0, 0
        for digest in digests:
            if digest in stored:
                continue
            image = self._read_part(digest, 0)
            if image is None:
                missing += 1
            elif image.stored > _PART:
                missing += not self._send_large(image)
            else:
                group.append(image)
                size += image.stored
            if size > _MOST_BYTES:
                self._put_images(group)
                group, size = [], 0
        self._put_images(group)
        return missing

    def _read_part(self, digest: str, part: int) -> ImagePart | None:
        """A part of an image; None if the image is not kept, or no longer."""
        with self.local.snapshot():
            query = "SELECT size, stored, packed, rowid FROM images WHERE hash = ?"
            row = self.local.db.execute(query, (digest,)).fetchone()
            if row is None:
                return None
            size, stored, packed, rowid = row
            with self.local.db.blobopen("images", "data", rowid, readonly=True) as blob:
                blob.seek(min(part * _PART, stored))
                return ImagePart(digest, part, size, stored, bool(packed), blob.read(_PART))

    def _send_large(self, first: ImagePart) -> bool:
        """Send an image in parts; False if it was removed meanwhile, and nothing of it was sent."""
        with contextlib.suppress(_Removed), self.database.transaction() as cursor:
            cursor.execute(_PUT_IMAGE, first)
            for number in range(1, -(-first.stored // _PART)):
                part = self._read_part(first.hash, number)
                if part is None:
                    raise _Removed
                cursor.execute(_PUT_IMAGE, part)
            return True
        return False

    def _put_images(self, group: list[ImagePart]) -> None:
        if group:
            with self.database.transaction() as cursor:
                # In one order everywhere: two machines with the same files must not wait for each other.
                cursor.executemany(_PUT_IMAGE, sorted(group))


def _convert_call(journal: int, row: Sequence[Any]) -> tuple[Any, ...]:
    accesses = _parse_accesses(row[CALL_COLUMNS.index("touches")])
    first = accesses[0] if accesses else (None, None)
    return (
        journal,
        *_convert(CALL_COLUMNS, row),
        len(accesses),
        *(escape_nul(text[:300]) if text is not None else None for text in first),
    )


def _parse_accesses(text: Any) -> list[tuple[str, str]]:
    """Action and target of each access; what a list of calls shows of them."""
    try:
        items = json.loads(text)
        return [(_make_storable(item[0]), _make_storable(item[1])) for item in items]
    except (ValueError, TypeError, IndexError, KeyError):
        return []


def _make_storable(text: Any) -> str:
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def _convert(names: Sequence[str], row: Sequence[Any]) -> list[Any]:
    """Values as the columns take them. A value of another kind was not written by Handrail, and is left out."""
    return [_convert_value(name, value) for name, value in zip(names, row, strict=True)]


def _convert_value(name: str, value: Any) -> Any:
    if isinstance(value, str) and name not in _NOT_TEXT:
        return escape_nul(value[:_LONGEST_KEY] if name == "session" else value)
    if isinstance(value, bytes) and name in _BYTES:
        return value[:_LONGEST_KEY] if name == "workspace" else value
    if isinstance(value, int) and name in _INTEGERS:
        return value
    return value if isinstance(value, float) and name == "duration" else None


def ship_all(
    local: LocalJournal,
    database: PostgresDatabase,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Ship until nothing is outstanding; returns how many entries were shipped.

    ``progress`` gets how many that are so far, and how many are left.
    """
    local.move_spooled()
    shipment = Shipment(local, database)
    shipped = 0
    while count := shipment.ship_next():
        shipped += count
        if progress:
            progress(shipped, local.count_outstanding(shipment.arrived.n))
    return shipped


def note_failure(local: LocalJournal, why: str, now: float, first: float = 1.0, longest: float = 60.0) -> ShippingState:
    """Write down that an attempt failed, and when any process may try again: each time later, up to a minute."""
    state = local.read_state()
    pause = min(longest, first * 2**state.failures)
    failed = replace(state, failure=why, failed=now, retry=now + pause, failures=min(state.failures + 1, 30))
    local.write_state(failed)
    return failed
