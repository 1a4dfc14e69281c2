"""The index of a journal: a SQLite database that is filled from the logs, and can be deleted at any time.

Whoever reads the journal brings the index up to date first: it knows how far it has read each log. An index that is
missing, damaged or of another version is made again. One that knows more than the logs is not: lines were lost, and
that is written down in the table `broken`.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `records.py`
from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple
from urllib.parse import quote

from handrail.journal import JournalFailed
from handrail.journal.log_lines import (
    GENESIS,
    MOST,
    ChainEntry,
    Head,
    LogLine,
    get_log_path,
    get_logs_path,
    list_logs,
    read_heads,
    read_lines,
)
from handrail.journal.logs import FORMAT, hash_text, lock_numbers, require_possible
from handrail.journal.records import BEGIN, CALL_COLUMNS, END, FILE, FILE_COLUMNS, RARE
from handrail.journal.rows import LogRows, make_upsert

VERSION = 6
CHANGED = "the row was changed"
_CUT = "rows are missing at the end (removed, or lost in a power failure)"
UNREADABLE = "the row is in its log, but cannot be read"
LOST = ".lost-"
"""Behind the name of an index whose logs are gone; the time follows."""
_WAIT = 10.0
_BATCH = 2_000
_SPOILED = "its format is not ours: a value was changed on the disk"
_PUT_CALL = make_upsert("calls", ["seq"], ["log", "entry", "changing", *CALL_COLUMNS[1:]], "?")
_TOUCHES = CALL_COLUMNS.index("touches") - 1
_RUN = '["run",'
"""Stands among the accesses of a call that has run a command."""
_PUT_FILE = make_upsert("files", ["seq", "attempt", "place"], FILE_COLUMNS[1:], "?")
_TABLES = f"""
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value NOT NULL);
CREATE TABLE IF NOT EXISTS logs (
    log INTEGER PRIMARY KEY, size INTEGER NOT NULL, n INTEGER NOT NULL, hash TEXT NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS removed (log INTEGER PRIMARY KEY, n INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS broken (log INTEGER, seq INTEGER, why TEXT, UNIQUE (log, seq, why));
CREATE TABLE IF NOT EXISTS calls (
    seq INTEGER PRIMARY KEY, log INTEGER, entry INTEGER, changing INTEGER, {BEGIN}, {END}
);
CREATE TABLE IF NOT EXISTS files (
    seq INTEGER NOT NULL, attempt INTEGER NOT NULL, {FILE}, after, after_mode, PRIMARY KEY (seq, attempt, place)
);
"""
_INDEXES = f"""
CREATE INDEX IF NOT EXISTS calls_session ON calls (session);
CREATE INDEX IF NOT EXISTS calls_workspace ON calls (workspace);
CREATE INDEX IF NOT EXISTS calls_rare ON calls (workspace) WHERE {RARE};
CREATE INDEX IF NOT EXISTS calls_changing ON calls (workspace) WHERE changing;
CREATE INDEX IF NOT EXISTS calls_changing_session ON calls (session) WHERE changing;
CREATE INDEX IF NOT EXISTS calls_entry ON calls (entry);
CREATE INDEX IF NOT EXISTS calls_id ON calls (call_id) WHERE call_id != '';
CREATE INDEX IF NOT EXISTS calls_figures ON calls (
    tool, status, error, call_id, given, said, answer_bytes, left_out, duration
);
CREATE INDEX IF NOT EXISTS files_path ON files (path);
"""


class BrokenEntry(NamedTuple):
    """A place where the journal was changed."""

    seq: int
    """The number of the first call that is wrong or missing; 0 if it is none."""
    why: str


class LostLogs(sqlite3.DatabaseError):
    """The index belongs to logs that are gone."""


class _Connection(sqlite3.Connection):
    """A connection that knows its process, and can be referred to weakly."""

    pid = 0


_opened: list[weakref.ref[_Connection]] = []


def connect(path: str, like: str = "") -> _Connection:
    """Open the database at ``path``, or one in memory if that is empty. A new file gets the mode of ``like``.

    Nothing but SQLite may open the file or its `-shm`: when any descriptor of them is closed, the system drops the
    locks of the whole process.
    """
    close_inherited()
    # Only its owner may read it, whatever the umask; SQLite gives its helper files the same mode.
    name = f"file://{quote(os.fsencode(path))}?modeof={quote(os.fsencode(like))}" if path else "file::memory:"
    connection = sqlite3.connect(
        name, uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False, factory=_Connection
    )
    connection.pid = os.getpid()
    # A byte that was flipped on the disk spoils its own text, and not the query.
    connection.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
    _opened.append(weakref.ref(connection, _opened.remove))
    return connection


def close_inherited() -> None:
    """Close the connections that came through a fork: SQLite believes that it holds the parent's locks here, too."""
    for known in _opened[:]:
        connection = known()
        if connection is not None and connection.pid != os.getpid():
            connection.close()


def list_lost(path: str) -> list[str]:
    """The indexes that were set aside because the logs that they knew are gone, the oldest first."""
    return sorted(one for one in glob.glob(f"{glob.escape(path)}{LOST}*") if one.rpartition(LOST)[2].isdigit())


class Index:
    """Executes queries on the newest records. Raises `JournalFailed` if there is no journal."""

    connection: _Connection

    def __init__(self, path: str) -> None:
        self.path = path
        self.directory = get_logs_path(path)
        self._file: tuple[int, int] | None = None
        """Which file was opened; None for a database in memory."""
        self._synced = b""
        try:
            require_possible(path)
            if not os.path.isfile(os.path.join(self.directory, "numbers")):
                raise JournalFailed(journal=path, why="there is no journal yet")
            self._open()
        except (sqlite3.Error, OSError) as error:
            raise JournalFailed(journal=path, why=str(error)) from None

    def execute(self, query: str, values: Sequence[object] = (), /) -> sqlite3.Cursor:
        try:
            return self.connection.execute(query, values)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.rebuild()
            return self.connection.execute(query, values)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Around queries: the newest records are read first, and errors of the database become `JournalFailed`."""
        try:
            if not self._is_current():
                self.close()
                self._open()
            elif not self.connection.in_transaction:
                self._sync()
            yield
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and is_damage(error):
                self.rebuild()
            raise JournalFailed(journal=self.path, why=str(error)) from None

    def list_broken(self) -> list[BrokenEntry]:
        """The places where the logs were changed, as far as they were read."""
        query = "SELECT DISTINCT seq, why FROM broken ORDER BY log, seq"
        return [BrokenEntry(*row) for row in self.execute(query)]

    def rebuild(self) -> None:
        """Make the index again, from the logs; what is known to be lost stays known."""
        known: list[Any] = []
        with contextlib.suppress(sqlite3.Error):
            known = self.connection.execute("SELECT log, seq, why FROM broken").fetchall()
        self.close()
        self._open(known)

    def close(self) -> None:
        with contextlib.suppress(AttributeError):  # none could be opened yet
            self.connection.close()

    def _open(self, known: Sequence[Any] | None = None) -> None:
        """Open the index; ``known``: make it first, with this damage."""
        try:
            for _ in range(2):
                try:
                    if known is not None:
                        set_aside(self.path, keep=False)
                    self._connect(self.path)
                    self.connection.executemany("INSERT OR IGNORE INTO broken VALUES (?, ?, ?)", known or ())
                    self._sync()
                    return
                except LostLogs:
                    self.close()
                    set_aside(self.path, keep=True)
                except sqlite3.Error as error:
                    self.close()
                    if not is_damage(error):
                        break
                    known = known or ()
        except OSError:
            pass
        self._connect("")  # a disk that is read-only, or no file can be made at this path
        self._sync()

    def _connect(self, path: str) -> None:
        self._synced, self._file = b"", None
        self.connection = connect(path, os.path.join(self.directory, "numbers"))
        run = self.connection.execute
        version = run("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"its format is {version}")
        if version == 0:
            run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = OFF")  # what is lost is read from the logs again
        if version == 0:
            with self._transaction():
                for statement in _TABLES.split(";"):
                    run(statement)
                run("INSERT OR IGNORE INTO meta VALUES ('salt', ?)", (_read_salt(self.directory),))
                run(f"PRAGMA user_version = {VERSION}")
        else:
            if run("SELECT value FROM meta WHERE key = 'salt'").fetchone() != (_read_salt(self.directory),):
                raise LostLogs("its logs are gone")
        if path:
            status = os.stat(path)
            self._file = status.st_dev, status.st_ino

    def _is_current(self) -> bool:
        """Whether this process opened the file that lies at the path."""
        if self.connection.pid != os.getpid():
            return False
        try:
            status = os.stat(self.path) if self._file else None
        except OSError:
            return False
        return status is None or (status.st_dev, status.st_ino) == self._file

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        try:
            yield
            run("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                if self.connection.in_transaction:
                    run("ROLLBACK")
            raise

    def _sync(self) -> None:
        """Read what the logs have gained. Raises `sqlite3.Error` or `OSError`."""
        if self._synced and _read_counters(self.directory) == self._synced:
            return
        counters = _read_counters(self.directory)
        known = self.connection.execute("SELECT value FROM meta WHERE key = 'synced'").fetchone()
        is_behind = known != (counters,)
        if not is_behind:
            counters, sizes, _ = self._measure_logs()
            is_behind = known != (counters,) or self._differs(sizes)
        if is_behind:
            with self._transaction():
                counters, sizes, heads = self._measure_logs()  # others may have written and read meanwhile
                _Reading(self).read(sizes, heads)
                self.connection.execute("INSERT OR REPLACE INTO meta VALUES ('synced', ?)", (counters,))
        self._synced = counters

    def _measure_logs(self) -> tuple[bytes, dict[int, int], dict[int, Head]]:
        """The counters, the sizes of all logs and their heads, while nobody writes."""
        with lock_numbers(self.directory):
            counters, heads = (
                _read_counters(self.directory),
                read_heads(self.directory),
            )  # first: never ahead of the logs
            return counters, {log: os.stat(path).st_size for log, path in list_logs(self.directory).items()}, heads

    def _differs(self, sizes: dict[int, int]) -> bool:
        """Whether a log is not as long as this index knows it: somebody else has changed it."""
        return any(sizes.get(log, -1) < known[0] for log, known in self.read_known().items())

    def read_known(self) -> dict[int, tuple[int, int, str, int, int]]:
        """What was read of each log: size, newest entry and its hash, first and last call."""
        rows = self.connection.execute("SELECT log, size, n, hash, first, last FROM logs").fetchall()
        if any([*map(type, row)] != [int, int, int, str, int, int] for row in rows):
            raise sqlite3.DatabaseError(_SPOILED)
        return {row[0]: row[1:] for row in rows}

    def _is_removed(self, log: int) -> bool:
        """Whether a log was removed by us: there were too many records, or it was repaired."""
        query = "SELECT 1 FROM removed WHERE log = ? UNION SELECT 1 FROM meta WHERE key = 'first log' AND value > ?"
        return self.connection.execute(query, (log, log)).fetchone() is not None


def _read_salt(directory: str) -> bytes:
    """What tells the logs of one journal from those of another."""
    with contextlib.suppress(FileNotFoundError), open(os.path.join(directory, "salt"), "rb") as file:
        return file.read(32)
    return b""


def _read_counters(directory: str) -> bytes:
    with contextlib.suppress(FileNotFoundError), open(os.path.join(directory, "numbers"), "rb", buffering=0) as file:
        return file.read(128)
    return b"none"


def _shorten(digest: str) -> bytes:
    return bytes.fromhex(digest[:16])


class ChainWalk:
    """Checks the entries of a hash chain one after the other, behind ``start``.

    It goes on behind an entry that is wrong: with the hash that is written there, or with the one that should be.
    """

    def __init__(self, start: ChainEntry, calls: int = 0) -> None:
        self.n, self._hashes = start.n, [start.hash]
        self.next_call = calls + 1
        """The number behind the newest call so far."""

    @property
    def hash(self) -> str:
        return self._hashes[0]

    def check(self, n: int, seq: int, digest: str, text: bytes, missing: bool = False) -> BrokenEntry | None:
        """Take the next entry; ``text``: what its hash covers; ``missing``: whether its row is not there."""
        before, self.n = self.n, n
        next_call = self.next_call
        self.next_call = max(seq + 1, next_call)
        if n != before + 1:
            self._hashes = [digest]
            return BrokenEntry(next_call, "one or more entries are missing before this one")
        expected = [hash_text(last, text) for last in self._hashes]
        if digest in expected:
            self._hashes = [digest]
            return None
        self._hashes = [digest, *expected]
        return BrokenEntry(seq, "the row is missing" if missing else CHANGED)

    def check_end(self, newest: ChainEntry) -> BrokenEntry | None:
        """Whether the last entry is the newest one."""
        if self.n != newest.n or newest.hash not in self._hashes:
            return BrokenEntry(self.next_call, "one or more rows are missing at the end")
        return None


def check_lines(
    path: str, walk: ChainWalk, start: int = 0, size: int = MOST
) -> Iterator[tuple[LogLine | None, BrokenEntry | None, int]]:
    """The lines of a log, as `read_lines` gives them, each with what is wrong with it or before it."""
    strange, end = False, start
    for line, end in read_lines(path, start, size):
        broken = walk.check(line.n, line.seq, line.hash, line.text) if line else None
        if line and strange:
            broken = broken or BrokenEntry(line.seq, "a line was added before this row")
        strange = line is None
        yield line, broken, end
    if strange:
        yield None, BrokenEntry(walk.next_call, "a line was changed, or one was added"), end


class _Reading:
    """One pass over the logs, inside a transaction."""

    def __init__(self, index: Index) -> None:
        self._run = index.connection.execute
        self._many = index.connection.executemany
        self._index = index
        self._rows = LogRows()
        self._entry = 0
        self._named: list[Any] = []
        """The heads that the first entries of logs name."""
        self._trails: dict[int, bytearray] = {}
        """The hashes of each log that was read from its beginning, shortened."""

    def read(self, sizes: dict[int, int], heads: Mapping[int, Head]) -> None:
        self._entry = self._run("SELECT coalesce(max(entry), 0) FROM calls").fetchone()[0]
        if type(self._entry) is not int:
            raise sqlite3.DatabaseError(_SPOILED)
        known = self._index.read_known()
        for log, size in sizes.items():
            if log not in known or size != known[log][0]:
                self._read_log(log, size, *known.get(log, (0, 0, GENESIS, 0, 0)))
        for log, (_, _, _, first, last) in known.items():
            if log in sizes:
                continue
            if self._index._is_removed(log):
                self._forget(log, first, last)
            else:
                self._report(log, BrokenEntry(first, f"{get_log_path(self._index.directory, log)} is missing"))
        for statement in _INDEXES.split(";"):
            self._run(statement)
        self._check_heads(heads)

    def _check_heads(self, heads: Mapping[int, Head]) -> None:
        """Report what heads name, in `numbers` and in the logs, and no log has."""
        logs = {row[0]: row[1:] for row in self._run("SELECT log, n, last FROM logs")}
        broken = {row[0] for row in self._run("SELECT log FROM broken")}
        named = [*((log, head.n, "", head.seq) for log, head in heads.items()), *((*one, 0) for one in self._named)]
        for log, n, digest, seq in named:
            count, last = logs.get(log, (-1, 0))
            if log in broken or (count < 0 and self._index._is_removed(log)):
                continue
            replaced = log in self._trails and digest and self._trails[log][8 * n - 8 : 8 * n] != _shorten(digest)
            if not (count < n or replaced):
                continue
            broken.add(log)
            path = get_log_path(self._index.directory, log)
            if count < 0:
                self._report(log, BrokenEntry(seq, f"{path} is missing"))
            elif count < n:
                self._report(log, BrokenEntry(last + 1, _CUT))
            else:
                self._report(log, BrokenEntry(last, f"{path} was replaced, or its end is lost"))

    def _read_log(self, log: int, size: int, start: int, n: int, digest: str, first: int, last: int) -> None:
        path = get_log_path(self._index.directory, log)
        if size < start:
            self._report(log, BrokenEntry(last, f"{path} is shorter than it was: the end of it is lost"))
            start, n, digest = 0, 0, GENESIS
        walk = ChainWalk(ChainEntry(n, digest), last)
        trail = bytearray()
        if not start:
            self._trails[log] = trail
        for line, broken, end in check_lines(path, walk, start, size):
            start = end
            if broken:
                self._report(log, broken)
            if line is None:
                continue
            trail += _shorten(line.hash)
            if broken and broken.why == CHANGED:  # nothing may be undone by it
                continue
            try:
                self._take(line)
            except (ValueError, TypeError, IndexError, KeyError, AttributeError):
                self._report(log, BrokenEntry(line.seq, UNREADABLE))
            if line.seq:
                first, last = min(first or line.seq, line.seq), max(last, line.seq)
            if len(self._rows.calls) >= _BATCH:
                self._flush(log)
        self._flush(log)
        row = (log, start, walk.n, walk.hash, first, last)
        self._run("INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?)", row)

    def _take(self, line: LogLine) -> None:
        if line.stage == "start":
            (version, *_), heads = line.content
            if version > FORMAT:
                raise sqlite3.OperationalError(f"it was written by a newer version of Handrail (format {version})")
            self._named.extend(heads)
        elif line.stage == "removed":
            (calls, first), logs = line.content
            named = [(key, int(value)) for key, value in (("removed", calls), ("first log", first)) if value]
            # Logs are read in the order of their numbers, which is not that of these entries.
            newest = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)"
            self._many(newest, named)
            self._many("INSERT OR REPLACE INTO removed VALUES (?, ?, ?)", logs)
        else:
            self._rows.take(line)

    def _flush(self, log: int) -> None:
        rows, self._rows = self._rows, LogRows()
        entries = list(accumulate([self._entry, *(is_over for _, is_over, _ in rows.calls)]))
        self._entry = entries[-1]
        changing = {seq for seq, _, _ in rows.files}
        changing |= {seq for seq, _, row in rows.calls if _RUN in (row[_TOUCHES] or "")}
        numbered = zip(rows.calls, entries[1:], strict=True)
        self._many(
            _PUT_CALL,
            (
                (seq, log, entry if is_over else None, (seq in changing) or None, *row)
                for (seq, is_over, row), entry in numbered
            ),
        )
        self._many(_PUT_FILE, ((seq, attempt, *row) for seq, attempt, row in rows.files))

    def _report(self, log: int, broken: BrokenEntry) -> None:
        self._run("INSERT OR IGNORE INTO broken VALUES (?, ?, ?)", (log, *broken))

    def _forget(self, log: int, first: int, last: int) -> None:
        """Remove the rows of a log that is gone, because there were too many calls."""
        numbers = "SELECT seq FROM calls WHERE seq BETWEEN ? AND ? AND log = ?"
        self._run(f"DELETE FROM files WHERE seq IN ({numbers})", (first, last, log))
        self._run("DELETE FROM calls WHERE seq BETWEEN ? AND ? AND log = ?", (first, last, log))
        self._run("DELETE FROM logs WHERE log = ?", (log,))
        self._run("DELETE FROM broken WHERE log = ?", (log,))


def set_aside(path: str, *, keep: bool) -> None:
    """Make room for a new index; ``keep``: the old one is all that is left of its logs."""
    name = f"{path}{LOST}{time.time_ns()}"
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            os.rename(path + suffix, name + suffix) if keep else os.unlink(path + suffix)


_MISFITS = ("no such table", "no such column", "has no column", "its format is")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error of the database says that its file is damaged, or is none of this version."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH)
    return code in damage or any(words in str(error) for words in _MISFITS)
