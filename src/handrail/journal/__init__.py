"""Journal: one record per call, refusals included, with the old contents. `Journal` is any object with these methods.

A call that changes something is recorded in two steps: `begin` under the locks, right before the change, so that the
old contents are saved first; `record` when the call is over. If the process dies in between, the first record is
enough to undo the change.
"""

from __future__ import annotations

from typing import Protocol

from handrail.errors import JournalFailed as JournalFailed
from handrail.files.versions import Change
from handrail.journal.records import BeforeImage as BeforeImage
from handrail.journal.records import MovedEntry as MovedEntry
from handrail.journal.records import Origin as Origin
from handrail.journal.records import PendingRecord as PendingRecord
from handrail.journal.records import Record as Record
from handrail.journal.records import Token as Token


class Journal(Protocol):
    """Keeps records."""

    def begin(self, pending: PendingRecord, /, token: Token | None = None) -> Token:
        """Called right before a change is made, under its locks; again, with the ``token``, if that has to be retried.

        Raises `JournalFailed` to stop the change.
        """

    def record(self, record: Record, /) -> str:
        """Called once for every call, before its result is handed out; a text says why that failed."""

    def close(self) -> None:
        """No more records come."""


class NoJournal:
    """Keeps nothing."""

    why = 'the journal is switched off: set journaling = "warn" below [settings]'

    def begin(self, pending: PendingRecord, token: Token | None = None) -> Token:
        if any(isinstance(change, Change) and change.keep for change in pending.changes):
            raise JournalFailed(journal="", why="this session has no journal")
        return token or Token(0)

    def record(self, record: Record) -> str:  # noqa: ARG002
        return ""

    def close(self) -> None:
        pass
