"""The index of a journal: a SQLite database that is filled from the logs, and can be deleted at any time.

Whoever reads the journal brings the index up to date first: it knows how far it has read each log. An index that is
damaged or of another version is made again. One that knows more than the logs is not: lines were lost, and that is
written down in the table `broken`.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `records.py`
from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from handrail.journal.log_lines import (
    GENESIS,
    ChainEntry,
    Head,
    LogLine,
    get_log_path,
    get_logs_path,
    list_logs,
    parse_line,
    read_heads,
)
from handrail.journal.logs import FORMAT, hash_text, lock_numbers
from handrail.journal.records import BEGIN, END, FILE

VERSION = 2
CHANGED = "the row was changed"
LOST = ".lost-"
"""Behind the name of an index whose logs are gone; the time follows."""
_WAIT = 10.0
_BATCH = 2_000
_BEGIN, _END, _FILE = (len(names.split(", ")) for names in (BEGIN, END, FILE))
_WORKSPACE = BEGIN.split(", ").index("workspace")
_BYTES = [place for place, name in enumerate(FILE.split(", ")) if name in ("path", "moved_from")]
_CALLS = f"seq, {BEGIN}, {END}, log, entry"
_FILES = f"seq, attempt, {FILE}, after, after_mode"
_PUT_CALL = f"INSERT OR REPLACE INTO calls ({_CALLS}) VALUES ({', '.join('?' * len(_CALLS.split(', ')))})"
_PUT_FILE = f"INSERT OR REPLACE INTO files ({_FILES}) VALUES ({', '.join('?' * len(_FILES.split(', ')))})"
_PUT_END = f"UPDATE calls SET {', '.join(f'{name} = ?' for name in END.split(', '))}, entry = ? WHERE seq = ?"
_PUT_AFTER = "UPDATE files SET after = ?, after_mode = ? WHERE seq = ? AND attempt = ? AND place = ?"
_TABLES = f"""
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value NOT NULL);
CREATE TABLE IF NOT EXISTS logs (
    log INTEGER PRIMARY KEY, id TEXT NOT NULL, size INTEGER NOT NULL, n INTEGER NOT NULL, hash TEXT NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS removed (log INTEGER PRIMARY KEY, n INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS broken (log INTEGER, seq INTEGER, why TEXT, UNIQUE (log, seq, why));
CREATE TABLE IF NOT EXISTS calls (seq INTEGER PRIMARY KEY, {BEGIN}, {END}, log INTEGER, entry INTEGER);
CREATE TABLE IF NOT EXISTS files (
    seq INTEGER NOT NULL, attempt INTEGER NOT NULL, {FILE}, after, after_mode, PRIMARY KEY (seq, attempt, place)
);
"""
_INDEXES = """
CREATE INDEX IF NOT EXISTS calls_session ON calls (session);
CREATE INDEX IF NOT EXISTS calls_workspace ON calls (workspace);
CREATE INDEX IF NOT EXISTS calls_entry ON calls (entry);
CREATE INDEX IF NOT EXISTS calls_id ON calls (call_id) WHERE call_id != '';
CREATE INDEX IF NOT EXISTS calls_figures ON calls (tool, status, error, given, said, answer_bytes, duration);
CREATE INDEX IF NOT EXISTS files_path ON files (path);
"""


class BrokenEntry(NamedTuple):
    """A place where the journal was changed."""

    seq: int
    """The number of the first call that is wrong or missing; 0 if it is none."""
    why: str


class _Connection(sqlite3.Connection):
    """A connection that knows its process, and can be referred to weakly."""

    pid = 0


_decode_text: Callable[[bytes], str] = partial(str, encoding="utf-8", errors="backslashreplace")
"""A byte that was flipped on the disk spoils its own text, and not the query."""
_opened: list[weakref.ref[_Connection]] = []


def connect(path: str, like: str = "") -> sqlite3.Connection:
    """Open the database at ``path``, or one in memory if that is empty. A new file gets the mode of ``like``.

    Nothing but SQLite may open the file or its `-shm`: when any descriptor of them is closed, the system drops the
    locks of the whole process.
    """
    close_inherited()
    # Only its owner may read it, whatever the umask; SQLite gives its helper files the same mode.
    mode = quote(os.fsencode(like or os.path.join(get_logs_path(path), "numbers")))
    name = f"file://{quote(os.fsencode(path))}?modeof={mode}" if path else "file::memory:"
    connection = sqlite3.connect(
        name, uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False, factory=_Connection
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


def list_lost(path: str) -> list[str]:
    """The indexes that were set aside because the logs that they knew are gone, the oldest first."""
    place, name = os.path.split(path)
    try:
        names = os.listdir(place)
    except OSError:
        return []
    wanted = re.compile(re.escape(name + LOST) + r"\d+")
    return sorted(os.path.join(place, one) for one in names if wanted.fullmatch(one))


class Index:
    """An open index."""

    def __init__(self, path: str, *, in_memory: bool = False) -> None:
        self.directory = get_logs_path(path)
        self._path = "" if in_memory else path
        self._synced = b""
        self.connection = connect(self._path)
        self.file: tuple[int, int] | None = None
        try:
            self._prepare()
        except BaseException:
            self.connection.close()
            raise
        if self._path:
            status = os.stat(self._path)
            self.file = status.st_dev, status.st_ino

    def _prepare(self) -> None:
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
            row = run("SELECT value FROM meta WHERE key = 'salt'").fetchone()
            if row != (_read_salt(self.directory),):
                raise LostLogs("its logs are gone")
            for table in ("logs", "removed", "broken", "calls", "files"):
                run(f"SELECT 1 FROM {table} LIMIT 1")

    def is_current(self) -> bool:
        """Whether this process opened the file that lies at the path."""
        if getattr(self.connection, "pid", 0) != os.getpid():
            return False
        try:
            status = os.stat(self._path) if self._path else None
        except OSError:
            return False
        return status is None or (status.st_dev, status.st_ino) == self.file

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

    def sync(self) -> _Reading | None:
        """Read what the logs have gained; None if that is nothing. Raises `sqlite3.Error` or `OSError`."""
        if self._synced and _read_counters(self.directory) == self._synced:
            return None
        counters, sizes = self._measure_logs()
        known = self.connection.execute("SELECT value FROM meta WHERE key = 'synced'").fetchone()
        reading = None
        if known != (counters,) or self._differs(sizes):
            with self._transaction():
                counters, sizes = self._measure_logs()  # others may have written and read meanwhile
                reading = _Reading(self.connection, self.directory)
                reading.read(sizes)
                self.connection.execute("INSERT OR REPLACE INTO meta VALUES ('synced', ?)", (counters,))
        self._synced = counters
        return reading

    def _measure_logs(self) -> tuple[bytes, dict[int, int]]:
        """The counters, and the sizes of all logs, while nobody writes."""
        with lock_numbers(self.directory):
            paths = list_logs(self.directory)
            return _read_counters(self.directory), {log: os.stat(path).st_size for log, path in paths.items()}

    def _differs(self, sizes: dict[int, int]) -> bool:
        """Whether a log is not as long as this index knows it: somebody else has changed it."""
        known = dict(self.connection.execute("SELECT log, size FROM logs").fetchall())
        return any(sizes.get(log, -1) < size for log, size in known.items())

    def close(self) -> None:
        self.connection.close()


class LostLogs(sqlite3.DatabaseError):
    """The index belongs to logs that are gone."""


def _read_salt(directory: str) -> bytes:
    """What tells the logs of one journal from those of another."""
    try:
        with open(os.path.join(directory, "salt"), "rb") as file:
            return file.read(32)
    except FileNotFoundError:
        return b""


def _read_counters(directory: str) -> bytes:
    try:
        fd = os.open(os.path.join(directory, "numbers"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b"none"
    try:
        return os.read(fd, 128)
    finally:
        os.close(fd)


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

    def skip(self, removed: ChainEntry) -> None:
        """Continue after entries that were removed before they were sent here."""
        self.n, self._hashes = removed.n, [removed.hash]

    def check(self, n: int, seq: int, digest: str, text: str, missing: bool = False) -> BrokenEntry | None:
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


class _Reading:
    """One pass over the logs, inside a transaction."""

    def __init__(self, connection: sqlite3.Connection, directory: str) -> None:
        self._run = connection.execute
        self._many = connection.executemany
        self._directory = directory
        self._entry = int(self._run("SELECT coalesce(max(entry), 0) FROM calls").fetchone()[0])
        self._calls: dict[int, list[Any]] = {}
        self._files: dict[tuple[int, int, int], list[Any]] = {}
        self.named: list[Any] = []
        """The heads that the first entries of logs name."""
        self.trail: dict[int, list[str]] = {}
        """The hashes of each log, shortened."""

    def read(self, sizes: dict[int, int]) -> None:
        known = {row[0]: row[1:] for row in self._run("SELECT log, size, n, hash, first, last FROM logs").fetchall()}
        for log, size in sizes.items():
            if log not in known or size != known[log][0]:
                self._read_log(log, size, *known.get(log, (0, 0, GENESIS, 0, 0)))
        self._flush()
        is_removed = find_removed(self._run)
        for log, (_, _, _, first, last) in known.items():
            if log not in sizes:
                if is_removed(log):
                    self._forget(log, first, last)
                else:
                    self._report(log, BrokenEntry(first, f"{get_log_path(self._directory, log)} is missing"))
        for statement in _INDEXES.split(";"):
            self._run(statement)

    def _read_log(self, log: int, size: int, start: int, n: int, digest: str, first: int, last: int) -> None:
        if size < start:
            why = f"{get_log_path(self._directory, log)} is shorter than it was: the end of it is lost"
            self._report(log, BrokenEntry(last, why))
            start, n, digest = 0, 0, GENESIS
        walk = ChainWalk(ChainEntry(n, digest), last)
        strange = False
        trail = self.trail[log] = []
        with open(get_log_path(self._directory, log), "rb") as file:
            file.seek(start)
            while start < size and (raw := file.readline()):
                if not raw.endswith(b"\n"):  # torn: its call was not answered, or its head says that it was
                    break
                start += len(raw)
                line = parse_line(raw[:-1])
                if line is None:
                    strange = True
                    continue
                broken = walk.check(line.n, line.seq, line.hash, line.text)
                if broken:
                    self._report(log, broken)
                elif strange:
                    self._report(log, BrokenEntry(line.seq, "a line was added before this row"))
                strange = False
                trail.append(line.hash[:16])
                if broken and broken.why == CHANGED:  # nothing may be undone by it
                    continue
                with contextlib.suppress(ValueError, TypeError, IndexError, KeyError, AttributeError):
                    self._take(log, line)
                if line.seq:
                    first, last = min(first or line.seq, line.seq), max(last, line.seq)
                if len(self._calls) >= _BATCH:
                    self._flush()
        if strange:
            self._report(log, BrokenEntry(walk.next_call, "a line was changed, or one was added"))
        row = (log, self._identify(log), start, walk.n, walk.hash, first, last)
        self._run("INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def _identify(self, log: int) -> str:
        with open(get_log_path(self._directory, log), "rb") as file:
            line = parse_line(file.readline()[:-1])
        try:
            return str(line.content[0][1]) if line and line.stage == "start" else ""
        except (IndexError, TypeError, KeyError):
            return ""

    def _take(self, log: int, line: LogLine) -> None:
        row, files = line.content
        stage, _, number = line.stage.partition(" ")
        attempt = int(number or 0)
        if stage in ("begin", "whole"):
            row[_WORKSPACE] = bytes.fromhex(row[_WORKSPACE])
            if stage == "begin":
                if attempt == 0:
                    self._calls[line.seq] = [line.seq, *_fit(row, _BEGIN), *[None] * _END, log, None]
                files = [[*_fit(one, _FILE), None, None] for one in files]
            else:
                self._calls[line.seq] = [line.seq, *_fit(row, _BEGIN + _END), log, self._next_entry()]
            for one in files:
                for place in _BYTES:
                    one[place] = bytes.fromhex(one[place]) if one[place] is not None else None
                self._files[line.seq, attempt, one[0]] = [line.seq, attempt, *_fit(one, _FILE + 2)]
        elif stage == "end":
            self._end(line.seq, attempt, _fit(row, _END), files)
        elif stage == "start":
            self._start(row, files)
        elif stage == "source":
            session, client, model = row
            names = [(f"client:{session}", client), (f"model:{session}", model)]
            self._many("INSERT OR REPLACE INTO meta VALUES (?, ?)", [pair for pair in names if pair[1]])
        elif stage == "removed":
            for key, value in (("removed", int(row[0])), ("first log", int(row[1]))):
                if value:
                    self._run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
            self._many("INSERT OR REPLACE INTO removed VALUES (?, ?, ?)", files)

    def _start(self, row: list[Any], heads: list[Any]) -> None:
        if row[0] > FORMAT:
            raise sqlite3.OperationalError(f"it was written by a newer version of Handrail (format {row[0]})")
        self.named.extend(heads)

    def _next_entry(self) -> int:
        self._entry += 1
        return self._entry

    def _end(self, seq: int, attempt: int, row: list[Any], files: list[Any]) -> None:
        if seq in self._calls:
            self._calls[seq][1 + _BEGIN :] = [*row, self._calls[seq][-2], self._next_entry()]
        else:
            self._flush()
            self._run(_PUT_END, (*row, self._next_entry(), seq))
        for place, after, mode in files:
            if (seq, attempt, place) in self._files:
                self._files[seq, attempt, place][-2:] = after, mode
            else:
                self._run(_PUT_AFTER, (after, mode, seq, attempt, place))

    def _flush(self) -> None:
        self._many(_PUT_CALL, self._calls.values())
        self._many(_PUT_FILE, self._files.values())
        self._calls, self._files = {}, {}

    def _report(self, log: int, broken: BrokenEntry) -> None:
        self._run("INSERT OR IGNORE INTO broken VALUES (?, ?, ?)", (log, *broken))

    def _forget(self, log: int, first: int, last: int) -> None:
        """Remove the rows of a log that is gone, because there were too many calls."""
        numbers = "SELECT seq FROM calls WHERE seq BETWEEN ? AND ? AND log = ?"
        self._run(f"DELETE FROM files WHERE seq IN ({numbers})", (first, last, log))
        self._run("DELETE FROM calls WHERE seq BETWEEN ? AND ? AND log = ?", (first, last, log))
        self._run("DELETE FROM logs WHERE log = ?", (log,))
        self._run("DELETE FROM broken WHERE log = ?", (log,))


def find_removed(run: Callable[..., sqlite3.Cursor]) -> Callable[[int], bool]:
    """Tells whether a log was removed, because there were too many records."""
    removed = {row[0] for row in run("SELECT log FROM removed")}
    first = run("SELECT value FROM meta WHERE key = 'first log'").fetchone()
    return lambda log: log in removed or (first is not None and log < first[0])


def _fit(row: Sequence[Any], length: int) -> list[Any]:
    if len(row) != length or any(isinstance(value, int) and value.bit_length() > 63 for value in row):
        raise ValueError
    return [*row]


def find_broken(path: str, index: Index) -> tuple[list[BrokenEntry], bool]:
    """The places where a journal was changed, and whether ``index`` says something else than the logs.

    All logs are read again. What only the index knows was lost.
    """
    heads = read_heads(get_logs_path(path))  # first: they are never ahead of the logs
    whole = Index(path, in_memory=True)
    try:
        known = index.connection.execute("SELECT seq, why FROM broken ORDER BY log, seq").fetchall()
        reading = whole.sync()
        current = whole.connection.execute("SELECT seq, why FROM broken ORDER BY log, seq").fetchall()
        broken = [BrokenEntry(*row) for row in dict.fromkeys([*current, *known])]
        broken += _check_heads(whole, heads, reading) if reading else []
        named = {one.seq for one in broken}
        differing = [one for one in _compare(whole.connection, path) if one.seq not in named] if index.file else []
        return [*broken, *differing], bool(differing) and not broken
    finally:
        whole.close()


def _check_heads(index: Index, heads: Mapping[int, Head], reading: _Reading) -> Iterator[BrokenEntry]:
    """The logs that end before their heads, or are missing though they were not removed."""
    run = index.connection.execute
    logs = {row[0]: row[1:] for row in run("SELECT log, n, last FROM logs")}
    is_removed = find_removed(run)
    damaged = {row[0] for row in run("SELECT log FROM broken")}
    for log, head in heads.items():
        if log in logs and log not in damaged and logs[log][0] < head.n:
            yield BrokenEntry(logs[log][1] + 1, "rows are missing at the end (removed, or lost in a power failure)")
        elif log not in logs and not is_removed(log):
            yield BrokenEntry(head.seq, f"{get_log_path(index.directory, log)} is missing")
    for log, n, digest in reading.named:
        trail = reading.trail.get(log)
        if trail is None:
            if log not in heads and not is_removed(log):
                yield BrokenEntry(0, f"{get_log_path(index.directory, log)} is missing")
        elif log not in damaged and trail[n - 1 : n] != [digest[:16]]:
            yield BrokenEntry(logs[log][1], f"{get_log_path(index.directory, log)} was replaced, or its end is lost")


def _compare(whole: sqlite3.Connection, path: str) -> list[BrokenEntry]:
    """The calls of which the index at ``path`` says something else than ``whole``, which was just made."""
    names = {"calls": f"seq, {BEGIN}, {END}", "files": _FILES}
    whole.execute("ATTACH ? AS disk", (f"file://{quote(os.fsencode(path))}?mode=ro",))
    whole.execute("BEGIN")
    try:
        synced = "SELECT value FROM {}.meta WHERE key = 'synced'"
        if whole.execute(synced.format("disk")).fetchone() != whole.execute(synced.format("main")).fetchone():
            return []  # it has gone on meanwhile
        broken: dict[int, str] = {}
        for table, columns in names.items():
            for one, other in (("disk", "main"), ("main", "disk")):
                query = f"SELECT {columns} FROM {one}.{table} EXCEPT SELECT {columns} FROM {other}.{table}"
                broken |= {row[0]: CHANGED for row in whole.execute(query)}
        lost = "SELECT 1 FROM main.calls WHERE seq = ?"
        return [
            BrokenEntry(seq, why if whole.execute(lost, (seq,)).fetchone() else "it is in the index, and in no log")
            for seq, why in sorted(broken.items())
        ]
    finally:
        whole.execute("ROLLBACK")


def open_index(path: str) -> Index:
    """The index of the journal at ``path``, made again if it is damaged. Raises `sqlite3.Error` or `OSError`."""
    for last in (False, True):
        try:
            index = Index(path)
            try:
                index.sync()
            except BaseException:
                index.close()
                raise
            return index
        except sqlite3.DatabaseError as error:
            if last or not (is_damage(error) or isinstance(error, LostLogs)) or not os.path.isfile(path):
                break
            set_aside(path, keep=isinstance(error, LostLogs))
        except OSError:
            break
    index = Index(path, in_memory=True)  # a disk that is read-only, or no file can be made at this path
    index.sync()
    return index


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
