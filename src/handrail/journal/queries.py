"""Reading the journal: calls by number, session or workspace, figures over all of them, and whether it is whole.

The queries are written in the SQL that SQLite and PostgreSQL share: `postgres_reader.py` reads a shared journal with
them, and has its own where the two differ.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `records.py`
from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Any

from handrail.frozen import frozen
from handrail.journal import JournalFailed
from handrail.journal.database import (
    GENESIS,
    Anchor,
    BrokenEntry,
    ChainEntry,
    Database,
    connect,
    hash_entry,
    load_images,
    lock_file,
)
from handrail.journal.records import (
    CALL_COLUMNS,
    FILE_COLUMNS,
    PROMPT,
    VERSION,
    Queries,
    read_hashed_columns,
    read_state,
)
from handrail.journal.retention import STAGE, read_removed
from handrail.journal.salvage import TolerantQueries
from handrail.journal.spool import Spooled, get_spool_path, has_spooled, parse_hash, parse_spool, read_moved
from handrail.policy.paths import is_within

UNDO, REDO = "Undo", "Redo"
"""The names under which undos and redos are in the journal."""
JOB = "Job"
"""The name under which the changes of a background job are in the journal. An undo has to name this call: some of the
changes may be a person's, made at the same time."""
UNFINISHED = "unfinished"
"""The status of a call that has begun to change something and has not come to an end, or was killed on the way."""
SPOOL_BROKEN = "rows were changed or removed before they came into the database"
ADDED_CALL = "the row was added by another program"
ADDED_FILE = "a file was added to the row by another program"
_PAGE = 256
"""How many calls are in memory at once where all are wanted."""
_MOST_WORKSPACES = 100
"""With more workspaces in a project its calls are searched among all."""
_MOST_NAMED = 8
"""Calls that the description of an undo names."""
_BRIEF = "calls.seq, calls.tool, calls.status, calls.rule, calls.arguments, calls.touches"


@frozen
class StorageUse:
    """The size of the images."""

    count: int
    size: int
    """Of the contents."""
    stored: int
    """The original size."""


@frozen
class FileRow:
    """The change of one file by a call. Hashes: empty for no file, None for unknown."""

    path: str
    kept: bool
    """Kept for a command, which may have changed it or not."""
    before: str
    before_mode: int | None
    after: str | None
    after_mode: int | None
    moved_from: str | None
    created_directories: tuple[str, ...]
    """Directories that were not there before, the deepest first."""


@frozen
class CallRow:
    """One call."""

    seq: int
    time: int
    """Nanoseconds since 1970, by the clock of the machine: the number orders calls, not this."""
    session: str
    workspace: str
    dialect: str
    tool: str
    call_id: str
    arguments: Any
    accesses: list[list[str]]
    decision: str | None
    rule: str | None
    why: str | None
    source: str | None
    status: str
    error: str | None
    message: str | None
    duration: float | None
    diff: str | None
    exit_code: int | None
    output: str | None
    notes: list[list[str]]
    traceback: str | None
    host: str = ""
    """In a shared journal: the machine on which the call was made."""
    number: int | None = None
    """In a shared journal: its number in the journal of that machine."""


@frozen
class CallSummary:
    """The columns of a call that undo needs."""

    seq: int
    status: str
    undone: tuple[int, ...] | None = None
    """Of an undo or redo: the calls that it has taken back in full; None for any other call."""
    calls: tuple[int, ...] = ()
    """Of an undo or redo: the calls that it was about."""
    places: tuple[int, ...] = ()
    """Of an undo of some files: the places of those it has restored, among the files of its call."""
    act: str = ""
    """Of an undo or redo: the same for all records of one act."""
    is_redo: bool = False
    command: str | None = None
    """The command that it ran."""
    unsure: bool = False
    """Whether the command may have changed more than was kept."""
    draft: str = ""
    """The directory of the draft that the command ran in: all its changes in the workspace are known then."""
    unsaved: tuple[str, ...] | None = None
    """Of a job: the paths that it changed whose old contents are not known; None for any other call."""

    @classmethod
    def of(
        cls, seq: int, tool: str, status: str | None, rule: str | None, arguments: Any, accesses: Any
    ) -> CallSummary:
        undone, calls, places, act = None, (), (), ""  # type: tuple[Any, Any, Any, str]
        if tool in (UNDO, REDO) and rule == "undo":
            named = arguments if isinstance(arguments, dict) else {}
            undone, calls, places = (_list_numbers(named.get(key)) for key in ("undone", "calls", "places"))
            act = str(named.get("act") or seq)
        known = _list_texts(accesses)
        command = next((str(target) for action, target, *_ in known if action == "run"), None)
        draft = next((str(path[0]) for action, _, *path in known if action == "run" and path), "")
        doubted = [str(path[0]) for _, _, *path in known if len(path) > 1]
        unsaved = tuple(doubted) if (tool, rule) == (JOB, "job") else None
        ended = status or UNFINISHED
        return cls(seq, ended, undone, calls, places, act, tool == REDO, command, bool(doubted), draft, unsaved)


