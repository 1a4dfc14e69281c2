"""What calls have changed, and what undos have taken back: the queries that undo and redo need."""

from __future__ import annotations

import os
from collections.abc import Iterator

from handrail.journal.queries import JOB, REDO, UNDO, CallRow, JournalReader, bound, limit_to, parse_call
from handrail.journal.records import PROMPT, read_state


def iterate_changing_calls(
    reader: JournalReader,
    *,
    first: int = 0,
    before: int | None = None,
    session: str = "",
    workspace: str = "",
    jobs: bool = False,
) -> Iterator[CallRow]:
    """The calls from number ``first`` on that have changed files, or ran a command, the newest first.

    ``before``: only those before this one. ``jobs``: only background jobs, which are left out if not.
    """
    where, values = limit_to(session, workspace)
    changing = "(touches LIKE '%[\"run\",%' OR EXISTS (SELECT 1 FROM files WHERE files.seq = calls.seq))"
    query = (
        f"{reader.calls} WHERE seq >= ? AND seq < ? {where} "
        f"AND (tool = '{JOB}' AND coalesce(rule, '') = 'job') = ? AND {changing} ORDER BY seq DESC"
    )
    with reader.errors():
        yield from map(parse_call, reader.db.execute(query, (first, bound(before), *values, jobs)))


def read_undos(reader: JournalReader, first: int = 0, *, session: str = "", workspace: str = "") -> Iterator[CallRow]:
    """The undos and redos from number ``first`` on, the newest first."""
    where, values = limit_to(session, workspace)
    query = f"{reader.calls} WHERE seq >= ? AND tool IN (?, ?) AND rule = 'undo' {where} ORDER BY seq DESC"
    with reader.errors():
        yield from map(parse_call, reader.db.execute(query, (first, UNDO, REDO, *values)))


def find_undone(reader: JournalReader, first: int, workspace: str = "") -> dict[int, int]:
    """The calls from number ``first`` on that were undone and not redone, each with the number of its undo."""
    undone: dict[int, int] = {}
    for one in read_undos(reader, first, workspace=workspace):
        if one.seq not in undone and one.status in ("ok", "partial"):
            undone |= {seq: one.seq for seq in one.undone if seq not in undone}
    return undone


def list_half_undone(reader: JournalReader) -> set[int]:
    """The calls whose undo or redo began and has no end: it was killed, or is under way."""
    query = f"{reader.calls} WHERE tool IN (?, ?) AND status IS NULL"
    half = {seq for row in reader.query(query, (UNDO, REDO)) for seq in parse_call(row).undone}
    return half.union(*(one.calls for one in map(reader.find_call, half) if one))


def find_prompt(reader: JournalReader, session: str, before: int) -> int:
    """The number of the last prompt of a session before a call; 0 if there is none."""
    query = "SELECT coalesce(max(seq), 0) FROM calls WHERE session = ? AND tool = ? AND seq < ?"
    return int(reader.read_value(query, (session, PROMPT, before)))


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
