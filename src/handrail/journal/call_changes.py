"""What calls have changed, and what undos have taken back: the queries that undo and redo need."""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `records.py`
from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from handrail.frozen import frozen
from handrail.journal.queries import (
    JOB,
    REDO,
    UNDO,
    UNFINISHED,
    JournalReader,
    bound,
    limit_to,
    list_numbers,
    list_texts,
    parse_json,
)
from handrail.journal.records import PROMPT, read_state

_BRIEF = "calls.seq, calls.tool, calls.status, calls.rule, calls.arguments, calls.touches, calls.session"


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
    session: str = ""
    unsaved: tuple[str, ...] | None = None
    """Of a job: the paths that it changed whose old contents are not known; None for any other call."""

    @classmethod
    def of(
        cls,
        seq: int,
        tool: str,
        status: str | None,
        rule: str | None,
        arguments: object,
        accesses: object,
        session: str,
    ) -> CallSummary:
        undone, calls, places, act = None, (), (), ""  # type: tuple[Any, Any, Any, str]
        if tool in (UNDO, REDO) and rule == "undo":
            named = arguments if isinstance(arguments, dict) else {}
            undone, calls, places = (list_numbers(named.get(key)) for key in ("undone", "calls", "places"))
            act = str(named.get("act") or seq)
        known = list_texts(accesses)
        command = next((str(target) for action, target, *_ in known if action == "run"), None)
        draft = next((str(path[0]) for action, _, *path in known if action == "run" and path), "")
        doubted = [str(path[0]) for _, _, *path in known if len(path) > 1]
        unsaved = tuple(doubted) if (tool, rule) == (JOB, "job") else None
        ended = status or UNFINISHED
        return cls(
            seq, ended, undone, calls, places, act, tool == REDO, command, bool(doubted), draft, session, unsaved
        )


def iterate_changing_calls(
    reader: JournalReader,
    *,
    first: int = 0,
    before: int | None = None,
    session: str = "",
    workspace: str = "",
    jobs: bool = False,
) -> Iterator[CallSummary]:
    """The calls from number ``first`` on that have changed files, or ran a command, the newest first.

    ``before``: only those before this one. ``jobs``: only background jobs, which are left out if not.
    """
    where, values = limit_to(session, workspace)
    changing = "(touches LIKE '%[\"run\",%' OR EXISTS (SELECT 1 FROM files WHERE files.seq = calls.seq))"
    query = (
        f"SELECT {_BRIEF} FROM calls WHERE seq >= ? AND seq < ? {where} "
        f"AND (tool = '{JOB}' AND coalesce(rule, '') = 'job') = ? AND {changing} ORDER BY seq DESC"
    )
    with reader.errors():
        yield from map(_summarize, reader.db.execute(query, (first, bound(before), *values, jobs)))


def iterate_file_changes(
    reader: JournalReader, *, session: str = "", workspace: str = ""
) -> Generator[CallSummary, None, None]:
    """The calls that have changed files, or tried to, besides undos and jobs; the newest first.

    The table of files is gone through and not that of calls: most calls change nothing, and their rows are big.
    """
    column, value = ("session", session) if session else ("workspace", os.fsencode(workspace))
    query = f"SELECT {_BRIEF} FROM calls WHERE seq = ? AND {column} = ?"
    with reader.errors():
        for (seq,) in reader.db.execute("SELECT DISTINCT seq FROM files ORDER BY seq DESC"):
            row = reader.db.execute(query, (seq, value)).fetchone()
            if row and (one := _summarize(row)).undone is None and one.unsaved is None:
                yield one


def read_undos(
    reader: JournalReader, first: int, before: int | None, *, session: str = "", workspace: str = ""
) -> list[CallSummary]:
    """The undos and redos from number ``first`` on and ``before`` another call, the newest first."""
    where, values = limit_to(session, workspace)
    query = (
        f"SELECT {_BRIEF} FROM calls WHERE seq >= ? AND seq < ? AND tool IN (?, ?) AND rule = 'undo' {where} "
        "ORDER BY seq DESC"
    )
    return [_summarize(row) for row in reader.query(query, (first, bound(before), UNDO, REDO, *values))]


def find_undone(reader: JournalReader, first: int, workspace: str = "") -> dict[int, int]:
    """The calls from number ``first`` on that were undone and not redone, each with the number of its undo."""
    undone: dict[int, int] = {}
    for one in read_undos(reader, first, None, workspace=workspace):
        if one.seq not in undone and one.status in ("ok", "partial"):
            undone |= {seq: one.seq for seq in one.undone or () if seq not in undone}
    return undone


def list_half_undone(reader: JournalReader) -> set[int]:
    """The calls whose undo or redo began and has no end: it was killed, or is under way."""
    query = f"SELECT {_BRIEF} FROM calls WHERE tool IN (?, ?) AND status IS NULL"
    half = {seq for row in reader.query(query, (UNDO, REDO)) for seq in _summarize(row).undone or ()}
    redone = filter(None, (summarize_call(reader, seq) for seq in half))
    return half.union(*(one.calls for one, _ in redone))


def find_prompt(reader: JournalReader, session: str, before: int) -> int:
    """The number of the last prompt of a session before a call; 0 if there is none."""
    query = "SELECT coalesce(max(seq), 0) FROM calls WHERE session = ? AND tool = ? AND seq < ?"
    return int(reader.read_value(query, (session, PROMPT, before)))


def summarize_call(reader: JournalReader, call: str | int) -> tuple[CallSummary, str] | None:
    """The call of that number or id, as an undo sees it, and its workspace."""
    row = reader.find_call(call)
    if row is None:
        return None
    return CallSummary.of(
        row.seq, row.tool, row.status, row.rule, row.arguments, row.accesses, row.session
    ), row.workspace


def has_session(reader: JournalReader, session: str) -> bool:
    return bool(reader.query("SELECT 1 FROM calls WHERE session = ? LIMIT 1", (session,)))


def find_last_change(reader: JournalReader, path: str, digest: str, after: int) -> int | None:
    """The call after ``after`` that left ``path`` with these contents."""
    query = "SELECT max(seq) FROM files WHERE path = ? AND after = ? AND seq > ?"
    number = reader.read_value(query, (os.fsencode(path), digest, after))
    return int(number) if number is not None else None


def find_state(reader: JournalReader, path: str, seq: int) -> str | None:
    """The hash of what was at ``path`` right after a call, as far as calls have changed it; None: unknown."""
    older = "SELECT coalesce(after, planned) FROM files WHERE path = ? AND seq <= ? ORDER BY seq DESC, attempt DESC"
    newer = "SELECT before FROM files WHERE path = ? AND seq > ? ORDER BY seq, attempt"
    for query in (older, newer):
        for (digest,) in reader.query(f"{query} LIMIT 1", (os.fsencode(path), seq)):
            return str(digest) if digest is not None else None
    return read_state(path)[0]


def _summarize(row: Sequence[Any]) -> CallSummary:
    seq, tool, status, rule, arguments, accesses, session = row
    return CallSummary.of(seq, tool, status, rule, parse_json(arguments), parse_json(accesses), session)