@frozen
class ToolStats:
    """The figures of one tool."""

    tool: str
    calls: int
    failures: int
    refusals: int
    unfinished: int
    chars_in: int
    chars_out: int
    bytes_out: int
    milliseconds: float


class JournalReader:
    """A journal that is only read, whoever writes to it meanwhile."""

    brief = (
        "seq, time, session, workspace, dialect, tool, decision, rule, substr(why, 1, 300), source, "
        "CASE WHEN json_valid(touches) THEN json_array_length(touches) ELSE 0 END, "
        "CASE WHEN json_valid(touches) THEN json_extract(touches, '$[0][0]') END, "
        # A name that is no Unicode is one in JSON, and would be a text that cannot be read.
        "CASE WHEN json_valid(touches) THEN CAST(substr(json_extract(touches, '$[0][1]'), 1, 300) AS BLOB) END, "
        "substr(arguments, 1, 300), status, error, substr(message, 1, 300), duration, exit_code, "
        "(SELECT value FROM meta WHERE key = 'client:' || session), "
        "(SELECT value FROM meta WHERE key = 'model:' || session)"
    )
    """The columns that a list of calls shows."""
    _calls = f"SELECT {', '.join(CALL_COLUMNS)} FROM calls"
    _workspace = "+workspace"
    """The plus keeps SQLite from collecting the calls of a large project by their index and sorting them."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.db: Queries = self._open()

    def _open(self) -> Queries:
        path = self.path
        try:
            if not os.path.isfile(path):
                raise JournalFailed(journal=self.path, why="there is no journal yet")
            db = connect(path, mode="ro")
            version = db.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as error:
            raise JournalFailed(journal=self.path, why=str(error)) from None
        self._merged = -1
        """How many bytes of the spool are merged, where they cannot be moved."""
        if version != VERSION:
            db.close()
            raise JournalFailed(
                journal=self.path, why=f"its format is {version}; this version of Handrail reads {VERSION}"
            )
        self._sqlite = db
        self._tolerant = TolerantQueries(db)
        return self._tolerant

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._tolerant.close()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Convert database errors to `JournalFailed`. Rows that wait in the spool are moved or merged first."""
        try:
            self._take_spooled()
            yield
        except (sqlite3.Error, OSError) as error:
            raise JournalFailed(journal=self.path, why=str(error)) from None

    def _take_spooled(self) -> None:
        if not has_spooled(self.path) or self._sqlite.in_transaction:
            return
        try:
            Database(self.path).close()
        except (sqlite3.Error, OSError):  # a disk that is read-only, or a journal that is locked
            self._merge_spooled()

    def _merge_spooled(self) -> None:
        """Show the rows of the spool as if they were in the tables, by views of this connection alone."""
        run = self.db.execute
        size = os.stat(get_spool_path(self.path)).st_size
        if size == self._merged:
            return
        self._merged = size
        run("PRAGMA temp_store = MEMORY")
        for name in ("calls", "chain"):
            run(f"DROP VIEW IF EXISTS temp.{name}")
            run(f"DROP TABLE IF EXISTS temp.spooled_{name}")
            run(f"CREATE TEMP TABLE spooled_{name} AS SELECT * FROM main.{name} WHERE 0")
            run(f"CREATE TEMP VIEW {name} AS SELECT * FROM main.{name} UNION ALL SELECT * FROM temp.spooled_{name}")
        run("DROP TABLE IF EXISTS temp.head")
        run("CREATE TEMP TABLE head AS SELECT * FROM main.head")
        n, seq, digest = run("SELECT n, seq, hash FROM main.head").fetchone()
        spooled = _read_spooled(self.db, self.path)
        for row in spooled.rows:
            n, seq = n + 1, seq + 1
            digest = hash_entry(digest, n, seq, "whole 0", [row, []])
            run(f"INSERT INTO temp.spooled_calls VALUES ({', '.join('?' * len(CALL_COLUMNS))})", (seq, *row))
            run("INSERT INTO temp.spooled_chain VALUES (?, ?, ?, ?)", (n, seq, "whole 0", digest))
        run("UPDATE temp.head SET n = ?, seq = ?, hash = ?", (n, seq, digest))

    def read_calls(self, *, after: int = 0, limit: int = -1, session: str = "", workspace: str = "") -> list[CallRow]:
        """The newest ``limit`` calls after number ``after``, the oldest first."""
        where, values = _limit(session, workspace)
        query = f"{self._calls} WHERE seq > ? {where} ORDER BY seq DESC LIMIT ?"
        with self.errors():
            rows = self.db.execute(query, (after, *values, _bound(limit))).fetchall()
        return [_call(row) for row in reversed(rows)]

    def iterate_calls(self, *, limit: int = -1, session: str = "", project: str = "") -> Iterator[CallRow]:
        """The newest ``limit`` calls, the oldest first; a few are in memory at a time, however many there are.

        ``project``: only calls in workspaces that are this directory, contain it, or are inside it.
        """
        only, values = self._select(session, project)
        limit = _bound(limit)
        some = f"SELECT seq FROM calls WHERE {only} ORDER BY seq DESC LIMIT ?"
        newest = f"SELECT min(seq), max(seq) FROM ({some}) AS newest"
        page = f"{self._calls} WHERE seq BETWEEN ? AND ? AND {only} ORDER BY seq LIMIT {_PAGE}"
        with self.errors():
            workspaces = self._list_workspaces(project) if project and not session else None
            if workspaces:  # the newest calls of each, so that those of an old project are not searched among all
                one = "SELECT * FROM (SELECT seq FROM calls WHERE workspace = ? ORDER BY seq DESC LIMIT ?) AS one"
                every = " UNION ALL ".join([one] * len(workspaces))
                some = f"SELECT seq FROM ({every}) AS every ORDER BY seq DESC LIMIT ?"
                newest = f"SELECT min(seq), max(seq) FROM ({some}) AS newest"
                limits = [part for place in workspaces for part in (place, limit)]
                seq, last = self.db.execute(newest, (*limits, limit)).fetchone()
                # The next ones of each, too: between two of them there may be very many others.
                one = (
                    "SELECT * FROM (SELECT seq FROM calls WHERE workspace = ? AND seq BETWEEN ? AND ? "
                    f"ORDER BY seq LIMIT {_PAGE}) AS one"
                )
                every = " UNION ALL ".join([one] * len(workspaces))
                some = f"SELECT seq FROM ({every}) AS every ORDER BY seq LIMIT {_PAGE}"
                page = f"{self._calls} WHERE seq IN ({some}) ORDER BY seq"
            else:
                seq, last = self.db.execute(newest, (*values, limit)).fetchone()
        while seq is not None and seq <= last:
            bounds = (
                [part for place in workspaces for part in (place, seq, last)] if workspaces else [seq, last, *values]
            )
            with self.errors():
                rows = self.db.execute(page, bounds).fetchall()
            yield from map(_call, rows)
            seq = rows[-1][0] + 1 if rows else None

    def _list_workspaces(self, project: str) -> list[bytes] | None:
        """The workspaces of a project; None in a journal without their index, and where they are too many."""
        if not self._has_workspace_index():
            return None
        above, first, behind = _find_bounds(project)
        places = [*above]
        while len(places) <= _MOST_WORKSPACES:
            query = "SELECT workspace FROM calls WHERE workspace > ? AND workspace < ? ORDER BY workspace LIMIT 1"
            row = self.db.execute(query, (first, behind)).fetchone()
            if row is None:
                return places
            first = row[0]
            places.append(first)
        return None

    def _has_workspace_index(self) -> bool:
        return any(row[1] == "calls_workspace" for row in self.db.execute("PRAGMA index_list(calls)"))

    def iterate_changing_calls(
        self, *, first: int = 0, before: int | None = None, session: str = "", workspace: str = ""
    ) -> Iterator[CallSummary]:
        """The calls from number ``first`` on that have changed files, or ran a command, besides jobs; the newest first.

        ``before``: only those before this one.
        """
        where, values = _limit(session, workspace)
        changing = "(touches LIKE '%[\"run\",%' OR EXISTS (SELECT 1 FROM files WHERE files.seq = calls.seq))"
        query = (
            f"SELECT {_BRIEF} FROM calls WHERE seq >= ? AND seq < ? {where} "
            f"AND NOT (tool = '{JOB}' AND coalesce(rule, '') = 'job') AND {changing} ORDER BY seq DESC"
        )
        with self.errors():
            yield from map(_summarize, self.db.execute(query, (first, _end_before(before), *values)))

    def iterate_file_changes(self, *, session: str = "", workspace: str = "") -> Generator[CallSummary, None, None]:
        """The calls that have changed files, or tried to, besides undos and jobs; the newest first.

        The table of files is gone through and not that of calls: most calls change nothing, and their rows are big.
        """
        column, value = ("session", session) if session else ("workspace", os.fsencode(workspace))
        query = f"SELECT {_BRIEF} FROM calls WHERE seq = ? AND {column} = ?"
        with self.errors():
            for (seq,) in self.db.execute("SELECT DISTINCT seq FROM files ORDER BY seq DESC"):
                row = self.db.execute(query, (seq, value)).fetchone()
                if row and (one := _summarize(row)).undone is None and one.unsaved is None:
                    yield one

    def read_undos(
        self, first: int, before: int | None, *, session: str = "", workspace: str = ""
    ) -> list[CallSummary]:
        """The undos and redos from number ``first`` on and ``before`` another call, the newest first."""
        where, values = _limit(session, workspace)
        query = (
            f"SELECT {_BRIEF} FROM calls WHERE seq >= ? AND seq < ? AND tool IN (?, ?) AND rule = 'undo' {where} "
            "ORDER BY seq DESC"
        )
        with self.errors():
            rows = self.db.execute(query, (first, _end_before(before), UNDO, REDO, *values)).fetchall()
        return [_summarize(row) for row in rows]

    def list_half_undone(self) -> set[int]:
        """The calls whose undo or redo began and has no end: it was killed, or is under way."""
        query = f"SELECT {_BRIEF} FROM calls WHERE tool IN (?, ?) AND status IS NULL"
        with self.errors():
            rows = self.db.execute(query, (UNDO, REDO)).fetchall()
        half = {seq for row in rows for seq in _summarize(row).undone or ()}
        redone = filter(None, map(self.summarize_call, half))
        return half.union(*(one.calls for one, _ in redone))

    def find_prompt(self, session: str, before: int) -> int:
        """The number of the last prompt of a session before a call; 0 if there is none."""
        query = "SELECT coalesce(max(seq), 0) FROM calls WHERE session = ? AND tool = ? AND seq < ?"
        with self.errors():
            return int(self.db.execute(query, (session, PROMPT, before)).fetchone()[0])

    def summarize_call(self, call: str | int) -> tuple[CallSummary, str] | None:
        """The call of that number or id, as an undo sees it, and its workspace."""
        row = self.find_call(call)
        if row is None:
            return None
        return CallSummary.of(row.seq, row.tool, row.status, row.rule, row.arguments, row.accesses), row.workspace

    def has_session(self, session: str) -> bool:
        with self.errors():
            row = self.db.execute("SELECT 1 FROM calls WHERE session = ? LIMIT 1", (session,)).fetchone()
        return row is not None

    def read_ended_calls(self, since: int) -> tuple[list[CallRow], int]:
        """The calls that came to an end after entry ``since`` of the chain, and the newest entry."""
        with self.errors():
            fetched = self.list_ended(since)
            rows = [self.db.execute(f"{self._calls} WHERE seq = ?", (seq,)).fetchone() for _, seq in fetched]
        return [_call(row) for row in rows if row], fetched[-1][0] if fetched else since

    def list_ended(self, since: int, limit: int = -1) -> list[tuple[int, int]]:
        """Within `errors`: the entries after entry ``since`` with which calls came to an end, and their calls."""
        query = "SELECT n, seq FROM chain WHERE n > ? AND stage GLOB '[ew]*' ORDER BY n LIMIT ?"
        return self.db.execute(query, (since, _bound(limit))).fetchall()

    def read_newest_entry(self) -> int:
        """The newest entry of the chain."""
        with self.errors():
            return int(self.db.execute("SELECT n FROM head").fetchone()[0])

    def find_call(self, call: str | int) -> CallRow | None:
        """The call of that number, or, failing that, the newest one with that id."""
        with self.errors():
            row = None
            if str(call).isdecimal() and len(str(call)) < 19:
                row = self.db.execute(f"{self._calls} WHERE seq = ?", (int(call),)).fetchone()
            if row is None:
                newest = f"{self._calls} WHERE call_id = ? AND call_id != '' ORDER BY seq DESC LIMIT 1"
                row = self.db.execute(newest, (str(call),)).fetchone()
        return _call(row) if row else None

    def describe_unknown(self, call: str | int) -> str:
        """Why there is no such call, for the person who asked for it."""
        with self.errors():
            removed = self._read_removed_calls()
        if str(call).isdecimal() and 0 < int(str(call)[:19]) <= removed:
            return f"call {call} is not in the journal any more: it keeps the newest ones (setting journal_calls)"
        return f"unknown call {call}; `handrail log` lists the calls"

    def _read_removed_calls(self) -> int:
        """The number up to which calls were removed."""
        return read_removed(self.db).seq

    def read_files(self, seq: int) -> list[FileRow]:
        """Return the file changes of a call's last attempt."""
        query = (
            f"SELECT {', '.join(FILE_COLUMNS)} FROM files "
            "WHERE seq = ? AND attempt = (SELECT max(attempt) FROM files WHERE seq = ?) ORDER BY place"
        )
        with self.errors():
            unended = self.db.execute("SELECT status FROM calls WHERE seq = ?", (seq,)).fetchone() == (None,)
            rows = [_parse_file_row(row, unended) for row in self.db.execute(query, (seq, seq))]
        return [row for row in rows if row]

    def find_last_change(self, path: str, digest: str, after: int) -> int | None:
        """The call after ``after`` that left ``path`` with these contents."""
        query = "SELECT max(seq) FROM files WHERE path = ? AND after = ? AND seq > ?"
        with self.errors():
            number = self.db.execute(query, (os.fsencode(path), digest, after)).fetchone()[0]
        return int(number) if number is not None else None

    def find_state(self, path: str, seq: int) -> str | None:
        """The hash of what was at ``path`` right after a call, as far as calls have changed it; None: unknown."""
        older = "SELECT coalesce(after, planned) FROM files WHERE path = ? AND seq <= ? ORDER BY seq DESC, attempt DESC"
        newer = "SELECT before FROM files WHERE path = ? AND seq > ? ORDER BY seq, attempt"
        with self.errors():
            for query in (older, newer):
                if row := self.db.execute(f"{query} LIMIT 1", (os.fsencode(path), seq)).fetchone():
                    return str(row[0]) if row[0] is not None else None
        return read_state(path)[0]

    def read_images(self, digests: Sequence[str]) -> dict[str, bytes]:
        with self.errors():
            return load_images(self._sqlite, digests)

    def measure_use(self) -> StorageUse:
        """Return the size of the before-images."""
        with self.errors():
            sums = "SELECT count(*), coalesce(sum(size), 0), coalesce(sum(stored), 0) FROM images"
            return StorageUse(*self.db.execute(sums).fetchone())

    def measure_journal(self) -> int:
        """The bytes of the whole journal."""
        return os.path.getsize(self.path)

    def compute_stats(self, *, session: str = "", project: str = "") -> tuple[list[ToolStats], dict[str, int]]:
        """Figures per tool, and how often a call ended in which code."""
        only, values = self._select(session, project)
        sums = ", ".join(f"CAST(coalesce(sum({name}), 0) AS bigint)" for name in ("given", "said", "answer_bytes"))
        per_tool = (
            "SELECT tool, count(*), count(*) FILTER (WHERE status = 'error'), "
            f"count(*) FILTER (WHERE status = 'denied'), count(*) FILTER (WHERE status IS NULL), {sums}, "
            f"coalesce(sum(duration), 0) FROM calls WHERE {only} GROUP BY tool ORDER BY count(*) DESC, tool"
        )
        codes = f"SELECT error, count(*) FROM calls WHERE {only} GROUP BY error ORDER BY count(*) DESC, error"
        with self.errors():
            tools = [ToolStats(*row) for row in self.db.execute(per_tool, values)]
            return tools, {code: count for code, count in self.db.execute(codes, values) if code}

    def count_entries(self) -> int:
        """How many entries the chain has; of a shared journal, all chains."""
        return self.read_newest_entry()

    def find_last_call(self) -> int:
        """The number of the newest call."""
        with self.errors():
            return int(self.db.execute("SELECT seq FROM head").fetchone()[0])

    def verify(self) -> BrokenEntry | None:
        """Return the first place where the journal was changed; None if it is intact."""
        return next(iter(self.list_broken(1)), None)

    def list_broken(self, limit: int = 1000) -> list[BrokenEntry]:
        """The places where the journal was changed: one does not hide the others."""
        anchor = Anchor(self.path + ".anchor").read()  # first: it is never ahead of the database
        with self.errors():
            intact = _read_spooled(self.db, self.path).intact
            self.db.execute("BEGIN")
            try:
                return list(islice(self._verify(anchor, intact), limit))
            finally:
                self._tolerant.roll_back()

    def _verify(self, anchor: ChainEntry | None, spool_intact: bool) -> Iterator[BrokenEntry]:
        removed = read_removed(self.db)
        walk = ChainWalk(ChainEntry(removed.n, removed.hash or GENESIS), removed.seq)
        entered = removed.n == 0
        held = anchor is None
        attempts: dict[int, int] = {}
        for n, seq, stage, digest in self.db.execute("SELECT n, seq, stage, hash FROM chain ORDER BY n"):
            if stage == "lost":
                row = self.db.execute("SELECT anchor_n, anchor_hash FROM lost WHERE n = ?", (n,)).fetchone()
                yield walk.report_lost(row)
                walk.skip(ChainEntry(n, digest))
                continue
            content = self._read_content(n, seq, stage)
            entered = entered or (stage == STAGE and content == [*removed])
            if stage != STAGE:
                attempts[seq] = max(attempts.get(seq, 0), _read_attempt(stage) + 1)
            if broken := walk.check(n, seq, stage, digest, content):
                yield broken
            held = held or (anchor is not None and (n, digest) == (anchor.n, anchor.hash))
        if broken := walk.check_end(ChainEntry(*self.db.execute("SELECT n, hash FROM head").fetchone())):
            yield broken
        if not entered:
            yield BrokenEntry(1, "the beginning of the journal is missing")
        if not spool_intact:
            yield BrokenEntry(walk.next_call, SPOOL_BROKEN)
        if not held:
            yield BrokenEntry(walk.next_call, "rows are missing at the end (removed, or lost in a power failure)")
        yield from self._find_added_rows(attempts)

    def _read_content(self, n: int, seq: int, stage: str) -> Sequence[Any]:
        """The columns that the hash of an entry covers; none if the entry itself was changed."""
        if stage == STAGE:
            return [*read_removed(self.db, n)]
        try:
            return read_hashed_columns(self.db, seq, stage)
        except (KeyError, ValueError, AttributeError):  # no stage of ours
            return [()]

    def _find_added_rows(self, attempts: dict[int, int]) -> Iterator[BrokenEntry]:
        """Rows that nobody has put into the chain."""
        for (seq,) in self.db.execute("SELECT seq FROM calls ORDER BY seq"):
            if seq not in attempts:
                yield BrokenEntry(seq, ADDED_CALL)
        for seq, attempt in self.db.execute("SELECT seq, max(attempt) FROM files GROUP BY seq"):
            if seq in attempts and attempt >= attempts[seq]:
                yield BrokenEntry(seq, ADDED_FILE)

    def _select(self, session: str, project: str) -> tuple[str, list[Any]]:
        """The condition for calls of a session, and for those about a project: `is_of_project` in SQL."""
        parts, values = ["TRUE"], []  # type: tuple[list[str], list[Any]]
        if session:
            parts, values = [*parts, "session = ?"], [*values, session]
        if project:
            above, first, behind = _find_bounds(project)
            known, column = ", ".join("?" * len(above)), self._workspace
            parts.append(f"({column} IN ({known}) OR ({column} > ? AND {column} < ?))")
            values += [*above, first, behind]
        return " AND ".join(parts), values


