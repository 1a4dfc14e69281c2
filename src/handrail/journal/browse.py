"""Reading the journal page by page, for views that must not load all of it: brief rows, sources, file history, plots.

Pages go by number, newest first. Where a filter matches few rows, a bounded number of them is looked at, and the page
says from where to go on.
"""

# ruff: noqa: S608 - what is put into a query are names of columns and conditions, all constants of this module
from __future__ import annotations

import os
from collections.abc import Sequence

from handrail.frozen import frozen
from handrail.journal.queries import UNFINISHED, JournalReader

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

    def conditions(self) -> tuple[list[str], list[object]]:
        """SQL conditions and their values."""
        where: list[str] = []
        values: list[object] = []
        for column, value in (
            ("session", self.session),
            ("workspace", os.fsencode(self.workspace)),
            ("tool", self.tool),
            ("status", self.status),
        ):
            if value and value != UNFINISHED:
                where.append(f"{column} = ?")
                values.append(value)
        if self.status == UNFINISHED:
            where.append("status IS NULL")
        return where, values

    def matches(self, row: BriefCall) -> bool:
        """Whether a call is wanted."""
        pairs = (
            (self.session, row.session),
            (self.workspace, row.workspace),
            (self.tool, row.tool),
            (self.status, row.status),
        )
        return all(not wanted or wanted == value for wanted, value in pairs)


@frozen
class BriefCall:
    """One call as a list shows it. Long texts are cut."""

    seq: int
    time: int
    """Nanoseconds since 1970."""
    session: str
    workspace: str
    dialect: str
    tool: str
    decision: str | None
    rule: str | None
    why: str | None
    source: str | None
    accesses: int
    action: str | None
    """Of the first access."""
    target: str | None
    arguments: str
    """The beginning of the JSON text."""
    status: str
    error: str | None
    message: str | None
    duration: float | None
    exit_code: int | None
    client: str | None = None
    """The program that made the call, as it names itself."""
    model: str | None = None


@frozen
class CallPage:
    """Some calls, newest first, and from where older ones follow; None if there are none."""

    rows: list[BriefCall]
    before: int | None


@frozen
class CallSources:
    """Where the newest calls came from, the newest first."""

    sessions: list[str]
    workspaces: list[str]
    tools: list[str]


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
    with reader.errors():
        newest = before if before is not None else reader.find_last_call() + 1
        oldest = 0 if wanted.session and not (wanted.tool or wanted.status) else max(0, newest - _LOOKED_AT)
        clauses = " AND ".join(["seq < ?", "seq >= ?", *where])
        query = f"SELECT {reader.brief} FROM calls WHERE {clauses} ORDER BY seq DESC LIMIT ?"
        rows = [_summarize(row) for row in reader.db.execute(query, (newest, oldest, *values, limit))]
        first = reader.db.execute("SELECT min(seq) FROM calls").fetchone()[0]
    reached = rows[-1].seq if len(rows) == limit else oldest
    return CallPage(rows, reached if first is not None and first < reached else None)


def read_brief_ended(reader: JournalReader, since: int, limit: int = 200) -> tuple[list[BriefCall], int]:
    """The calls that came to an end after entry ``since`` of the chain, and the last entry that was looked at."""
    with reader.errors():
        entries = reader.list_ended(since, limit)
        rows = [
            reader.db.execute(f"SELECT {reader.brief} FROM calls WHERE seq = ?", (seq,)).fetchone()
            for _, seq in entries
        ]
    return [_summarize(row) for row in rows if row], entries[-1][0] if entries else since


def list_sources(reader: JournalReader) -> CallSources:
    """The sessions, workspaces and tools of the newest calls."""
    query = "SELECT session, workspace, tool FROM calls WHERE seq > ? ORDER BY seq DESC"
    with reader.errors():
        rows = reader.db.execute(query, (reader.find_last_call() - _RECENT,)).fetchall()
    sessions, workspaces, tools = (list(dict.fromkeys(row[column] for row in rows)) for column in range(3))
    return CallSources(sessions[:50], [os.fsdecode(one) for one in workspaces[:50]], sorted(tools)[:50])


def read_source(reader: JournalReader, session: str) -> tuple[str, str]:
    """The client and the model of a session; empty where they are not known."""
    query = "SELECT value FROM meta WHERE key = ?"
    with reader.errors():
        client, model = (reader.db.execute(query, (f"{kind}:{session}",)).fetchone() for kind in ("client", "model"))
    return client[0] if client else "", model[0] if model else ""


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
    bound = before if before is not None else 1 << 62
    with reader.errors():
        rows = reader.db.execute(query, (os.fsencode(path), bound, limit)).fetchall()
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
    with reader.errors():
        rows = reader.db.execute(query, (reader.find_last_call() - _LOOKED_AT, limit)).fetchall()
    return [(os.fsdecode(path), count) for path, count in rows]


def count_by_period(reader: JournalReader, seconds: int) -> list[Bucket]:
    """Figures of the newest calls for each period of so many seconds and each tool, the oldest first."""
    query = (
        "SELECT time / 1000000000 / ? * ?, tool, count(*), count(*) FILTER (WHERE status = 'error'), "
        "count(*) FILTER (WHERE status = 'denied'), count(*) FILTER (WHERE decision = 'ask'), "
        "count(*) FILTER (WHERE decision = 'ask' AND coalesce(status, '') <> 'denied'), "
        "CAST(coalesce(sum(given), 0) + coalesce(sum(said), 0) AS bigint), coalesce(sum(duration), 0) "
        "FROM calls WHERE seq > ? GROUP BY 1, 2 ORDER BY 1, 2"
    )
    last = reader.find_last_call()
    with reader.errors():
        return [Bucket(*row) for row in reader.db.execute(query, (seconds, seconds, last - _LOOKED_AT))]


def read_time_span(reader: JournalReader) -> tuple[int, int]:
    """The times of the oldest and the newest call that `count_by_period` looks at, in seconds since 1970."""
    with reader.errors():
        last = reader.find_last_call()
        query = "SELECT min(time), max(time) FROM calls WHERE seq > ?"
        first, newest = reader.db.execute(query, (last - _LOOKED_AT,)).fetchone()
    return (first or 0) // 10**9, (newest or 0) // 10**9


_TEXT, _NUMBER = (str, type(None)), (int, float, type(None))
_BRIEF = (
    *((int,), (int,), (str,), (bytes,), (str,), (str,)),
    *(_TEXT, _TEXT, _TEXT, _TEXT, (int,), _TEXT, (bytes, str, type(None)), (str,)),
    *(_TEXT, _TEXT, _TEXT, _NUMBER, _NUMBER, _TEXT, _TEXT),
)
"""The types of the columns of `JournalReader.brief`: one that was spoiled on the disk is shown as empty."""
_EMPTY = {1: 0, 2: "", 3: b"", 4: "", 5: "", 10: 0, 13: ""}


def _summarize(row: Sequence[object]) -> BriefCall:
    values = [value if isinstance(value, _BRIEF[place]) else _EMPTY.get(place) for place, value in enumerate(row)]
    values[3] = os.fsdecode(values[3])  # type: ignore[arg-type] # by its type above
    if isinstance(values[12], bytes):
        values[12] = _decode(values[12])
    values[14] = values[14] or UNFINISHED
    return BriefCall(*values)  # type: ignore[arg-type] # columns without types, in the order of the fields


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")
