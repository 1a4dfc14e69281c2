"""The database of the journal: opening and preparing it, and one write transaction at a time.

Each transaction takes the write lock first (`BEGIN IMMEDIATE`), reads the last hash and adds to the chain, so the order
is that of the numbers, whatever the clocks say.

The hash chain: every entry has the hash of the one before, so that changed, missing and added entries are detected. The
last hash is also in the table `head` and in a small file next to the database, the anchor. This detects changed rows,
rows deleted or added in the middle, and rows deleted at the end, with or without a reset of `head`. It does not detect
somebody who can write all of these and recomputes every hash, because there is no secret in it, or who deletes both
database and anchor. A power failure may lose the newest rows if the anchor was written to the disk before them; this is
reported as a loss, too.

Records of calls that change nothing are appended to a file first (`spool.py`), and moved into the tables before
anything else is written or read.

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
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple
from urllib.parse import quote

from handrail.journal.packing import ImagePacker, Packed, unpack_image
from handrail.journal.records import BEGIN, END, FILE, SCHEMA, VERSION, read_hashed_columns
from handrail.journal.spool import (
    KEY,
    START,
    WORKSPACE,
    Spooled,
    get_spool_path,
    has_spooled,
    parse_hash,
    parse_spool,
    read_moved,
)
from handrail.secrets.masking import Mask

_WAIT = 10.0
_WAL_KEPT = 16 << 20
MOST_ROWS = 128
"""With so many rows the spool is emptied, and with so many bytes."""
MOST_BYTES = 1 << 20
_LARGEST_SPOOL = 64 << 20
"""A spool that cannot be emptied takes no more than that."""
DAMAGED = ".damaged-"
"""Behind the name of a database that was set aside; the time follows."""
FileIdentity = tuple[int, int]
_MOST_VERSIONS = 1000
_MOST_ENTRIES = 1 << 62
_MISFITS = ("no such table", "no such column", "has no column")
WHOLE = f"seq, {BEGIN}, {END}"
_CHAIN = "n, seq, stage, hash"
_FILES = f"seq, attempt, {FILE}, after, after_mode"


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction, unless SQLite has done so itself, as on a full disk."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class DamagedJournal(sqlite3.DatabaseError):
    """The database is not what was written."""


class ReplacedJournal(sqlite3.OperationalError):
    """Another file lies at the path by now."""


def is_damage(error: Exception) -> bool:
    """Whether an error of the database says that its file is damaged: nothing will ever be written to it again."""
    if isinstance(error, DamagedJournal):
        return True
    if not isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # Our own statements fit our own tables: if they do not, the schema or a number in the database was changed.
    misfit = isinstance(error, sqlite3.OperationalError) and any(words in str(error) for words in _MISFITS)
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT) or misfit


def is_empty(path: str) -> bool:
    """Whether there is a file without any contents."""
    try:
        return os.stat(path).st_size == 0
    except FileNotFoundError:
        return False


def read_identity(path: str) -> FileIdentity | None:
    """Which file lies at a path; None if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # not there, or a name that no file can have
        return None
    return status.st_dev, status.st_ino


def set_aside(path: str, damaged: FileIdentity | None) -> str:
    """Give a damaged database another name, unless another process has done so; that name. Raises `OSError`."""
    spool = Spool(path)
    spool.open()
    try:
        lock_file(spool.fd, _WAIT)
        if damaged is None or read_identity(path) != damaged:
            return ""
        name = f"{path}{DAMAGED}{time.time_ns()}"
        for suffix in ("-wal", "-shm", ".anchor", ""):  # the database comes last: until then this can be done again
            with contextlib.suppress(FileNotFoundError):
                os.rename(path + suffix, name + suffix)
        return name
    finally:
        spool.close()


def list_set_aside(path: str) -> list[str]:
    """The damaged databases that were set aside from this path, the oldest first."""
    place, name = os.path.split(path)
    try:
        names = os.listdir(place)
    except OSError:
        return []
    wanted = re.compile(re.escape(name + DAMAGED) + r"\d+")
    return sorted(os.path.join(place, one) for one in names if wanted.fullmatch(one))


class _Connection(sqlite3.Connection):
    """A connection that knows its process, and can be referred to weakly."""

    pid = 0


_decode_text: Callable[[bytes], str] = partial(str, encoding="utf-8", errors="backslashreplace")
"""A byte that was flipped on the disk spoils its own text, and not the query."""
_opened: list[weakref.ref[_Connection]] = []