class ChainWalk:
    """Checks the entries of a hash chain one after the other, behind ``start``.

    It goes on behind an entry that is wrong: with the hash that is written there, or with the one that should be.
    """

    def __init__(self, start: ChainEntry, calls: int = 0) -> None:
        self._n, self._hashes = start.n, {start.hash}
        self.next_call = calls + 1
        """The number behind the newest call so far."""

    def skip(self, removed: ChainEntry) -> None:
        """Continue after entries that were removed before they were sent here."""
        self._n, self._hashes = removed.n, {removed.hash}

    def check(self, n: int, seq: int, stage: str, digest: str, content: Sequence[Any]) -> BrokenEntry | None:
        """Take the next entry; ``content``: the columns that its hash covers."""
        before, self._n = self._n, n
        next_call = self.next_call
        self.next_call = max(seq + 1, next_call) if isinstance(seq, int) else next_call
        if n != before + 1:
            self._hashes = {digest}
            return BrokenEntry(next_call, "one or more entries are missing before this one")
        expected = {hash_entry(last, n, seq, stage, content) for last in self._hashes}
        if digest in expected:
            self._hashes = {digest}
            return None
        self._hashes = {digest, *expected}
        return BrokenEntry(seq, "the row is missing" if content[0] is None else "the row was changed")

    def check_end(self, newest: ChainEntry) -> BrokenEntry | None:
        """Whether the last entry is the newest one."""
        if self._n != newest.n or newest.hash not in self._hashes:
            return BrokenEntry(self.next_call, "one or more rows are missing at the end")
        return None

    def report_lost(self, row: tuple[int, str] | None) -> BrokenEntry:
        """An entry that says that others were lost."""
        if row and row[0] == 0:
            return BrokenEntry(self.next_call, SPOOL_BROKEN)
        known = f"(entry {row[0]} existed)" if row else ""
        return BrokenEntry(self.next_call, f"the end of the journal is missing here {known}")


