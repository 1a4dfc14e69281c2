"""Removing the oldest calls of a journal that has too many of them, or too many bytes of them.

The hash chain begins later then. Where it begins is noted in the table `meta` and in an entry of the chain itself, so
that `verify` tells a journal that was shortened here from one whose beginning was deleted by somebody else. Each time a
few calls are removed, so that no call waits for long.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from handrail.journal.database import MOST_UNSHIPPED, Database, Head, read_shipped
from handrail.journal.records import Queries

MOST_CALLS = 1_000_000
FEWEST_CALLS = 1_000
"""A journal is not made smaller than that: calls that are still running stay in it."""
EVERY = 256
"""The size is looked at after so many calls."""
_AT_ONCE = 4 * EVERY
_LAST = 10**20 - 1
STAGE = "removed"
"""The stage of the entries in the chain; their contents are in `meta`, below this name and the number of the entry."""


class Removed(NamedTuple):
    """What was removed from the beginning of a journal."""

    n: int
    """The last entry of the chain that was removed."""
    hash: str
    seq: int
    """The last call that was removed; all before it are too, except for some that ended much later."""


def remove_oldest(db: Database, most_calls: int, most_bytes: int) -> None:
    """Remove a few of the oldest calls if there are more than ``most_calls``, or if they take more than ``most_bytes``.

    What is to be shipped and was not is removed only beyond twice these limits. The stored old contents do not count
    here: they have a limit of their own.
    """
    if _count_surplus(db.connection, most_calls, most_bytes) < EVERY:
        return
    with db.writing() as head:
        surplus = _count_surplus(db.connection, most_calls, most_bytes)  # others may have removed some since
        if surplus >= EVERY:
            removed = read_removed(db.connection)
            last, last_entry = removed.seq + min(surplus, _AT_ONCE), head.n
            if shipped := read_shipped(db.connection):
                far = _count_surplus(db.connection, MOST_UNSHIPPED * most_calls, MOST_UNSHIPPED * most_bytes)
                last_far = removed.seq + min(far, _AT_ONCE) if far >= EVERY else 0
                if last_far > min(last, shipped.seq):  # the one who ships counts what is gone
                    last = last_far
                else:
                    last, last_entry = min(last, shipped.seq), shipped.n
            if last > removed.seq:
                _remove(db, head, removed, last, last_entry)


def read_removed(connection: Queries, entry: int | None = None) -> Removed:
    """What was removed in all, or according to one entry of the chain; zeros if that is nothing."""
    first, last = (0, _LAST) if entry is None else (entry, entry)
    query = "SELECT value FROM main.meta WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1"
    row = connection.execute(query, (_key(first), _key(last))).fetchone()
    words = row[0].split() if row and isinstance(row[0], str) else []
    if len(words) != 3 or not (words[0].isdecimal() and words[2].isdecimal()):
        return Removed(0, "", 0)
    return Removed(int(words[0]), words[1], int(words[2]))


def _key(entry: int) -> str:
    return f"{STAGE}:{entry:020d}"


def _count_surplus(connection: sqlite3.Connection, most_calls: int, most_bytes: int) -> int:
    """How many calls are too many now."""
    run = connection.execute
    newest: int
    newest, images = run("SELECT seq, kept FROM head").fetchone()
    calls = newest - read_removed(connection).seq
    pages, free, size = (run(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
    too_large = (pages - free) * size - images > most_bytes
    return min(max(calls - most_calls, _AT_ONCE if too_large else 0), calls - FEWEST_CALLS)


def _remove(db: Database, head: Head, removed: Removed, last: int, last_entry: int) -> None:
    """Remove the calls up to ``last`` and the entries of the chain before the first that belongs to a later call.

    No entry behind ``last_entry`` is removed.
    """
    run = db.connection.execute
    cut, ended = ("", 0), set[int]()
    entries = run("SELECT n, seq, stage, hash FROM chain WHERE n > ? ORDER BY n", (removed.n,))
    for n, seq, stage, digest in entries:
        if seq > last or n > last_entry:
            break
        cut = digest, n
        if not stage.startswith("begin"):
            ended.add(seq)
    digest, n = cut
    if not n:
        return
    # A call that has no end is a killed one, or one that has run for very long, which is then recorded anew.
    candidates = run("SELECT seq, session, status IS NULL FROM calls WHERE seq <= ?", (last,)).fetchall()
    oldest = [(seq, session) for seq, session, unended in candidates if unended or seq in ended]
    for seq, _ in oldest:
        run("DELETE FROM calls WHERE seq = ?", (seq,))
        run("DELETE FROM files WHERE seq = ?", (seq,))
    run("DELETE FROM chain WHERE n <= ?", (n,))
    run("DELETE FROM lost WHERE n <= ?", (n,))
    head.kept -= int(run("SELECT coalesce(sum(stored), 0) FROM images WHERE used <= ?", (last,)).fetchone()[0])
    run("DELETE FROM images WHERE used <= ?", (last,))
    run("DELETE FROM meta WHERE key BETWEEN ? AND ?", (_key(0), _key(n)))
    _forget_sessions(db.connection, {session for _, session in oldest})
    head.n += 1
    run("INSERT INTO meta VALUES (?, ?)", (_key(head.n), f"{n} {digest} {last}"))
    head.enter(0, STAGE, [n, digest, last])
    head.trimmed = True


def _forget_sessions(connection: sqlite3.Connection, sessions: Iterable[str]) -> None:
    """Remove the names of the client and the model of sessions that have no call any more."""
    for session in sessions:
        if connection.execute("SELECT 1 FROM calls WHERE session = ? LIMIT 1", (session,)).fetchone() is None:
            connection.executemany("DELETE FROM meta WHERE key = ?", [(f"client:{session}",), (f"model:{session}",)])