def connect(path: str, **parameters: str) -> sqlite3.Connection:
    """Open the journal at ``path``, with these parameters of a URI.

    Nothing but SQLite may open the file or its `-shm`: when any descriptor of them is closed, the system drops the
    locks of the whole process, and whoever closes the journal next deletes a log that is still being written to.
    """
    close_inherited()
    words = "&".join(f"{name}={quote(os.fsencode(value))}" for name, value in parameters.items())
    uri = f"file://{quote(os.fsencode(path))}?{words}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False, factory=_Connection
    )
    connection.pid = os.getpid()
    connection.text_factory = _decode_text
    _opened.append(weakref.ref(connection, _opened.remove))
    return connection


def close_inherited() -> None:
    """Close the connections that came through a fork: SQLite believes that it holds the parent's locks here, too."""
    for known in _opened[:]:
        connection = known()
        if connection is not None and connection.pid != os.getpid():
            connection.close()


class Database:
    """An open database and its state."""

    def __init__(self, path: str) -> None:
        self.path = path
        _require_possible(path)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self.anchor = Anchor(path + ".anchor")
        self.spool = Spool(path)
        self._move_at = MOST_ROWS
        self._pid = os.getpid()
        with contextlib.ExitStack() as undo:
            self._lock_out_others()  # so that nobody sets the file aside meanwhile
            undo.callback(self.spool.close)
            known = self.anchor.read()  # before the database is looked at: it may only be behind
            if known and known.n and is_empty(path):
                raise DamagedJournal("it is empty")
            # Only its owner may read it, whatever the umask; SQLite gives its helper files the same mode.
            self.connection = connect(path, modeof=self.spool.path)
            undo.callback(self.connection.close)
            self._prepare()
            self.mask = Mask(self._read_salt())
            self._read_head()
            self.file = read_identity(path)
            """Which file it is: the path may lead to another one later."""
            self._let_others_in()
            self._note_loss(known)
            if has_spooled(path):
                self.move_spooled()
            undo.pop_all()

    def _prepare(self) -> None:
        run = self.connection.execute
        version = run("PRAGMA user_version").fetchone()[0]
        if not 0 <= version <= _MOST_VERSIONS:
            raise DamagedJournal("its format is unknown")
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
                roll_back(self.connection)
                raise
        run("PRAGMA synchronous = NORMAL")
        run(f"PRAGMA journal_size_limit = {_WAL_KEPT}")

    def _read_salt(self) -> bytes:
        row = self.connection.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone()
        if not row or not isinstance(row[0], bytes):
            raise DamagedJournal("its salt is missing")
        return row[0]

    def _note_loss(self, known: ChainEntry | None) -> None:
        """Write down, for good, that entries which the anchor knows are not there."""
        if known is None or self._has(known):
            return
        with self.writing(spool=False) as head:  # that entries are missing comes before those that follow
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
        return not self.inherited() and read_identity(self.path) == self.file

    @contextlib.contextmanager
    def writing(self, *, spool: bool = True) -> Iterator[Head]:
        """One transaction, alone among all processes; the anchor follows when it is done.

        The rows of the ``spool`` come first, because they are older.
        """
        run = self.connection.execute
        spool_bytes = self._lock_out_others()
        try:
            if read_identity(self.path) != self.file:
                raise ReplacedJournal("another journal lies at its path by now")
            run("BEGIN IMMEDIATE")
            try:
                head = self._read_head()
                waiting = spool and (spool_bytes or not self.spool.checked)
                spooled = self.spool.read(self.connection, begins=head.n == 0) if waiting else None
                if spooled:
                    self._add_spooled(head, spooled)
                yield head
                run("UPDATE head SET n = ?, seq = ?, hash = ?, kept = ?", (head.n, head.seq, head.hash, head.kept))
                run("COMMIT")
            except BaseException:
                roll_back(self.connection)
                raise
            if spooled:
                self.spool.clear(spooled)
                self._move_at = MOST_ROWS
            self.anchor.move(ChainEntry(head.n, head.hash))
        finally:
            self._let_others_in()
        if head.trimmed:
            run("PRAGMA incremental_vacuum(256)").fetchall()

    def _lock_out_others(self) -> int:
        """Keep out all other processes that write, by the lock of the spool; the size of that."""
        spool = self.spool
        while True:
            if spool.fd < 0:
                spool.open()
            try:
                lock_file(spool.fd, _WAIT)
            except TimeoutError:
                raise sqlite3.OperationalError("database is locked") from None
            status = os.fstat(spool.fd)
            if status.st_nlink:
                return status.st_size
            spool.close()  # removed, together with the journal

    def _let_others_in(self) -> None:
        fcntl.flock(self.spool.fd, fcntl.LOCK_UN)

    def append(self, row: Sequence[Any]) -> None:
        """Put the row of a call that changed nothing on record; it gets its number when it is moved."""
        size = self._lock_out_others()
        try:
            self.spool.append(row, size)
        finally:
            self._let_others_in()
        if self.spool.rows >= self._move_at or self.spool.size >= MOST_BYTES * (self._move_at // MOST_ROWS):
            try:
                self.move_spooled()
            except sqlite3.OperationalError:  # locked: the row is on record, and is moved some other time
                self._move_at *= 2

    def move_spooled(self) -> None:
        """Move the rows of the spool into the tables."""
        with self.writing():
            pass

    def _add_spooled(self, head: Head, spooled: Spooled) -> None:
        if not spooled.intact:
            head.n += 1
            self.insert("lost", "n, time, anchor_n, anchor_hash", (head.n, time.time_ns(), 0, spooled.last))
            head.enter(0, "lost", [0, spooled.last])
        calls = [(head.next_call(), *row) for row in spooled.rows]
        self.connection.executemany(_build_insert("calls", WHOLE), calls)
        entries = [head.extend(call[0], "whole 0", [call[1:], []]) for call in calls]
        self.connection.executemany(_build_insert("chain", _CHAIN), entries)
        self.spool.note_moved(self.connection, spooled)

    def _read_head(self) -> Head:
        row = self.connection.execute("SELECT n, seq, hash, kept FROM head").fetchone()
        if not row or [type(value) for value in row] != [int, int, str, int]:
            raise DamagedJournal("the end of its chain is missing")
        if not (0 <= row[0] < _MOST_ENTRIES and 0 <= row[1] < _MOST_ENTRIES):
            raise DamagedJournal("the end of its chain is unreadable")
        return Head(self, *row)

    def insert(self, table: str, columns: str, values: Sequence[Any]) -> None:
        self.connection.execute(_build_insert(table, columns), values)

    def add_files(
        self, seq: int, attempt: int, rows: Sequence[Sequence[Any]], afters: Sequence[Sequence[Any]] = ()
    ) -> None:
        for place, row in enumerate(rows):
            after = afters[place] if afters else (None, None)
            self.insert("files", _FILES, (seq, attempt, *row, *after))

    def close(self) -> None:
        if self.spool.rows and not self.inherited():
            with contextlib.suppress(sqlite3.Error, OSError):
                self.move_spooled()
        self.connection.close()
        self.spool.close()
        self.anchor.close()


class Spool:
    """The spool beside a database. All but `open` and `close` is called under the lock of its file."""

    def __init__(self, path: str) -> None:
        self.path = get_spool_path(path)
        self.fd = -1
        self.rows = 0
        """Lines in it, as far as this process knows."""
        self.checked = False
        """Whether it was compared with the database since it was opened."""
        self._anchor = -1
        self._size = -1
        self._last = START

    @property
    def size(self) -> int:
        """Bytes that wait to be moved."""
        return max(0, self._size)

    def open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self.fd = os.open(self.path, flags | os.O_APPEND, 0o600)
        self._anchor = os.open(self.path + ".anchor", flags, 0o600)
        self._size = -1
        self.checked = False

    def append(self, row: Sequence[Any], size: int) -> None:
        """Put a row of `calls`, without its number, on record; ``size``: of the spool now."""
        text = _encoder.encode([*row[:WORKSPACE], row[WORKSPACE].decode("latin-1"), *row[WORKSPACE + 1 :]])
        self._catch_up(size)
        if self._size > _LARGEST_SPOOL:
            raise OSError(errno.EFBIG, "the journal has been locked for too long")
        digest = hashlib.sha256((self._last + text).encode("ascii")).hexdigest()
        line = f"{digest} {text}\n".encode("ascii")
        try:
            written = os.write(self.fd, line)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self.fd, self._size)
            raise
        os.pwrite(self._anchor, digest.encode("ascii"), 0)
        self._size += len(line)
        self._last = digest
        self.rows += 1

    def read(self, db: sqlite3.Connection, *, begins: bool) -> Spooled | None:
        """The rows that ``db`` does not have yet; None if there are none and none are missing.

        ``begins``: the database is a new one, so that it does not know the line before the first.
        """
        self.checked = True
        self._catch_up(os.fstat(self.fd).st_size)
        moved = read_moved(db)
        anchor = parse_hash(os.pread(self._anchor, 64, 0))
        if not self._size and (begins or anchor in ("", moved)):
            return None
        return parse_spool(_read_all(self.fd), moved, anchor, begins=begins)

    def note_moved(self, db: sqlite3.Connection, spooled: Spooled) -> None:
        """In the transaction that adds the rows to the database."""
        db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (KEY, spooled.last))

    def clear(self, spooled: Spooled) -> None:
        """When that transaction is over."""
        self._last = spooled.last
        os.pwrite(self._anchor, self._last.encode("ascii"), 0)
        os.ftruncate(self.fd, 0)
        self._size = self.rows = 0

    def close(self) -> None:
        for fd in (self.fd, self._anchor):
            if fd >= 0:
                os.close(fd)
        self.fd = self._anchor = self._size = -1

    def _catch_up(self, size: int) -> None:
        """Find the end again after other processes wrote, and drop a line that was not written to its end."""
        if size == self._size and os.pread(self._anchor, 64, 0) == self._last.encode("ascii"):
            return
        raw = _read_all(self.fd)
        end = raw.rfind(b"\n") + 1
        if end < len(raw):
            os.ftruncate(self.fd, end)
        self._size, self.rows = end, raw.count(b"\n")
        start = raw.rfind(b"\n", 0, max(0, end - 1)) + 1
        ending = raw[start : start + 64] if end else os.pread(self._anchor, 64, 0)
        self._last = parse_hash(ending) or START


