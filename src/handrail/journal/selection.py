"""Which calls an undo means: one, all since one, a session's, or the newest change that is not undone yet."""

from __future__ import annotations

from handrail.journal.reading import CallRow, Reader

TOOL = "Undo"
"""The name under which an undo is in the journal."""


class UnknownCall(LookupError):
    """There is no such call, or none that could be undone."""


def choose(
    reader: Reader, workspace: str, call: str | int | None, since: str | int | None, session: str | None
) -> list[CallRow]:
    """The calls that are meant, the latest first."""
    if call is not None or since is not None:
        wanted = call if call is not None else since
        row = reader.one(wanted or "")
        if row is None:
            raise UnknownCall(f"there is no call {wanted}")
        if call is not None:
            return [row]
        return reader.calls(after=row.seq - 1, workspace=row.workspace)[::-1]
    if session is not None:
        rows = reader.calls(session=session)[::-1]
        if not rows:
            raise UnknownCall(f"there is no session {session}")
        return rows
    return [_last(reader, workspace)]


def _last(reader: Reader, workspace: str) -> CallRow:
    """The newest call that has changed something here and is not taken back."""
    undone: set[int] = set()
    for row in reversed(reader.calls(workspace=workspace)):
        if row.seq in undone or row.status == "denied":
            continue
        if row.tool == TOOL and row.rule == "undo":
            taken = row.arguments.get("undone", ()) if isinstance(row.arguments, dict) else ()
            undone.update(seq for seq in taken if isinstance(seq, int))
        elif any(one.after != one.before for one in reader.files(row.seq)):
            return row
    raise UnknownCall("there is nothing to undo in this workspace")
