"""A session with a journal in a file, for tests of what is recorded and undone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from handrail import AllowAll, Session, Settings
from handrail.files.locks import Locks
from handrail.files.recovery import recover
from handrail.files.versions import Saving
from handrail.journal import Origin, PendingRecord, Record, Token
from handrail.journal.queries import CallRow, JournalReader
from handrail.journal.store import SqliteJournal, Writer
from handrail.journal.undo import UndoContext, UndoReport, undo


def open_like_another_process(path: str) -> SqliteJournal:
    """A journal with a writer of its own, which those of one process share."""
    journal = SqliteJournal(path)
    journal._writer.leave()
    journal._writer = Writer(journal.path)
    journal._writer.users = 1
    return journal


class _Both:
    """The journal as the session sees it; records get the session name that the test chose."""

    def __init__(self, session: Wired, journal: SqliteJournal) -> None:
        self.session, self.real = session, journal
        self.retain = journal.retain
        self.warning = ""

    def begin(self, pending: PendingRecord, token: Token | None = None) -> Token:
        return self.real.begin(replace(pending, origin=self.session.origin), token)

    def record(self, record: Record) -> str:
        self.warning = self.real.record(replace(record, origin=self.session.origin))
        return self.warning

    def close(self) -> None:
        self.real.close()


class Wired(Session):
    """A session whose calls are recorded in two steps."""

    def __init__(
        self, root: Path, journal: SqliteJournal, name: str = "s", dialect: str = "native", **more: Any
    ) -> None:
        self.kept = journal
        settings = Settings(durable=False, raise_bugs=True, **more)
        self.both = _Both(self, journal)
        super().__init__(root, dialect=dialect, policy=AllowAll(), journal=self.both, settings=settings)
        self.services.origin = Origin(name, dialect, os.path.realpath(root))

    def __enter__(self) -> Wired:
        return self

    def undo(self, **asked: Any) -> UndoReport:
        plain = Locks(os.path.join(self.services.state, "locks"), recover, self.settings.lock_seconds)
        hands = UndoContext(self.workspace, plain, Saving(durable=False), origin=self.origin)
        return undo(self.kept, hands, **asked)

    def rows(self) -> list[CallRow]:
        with JournalReader(self.kept.path) as reader:
            return reader.read_calls()


def tree(root: Path) -> dict[str, tuple[int, bytes | None]]:
    """Everything below a folder: modes, the contents of files, and what links lead to."""
    return {str(path.relative_to(root)): (path.lstat().st_mode, _held(path)) for path in sorted(root.rglob("*"))}


def _held(path: Path) -> bytes | None:
    if path.is_symlink():
        return os.fsencode(os.readlink(path))
    return path.read_bytes() if path.is_file() else None
