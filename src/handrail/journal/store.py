"""The journal as a file: SQLite in WAL mode, one short write transaction a change, many processes at once.

The record of a call that changed nothing is a line in a file beside it (`spool.py`), which is moved into SQLite later.

A process that is killed leaves whole records or none. Commits are not synced one by one: a power cut may cost the
newest records, never the older ones nor the database. A journal that cannot be opened stops nothing, unless it is
required: the result of each call says why. A full disk stops every change. The sessions of one process share
one connection for each file. A journal that makes callers wait before it fails (locked by another program, a network
file system without locks) is left alone for a while, so that not every call waits for it again.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `records.py`

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import TypeVar

from handrail.drafts import IN_DRAFT
from handrail.files.versions import Change
from handrail.journal import BeforeImage, JournalFailed, MovedEntry, Origin, PendingRecord, Record, Token
from handrail.journal.database import (
    MOST_UNSHIPPED,
    WHOLE,
    Database,
    FileIdentity,
    Head,
    ReplacedJournal,
    find_missing_images,
    is_damage,
    read_identity,
    read_shipped,
    set_aside,
    store_images,
    trim_images,
)
from handrail.journal.packing import ImagePacker, Packed
from handrail.journal.records import (
    BEGIN,
    END,
    as_stored,
    begin_row,
    collect_replaced,
    end_row,
    escape_surrogates,
    make_after_row,
    make_file_rows,
    split_changes,
)
from handrail.journal.retention import EVERY, MOST_CALLS, remove_oldest

T = TypeVar("T")

BUDGET = 1 << 30
_LONGEST_NAME = 200
_BEGUN = f"seq, {BEGIN}"
_ENDED = ", ".join(f"{name} = ?" for name in END.split(", "))


def get_default_path(state: str) -> str:
    """Where the journal of a user lies, below the state directory. A process in a named draft has one of its own.

    What happens there does not happen in the workspace, until it is kept.
    """
    draft = os.environ.get(IN_DRAFT, "")
    name = f"draft-{draft}.db" if re.fullmatch(r"[0-9a-f]{16}", draft) else "journal.db"
    return os.path.join(state, "journal", name)


class SqliteJournal:
    """A journal in one file. Made and opened when the first record comes."""

    def __init__(
        self,
        path: str,
        *,
        required: bool = False,
        budget: int = BUDGET,
        most_calls: int = MOST_CALLS,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path = os.path.abspath(path)
        self.required = required
        """Whether changes that cannot be recorded are refused; if not, a failure is only reported."""
        self.budget = budget
        self._most_calls = most_calls
        self._clock = clock
        self._writer = Writer(self.path)
        self._packer = ImagePacker()
        self._named: dict[tuple[str, str], str] = {}
        self._named_in: FileIdentity | None = None
        self._unchecked = EVERY
        """Calls since the size of the journal was looked at; the first call of a process looks at it, too."""

    @property
    def failure(self) -> str:
        """Why the journal could not be used the last time; empty if it could, or was not used yet."""
        return self._writer.failure

    def take_damage(self) -> str:
        """The name of a damaged database that was set aside since this was asked last; empty if there is none."""
        return self._writer.take_damage()

    def require(self) -> None:
        """Raise `JournalFailed` if the journal cannot be opened now."""
        try:
            self._use(lambda _: None)
        except (sqlite3.Error, OSError) as error:
            raise JournalFailed(journal=self.path, why=get_reason(error)) from None

    def begin(self, pending: PendingRecord, token: Token | None = None) -> Token:
        try:
            return self._begin(pending, token)
        except (sqlite3.Error, OSError) as error:
            must = self.required or any(isinstance(one, Change) and one.keep for one in pending.changes)
            if must or is_disk_full(error):  # no file tool can change anything then, and no command should
                raise JournalFailed(journal=self.path, why=get_reason(error)) from None
            return Token(token.seq if token else 0, -1, (), warning=get_reason(error))

    def record(self, record: Record) -> str:
        try:
            self._record(record)
            self._remove_oldest()
        except (sqlite3.Error, OSError) as error:
            return get_reason(error)
        return ""

    def close(self) -> None:
        self._writer.close()

    def _use(self, work: Callable[[Database], T]) -> T:
        return self._writer.use(work)

    def _begin(self, pending: PendingRecord, token: Token | None) -> Token:
        changes = split_changes(pending.changes)
        contents = collect_replaced(changes)
        ready = self._pack_missing(contents)
        big = {digest for digest, one in ready.items() if len(one.data) > self._limit_image()}
        must = any(isinstance(one, Change) and one.keep for one in pending.changes)
        if must and (big or sum(len(one.data) for one in ready.values()) > self.budget):
            raise JournalFailed(journal=self.path, why="it is larger than the journal may store")

        def write(db: Database) -> Token:
            with db.writing() as head:
                if token and token.seq and token.file == db.file:
                    seq, attempt = token.seq, token.attempt + 1
                else:
                    seq, attempt = head.next_call(), 0
                    db.insert("calls", _BEGUN, (seq, *begin_row(pending, self._clock(), db.mask)))
                    self._name_source(db, pending.origin)
                db.add_files(seq, attempt, make_file_rows(changes))
                self._keep(db, head, seq, contents, ready)
                head.chain(seq, f"begin {attempt}")
            return Token(seq, attempt, tuple(changes), unkept=tuple(unkept), file=db.file)

        unkept = [_display_path(change) for change in changes if big and big & collect_replaced([change]).keys()]
        return self._use(write)

    def _record(self, record: Record) -> None:
        token = record.token
        if token and token.seq and token.attempt >= 0:
            self._use(lambda db: self._end(db, record, token))
            return
        changes = split_changes(record.changes)
        ready = self._pack_missing(collect_replaced(changes))
        self._use(lambda db: self._record_complete(db, record, changes, ready))

    def _remove_oldest(self) -> None:
        self._unchecked += 1
        if self._unchecked >= EVERY:
            self._unchecked = 0
            self._use(lambda db: remove_oldest(db, self._most_calls, self.budget))

    def _end(self, db: Database, record: Record, token: Token) -> None:
        if token.file != db.file:  # set aside meanwhile
            self._record_complete(db, record, list(token.changes), {})
            return
        end = end_row(record, self._clock(), db.mask)
        committed, withdrawn = bool(record.changes), token.withdrawn
        with db.writing() as head:
            known = db.connection.execute(
                "SELECT before, planned FROM files WHERE seq = ? AND attempt = ? ORDER BY place",
                (token.seq, token.attempt),
            ).fetchall()
            for place, (change, was) in enumerate(zip(token.changes, known, strict=False)):
                db.connection.execute(
                    "UPDATE files SET after = ?, after_mode = ? WHERE seq = ? AND attempt = ? AND place = ?",
                    (*make_after_row(change, was[0], was[1], committed, withdrawn), token.seq, token.attempt, place),
                )
            update = f"UPDATE calls SET {_ENDED} WHERE seq = ?"
            recorded = db.connection.execute(update, (*end, token.seq)).rowcount > 0
            if recorded:
                head.chain(token.seq, f"end {token.attempt}")
        if not recorded:  # removed, because so many calls came after its beginning
            self._record_complete(db, record, list(token.changes), {})

    def _record_complete(
        self,
        db: Database,
        record: Record,
        changes: list[Change | BeforeImage | MovedEntry],
        ready: dict[str, Packed],
    ) -> None:
        """A call that changed nothing, or whose beginning could not be written down."""
        end = end_row(record, self._clock(), db.mask)
        begun = self._clock() - int(record.result.time_ms * 1e6)
        row = (*begin_row(record, begun, db.mask), *end)
        if not record.changes and as_stored(row):
            if self._list_unnamed(db, record.origin):
                with db.writing():
                    self._name_source(db, record.origin)
            db.append(row)
            return
        with db.writing() as head:
            seq = head.next_call()
            db.insert("calls", WHOLE, (seq, *row))
            self._name_source(db, record.origin)
            rows = make_file_rows(changes)
            # The change is made already: the mode that stands there now is the one that it kept.
            withdrawn = record.token is not None and record.token.withdrawn
            afters = [
                make_after_row(change, row[3], row[5], True, withdrawn)
                for change, row in zip(changes, rows, strict=True)
            ]
            db.add_files(seq, 0, rows, afters)
            self._keep(db, head, seq, collect_replaced(changes), ready)
            head.chain(seq, "whole 0")

    def _list_unnamed(self, db: Database, origin: Origin) -> list[tuple[str, str]]:
        """The client and the model of a session, as far as they are not written down yet."""
        if self._named_in != db.file:
            self._named_in, self._named = db.file, {}
        names = (("client", origin.client), ("model", origin.model))
        return [(kind, name) for kind, name in names if name and self._named.get((kind, origin.session)) != name]

    def _name_source(self, db: Database, origin: Origin) -> None:
        """Write down once which client and model a session has; not part of the chain."""
        for kind, name in self._list_unnamed(db, origin):
            db.connection.execute(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                (f"{kind}:{origin.session}", escape_surrogates(name[:_LONGEST_NAME])),
            )
            self._named[kind, origin.session] = name

    def _pack_missing(self, contents: Mapping[str, bytes]) -> dict[str, Packed]:
        """Compress the images that are not stored yet, before the database is locked, because it may take a while."""
        if not contents:
            return {}
        missing = self._use(lambda db: find_missing_images(db.connection, contents))
        return {digest: self._packer.pack(digest, contents[digest]) for digest in missing}

    def _limit_image(self) -> int:
        """No single image may take more."""
        return self.budget // 2

    def _keep(self, db: Database, head: Head, seq: int, contents: dict[str, bytes], ready: dict[str, Packed]) -> None:
        if not contents:
            return
        head.kept += store_images(db.connection, seq, contents, ready, self._packer, self._limit_image())
        if head.kept > self.budget:
            head.trimmed = True
            shipped = read_shipped(db.connection)
            oldest_needed = seq if shipped is None else min(seq, shipped.seq + 1)
            head.kept -= trim_images(db.connection, head.kept - self.budget, oldest_needed)
            most = MOST_UNSHIPPED * self.budget
            if head.kept > most:  # the one who ships counts those that are gone
                head.kept -= trim_images(db.connection, head.kept - most, seq)


def _display_path(change: Change | BeforeImage | MovedEntry) -> str:
    return change.path.named if isinstance(change, Change) else change.path


_SLOW = 1.0
"""A failure that took this many seconds is not provoked again at once."""
_LONGEST_PAUSE = 30.0
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


_LONGEST_FORK = 10.0
"""A fork does not wait longer for a record."""


class _Forks:
    """Keeps forks out of transactions: the child would inherit half of one, and roll it back in shared memory."""

    def __init__(self) -> None:
        self.writers: list[weakref.ref[Writer]] = []
        self._lock = threading.Lock()
        self._paused: list[Writer] = []

    def before(self) -> None:
        self._lock.acquire()
        self._paused = [writer for writer in self._list_writers() if writer.pause()]

    def after_in_parent(self) -> None:
        for writer in self._paused:
            writer.resume()
        self._paused = []
        self._lock.release()

    def after_in_child(self) -> None:
        self._lock = threading.Lock()
        self._paused = []
        for writer in self._list_writers():
            writer.after_fork()

    def _list_writers(self) -> list[Writer]:
        return [writer for known in self.writers[:] if (writer := known()) is not None]


_forks = _Forks()
os.register_at_fork(before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_forks.after_in_child)


class Writer:
    """The connection of this process to the journal at a path."""

    def __init__(self, path: str, now: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.failure = ""
        """Why the journal could not be used the last time; empty if it could."""
        self._now = now
        self._lock = threading.Lock()
        self._open: Database | None = None
        self._retry_at = 0.0
        self._damage = ""
        _forks.writers.append(weakref.ref(self, _forks.writers.remove))

    def use(self, work: Callable[[Database], T]) -> T:
        """Do ``work`` on the database, one thread at a time. Raises `sqlite3.Error` or `OSError` if that fails."""
        with self._lock:
            begun = self._now()
            if begun < self._retry_at:
                raise sqlite3.OperationalError(self.failure)
            try:
                result = self._attempt(work)
            except (sqlite3.Error, OSError) as error:
                self._fail(error, self._now() - begun)
                raise
            self.failure = ""
            return result

    def _attempt(self, work: Callable[[Database], T]) -> T:
        """Do ``work``, if need be on a new database: a damaged one is set aside."""
        for last in (False, False, True):
            before = read_identity(self.path)
            try:
                return work(self._open_database())
            except sqlite3.Error as error:
                if last or not (is_damage(error) or isinstance(error, ReplacedJournal)):
                    raise
                self._drop()
                if is_damage(error):
                    self._damage = set_aside(self.path, before) or self._damage
        raise AssertionError("unreachable")

    def take_damage(self) -> str:
        """The name of a damaged database that was set aside since this was asked last; empty if there is none."""
        damage, self._damage = self._damage, ""
        return damage

    def close(self) -> None:
        """Let go of the file; it is opened again if it is needed."""
        with self._lock:
            self._drop()

    def pause(self) -> bool:
        """Wait for the record that is being written, and begin none; False if that takes too long."""
        return self._lock.acquire(timeout=_LONGEST_FORK)

    def resume(self) -> None:
        self._lock.release()

    def after_fork(self) -> None:
        """In the child: another thread of the parent may have held the lock, and does not exist here."""
        self._lock = threading.Lock()

    def _open_database(self) -> Database:
        """Open the database, again after a fork or if another file is at its path."""
        if self._open and not self._open.is_current():
            self._drop()
        if self._open is None:
            self._open = Database(self.path)
        return self._open

    def _fail(self, error: sqlite3.Error | OSError, seconds: float) -> None:
        self.failure = get_reason(error)
        if isinstance(error, sqlite3.DatabaseError):
            self._drop()
        if seconds >= _SLOW:
            self._retry_at = self._now() + min(10 * seconds, _LONGEST_PAUSE)

    def _drop(self) -> None:
        opened, self._open = self._open, None
        if opened:
            with contextlib.suppress(sqlite3.Error, OSError):
                opened.close()


def is_disk_full(error: sqlite3.Error | OSError) -> bool:
    """Whether the disk is full; SQLite calls a quota and a file that is too large an error in writing."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    return getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)


