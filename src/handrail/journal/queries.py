"""Reading the journal: calls by number, session or workspace, figures over all of them, and whether it is whole.

The queries are written in the SQL that SQLite and PostgreSQL share: `postgres_reader.py` reads a shared journal with
them, and has its own where the two differ.
"""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `records.py`
from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from handrail.frozen import frozen
from handrail.journal.index import BrokenEntry, Index
from handrail.journal.log_lines import get_logs_path, list_logs
from handrail.journal.logs import OldContents
from handrail.journal.records import CALL_COLUMNS, FILE_COLUMNS, IN_SCRIPT, JOB, REDO, UNDO, Queries
from handrail.journal.rows import fits
from handrail.policy.paths import is_within

UNFINISHED = "unfinished"
"""The status of a call that has begun to change something and has not come to an end, or was killed on the way."""
ADDED_CALL = "the row was added by another program"
ADDED_FILE = "a file was added to the row by another program"
_PAGE = 256
"""How many calls are in memory at once where all are wanted."""
_MOST_WORKSPACES = 100
"""With more workspaces in a project its calls are searched among all."""
_MOST_BROKEN = 1_000
_MOST_NAMED = 8
"""Calls that the description of an undo names."""


@frozen
class StorageUse:
    """The size of the images."""

    count: int
    size: int
    """Of the contents."""


@frozen
class FileRow:
    """The change of one file by a call. Hashes: empty for no file, None for unknown."""

    path: str
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

    @property
    def in_script(self) -> bool:
        """Whether a script made this call."""
        return self.call_id.startswith(IN_SCRIPT)

    @property
    def is_undo(self) -> bool:
        """Whether it is an undo or redo."""
        return self.tool in (UNDO, REDO) and self.rule == "undo"

    @property
    def is_job(self) -> bool:
        """Whether it has the changes of a background job."""
        return (self.tool, self.rule) == (JOB, "job")

    @property
    def undone(self) -> tuple[int, ...]:
        """Of an undo or redo: the calls that it has taken back in full."""
        return self._read_numbers("undone")

    @property
    def calls(self) -> tuple[int, ...]:
        """Of an undo or redo: the calls that it was about."""
        return self._read_numbers("calls")

    @property
    def places(self) -> tuple[int, ...]:
        """Of an undo of some files: the places of those it has restored, among the files of its call."""
        return self._read_numbers("places")

    @property
    def act(self) -> object:
        """Of an undo or redo: the same for all records of one act."""
        return (isinstance(self.arguments, dict) and self.arguments.get("act")) or self.seq

    @property
    def command(self) -> str | None:
        """The command that it ran."""
        return next((access[1] for access in self.accesses if access[0] == "run"), None)

    @property
    def draft(self) -> str:
        """The directory of the draft that the command ran in: all its changes in the workspace are known then."""
        return next((access[2] for access in self.accesses if access[0] == "run" and len(access) > 2), "")

    @property
    def doubted(self) -> list[str]:
        """The paths that it may have changed further than the journal knows."""
        return [access[2] for access in self.accesses if len(access) > 3]

    def _read_numbers(self, name: str) -> tuple[int, ...]:
        named = self.arguments if self.is_undo and isinstance(self.arguments, dict) else {}
        return list_numbers(named.get(name))


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
    chars_saved: int
    """About how many more the answers would have if they left nothing out, and if scripts were single calls."""
    milliseconds: float


