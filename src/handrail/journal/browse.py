"""Reading the journal page by page, for views that must not load all of it: calls, sources, file history, plots.

Pages go by number, newest first. Where a filter matches few rows, a bounded number of them is looked at, and the page
says from where to go on.
"""

# ruff: noqa: S608 - what is put into a query are names of columns and conditions, all constants of this module
from __future__ import annotations

import os
import re

from handrail.frozen import frozen
from handrail.journal.queries import UNFINISHED, JournalReader, bound
from handrail.journal.records import PROMPT

_LOOKED_AT = 20_000
"""Rows that are looked at for one page."""
_RECENT = 2_000
"""Rows that are looked at to offer filters."""


@frozen
class CallFilter:
    """The calls that are wanted; empty fields want all."""

    session: str = ""
    workspace: str = ""
    tool: str = ""
    status: str = ""
    client: str = ""
    """The program that made the call, as it names itself."""
    file: str = ""
    """A file that it changed: its path, or a path below the workspace."""
    text: str = ""
    """Words in its arguments, targets, message or diff."""
    since: int = 0
    """Nanoseconds since 1970."""

    def conditions(self) -> tuple[list[str], list[object]]:
        """SQL conditions and their values."""
        word = "%" + re.sub(r"([\\%_])", r"\\\1", self.text.lower()) + "%"
        texts = "arguments || '\n' || touches || '\n' || coalesce(message, '') || '\n' || coalesce(diff, '')"
        path = os.fsencode(os.path.join(self.workspace, self.file))
        conditions: list[tuple[str, object, object]] = [
            ("session = ?", self.session, self.session),
            ("workspace = ?", self.workspace, os.fsencode(self.workspace)),
            ("tool = ?", self.tool, self.tool),
            (f"coalesce(status, '{UNFINISHED}') = ?", self.status, self.status),
            ("client = ?", self.client, self.client),
            ("seq IN (SELECT seq FROM files WHERE path = ?)", self.file, path),
            ("time >= ?", self.since, self.since),
            (f"lower({texts}) LIKE ? ESCAPE '\\'", self.text, word),
        ]
        wanted = [(condition, value) for condition, given, value in conditions if given]
        return [condition for condition, _ in wanted], [value for _, value in wanted]


@frozen
class CallPage:
    """The numbers of some calls, newest first, and from where older ones follow; None if there are none."""

    calls: list[int]
    before: int | None


@frozen
class CallSources:
    """Where the newest calls came from, the newest first."""

    sessions: list[str]
    workspaces: list[str]
    tools: list[str]
    clients: list[str]
    """The programs that made them."""


@frozen
class FileEvent:
    """One change of a file."""

    seq: int
    time: int
    session: str
    tool: str
    status: str
    before: str
    after: str | None
    moved_from: str | None


@frozen
class Bucket:
    """The calls of a tool in a period."""

    start: int
    """Seconds since 1970."""
    tool: str
    calls: int
    failures: int
    refusals: int
    asked: int
    answered: int
    chars: int
    milliseconds: float


def read_page(reader: JournalReader, wanted: CallFilter, *, before: int | None = None, limit: int = 50) -> CallPage:
    """The newest calls below number ``before``. Stops after a bounded number of rows that are not wanted."""
    where, values = wanted.conditions()
    newest = before if before is not None else reader.find_last_call() + 1
    oldest = 0 if wanted.session and not (wanted.tool or wanted.status) else max(0, newest - _LOOKED_AT)
    clauses = " AND ".join(["seq < ?", "seq >= ?", *where])
    query = f"SELECT seq FROM calls WHERE {clauses} ORDER BY seq DESC LIMIT ?"
    calls = [seq for (seq,) in reader.query(query, (newest, oldest, *values, limit))]
    first = reader.read_value("SELECT min(seq) FROM calls")
    reached = calls[-1] if len(calls) == limit else oldest
    return CallPage(calls, reached if first is not None and first < reached else None)


