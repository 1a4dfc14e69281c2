"""Which calls an undo means: one, all since one, a session's, or the newest change that is not undone yet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from itertools import chain

from handrail.journal.queries import UNFINISHED, CallSummary, FileRow, JournalReader
from handrail.journal.records import ABSENT, DIRECTORY, read_state
from handrail.journal.undo_drafts import has_kept_changes
from handrail.journal.undo_plan import State, has_changed, is_undone


class UnknownCall(LookupError):
    """There is no such call, or none that could be undone."""


def choose(
    reader: JournalReader,
    workspace: str,
    call: str | int | None,
    since: str | int | None,
    session: str | None,
    only: str = "",
) -> list[CallSummary]:
    """The calls that are meant, the latest first. Of several, those that only looked are left out."""
    if call is not None or since is not None:
        number = call if call is not None else since
        selected = reader.summarize_call(number or "")
        if selected is None:
            raise UnknownCall(reader.describe_unknown(number or ""))
        first, place = selected
        return [first] if call is not None else list(reader.iterate_changing_calls(first=first.seq, workspace=place))
    if session is not None:
        if not reader.has_session(session):
            raise UnknownCall(f"unknown session {session}; `handrail log` lists the calls")
        return list(reader.iterate_changing_calls(session=session))
    with contextlib.closing(iterate_changes(reader, workspace=workspace, only=only)) as changes:
        last = next(changes, None)
    if last is None and only:
        raise UnknownCall("there is nothing to undo in this session; any_session=True looks at all sessions")
    if last is None:
        raise UnknownCall("there is nothing to undo in this workspace")
    return [last]


def iterate_changes(
    reader: JournalReader, *, session: str = "", workspace: str = "", only: str = ""
) -> Generator[CallSummary, None, None]:
    """The calls of a session or workspace that have changed something and are not undone, the newest first.

    ``only``: of this session, though another one may have undone it.
    """
    undone: set[int] = set()
    unsure: set[int] = set()
    """Calls of an undo that was killed, or that may be undone itself: the files say whether it was carried out."""
    own = {one.seq for one in reader.iterate_file_changes(session=only)} if only else None
    before: int | None = None
    with contextlib.closing(reader.iterate_file_changes(session=session, workspace=workspace)) as calls:
        for one in chain(calls, [None]):
            first = one.seq + 1 if one else 0
            for undo in reader.read_undos(first, before):
                if undo.undone and undo.seq not in undone and undo.status not in ("denied", "error"):
                    killed = undo.status == UNFINISHED or undo.seq in unsure
                    (unsure if killed else undone).update(undo.undone)
            # A command may have changed something of which the journal has no file: all were too large, or no files.
            commands = reader.iterate_changing_calls(
                first=first, before=before, session=only or session, workspace=workspace
            )
            yield from filter(_has_kept_draft, commands)
            if one is None:
                return
            before = one.seq
            if one.seq in undone or one.status == "denied" or (own is not None and one.seq not in own):
                continue
            files = [row for row in reader.read_files(one.seq) if has_changed(row)]
            if one.seq in unsure:
                files = [row for row in files if not _is_as_before(row)]
            if files or _has_kept_draft(one):
                yield one


def _is_as_before(row: FileRow) -> bool:
    """Whether nothing is left of the change of a file: neither contents nor mode, nor directories made for it."""
    digest, mode = read_state(row.path)
    if digest is None or not is_undone(row, State(digest, mode)):
        return False
    if row.before == DIRECTORY:
        return row.before_mode in (None, mode)
    left = next(filter(os.path.isdir, row.created_directories if row.before == ABSENT else ()), None)
    try:
        return left is None or bool(os.listdir(left))
    except OSError:
        return True


def _has_kept_draft(call: CallSummary) -> bool:
    return bool(call.draft) and has_kept_changes(call.draft)