def _limit(session: str, workspace: str) -> tuple[str, list[Any]]:
    """The condition for the calls of a session and in a workspace, with its values; empty: of any."""
    wanted = {"session": session, "workspace": os.fsencode(workspace)}
    given = {name: value for name, value in wanted.items() if value}
    return "".join(f" AND {name} = ?" for name in given), list(given.values())


def _end_before(number: int | None) -> int:
    """The number before which a range of calls ends; None: it has no end."""
    return _bound(-1 if number is None else number)


def _bound(limit: int) -> int:
    """A limit as both databases take it: -1 stands for none."""
    return limit if limit >= 0 else 1 << 62


def is_of_project(workspace: str, project: str) -> bool:
    """Whether calls in this workspace are about a project: one of the two directories contains the other."""
    return workspace == project or is_within(workspace, project) or is_within(project, workspace)


def _find_bounds(project: str) -> tuple[list[bytes], bytes, bytes]:
    """A project and the directories above it, and the bounds between which the paths inside it lie."""
    above = [project]
    while above[-1] != os.path.dirname(above[-1]):
        above.append(os.path.dirname(above[-1]))
    below = project.rstrip("/") + "/"
    return [*map(os.fsencode, above)], os.fsencode(below), os.fsencode(below[:-1] + "0")  # 0 follows the slash