class JournalReader:
    """A journal that is only read, whoever writes to it meanwhile."""

    calls = f"SELECT {', '.join(CALL_COLUMNS)} FROM calls"
    _workspace = "+workspace"
    """The plus keeps SQLite from collecting the calls of a large project by their index and sorting them."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._index = Index(self.path)
        self.db: Queries = self._index

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._index.close()

    def errors(self) -> AbstractContextManager[None]:
        """Around queries: the newest records are there, and errors of the database become `JournalFailed`."""
        return self._index.errors()

    def query(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows of a query. Raises `JournalFailed`."""
        with self.errors():
            return list(self.db.execute(query, values))

    def read_value(self, query: str, values: Sequence[object] = ()) -> Any:
        """The first column of the first row of a query; None if there is no row. Raises `JournalFailed`."""
        rows = self.query(query, values)
        return rows[0][0] if rows else None

    def read_calls(self, *, after: int = 0, limit: int = -1, session: str = "", workspace: str = "") -> list[CallRow]:
        """The newest ``limit`` calls after number ``after``, the oldest first."""
        where, values = limit_to(session, workspace)
        query = f"{self.calls} WHERE seq > ? {where} ORDER BY seq DESC LIMIT ?"
        return [parse_call(row) for row in reversed(self.query(query, (after, *values, bound(limit))))]

    def iterate_calls(self, *, limit: int = -1, session: str = "", project: str = "") -> Iterator[CallRow]:
        """The newest ``limit`` calls, the oldest first; few are in memory at a time, besides their numbers.

        ``project``: only calls in workspaces that are this directory, contain it, or are inside it.
        """
        limit = bound(limit)
        # Those of each workspace by themselves: the calls of an old project are not searched among all.
        places = _list_workspaces(self, project) if project and not session else None
        parts = [("workspace = ?", [place]) for place in places] if places else [self._select(session, project)]
        newest = "SELECT seq FROM calls WHERE {} ORDER BY seq DESC LIMIT ?"
        with self.errors():
            rows_of_each = (self.db.execute(newest.format(only), (*values, limit)) for only, values in parts)
            numbers = sorted(seq for rows in rows_of_each for (seq,) in rows)[-limit:]
        for start in range(0, len(numbers), _PAGE):
            page = numbers[start : start + _PAGE]
            query = f"{self.calls} WHERE seq IN ({', '.join('?' * len(page))}) ORDER BY seq"
            yield from map(parse_call, self.query(query, page))

    def list_ended(self, since: int, limit: int = -1) -> list[tuple[int, int]]:
        """The entries after entry ``since`` with which calls came to an end, and their calls."""
        return self.query("SELECT entry, seq FROM calls WHERE entry > ? ORDER BY entry LIMIT ?", (since, bound(limit)))

    def read_newest_entry(self) -> int:
        """The newest entry with which a call came to an end."""
        return int(self.read_value("SELECT coalesce(max(entry), 0) FROM calls"))

    def find_call(self, call: str | int) -> CallRow | None:
        """The call of that number, or, failing that, the newest one with that id."""
        rows = []
        if str(call).isdecimal() and len(str(call)) < 19:
            rows = self.query(f"{self.calls} WHERE seq = ?", (int(call),))
        newest = f"{self.calls} WHERE call_id = ? AND call_id != '' ORDER BY seq DESC LIMIT 1"
        rows = rows or self.query(newest, (str(call),))
        return parse_call(rows[0]) if rows else None

    def describe_unknown(self, call: str | int) -> str:
        """Why there is no such call, for the person who asked for it."""
        removed = int(self.read_value("SELECT value FROM meta WHERE key = 'removed'") or 0)
        if str(call).isdecimal() and 0 < int(str(call)[:19]) <= removed:
            return f"call {call} is not in the journal any more: it keeps the newest ones (setting journal_calls)"
        return f"unknown call {call}; `handrail log` lists the calls"

    def read_files(self, seq: int) -> list[FileRow]:
        """Return the file changes of a call's last attempt."""
        unended = "EXISTS (SELECT 1 FROM calls WHERE calls.seq = files.seq AND status IS NULL)"
        query = (
            f"SELECT {', '.join(FILE_COLUMNS)}, {unended} FROM files "
            "WHERE seq = ? AND attempt = (SELECT max(attempt) FROM files WHERE seq = ?) ORDER BY place"
        )
        rows = [_parse_file_row(row[:-1], bool(row[-1])) for row in self.query(query, (seq, seq))]
        return [row for row in rows if row]

    def read_images(self, digests: Sequence[str]) -> dict[str, bytes]:
        with self.errors():
            return OldContents(get_logs_path(self.path)).load(digests)

    def measure_use(self) -> StorageUse:
        """Return the size of the before-images."""
        with self.errors():
            return StorageUse(*OldContents(get_logs_path(self.path)).measure())

    def measure_journal(self) -> int:
        """The bytes of all logs, and of the contents beside them."""
        with self.errors():
            logs = sum(os.path.getsize(path) for path in list_logs(get_logs_path(self.path)).values())
            return logs + OldContents(get_logs_path(self.path)).measure()[1]

    def compute_stats(self, *, session: str = "", project: str = "") -> tuple[list[ToolStats], dict[str, int]]:
        """Figures per tool, and how often a call ended in which code."""
        only, values = self._select(session, project)
        # The calls of a script are those of its program: the model sees neither their arguments nor their answers.
        in_script = f"call_id LIKE '{IN_SCRIPT}%'"
        sent = [f"CASE WHEN {in_script} THEN 0 ELSE {name} END" for name in ("given", "said", "answer_bytes")]
        saved = f"CASE WHEN {in_script} THEN said ELSE left_out END"
        sums = ", ".join(f"CAST(coalesce(sum({one}), 0) AS bigint)" for one in (*sent, saved))
        per_tool = (
            "SELECT tool, count(*), count(*) FILTER (WHERE status = 'error'), "
            f"count(*) FILTER (WHERE status = 'denied'), count(*) FILTER (WHERE status IS NULL), {sums}, "
            f"coalesce(sum(duration), 0) FROM calls WHERE {only} GROUP BY tool ORDER BY count(*) DESC, tool"
        )
        codes = f"SELECT error, count(*) FROM calls WHERE {only} GROUP BY error ORDER BY count(*) DESC, error"
        tools = [ToolStats(*row) for row in self.query(per_tool, values)]
        return tools, {code: count for code, count in self.query(codes, values) if code}

    def count_entries(self) -> int:
        """How many entries all chains have."""
        return int(self.read_value("SELECT coalesce(sum(n), 0) FROM logs"))

    def find_last_call(self) -> int:
        """The number of the newest call."""
        return int(self.read_value("SELECT coalesce(max(seq), 0) FROM calls"))

    def list_damage(self) -> list[BrokenEntry]:
        """The damage that is known so far, without looking for more."""
        with self.errors():
            return self._index.list_broken()

    def verify(self) -> BrokenEntry | None:
        """Return the first place where the journal was changed; None if it is intact."""
        return next(iter(self.list_broken()), None)

    def list_broken(self) -> list[BrokenEntry]:
        """The places where the journal was changed: one does not hide the others. All logs are read for it."""
        with self.errors():
            self._index.rebuild()
            return self._index.list_broken()[:_MOST_BROKEN]

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


