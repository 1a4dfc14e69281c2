"""One conversation of an attached agent: its commands, edits and prompts, in a session of its own."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from handrail.attach.commands import AgentCommands
from handrail.attach.contracts import Contract, HookEvent, tell
from handrail.attach.conversation import AttachedConversation
from handrail.attach.edits import AgentEdits
from handrail.attach.outside import WatchedFiles
from handrail.errors import JournalFailed
from handrail.journal import Record
from handrail.model import Answer, Call, Question, Result, Verdict
from handrail.pipeline.session import Session

if TYPE_CHECKING:
    from handrail.journal.queries import JournalReader

OUTSIDE = "Changed outside"
"""The name under which changes of others are in the journal."""
_NOTIFICATION = "<task-notification>"
"""How a prompt begins that the agent itself makes when a background command has ended."""


class AttachedAgent:
    """A conversation of an agent in one project."""

    def __init__(self, contract: Contract, root: str, pid: int, calls: str) -> None:
        """``calls``: the place for the channels of its commands."""
        self.pid = pid
        self.used = time.monotonic()
        self.session = Session(root, approve=self._approve)
        self._conversation = AttachedConversation(contract, self.session)
        self._watched = WatchedFiles(self._is_recorded)
        self._commands = AgentCommands(self._conversation, pid, calls)
        self._edits = AgentEdits(self._conversation, self._watched)

    @property
    def is_busy(self) -> bool:
        return self._commands.is_busy

    def close(self) -> None:
        self._commands.withdraw()
        self.session.close()

    def handle(self, event: HookEvent) -> bytes:
        """Handle one event; returns what the hook prints."""
        self.used = time.monotonic()
        self._note_outside_changes()
        if event.kind == "prompt":
            self._begin_turn(event.prompt)
        elif event.kind == "before":
            return self._before(event)
        elif event.kind == "asked":
            self._commands.note_question(event)
        elif event.kind in ("after", "failed"):
            self._commands.after(event)
            self._edits.after(event)
        elif event.kind == "stop":
            self._end_open_calls()
            return tell(self._summarize_turn())
        return b""

    def _before(self, event: HookEvent) -> bytes:
        self._edits.record_patches()
        if event.edited:
            return self._edits.before(event)
        if event.command:
            return self._commands.before(event)
        return self._edits.before_read(event) if event.read else b""

    def _end_open_calls(self) -> None:
        """Forget the calls that the agent has not made, or has not reported the end of."""
        self._commands.withdraw()
        self._edits.end_open()

    def _approve(self, question: Question) -> Answer:
        return self._commands.approve(question)

    # Changes of others.

    def _note_outside_changes(self) -> None:
        """Record files that changed since the agent has read or changed them. Nobody undoes them with the agent's."""
        if self.is_busy:
            return  # a command may be keeping its changes just now
        for path in self._watched.list_changed(self._edits.list_changing()):
            call = Call(OUTSIDE, {"path": self._conversation.locate(path) or path})
            with contextlib.suppress(JournalFailed):
                origin, result = self._conversation.origin, Result(OUTSIDE, "ok", "")
                self.session.journal.record(Record(call, (), Verdict("allow", "", ""), origin=origin, result=result))

    def _is_recorded(self, path: str, digest: str, after: int) -> bool:
        from handrail.journal.call_changes import find_last_change

        with contextlib.suppress(JournalFailed), self._open_journal() as reader:
            return find_last_change(reader, path, digest, after) is not None
        return False

    def _open_journal(self) -> JournalReader:
        from handrail.files.locks import state_directory
        from handrail.journal.queries import JournalReader
        from handrail.journal.store import get_default_path

        return JournalReader(get_default_path(state_directory(self.session.settings.state)))

    # Turns.

    def _begin_turn(self, prompt: str) -> None:
        if not prompt.strip() or prompt.startswith(_NOTIFICATION):
            return  # the agent goes on by itself
        self._end_open_calls()
        self._conversation.unwrapped = 0
        with contextlib.suppress(JournalFailed):
            self.session.record_prompt(prompt)

    def _summarize_turn(self) -> str:
        """What changed since the last prompt, how to undo it, and what cannot be undone; empty if nothing did."""
        from handrail.journal.call_changes import find_prompt

        parts: list[str] = []
        with contextlib.suppress(JournalFailed), self._open_journal() as reader:
            session = self._conversation.origin.session
            prompt = find_prompt(reader, session, reader.find_last_call() + 1)
            changed = {
                file.path
                for row in reader.iterate_calls(session=session)
                if prompt and row.seq > prompt
                for file in reader.read_files(row.seq)
                if file.after != file.before
            }
            if changed:
                parts = [f"{_count(len(changed), 'file')} changed", "`handrail undo --turn` undoes this turn"]
        if self._conversation.unwrapped:
            parts.append(f"{_count(self._conversation.unwrapped, 'command')} cannot be undone")
        return f"handrail: {'; '.join(parts)}" if parts else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