def _read_attempt(stage: str) -> int:
    """The number behind the word of a stage."""
    number = str(stage).partition(" ")[2]
    return int(number) if number.isdecimal() else 0


def _read_spooled(db: Queries, path: str) -> Spooled:
    """The rows that wait in the spool of a journal that is only read, and whether none is missing."""
    with contextlib.ExitStack() as held:
        raw = anchor = b""
        with contextlib.suppress(FileNotFoundError):
            file = held.enter_context(open(get_spool_path(path), "rb"))
            lock_file(file.fileno(), 10.0)  # given back when the file is closed
            raw = file.read()
        with contextlib.suppress(FileNotFoundError), open(get_spool_path(path) + ".anchor", "rb") as file:
            anchor = file.read(64)
        return parse_spool(raw, read_moved(db), parse_hash(anchor))


_REQUIRED: dict[str, Any] = {"time": 0, "session": "", "workspace": b"", "dialect": "", "tool": "", "call_id": ""}
_OPTIONAL = (
    *("decision", "rule", "why", "source", "status", "error", "message", "duration", "diff", "exit_code", "output"),
    "traceback",
)
_NUMBERS = {"duration": (int, float), "exit_code": (int,)}


def _call(row: Sequence[Any]) -> CallRow:
    """One call. A column that was spoiled on the disk is empty; `verify` says so."""
    named = dict(zip((*CALL_COLUMNS, "host", "number")[: len(row)], row, strict=True))
    for name in ("pid", "given", "said", "answer_bytes", "ended"):
        del named[name]
    for name, empty in _REQUIRED.items():
        if not isinstance(named[name], type(empty)):
            named[name] = empty
    for name in _OPTIONAL:
        if not isinstance(named[name], _NUMBERS.get(name, (str,))):
            named[name] = None
    named["accesses"] = _list_texts(_parse_json(named.pop("touches")))  # the column's name in older versions
    named["notes"] = _list_texts(_parse_json(named["notes"]))
    named["arguments"] = _parse_json(named["arguments"])
    named["workspace"] = os.fsdecode(named["workspace"])
    named["status"] = named["status"] or UNFINISHED
    return CallRow(**named)