def _read_all(fd: int) -> bytes:
    size, parts, at = os.fstat(fd).st_size, [], 0
    while at < size and (part := os.pread(fd, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def lock_file(fd: int, seconds: float) -> None:
    """Lock an open file for this process alone. Raises `OSError`, which is `TimeoutError` if it takes so long."""
    pause, until = 0.0005, 0.0
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            until = until or now + seconds
            if now > until:
                raise TimeoutError(errno.ETIMEDOUT, "it is locked") from None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        else:
            return


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
        self.enter(seq, stage, read_hashed_columns(self._opened.connection, seq, stage) if content is None else content)

    def extend(self, seq: int, stage: str, content: Sequence[Any]) -> tuple[int, int, str, str]:
        """The next entry, for the table."""
        self.n += 1
        self.hash = hash_entry(self.hash, self.n, seq, stage, content)
        return self.n, seq, stage, self.hash

    def enter(self, seq: int, stage: str, content: Sequence[Any]) -> None:
        self.hash = hash_entry(self.hash, self.n, seq, stage, content)
        self._opened.insert("chain", _CHAIN, (self.n, seq, stage, self.hash))


@cache
def _build_insert(table: str, columns: str) -> str:
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


def hash_entry(before: str, n: int, seq: int, stage: str, content: Sequence[Any]) -> str:
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


def find_missing_images(db: sqlite3.Connection, hashes: Iterable[str]) -> list[str]:
    """Return the hashes that are not stored yet."""
    return [
        digest for digest in hashes if db.execute("SELECT 1 FROM images WHERE hash = ?", (digest,)).fetchone() is None
    ]


def store_images(
    db: sqlite3.Connection,
    seq: int,
    contents: Mapping[str, bytes],
    ready: Mapping[str, Packed],
    packer: ImagePacker,
    most: int,
) -> int:
    """Inside a transaction: store the images; return the added bytes. Images beyond ``most`` are skipped."""
    added = 0
    for digest, raw in contents.items():
        if db.execute("UPDATE images SET used = ? WHERE hash = ?", (seq, digest)).rowcount:
            continue
        one = ready.get(digest) or packer.pack(digest, raw)  # gone since we looked
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


SHIPPED = "ship:"
"""Prefix of the keys in `meta` that say how far the journal was shipped: JSON with the entry `n` and the call `seq`."""
MOST_UNSHIPPED = 2
"""What is not in the shared journal yet is removed when it exceeds the limits of the journal by this factor."""


class Shipped(NamedTuple):
    """The newest entry and the newest call that are in every shared journal."""

    n: int
    seq: int


def read_shipped(db: sqlite3.Connection) -> Shipped | None:
    """How far the journal was shipped; None if it is not shipped."""
    known = []
    for (text,) in db.execute("SELECT value FROM meta WHERE key >= ? AND key < ?", (SHIPPED, SHIPPED[:-1] + ";")):
        try:
            state = json.loads(text)
            known.append(Shipped(int(state["n"]), int(state["seq"])))
        except (ValueError, TypeError, KeyError):
            known.append(Shipped(0, 0))
    return Shipped(min(one.n for one in known), min(one.seq for one in known)) if known else None


def load_images(db: sqlite3.Connection, digests: Iterable[str]) -> dict[str, bytes]:
    """Load the contents that are still stored and unchanged."""
    contents: dict[str, bytes] = {}
    for digest in digests:
        try:
            row = db.execute("SELECT packed, data FROM images WHERE hash = ?", (digest,)).fetchone()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            row = None
        raw = unpack_image(digest, row[1], bool(row[0])) if row and isinstance(row[1], bytes) else None
        if raw is not None:
            contents[digest] = raw
    return contents
