"""The database of the journal: opening and preparing it, and one write transaction at a time.

Each transaction takes the write lock first (`BEGIN IMMEDIATE`), reads the last hash and adds to the chain, so the order
is that of the numbers, whatever the clocks say.

The hash chain: every entry has the hash of the one before, so that changed, missing and added entries are detected. The
last hash is also in the table `head` and in a small file next to the database, the anchor. This detects changed rows,
rows deleted or added in the middle, and rows deleted at the end, with or without a reset of `head`. It does not detect
somebody who can write all of these and recomputes every hash, because there is no secret in it, or who deletes both
database and anchor. A power failure may lose the newest rows if the anchor was written to the disk before them; this is
reported as a loss, too.

Before-images are here as well, so that a record and the old contents of its files are written in one transaction: by
hash, compressed, within a budget of bytes. Equal contents are stored once. When the budget is used up, the least
recently used images are removed; a call without its images cannot be undone, and undo reports that. Images are true
copies: a secret in a file is in its image too, so the journal is readable by its owner only.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `records.py`

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from handrail.files.versions import hash_bytes
from handrail.journal.records import FILE, SCHEMA, VERSION, hashed_columns
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


GENESIS = "0" * 64
_ANCHOR = re.compile(rb"([0-9]{20}) ([0-9a-f]{64})\n")
_LENGTH = 86
_encoder = json.JSONEncoder(separators=(",", ":"), default=bytes.hex)


class ChainEntry(NamedTuple):
    """One entry of the chain: its place and its hash."""

    n: int
    hash: str


class BrokenEntry(NamedTuple):
    """A place where the journal was changed."""

    seq: int
    """The number of the first call that is wrong or missing; 0 if it is none."""
    why: str


def entry_hash(before: str, n: int, seq: int, stage: str, content: Sequence[Any]) -> str:
    """Hash an entry: the hash before it, its number, and its contents."""
    text = _encoder.encode([before, n, seq, stage, content])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class Anchor:
    """The newest entry, kept outside the database. Never ahead of it: it is written after the commit."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    def read(self) -> ChainEntry | None:
        """The newest entry that is known; None if there is no anchor. One that cannot be read counts as a wrong one."""
        try:
            with open(self.path, "rb") as file:
                raw = file.read(_LENGTH + 1)
        except FileNotFoundError:
            return None
        return _parse_entry(raw)

    def move(self, to: ChainEntry) -> None:
        """Remember ``to``, unless another process has gone further."""
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            raw = os.pread(self._fd, _LENGTH, 0)
            match = _ANCHOR.fullmatch(raw)
            if not match or int(match[1]) < to.n:
                os.pwrite(self._fd, f"{to.n:020d} {to.hash}\n".encode("ascii"), 0)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _parse_entry(raw: bytes) -> ChainEntry:
    match = _ANCHOR.fullmatch(raw)
    return ChainEntry(int(match[1]), match[2].decode("ascii")) if match else ChainEntry(0, "unreadable")


_FAST = 1


class Packed(NamedTuple):
    """Contents on their way into the journal."""

    hash: str
    size: int
    data: bytes
    packed: bool


def pack_image(digest: str, raw: bytes) -> Packed:
    """Compressed, if that makes it smaller."""
    small = zlib.compress(raw, _FAST) if len(raw) > 64 else raw
    return Packed(digest, len(raw), small, True) if len(small) < len(raw) else Packed(digest, len(raw), raw, False)


def find_missing_images(db: sqlite3.Connection, hashes: Iterable[str]) -> list[str]:
    """Return the hashes that are not stored yet."""
    return [
        digest for digest in hashes if db.execute("SELECT 1 FROM images WHERE hash = ?", (digest,)).fetchone() is None
    ]


def store_images(
    db: sqlite3.Connection, seq: int, contents: Mapping[str, bytes], ready: Mapping[str, Packed], most: int
) -> int:
    """Inside a transaction: store the images; return the added bytes. Images beyond ``most`` are skipped."""
    added = 0
    for digest, raw in contents.items():
        if db.execute("UPDATE images SET used = ? WHERE hash = ?", (seq, digest)).rowcount:
            continue
        one = ready.get(digest) or pack_image(digest, raw)  # gone since we looked
        if len(one.data) > most:
            continue
        row = (digest, one.size, len(one.data), seq, one.packed, one.data)
        db.execute("INSERT INTO images VALUES (?, ?, ?, ?, ?, ?)", row)
        added += len(one.data)
    return added


def trim_images(db: sqlite3.Connection, over: int, seq: int) -> int:
    """Inside a transaction: let the oldest go until ``over`` bytes are free; how many were freed."""
    freed = 0
    while freed < over:
        oldest = db.execute("SELECT hash, stored FROM images WHERE used < ? ORDER BY used LIMIT 16", (seq,)).fetchall()
        if not oldest:
            break
        for digest, stored in oldest:
            if freed >= over:
                break
            db.execute("DELETE FROM images WHERE hash = ?", (digest,))
            freed += stored
    return freed


def load_images(db: sqlite3.Connection, digests: Iterable[str]) -> dict[str, bytes]:
    """Load the contents that are still stored and unchanged."""
    contents: dict[str, bytes] = {}
    for digest in digests:
        row = db.execute("SELECT packed, data FROM images WHERE hash = ?", (digest,)).fetchone()
        if row is None:
            continue
        try:
            raw = zlib.decompress(row[1]) if row[0] else bytes(row[1])
        except (zlib.error, TypeError):
            continue
        if hash_bytes(raw) == digest:
            contents[digest] = raw
    return contents
