"""Journals that many sessions of one process share: one connection for each file, closed by the last that uses it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from handrail.journal.database import Database
from handrail.journal.store import SqliteJournal
from handrail.journal.writer import Writer


def open_journal(path: str, *, required: bool, budget: int) -> SqliteJournal:
    """The journal at ``path``; all that are open at once share one connection. Never fails: the file is opened later.

    ``required``: nothing may be changed that cannot be recorded; if not, each result only carries a note that says why
    the journal could not be written. ``budget``: how many bytes the contents that were replaced may take in it.
    Call `close` when no more records come.
    """
    return _SharedJournal(path, required=required, budget=budget)


class _Writers:
    """The writers that are in use, by the real path of their file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Writer, int]] = {}

    def acquire(self, path: str) -> Writer:
        with self._lock:
            writer, users = self._known.get(path) or (Writer(path), 0)
            self._known[path] = (writer, users + 1)
            return writer

    def release(self, writer: Writer) -> None:
        with self._lock:
            _, users = self._known[writer.path]
            if users > 1:
                self._known[writer.path] = (writer, users - 1)
                return
            del self._known[writer.path]
        writer.close()

    def after_fork(self) -> None:
        """In the child: another thread of the parent may have held a lock, and does not exist here."""
        self._lock = threading.Lock()
        for writer, _ in self._known.values():
            writer.after_fork()

    def __len__(self) -> int:
        return len(self._known)


_writers = _Writers()
os.register_at_fork(after_in_child=_writers.after_fork)


class _SharedJournal(SqliteJournal):
    """One session's view of a shared journal: its own limits, and the common connection."""

    def __init__(self, path: str, *, required: bool, budget: int) -> None:
        super().__init__(_real(path), required=required, budget=budget)
        self._closing = threading.Lock()
        self._closed = False
        self._writer = _writers.acquire(self.path)

    @contextlib.contextmanager
    def _database(self) -> Iterator[Database]:
        with self._closing:
            # A call that was under way when its session was closed is recorded too.
            late = self._closed
            writer = _writers.acquire(self.path) if late else self._writer
        try:
            with writer.database() as database:
                yield database
        finally:
            if late:
                _writers.release(writer)

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
        _writers.release(self._writer)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # no such path can be: opening it says why
        return path
