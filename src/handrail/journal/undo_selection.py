"""Which calls an undo means: one, all since one, a session's, or the newest change that is not undone yet."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from itertools import chain

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
    own = {one.seq for one in reader.iterate_file_changes(session=only)} if only else None
    before: int | None = None
    with contextlib.closing(reader.iterate_file_changes(session=session, workspace=workspace)) as calls:
        for one in chain(calls, [None]):
            first = one.seq + 1 if one else 0
            for undo in reader.read_undos(first, before):
                if undo.undone and undo.seq not in undone and undo.status not in ("denied", "error"):
                    undone.update(undo.undone)
            # A command may have changed something of which the journal has no file: all were too large, or no files.
            commands = reader.iterate_changing_calls(
                first=first, before=before, session=only or session, workspace=workspace
            )
            yield from filter(_has_kept_draft, commands)
            if one is None:
                return
            before = one.seq
            skip = one.seq in undone or one.status == "denied" or (own is not None and one.seq not in own)
            if not skip and (any(map(has_changed, reader.read_files(one.seq))) or _has_kept_draft(one)):
                yield one


def _has_kept_draft(call: CallSummary) -> bool:
    return bool(call.draft) and has_kept_changes(call.draft)
