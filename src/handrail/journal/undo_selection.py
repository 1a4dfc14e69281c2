"""Which calls an undo or redo means: one, all since one, a session's, a turn's, or the newest change or undo."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from itertools import takewhile

from handrail.frozen import frozen
from handrail.journal.call_changes import (
    TakenBack,
    find_prompt,
    has_session,
    iterate_changing_calls,
    read_taken_back,
    read_undos,
)
from handrail.journal.queries import CallRow, FileRow, JournalReader
from handrail.journal.records import ABSENT, DIRECTORY, REDO, read_state
from handrail.journal.undo_drafts import has_kept_changes
from handrail.journal.undo_plan import State, has_changed, is_undone, select_files


class UnknownCall(LookupError):
    """There is no such call, or none that could be undone."""


@frozen
class UndoSelection:
    """What is to be taken back. Nothing given: the newest change in the workspace that is not undone yet."""

    call: str | int | None = None
    """The number of one call in the journal, or the id that the model's framework gave it."""
    calls: Sequence[int] | None = None
    """The numbers of several."""
    since: str | int | None = None
    """This call and all later ones in the same workspace."""
    session: str | None = None
    """All calls of the session with this name (`Session.origin.session`)."""
    turn: bool = False
    """All changes since the prompt that led to the newest one."""
    file: str = ""
    """The newest change of this file, or below this directory; nothing else that the call did."""
    redo: bool = False
    """The newest undo, unless something was changed after it."""
    only: str = ""
    """Where neither a call nor a session is given: only changes and undos of this session."""

    def __post_init__(self) -> None:
        if len(self._given) > 1:
            raise ValueError(f"give only one of {', '.join(self._given)}")

    @property
    def _given(self) -> list[str]:
        return [name for name in _EXCLUSIVE if getattr(self, name) not in (None, False, "")]

    @property
    def is_newest(self) -> bool:
        """Whether nothing is selected: the newest change is undone."""
        return not self._given


_EXCLUSIVE = ("call", "calls", "since", "session", "turn", "file", "redo")


def choose(reader: JournalReader, workspace: str, which: UndoSelection) -> list[CallRow]:
    """The calls that are meant, the latest first. Of several, those that only looked are left out."""
    if which.call is not None or which.since is not None:
        number = which.call if which.call is not None else which.since
        first = reader.find_call(number or "")
        if first is None:
            raise UnknownCall(reader.describe_unknown(number or ""))
        if which.call is not None:
            return [first]
        return list(iterate_changing_calls(reader, first=first.seq, workspace=first.workspace))
    if which.calls is not None:
        return list(filter(None, map(reader.find_call, sorted(which.calls, reverse=True))))
    if which.session is not None:
        if not has_session(reader, which.session):
            raise UnknownCall(f"unknown session {which.session}; `handrail log` lists the calls")
        return list(iterate_changing_calls(reader, session=which.session))
    if which.redo:
        return _choose_redo(reader, workspace, which.only)
    last = next(iterate_changes(reader, workspace=workspace, only=which.only, file=which.file), None)
    if last is None:
        what = f"no change of {which.file} to undo" if which.file else "nothing to undo"
        raise UnknownCall(f"there is {what} in this {'session' if which.only else 'workspace'}")
    return _choose_turn(reader, last) if which.turn else [last]


def _choose_turn(reader: JournalReader, last: CallRow) -> list[CallRow]:
    """The changes of a session up to ``last`` and since the prompt before it."""
    session = last.session
    prompt = find_prompt(reader, session, last.seq)
    if not prompt:
        way = f"`handrail undo --session {session}` undoes all of its session" if session else "give its number"
        raise UnknownCall(f"no prompt is recorded before call {last.seq}, the newest change; {way}")
    return list(takewhile(lambda one: one.seq > prompt, iterate_changes(reader, session=session)))


def _choose_redo(reader: JournalReader, workspace: str, only: str) -> list[CallRow]:
    """The records of the newest undo that is not redone, the latest first."""
    newest = _find_newest_change(reader, workspace, only)
    chosen: list[CallRow] = []
    for one, killed in read_taken_back(reader, newest + 1, session=only, workspace=workspace).holding:
        if chosen and one.act != chosen[0].act:
            break
        if one.tool != REDO and (not killed or _has_effect(reader, one, look=True)):
            chosen.append(one)
    if not chosen:
        after = f" after call {newest}, the newest change" if newest else ""
        raise UnknownCall(f"there is nothing to redo{after}; `handrail undo CALL` with the number of an undo redoes it")
    if not any(_has_effect(reader, one) for one in chosen):
        raise UnknownCall(f"undo {chosen[0].seq} cannot be redone: what the command had done is not kept")
    return chosen


def _find_newest_change(reader: JournalReader, workspace: str, only: str) -> int:
    """The newest call besides undos that has changed something, undone or not; 0 if there is none."""
    for one in iterate_changing_calls(reader, session=only, workspace=workspace):
        if not one.is_undo and one.status != "denied" and (_has_effect(reader, one) or _has_kept_draft(one)):
            return one.seq
    return 0


def _has_effect(reader: JournalReader, one: CallRow, *, look: bool = False) -> bool:
    """Whether a call has changed files; ``look``: whether something is left of that."""
    rows = filter(has_changed, reader.read_files(one.seq))
    return any(not (look and _is_as_before(row)) for row in rows)


def iterate_changes(
    reader: JournalReader, *, session: str = "", workspace: str = "", only: str = "", file: str = ""
) -> Iterator[CallRow]:
    """The calls of a session or workspace that have changed something and are not undone, the newest first.

    ``only``: of this session, though another one may have undone it. ``file``: that have changed this file.
    """
    taken_back = TakenBack()
    changes = iterate_changing_calls(reader, session=only or session, workspace=workspace)
    for one in heapq.merge(changes, read_undos(reader), key=lambda one: -one.seq):  # no further than is asked for
        if one.is_undo:
            taken_back.take(one)
        if one.is_undo or one.seq in taken_back.undone or one.status == "denied":
            continue
        taken = taken_back.places.get(one.seq, set())
        files = [row for place, row in enumerate(reader.read_files(one.seq)) if place not in taken]
        files = [row for row in select_files(files, file) if has_changed(row)]
        if one.seq in taken_back.unsure:
            files = [row for row in files if not _is_as_before(row)]
        if files or (not taken and not file and _has_kept_draft(one)):
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


def _has_kept_draft(call: CallRow) -> bool:
    return bool(call.draft) and has_kept_changes(call.draft)