def read_ended(reader: JournalReader, wanted: CallFilter, since: int, limit: int = 200) -> tuple[list[int], int]:
    """The wanted calls that ended after entry ``since`` of the chain, and the last entry that was looked at."""
    where, values = wanted.conditions()
    query = f"SELECT 1 FROM calls WHERE {' AND '.join(['seq = ?', *where])}"
    entries = reader.list_ended(since, limit)
    ended = [seq for _, seq in entries if reader.query(query, (seq, *values))]
    return ended, entries[-1][0] if entries else since


def list_sources(reader: JournalReader) -> CallSources:
    """The sessions, workspaces and tools of the newest calls."""
    query = "SELECT session, workspace, tool FROM calls WHERE seq > ? ORDER BY seq DESC"
    rows = reader.query(query, (reader.find_last_call() - _RECENT,))
    sessions, workspaces, tools = (list(dict.fromkeys(row[column] for row in rows)) for column in range(3))
    clients = dict.fromkeys(filter(None, (read_source(reader, session)[0] for session in sessions[:50])))
    names = [os.fsdecode(one) for one in workspaces[:50]]
    return CallSources(sessions[:50], names, sorted(tools)[:50], list(clients))


def read_source(reader: JournalReader, session: str) -> tuple[str, str]:
    """The client and the model of a session; empty where they are not known."""
    query = "SELECT client, model FROM calls WHERE session = ? AND client <> '' ORDER BY seq DESC LIMIT 1"
    return next(((client, model or "") for client, model in reader.query(query, (session,))), ("", ""))


def read_file_history(
    reader: JournalReader, path: str, *, before: int | None = None, limit: int = 100
) -> list[FileEvent]:
    """The changes of a file, newest first; the path is absolute, links followed."""
    query = (
        "SELECT files.seq, calls.time, calls.session, calls.tool, calls.status, files.before, "
        "CASE WHEN calls.status IS NULL THEN files.planned ELSE files.after END, files.moved_from "
        "FROM files JOIN calls ON calls.seq = files.seq WHERE files.path = ? AND files.seq < ? "
        "AND files.attempt = (SELECT max(attempt) FROM files AS other WHERE other.seq = files.seq) "
        "ORDER BY files.seq DESC LIMIT ?"
    )
    rows = reader.query(query, (os.fsencode(path), bound(before), limit))
    return [
        FileEvent(seq, time, session, tool, status or UNFINISHED, old, new, os.fsdecode(source) if source else None)
        for seq, time, session, tool, status, old, new, source in rows
    ]


def list_edited_files(reader: JournalReader, limit: int = 15) -> list[tuple[str, int]]:
    """The files that most of the newest calls have changed, and in how many of them."""
    query = (
        "SELECT path, count(DISTINCT seq) FROM files WHERE seq > ? AND (after IS NULL OR after <> before) "
        "GROUP BY path ORDER BY 2 DESC, 1 LIMIT ?"
    )
    rows = reader.query(query, (reader.find_last_call() - _LOOKED_AT, limit))
    return [(os.fsdecode(path), count) for path, count in rows]


def count_by_period(reader: JournalReader, seconds: int) -> list[Bucket]:
    """Figures of the newest calls for each period of so many seconds and each tool, the oldest first."""
    query = (
        "SELECT time / 1000000000 / ? * ?, tool, count(*), count(*) FILTER (WHERE status = 'error'), "
        "count(*) FILTER (WHERE status = 'denied'), count(*) FILTER (WHERE decision = 'ask'), "
        "count(*) FILTER (WHERE decision = 'ask' AND coalesce(status, '') <> 'denied'), "
        "CAST(coalesce(sum(given), 0) + coalesce(sum(said), 0) AS bigint), coalesce(sum(duration), 0) "
        f"FROM calls WHERE seq > ? AND tool <> '{PROMPT}' GROUP BY 1, 2 ORDER BY 1, 2"
    )
    return [Bucket(*row) for row in reader.query(query, (seconds, seconds, reader.find_last_call() - _LOOKED_AT))]


def read_time_span(reader: JournalReader) -> tuple[int, int]:
    """The times of the oldest and the newest call that `count_by_period` looks at, in seconds since 1970."""
    query = "SELECT min(time), max(time) FROM calls WHERE seq > ?"
    first, newest = reader.query(query, (reader.find_last_call() - _LOOKED_AT,))[0]
    return (first or 0) // 10**9, (newest or 0) // 10**9
