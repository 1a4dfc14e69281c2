"""The record step: one journal record for every call, refusals included."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from handrail.dialects import Dialect
from handrail.files.changes import Change
from handrail.journal import BeforeImage, Journal, JournalFailed, MovedEntry, NoJournal, Origin, PendingRecord, Record
from handrail.model import Note, Result
from handrail.pipeline.call_state import Approved, Done, Judged, Progress, Rendered
from handrail.settings import Settings
from handrail.tools.notes import JournalFailing


class SessionJournal:
    """The journal that a host chose: its own, the user's ("auto" or "require"), or none.

    The user's journal is opened when it is first needed, since SQLite is slow to import, and closed with the session.
    A required one is opened at once; raises `JournalFailed` if that fails.
    """

    def __init__(self, choice: Journal | str | None, state: str, settings: Settings) -> None:
        self._required = "require" in (choice, settings.journaling)
        self._state, self._budget = state, settings.journal_bytes
        self._lock = threading.Lock()
        self._closed = False
        self._is_users = isinstance(choice, str) and (self._required or settings.journaling != "off")
        own = NoJournal() if choice is None or isinstance(choice, str) else choice
        self._journal: Journal | None = None if self._is_users else own
        if self._is_users and self._required:
            self.open()

    def open(self) -> Journal:
        with self._lock:
            if self._journal is None:
                from handrail.journal.shared import open_journal
                from handrail.journal.store import default_path

                journal = open_journal(default_path(self._state), required=self._required, budget=self._budget)
                try:
                    if self._required:
                        journal.require()
                except JournalFailed:
                    journal.close()
                    raise
                if self._closed:  # a refusal after the end is still recorded, and nothing stays open for it
                    journal.close()
                self._journal = journal
            return self._journal

    def close(self) -> None:
        """Close the user's journal; a host's own stays open."""
        with self._lock:
            self._closed = True
            if self._is_users and self._journal:
                self._journal.close()


class Recorder:
    """Writes the calls of one session to its journal."""

    def __init__(self, journal: SessionJournal, origin: Origin, dialect: Dialect) -> None:
        self._journal = journal
        self._origin = origin
        self._dialect = dialect

    @property
    def journal(self) -> Journal:
        return self._journal.open()

    def begin(
        self, approved: Approved, changes: Sequence[Change | BeforeImage | MovedEntry], progress: Progress
    ) -> None:
        """Save the earlier contents before anything changes. Raises `JournalFailed` to stop the change."""
        judged = approved.previous
        pending = PendingRecord(judged.call, approved.accesses, judged.verdict, changes, self._origin)
        progress.token = self.journal.begin(pending, progress.token)

    def record(self, rendered: Rendered) -> Result:
        """Record a call that is over; its result gets a note if that fails."""
        progress, result = rendered.progress, rendered.result
        judged, done = progress.find(Judged), progress.find(Done)
        failure = self.journal.record(
            Record(
                progress.received.call,
                progress.accesses,
                judged.verdict if judged else None,
                done.changes if done else (),
                self._origin,
                result=result,
                traceback=rendered.traceback,
                token=progress.token,
                data=rendered.data,
            )
        )
        if failure and all(note.code != "journal" for note in result.notes):
            note = Note("journal", self._dialect.templates.fill("notes.journal", JournalFailing(why=failure)))
            return replace(result, notes=(*result.notes, note), status="partial" if result.ok else result.status)
        return result
