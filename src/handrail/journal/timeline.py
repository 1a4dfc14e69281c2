"""The calls of the journal as turns: what an agent did after each prompt, in figures and in a sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from handrail.frozen import frozen
from handrail.journal.browse import read_source
from handrail.journal.call_changes import find_prompt, read_taken_back
from handrail.journal.queries import CallRow, FileRow, JournalReader
from handrail.journal.records import PROMPT
from handrail.journal.undo_plan import has_changed

_NOT_KEPT = ("changes_dropped", "changes_left")
"""The notes of a command whose changes did not come into the workspace."""
_AGENTS = {
    "claude-code": "Claude Code",
    "codex-mcp-client": "Codex",
    "codex": "Codex",
    "gemini-cli-mcp-client": "Gemini CLI",
}
"""The names that people know, for agents that give another."""
_HEADER = re.compile(r"^--- .*\n\+\+\+ .*\n(?=@@ )", re.MULTILINE)


@frozen
class TimelineCall:
    """A call with what became of it."""

    row: CallRow
    files: tuple[FileRow, ...]
    """Those that it changed."""
    added: int
    """Lines, as far as its diff is recorded."""
    removed: int
    undone_by: int
    """The undo that took it back in full; 0 if it holds."""

    @property
    def is_kept(self) -> bool:
        """Whether its changes came into the workspace, if it made any."""
        return not any(note[0] in _NOT_KEPT for note in self.row.notes)


@dataclass(slots=True)
class TimelineTurn:
    """The calls of a session between two prompts, the newest first."""

    session: str
    workspace: str
    prompt: int
    """The number of the prompt; 0 if none is recorded."""
    text: str
    """Of the prompt."""
    client: str
    model: str
    calls: list[TimelineCall] = field(default_factory=list)

    @property
    def agent(self) -> str:
        """Who made the calls, as far as it is known."""
        return _AGENTS.get(self.client, self.client) or ("You" if self.session == "undo" else "handrail")

    @property
    def undoable(self) -> list[int]:
        """The calls that changed files and hold, the newest first."""
        return [call.row.seq for call in self.calls if call.files and not call.undone_by and not call.row.is_undo]

    def describe(self) -> str:
        """Its calls in a few words: "changed 3 files, +41 -7, ran 5 commands"."""
        changing = [call for call in self.calls if not call.row.is_undo]
        files = {file.path for call in changing for file in call.files}
        added, removed = (sum(getattr(call, name) for call in changing if call.files) for name in ("added", "removed"))
        lines = "".join(
            f"{sign}{count:,}" for sign, count in ((", +", added), (" -" if added else ", -", removed)) if count
        )
        commands = sum(call.row.command is not None and call.row.status != "denied" for call in changing)
        undone = sum(bool(call.undone_by) for call in changing)
        counts = [
            (len(files), "changed {} file", f"changed {{}} files{lines}", lines),
            (commands, "ran {} command", "ran {} commands", ""),
            (undone, "{} undone", "{} undone", ""),
            (0 if undone else sum(call.row.is_undo for call in self.calls), "{} undo", "{} undos", ""),
            (sum(call.row.status == "denied" for call in self.calls), "{} refused", "{} refused", ""),
            (sum(call.row.status == "error" for call in self.calls), "{} failed", "{} failed", ""),
            (sum(not call.is_kept for call in self.calls), "{} not kept", "{} not kept", ""),
        ]
        parts = [(one + after if count == 1 else many).format(count) for count, one, many, after in counts if count]
        looked = len(self.calls)
        return ", ".join(parts) or f"{looked} {'call' if looked == 1 else 'calls'}, nothing changed"


def read_calls(reader: JournalReader, rows: Sequence[CallRow]) -> list[TimelineCall]:
    """Calls with the files they changed, and whether they were undone since."""
    undone = read_taken_back(reader, min((row.seq for row in rows), default=0)).undone
    calls = []
    for row in rows:
        files = tuple(filter(has_changed, reader.read_files(row.seq))) if row.status != "denied" else ()
        calls.append(TimelineCall(row, files, *count_lines(row.diff or ""), undone.get(row.seq, 0)))
    return calls


def group_turns(reader: JournalReader, rows: Iterable[CallRow]) -> list[TimelineTurn]:
    """The turns that some calls belong to, that with the newest call first. Prompts are titles, not calls."""
    calls = [row for row in sorted(rows, key=lambda row: -row.seq) if not is_prompt(row)]
    turns: list[TimelineTurn] = []
    newest: dict[str, TimelineTurn] = {}
    """The last turn of each session so far."""
    for call in read_calls(reader, calls):
        turn = newest.get(call.row.session)
        if turn is None or call.row.seq < turn.prompt:
            turn = newest[call.row.session] = open_turn(reader, call.row)
            turns.append(turn)
        turn.calls.append(call)
    return turns


def open_turn(reader: JournalReader, row: CallRow) -> TimelineTurn:
    """The turn of a call, without its calls."""
    number = find_prompt(reader, row.session, row.seq)
    prompt = reader.find_call(number) if number else None
    text = prompt.arguments.get("text", "") if prompt and isinstance(prompt.arguments, dict) else ""
    return TimelineTurn(row.session, row.workspace, number, str(text), *read_source(reader, row.session))


def is_prompt(row: CallRow) -> bool:
    """Whether this is what a person said, and no call."""
    return row.tool == PROMPT and not row.accesses and row.rule in (None, "")


def count_lines(diff: str) -> tuple[int, int]:
    """Count the lines that a unified diff adds and removes."""
    signs = Counter(line[:1] for line in _HEADER.sub("", diff).split("\n"))
    return signs["+"], signs["-"]
