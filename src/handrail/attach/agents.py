"""An attached agent: one conversation with it in one project, and what is done about each of its events."""

from __future__ import annotations

import time

from handrail import dialects
from handrail.attach.commands import AgentCommands
from handrail.attach.contracts import Contract, HookEvent, tell
from handrail.attach.conversation import AttachedConversation
from handrail.attach.edits import AgentEdits
from handrail.attach.outside import WatchedFiles
from handrail.attach.turns import begin_turn, is_by_person, summarize_turn
from handrail.pipeline.session import Session


class AttachedAgent:
    """Handles the events of one conversation with an agent."""

    def __init__(self, contract: Contract, root: str, pid: int, calls: str) -> None:
        """``pid``: the agent; ``calls``: the directory for the channels of its commands."""
        self.pid = pid
        self.used = time.monotonic()
        dialect = dialects.load("native").with_names(contract.names)
        session = Session(root, dialect=dialect, approve=lambda question: self._commands.approve(question))
        self._conversation = AttachedConversation(contract, session)
        self._watched = WatchedFiles(self._conversation)
        self._commands = AgentCommands(self._conversation, pid, calls)
        self._edits = AgentEdits(self._conversation, self._watched)

    @property
    def is_busy(self) -> bool:
        """Whether a command of the agent is running."""
        return bool(self._commands.list_running())

    @property
    def is_waiting(self) -> bool:
        """Whether a call of the agent has neither begun nor ended: its person may be thinking about it."""
        return self._commands.is_waiting or bool(self._edits.list_changing())

    def close(self) -> None:
        """End the session, and with it what still runs."""
        self._commands.withdraw()
        self._conversation.session.close()

    def handle(self, event: HookEvent) -> bytes:
        """Handle one event; returns what the hook prints."""
        self.used = time.monotonic()
        if not self.is_busy:  # a command may be keeping its changes just now
            self._watched.record_changes(self._edits.list_changing())
        match event.kind:
            case "prompt" if is_by_person(event.prompt):
                self._end_open_calls(event.subagent)
                begin_turn(self._conversation, event.prompt)
            case "before":
                return self._before(event)
            case "asked":
                self._commands.note_question(event)
            case "after" | "failed":
                self._commands.after(event)
                return self._edits.after(event)
            case "stop":
                self._end_open_calls(event.subagent)
                running = sum(not one.in_background for one in self._commands.list_running())
                return tell(summarize_turn(self._conversation, running))
        return b""

    def _before(self, event: HookEvent) -> bytes:
        self._edits.record_patches()
        if event.edited:
            return self._edits.before(event)
        if event.command:
            return self._commands.before(event)
        return self._edits.before_read(event) if event.read else b""

    def _end_open_calls(self, subagent: str) -> None:
        """Forget the calls that an agent has not made, or has not reported the end of; its subagents may go on."""
        self._commands.withdraw(subagent)
        self._edits.end_open(subagent)