def list_children(reader: JournalReader, row: CallRow) -> list[CallRow]:
    """The calls that a script made."""
    first = f"{IN_SCRIPT}{row.seq if row.number is None else row.number}/"
    query = f"{reader.calls} WHERE session = ? AND call_id LIKE ? ORDER BY seq"
    return list(map(parse_call, reader.query(query, (row.session, f"{first}%"))))


def _list_workspaces(reader: JournalReader, project: str) -> list[bytes] | None:
    """The workspaces of a project; None where they are too many."""
    above, first, behind = _find_bounds(project)
    places = [*above]
    while len(places) <= _MOST_WORKSPACES:
        query = "SELECT workspace FROM calls WHERE workspace > ? AND workspace < ? ORDER BY workspace LIMIT 1"
        first = reader.read_value(query, (first, behind))
        if first is None:
            return places
        places.append(first)
    return None


def limit_to(session: str, workspace: str) -> tuple[str, list[Any]]:
    """The condition for the calls of a session and in a workspace, with its values; empty: of any."""
    wanted = {"session": session, "workspace": os.fsencode(workspace)}
    given = {name: value for name, value in wanted.items() if value}
    return "".join(f" AND {name} = ?" for name in given), list(given.values())


def bound(limit: int | None) -> int:
    """A limit as both databases take it: -1 and None stand for none."""
    return limit if limit is not None and limit >= 0 else 1 << 62


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


_EMPTY: dict[str, Any] = {"time": 0, "session": "", "workspace": b"", "dialect": "", "tool": "", "call_id": ""}


def parse_call(row: Sequence[Any]) -> CallRow:
    """One call. A column that was spoiled on the disk is empty; `verify` says so."""
    named = dict(zip((*CALL_COLUMNS, "host", "number")[: len(row)], row, strict=True))
    for name in ("pid", "given", "said", "answer_bytes", "left_out", "ended", "client", "model"):
        del named[name]
    for name, value in named.items():
        if value is None or not fits(name, value):
            named[name] = _EMPTY.get(name)
    named["accesses"] = list_texts(parse_json(named.pop("touches")))  # the column's name in older versions
    named["notes"] = list_texts(parse_json(named["notes"]))
    named["arguments"] = parse_json(named["arguments"])
    named["workspace"] = os.fsdecode(named["workspace"])
    named["status"] = named["status"] or UNFINISHED
    return CallRow(**named)


def list_texts(value: object) -> list[list[str]]:
    """Lists of two or more texts, which is what accesses and notes are."""
    lists = value if isinstance(value, list) else []
    return [[str(text) for text in one] for one in lists if isinstance(one, list) and len(one) > 1]


def describe_undo(tool: str, arguments: object) -> str:
    """Which calls an undo or redo was about, in a few words: "undo of 17"; empty for any other call."""
    named = arguments if isinstance(arguments, dict) and tool in (UNDO, REDO) else {}
    numbers = list_numbers(named.get("redone" if tool == REDO else "calls"))
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return f"{tool.lower()} of {', '.join(map(str, numbers[:_MOST_NAMED]))}{more}" if numbers else ""


def list_numbers(value: object) -> tuple[int, ...]:
    return tuple(one for one in value if isinstance(one, int)) if isinstance(value, list) else ()


def parse_json(text: Any) -> Any:
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
    if None in (path, before) or not all(fits(name, value) for name, value in named.items()):
        return None
    directories = parse_json(named["made"])
    return FileRow(
        os.fsdecode(path),
        before,
        modes[0],
        after,
        modes[1],
        os.fsdecode(source) if source is not None else None,
        tuple(one for one in directories if isinstance(one, str)) if isinstance(directories, list) else (),
    )
