"""`handrail` alone: attached agents, what changed in this project today, what is waiting, the next useful command."""

from __future__ import annotations

import os
import time

from handrail.cli.attached_clients import list_attached
from handrail.cli.common import find_state
from handrail.cli.help import measure_terminal
from handrail.cli.minimal import write
from handrail.drafts.store import DraftStore
from handrail.journal import JournalFailed
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path, has_journal
from handrail.journal.timeline import group_turns
from handrail.text.display import escape

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.journal.queries import CallRow
    from handrail.journal.timeline import TimelineTurn

_MOST_CALLS = 500
"""Calls of today that are looked at."""
_MOST_LINES = 8
"""For the turns of today: a prompt takes a line of its own."""
_MOST_DRAFTS = 5
_START = """\
Nothing is recorded here yet.

  handrail demo                see an agent at work on a temporary project
  handrail attach              undo for what your agent does; `handrail mcp install --help` lists other agents
  handrail help                what else there is
"""


def show_status() -> int:
    """Print the status of the current directory, in at most 20 lines."""
    project = os.path.realpath(".")
    path = get_default_path(find_state())
    attached = _list_attached()
    if not has_journal(path):
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
    names = [client.name for client in list_attached().values()]
    return [f"Attached: {', '.join(names)}", ""] if names else []


def _describe_today(reader: JournalReader, calls: list[CallRow]) -> list[str]:
    midnight = time.mktime((*time.localtime()[:3], 0, 0, 0, 0, 0, -1)) * 1e9
    turns = group_turns(reader, [call for call in calls if call.time >= midnight])
    if not turns:
        return [f"Nothing happened here today. The newest call was on {_format_day(calls[-1].time)}."]
    shown = turns[: _MOST_LINES // 2 if any(turn.text for turn in turns) else _MOST_LINES]
    lines = ["Today:"]
    if len(turns) > len(shown):
        lines.append(f"  and {len(turns) - len(shown)} earlier turns")
    for turn in reversed(shown):
        lines.append(f"  {_format_hour(turn.calls[0].row.time)}  {escape(turn.agent)[:24]:<14}  {turn.describe()}")
        if turn.text:
            lines.append(
                f"                         {_cut(escape(' '.join(turn.text.split())), measure_terminal() - 26)}"
            )
    return lines + _describe_unanswered(turns)


def _describe_unanswered(turns: list[TimelineTurn]) -> list[str]:
    """The questions that nobody was there to answer."""
    unanswered = [call.row.seq for turn in turns for call in turn.calls if call.row.error == "needs_approval"]
    if not unanswered:
        return []
    which = f"call {unanswered[0]}" if len(unanswered) == 1 else f"{len(unanswered)} calls"
    return [
        "",
        f"Not done, because nobody could be asked: {which} (`handrail web` or `handrail approve` takes questions)",
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 1)] + "…"


def _list_drafts(project: str) -> list[str]:
    try:
        names = [draft.info.name for draft in DraftStore.open(find_state(), project).list_named()]
    except OSError:
        return []  # there can be no drafts here
    if not names:
        return []
    more = f" and {len(names) - _MOST_DRAFTS} more" if len(names) > _MOST_DRAFTS else ""
    return ["", f"Drafts waiting: {', '.join(names[:_MOST_DRAFTS])}{more} (`handrail draft diff NAME` shows one)"]


def _format_day(nanoseconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(nanoseconds / 1e9))


def _format_hour(nanoseconds: int) -> str:
    return time.strftime("%H:%M", time.localtime(nanoseconds / 1e9))
