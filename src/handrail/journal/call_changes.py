"""What calls have changed, and what undos have taken back: the queries that undo and redo need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from handrail.journal.queries import UNFINISHED, CallRow, JournalReader, bound, limit_to, parse_call
from handrail.journal.records import JOB, PROMPT, RARE, REDO, UNDO, read_state


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
    job = f"tool = '{JOB}' AND coalesce(rule, '') = 'job'"
    kind = f"{RARE} AND {job}" if jobs else f"NOT ({job})"
    query = f"{reader.calls} WHERE seq >= ? AND seq < ? {where} AND {kind} AND changing ORDER BY seq DESC"
    with reader.errors():
        yield from map(parse_call, reader.db.execute(query, (first, bound(before), *values)))


def read_undos(reader: JournalReader, first: int = 0, *, session: str = "", workspace: str = "") -> Iterator[CallRow]:
    """The undos and redos from number ``first`` on, the newest first."""
    where, values = limit_to(session, workspace)
    query = f"{reader.calls} WHERE seq >= ? AND {RARE} AND rule = 'undo' {where} ORDER BY seq DESC"
    with reader.errors():
        undos = map(parse_call, reader.db.execute(query, (first, *values)))
        yield from (one for one in undos if one.is_undo)


@dataclass(slots=True)
class TakenBack:
    """What undos and redos have taken back. One that was itself taken back counts for nothing."""

    undone: dict[int, int] = field(default_factory=dict)
    """The calls that were undone and not redone, each with the number of its undo."""
    unsure: set[int] = field(default_factory=set)
    """Calls of an undo that was killed, or that may be undone itself: the files say whether it was carried out."""
    places: dict[int, set[int]] = field(default_factory=dict)
    """The places of files of a call that were undone by themselves."""
    holding: list[tuple[CallRow, bool]] = field(default_factory=list)
    """The undos and redos that count, the newest first, and whether each is unsure."""

    def take(self, one: CallRow) -> None:
        """Take an undo or redo into account; all newer ones must have been taken before."""
        if one.seq in self.undone or one.status in ("denied", "error"):
            return
        killed = one.status == UNFINISHED or one.seq in self.unsure
        self.holding.append((one, killed))
        if killed:
            self.unsure.update(one.undone, one.calls if one.places else ())
        elif one.places:
            self.places.setdefault(one.calls[0], set()).update(one.places)
        else:
            self.undone |= {seq: one.seq for seq in one.undone if seq not in self.undone}


def read_taken_back(reader: JournalReader, first: int = 0, *, session: str = "", workspace: str = "") -> TakenBack:
    """What undos and redos from number ``first`` on have taken back."""
    taken = TakenBack()
    for one in read_undos(reader, first, session=session, workspace=workspace):
        taken.take(one)
    return taken


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
