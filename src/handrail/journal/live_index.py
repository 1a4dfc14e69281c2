"""The index of a journal while it is read: up to date before queries, and made again when it is damaged."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from handrail.journal import JournalFailed
from handrail.journal.importing import import_old
from handrail.journal.index import BrokenEntry, find_broken, is_damage, open_index, set_aside
from handrail.journal.log_lines import get_logs_path
from handrail.journal.logs import require_possible


class LiveIndex:
    """Executes queries on the newest records. Raises `JournalFailed` if there is no journal."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            require_possible(path)
            import_old(path)
            if not os.path.isfile(os.path.join(get_logs_path(path), "numbers")):
                raise JournalFailed(journal=path, why="there is no journal yet")
            self.index = open_index(path)
        except (sqlite3.Error, OSError) as error:
            raise JournalFailed(journal=path, why=str(error)) from None

    def execute(self, query: str, values: Sequence[Any] = (), /) -> sqlite3.Cursor:
        try:
            return self.index.connection.execute(query, values)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.rebuild()
            return self.index.connection.execute(query, values)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Around queries: the newest records are read first, and errors of the database become `JournalFailed`."""
        try:
            if not self.index.connection.in_transaction:
                self._refresh()
            yield
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and is_damage(error):
                self.rebuild()
            raise JournalFailed(journal=self.path, why=str(error)) from None

    def find_broken(self) -> list[BrokenEntry]:
        """The places where the journal was changed; an index that says something else is made again."""
        broken, differs = find_broken(self.path, self.index)
        if differs:
            self.rebuild()
        return broken

    def rebuild(self) -> None:
        """Make the index again, from the logs."""
        self.index.close()
        set_aside(self.path, keep=False)
        self.index = open_index(self.path)

    def close(self) -> None:
        self.index.close()

    def _refresh(self) -> None:
        if not self.index.is_current():
            self.index.close()
            self.index = open_index(self.path)
            return
        try:
            self.index.sync()
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            self.rebuild()
