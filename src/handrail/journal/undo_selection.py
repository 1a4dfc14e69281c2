"""Which calls an undo means: one, all since one, a session's, or the newest change that is not undone yet."""

from __future__ import annotations

import contextlib

from handrail.journal.queries import CallSummary, JournalReader
from handrail.journal.undo_drafts import has_kept_changes
from handrail.journal.undo_plan import has_changed


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
    last = find_last_change(reader, workspace=workspace, only=only)
    last = _find_kept_command(reader, workspace, only, last.seq + 1 if last else 0) or last
    if last is None and only:
        raise UnknownCall("there is nothing to undo in this session; any_session=True looks at all sessions")
    if last is None:
        raise UnknownCall("there is nothing to undo in this workspace")
    return [last]


def find_last_change(
    reader: JournalReader, *, session: str = "", workspace: str = "", only: str = ""
) -> CallSummary | None:
    """The newest call of a session or workspace that has changed something and is not undone.

    ``only``: of this session, though another one may have undone it.
    """
    undone: set[int] = set()
    seen_from: int | None = None
    own = {one.seq for one in reader.iterate_file_changes(session=only)} if only else None
    with contextlib.closing(reader.iterate_file_changes(session=session, workspace=workspace)) as calls:
        for one in calls:
            for undo in reader.read_undos(one.seq, seen_from):
                if undo.undone and undo.seq not in undone and undo.status not in ("denied", "error"):
                    undone.update(undo.undone)
            seen_from = one.seq
            if one.seq in undone or one.undone is not None or one.status == "denied":
                continue
            if (own is None or one.seq in own) and any(map(has_changed, reader.read_files(one.seq))):
                return one
    return None


def _find_kept_command(reader: JournalReader, workspace: str, session: str, first: int) -> CallSummary | None:
    """The newest command from number ``first`` on whose kept draft can still be taken back.

    Such a command has changed something, though the journal may have no file of it: all were too large, or no files.
    """
    with contextlib.closing(reader.iterate_changing_calls(first=first, session=session, workspace=workspace)) as calls:
        return next((one for one in calls if one.draft and has_kept_changes(one.draft, workspace)), None)
