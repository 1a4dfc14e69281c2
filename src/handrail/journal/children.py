"""The calls of a script: each is a record of its own, below the record of the script, which has their changes."""

from __future__ import annotations

from dataclasses import replace

from handrail.journal import NoJournal, PendingRecord, Record, Token
from handrail.journal.records import IN_SCRIPT
from handrail.journal.store import SqliteJournal


class ChildJournal(NoJournal):
    """Records the calls of a script in the journal of the script. It can be sent to the process that makes them.

    They come one after the other, and change a draft only: there is nothing to undo.
    """

    def __init__(self, path: str, parent: int, session: str) -> None:
        """``parent``: the number of the script's call; ``session``: that of the script."""
        self._path, self._parent, self._session = path, parent, session
        self._journal: SqliteJournal | None = None
        self._count = 0

    def begin(self, pending: PendingRecord, token: Token | None = None) -> Token:  # noqa: ARG002
        return token or Token(0)

    def record(self, record: Record) -> str:
        self._journal = self._journal or SqliteJournal(self._path)
        self._count += 1
        call = replace(record.call, id=f"{IN_SCRIPT}{self._parent}/{self._count}")
        origin = replace(record.origin, session=self._session)
        return self._journal.record(replace(record, call=call, origin=origin, changes=()))

    def close(self) -> None:
        if self._journal:
            self._journal.close()
