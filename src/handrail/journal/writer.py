"""One connection to a journal, for any number of threads: opened when it is first needed, and anew after a failure.

A journal that makes callers wait before it fails (locked by another program, a network file system without locks) is
left alone for a while, so that not every call waits for it again.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator

from handrail.journal.database import Database

_SLOW = 1.0
"""A failure that took this many seconds is not provoked again at once."""
_LONGEST_PAUSE = 30.0


class Writer:
    """The connection of this process to the journal at a path."""

    def __init__(self, path: str, now: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.failure = ""
        """Why the journal could not be used the last time; empty if it could."""
        self._now = now
        self._lock = threading.Lock()
        self._open: Database | None = None
        self._inherited: list[Database] = []
        """Connections of the parent of a fork: if they were collected, SQLite would drop the parent's locks."""
        self._retry_at = 0.0

    @contextlib.contextmanager
    def database(self) -> Iterator[Database]:
        """The database, for one thread at a time. Raises `sqlite3.Error` or `OSError` if it cannot be used."""
        with self._lock:
            begun = self._now()
            if begun < self._retry_at:
                raise sqlite3.OperationalError(self.failure)
            try:
                yield self._open_database()
            except (sqlite3.Error, OSError) as error:
                self._fail(error, self._now() - begun)
                raise
            self.failure = ""

    def close(self) -> None:
        """Let go of the file; it is opened again if it is needed."""
        with self._lock:
            self._drop()

    def after_fork(self) -> None:
        """In the child: another thread of the parent may have held the lock, and does not exist here."""
        self._lock = threading.Lock()

    def _open_database(self) -> Database:
        """Open the database, again after a fork or if another file is at its path."""
        if self._open and not self._open.is_current():
            if self._open.inherited():
                self._inherited.append(self._open)
            self._drop()
        if self._open is None:
            self._open = Database(self.path)
        return self._open

    def _fail(self, error: sqlite3.Error | OSError, seconds: float) -> None:
        self.failure = reason(error)
        if isinstance(error, sqlite3.DatabaseError):
            self._drop()
        if seconds >= _SLOW:
            self._retry_at = self._now() + min(10 * seconds, _LONGEST_PAUSE)

    def _drop(self) -> None:
        opened, self._open = self._open, None
        if opened:
            with contextlib.suppress(sqlite3.Error, OSError):
                opened.close()


def reason(error: sqlite3.Error | OSError) -> str:
    """Return the system's error message."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)
