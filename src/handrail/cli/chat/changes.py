"""Query the journal for this conversation: its calls, the total diff, and the last change."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from handrail.errors import ToolError
from handrail.journal import JournalFailed, NoJournal
from handrail.journal.call_changes import iterate_changing_calls
from handrail.journal.past_files import make_net_diff
from handrail.journal.queries import JournalReader
from handrail.journal.records import PROMPT
from handrail.journal.store import SqliteJournal
from handrail.journal.undo import CannotUndo, UndoReport
from handrail.journal.undo_selection import UnknownCall, iterate_changes
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.journal.queries import CallRow
    from handrail.pipeline.any_session import AnySession


class NoChange(LookupError):
    """There is nothing to show or to undo; the text has the reason."""


@contextmanager
def _open_reader(session: AnySession) -> Iterator[JournalReader]:
    if not isinstance(session.journal, SqliteJournal):
        raise NoChange(getattr(session.journal, "why", NoJournal.why))
    try:
        with JournalReader(session.journal.path) as reader:
            yield reader
    except JournalFailed as error:
        failure = session.journal.failure
        why = f"the journal cannot be opened: {failure}" if failure else str(error.facts.get("why", error))
        raise NoChange(escape(why)) from None


def list_calls(session: AnySession, most: int) -> list[CallRow]:
    """The last calls of this session, the newest last."""
    with _open_reader(session) as reader:
        return reader.read_calls(limit=most, session=session.origin.session)


def undo_last(session: AnySession, *, redo: bool = False) -> UndoReport:
    """Undo the newest change of this session that is not undone yet, or redo what the newest undo took back."""
    try:
        return session.undo(redo=redo)
    except UnknownCall:
        if redo:
            raise NoChange("nothing to redo in this conversation") from None
        raise NoChange("nothing to undo in this conversation; `handrail undo` can undo older changes") from None
    except CannotUndo as error:
        raise NoChange(str(error)) from None
    except JournalFailed as error:
        raise NoChange(f"nothing was undone: {error.facts.get('why', error)}") from None
    except ToolError as error:
        raise NoChange(f"nothing was undone: {escape(str(error))}") from None


def undo_calls(session: AnySession, ids: Sequence[str]) -> UndoReport:
    """Undo the last calls of this session, which have these ids, as far as they changed files; the latest first.

    Some servers give the same id to several calls: of each id, as many of the latest calls are undone as it is given.
    """
    if not ids:
        return UndoReport()
    with _open_reader(session) as reader:
        left, own = Counter(ids), set[int]()
        for row in reversed(reader.read_calls(session=session.origin.session)):
            if row.tool != PROMPT and left[row.call_id or ""] > 0:
                left[row.call_id or ""] -= 1
                own.add(row.seq)
        numbers = [one.seq for one in iterate_changes(reader, session=session.origin.session) if one.seq in own]
    try:
        return session.undo(calls=numbers)
    except (CannotUndo, JournalFailed, ToolError) as error:
        raise NoChange(f"not all changes were undone: {escape(str(error))}") from None


def make_session_diff(session: AnySession) -> str:
    """All changes of this session as one diff, from the first version of each file to the current one."""
    with _open_reader(session) as reader:
        changes = iterate_changing_calls(reader, session=session.origin.session)
        return make_net_diff(reader, list(changes), os.path.realpath(session.workspace.home))