def get_reason(error: sqlite3.Error | OSError) -> str:
    """Return the system's error message."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)


def open_journal(path: str, *, required: bool, budget: int, most_calls: int, ship_to: str = "") -> SqliteJournal:
    """The journal at ``path``; all that are open at once share one connection. Never fails: the file is opened later.

    ``required``: nothing may be changed that cannot be recorded; if not, each result only carries a note that says why
    the journal could not be written. ``budget``: how many bytes the contents that were replaced may take in it, and
    the records as well; ``most_calls``: how many records it may have. ``ship_to``: the URL of a shared journal, to
    which records are sent in the background. Call `close` when no more records come.
    """
    return _SharedJournal(path, required=required, budget=budget, most_calls=most_calls, ship_to=ship_to)


class _Writers:
    """The writers that are in use, by the real path of their file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Writer, int]] = {}

    def acquire(self, path: str) -> Writer:
        with self._lock:
            writer, users = self._known.get(path) or (Writer(path), 0)
            self._known[path] = (writer, users + 1)
            return writer

    def release(self, writer: Writer) -> None:
        with self._lock:
            _, users = self._known[writer.path]
            if users > 1:
                self._known[writer.path] = (writer, users - 1)
                return
            del self._known[writer.path]
        writer.close()

    def after_fork(self) -> None:
        """In the child: another thread of the parent may have held the lock, and does not exist here."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)


_writers = _Writers()
os.register_at_fork(after_in_child=_writers.after_fork)


class _SharedJournal(SqliteJournal):
    """One session's view of a shared journal: its own limits, and the common connection."""

    def __init__(self, path: str, *, required: bool, budget: int, most_calls: int, ship_to: str) -> None:
        super().__init__(_resolve_path(path), required=required, budget=budget, most_calls=most_calls)
        self._shipper = None
        if ship_to:
            from handrail.journal.shipper import find_shipper
            from handrail.settings.journal_address import JournalAddress

            self._shipper = find_shipper(self.path, JournalAddress.parse(ship_to))
        self._closing = threading.Lock()
        self._closed = False
        self._writer = _writers.acquire(self.path)

    def _use(self, work: Callable[[Database], T]) -> T:
        with self._closing:
            # A call that was under way when its session was closed is recorded too.
            late = self._closed
            writer = _writers.acquire(self.path) if late else self._writer
        try:
            return writer.use(work)
        finally:
            if late:
                _writers.release(writer)
            if self._shipper:
                self._shipper.notify()

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
        _writers.release(self._writer)


def _resolve_path(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # no such path can be: opening it says why
        return path
