"""`handrail` alone: attached agents, what changed in this project today, what is waiting, the next useful command."""

from __future__ import annotations

import os
import time
from collections import Counter

from handrail.cli.common import find_state
from handrail.cli.minimal import write
from handrail.text.display import escape

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.journal.queries import CallRow, JournalReader

_MOST_CALLS = 500
"""Calls of today that are looked at."""
_MOST_SESSIONS = 8
_MOST_DRAFTS = 5
_START = """\
Nothing is recorded here yet.

  handrail demo                see an agent at work on a temporary project
  handrail attach              undo for what your agent does; `handrail mcp install --help` lists other agents
  handrail help                what else there is
"""


def show_status() -> int:
    """Print the status of the current directory, in at most 20 lines."""
    from handrail.journal import JournalFailed
    from handrail.journal.queries import JournalReader
    from handrail.journal.store import get_default_path

    project = os.path.realpath(".")
    path = get_default_path(find_state())
    attached = _list_attached()
    if not os.path.exists(path):
        write("\n".join([*attached, _START]))
        return 0
    try:
        with JournalReader(path) as reader:
            calls = list(reader.iterate_calls(limit=_MOST_CALLS, project=project))
            lines = _describe_today(reader, calls) if calls else [_START.rstrip()]
    except JournalFailed as error:
        lines = [f"The journal cannot be read: {escape(error.why)}. `handrail doctor` says what to do."]
        calls = []
    lines += _list_drafts(project)
    if calls:
        lines += ["", "  handrail undo   undo the newest change", "  handrail log    every call with its number"]
        lines += ["  handrail web    the same as a page in your browser, with diffs"]
    write("\n".join([*attached, *lines]) + "\n")
    return 0


def _list_attached() -> list[str]:
    from handrail.cli.attached_clients import list_attached

    names = [client.name for client in list_attached().values()]
    return [f"Attached: {', '.join(names)}", ""] if names else []


def _describe_today(reader: JournalReader, calls: list[CallRow]) -> list[str]:
    from handrail.journal.browse import read_source

    midnight = time.mktime((*time.localtime()[:3], 0, 0, 0, 0, 0, -1)) * 1e9
    sessions: dict[str, list[CallRow]] = {}
    for call in calls:
        if call.time >= midnight:
            sessions.setdefault(call.session, []).append(call)
    if not sessions:
        return [f"Nothing happened here today. The newest call is of {_format_day(calls[-1].time)}."]
    lines = ["Today:"]
    for session, rows in list(sessions.items())[-_MOST_SESSIONS:]:
        client, _ = read_source(reader, session)
        name = escape(client or "handrail")[:24]
        lines.append(f"  {_format_hour(rows[-1].time)}  {name:<14}  {_count(reader, rows)}")
    if len(sessions) > _MOST_SESSIONS:
        lines.append(f"  and {len(sessions) - _MOST_SESSIONS} earlier sessions")
    return lines


def _count(reader: JournalReader, rows: list[CallRow]) -> str:
    """The calls of a session in a few words: "3 files changed, 5 commands, 1 refused"."""
    changed = {
        file.path
        for row in rows
        for file in reader.read_files(row.seq)
        if file.after != file.before and not (file.kept and file.after is None)
    }
    kinds = Counter("refused" if row.status == "denied" else row.tool for row in rows)
    parts = [
        _format_count(len(changed), "file changed", "files changed"),
        _format_count(kinds["Bash"], "command", "commands"),
        _format_count(kinds["Undo"], "undo", "undos"),
        _format_count(kinds["refused"], "refused", "refused"),
    ]
    return ", ".join(part for part in parts if part) or _format_count(len(rows), "call", "calls")


def _list_drafts(project: str) -> list[str]:
    from handrail.drafts.store import DraftStore

    try:
        names = [draft.info.name for draft in DraftStore.open(find_state(), project).list_named()]
    except OSError:
        return []  # there can be no drafts here
    if not names:
        return []
    more = f" and {len(names) - _MOST_DRAFTS} more" if len(names) > _MOST_DRAFTS else ""
    return ["", f"Drafts waiting: {', '.join(names[:_MOST_DRAFTS])}{more} (`handrail draft diff NAME` shows one)"]


def _format_count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}" if count else ""


def _format_day(nanoseconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(nanoseconds / 1e9))


def _format_hour(nanoseconds: int) -> str:
    return time.strftime("%H:%M", time.localtime(nanoseconds / 1e9))