def _list_texts(value: Any) -> list[list[str]]:
    """Lists of two or more texts, which is what accesses and notes are."""
    lists = value if isinstance(value, list) else []
    return [[str(text) for text in one] for one in lists if isinstance(one, list) and len(one) > 1]


def describe_undo(tool: str, arguments: Any) -> str:
    """Which calls an undo or redo was about, in a few words: "undo of 17"; empty for any other call."""
    named = arguments if isinstance(arguments, dict) and tool in (UNDO, REDO) else {}
    numbers = _list_numbers(named.get("redone" if tool == REDO else "calls"))
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return f"{tool.lower()} of {', '.join(map(str, numbers[:_MOST_NAMED]))}{more}" if numbers else ""


def _list_numbers(value: Any) -> tuple[int, ...]:
    return tuple(one for one in value if isinstance(one, int)) if isinstance(value, list) else ()


def _summarize(row: Sequence[Any]) -> CallSummary:
    seq, tool, status, rule, arguments, accesses = row
    return CallSummary.of(seq, tool, status, rule, _parse_json(arguments), _parse_json(accesses))


def _parse_json(text: Any) -> Any:
    try:
        return json.loads(text or "[]")
    except (ValueError, TypeError, RecursionError):  # tampered with; `verify` says so
        return []


def _parse_file_row(row: Sequence[Any], unended: bool) -> FileRow | None:
    """The change of a file; None if its row was spoiled on the disk, so that nothing can be undone by it."""
    named = dict(zip(FILE_COLUMNS, row, strict=True))
    path, source, before = named["path"], named["moved_from"], named["before"]
    after = named["planned"] if unended else named["after"]
    modes = named["before_mode"], named["after_mode"]
    if not (isinstance(path, bytes) and isinstance(before, str) and isinstance(after, str | None)):
        return None
    if not (isinstance(source, bytes | None) and all(isinstance(mode, int | None) for mode in modes)):
        return None
    directories = _parse_json(named["made"])
    return FileRow(
        os.fsdecode(path),
        bool(named["kept"]),
        before,
        modes[0],
        after,
        modes[1],
        os.fsdecode(source) if source is not None else None,
        tuple(one for one in directories if isinstance(one, str)) if isinstance(directories, list) else (),
    )
