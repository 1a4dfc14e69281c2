"""What the parts of an attached agent share: its session, and the ways to judge, refuse and record."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from handrail.attach.contracts import Contract, HookEvent, decide
from handrail.files.locks import state_directory
from handrail.journal import Record
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path
from handrail.model import Call, CommandAccess, Result
from handrail.pipeline.session import Session


class AttachedConversation:
    """A session of ours, and the agent and conversation that it belongs to."""

    def __init__(self, contract: Contract, session: Session) -> None:
        self.contract = contract
        self.session = session
        session.name_source(contract.name)
        self.origin = replace(session.origin, client=contract.name)
        self.unwrapped = 0
        """Commands of this turn that cannot be undone."""

    def locate(self, path: str) -> str | None:
        """A path below the workspace, relative to it; None for one outside."""
        home = os.path.realpath(self.session.workspace.home)
        relative = os.path.relpath(os.path.realpath(path or home), home)
        return None if relative == ".." or relative.startswith("../") else relative

    def ask(self, why: str) -> bytes:
        """Have the person asked; empty if the agent's hook cannot do that."""
        return decide(self.contract, "ask", f"handrail: {why}") if self.contract.asks else b""

    def deny(self, why: str) -> bytes:
        """Refuse a tool call with one line, which the model reads."""
        return decide(self.contract, "deny", f"handrail: {' '.join(why.split())}")

    def refuse(self, event: HookEvent, tool: str, arguments: Mapping[str, object]) -> bytes:
        """Record a refusal, as the pipeline words it, and tell the model."""
        return self.deny(self.session.call(tool, arguments, id=event.call).text)

    def open_journal(self) -> JournalReader:
        """The journal of this user, for queries."""
        return JournalReader(get_default_path(state_directory(self.session.settings.state)))

    def record_unwrapped(self, call: str, arguments: Mapping[str, object], why: str) -> None:
        """Record a command that runs without Handrail, and cannot be undone."""
        self.unwrapped += 1
        access = CommandAccess(str(arguments["command"]), doubt=why)
        result = Result("Bash", "ok", f"It ran without a draft: {why}.", data={"irreversible": why}, id=call)
        record = Record(Call("Bash", arguments, call), (access,), None, origin=self.origin, result=result)
        self.session.journal.record(record)
