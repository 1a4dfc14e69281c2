"""The edits of an attached agent's own tools: judged before, recorded with the contents before and after."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from handrail.attach.contracts import HookEvent, inform
from handrail.attach.conversation import AttachedConversation
from handrail.attach.outside import WatchedFiles
from handrail.errors import JournalFailed, OutsideWorkspace, ToolError
from handrail.journal import BeforeImage, PendingRecord, Record, Token
from handrail.model import Call, Failure, Result

if TYPE_CHECKING:
    from handrail.pipeline.call_state import Judged

_MOST_SAVED = 64 << 20
"""Of a larger file no copy is saved before an edit."""


class AgentEdits:
    """The calls of tools that read or change files, in one conversation."""

    def __init__(self, conversation: AttachedConversation, watched: WatchedFiles) -> None:
        self._conversation = conversation
        self._session = conversation.session
        self._watched = watched
        self._open: dict[str, tuple[PendingRecord, Token, str]] = {}
        """Edits that have begun, with the subagent of each."""
        self._lock = threading.Lock()

    def list_changing(self) -> set[str]:
        """The files that the agent is changing now."""
        with self._lock:
            return {path for pending, _, _ in self._open.values() for path in _list_paths(pending)}

    def before_read(self, event: HookEvent) -> bytes:
        """Judge a file that the agent wants to read."""
        answer, judged = self._judge(event, "Read", [event.read])
        if not answer:
            self._watched.watch(path.real for one in judged for path in one.paths.values())
        return answer

    def before(self, event: HookEvent) -> bytes:
        """Save the files as they are, before the agent's tool changes them."""
        answer, judged = self._judge(event, "Write", event.edited)
        images = [_read_image(path) for one in judged for path in one.written_paths]
        if not images or b'"deny"' in answer:
            return answer
        verdict = next((one.verdict for one in judged if one.verdict.decision == "ask"), judged[0].verdict)
        accesses = tuple(access for one in judged for access in one.accesses)
        call = Call(event.tool, event.arguments, event.call)
        saved = [image for image in images if image is not None]
        pending = PendingRecord(call, accesses, verdict, saved, self._conversation.origin)
        try:
            token = self._session.journal.begin(pending)
        except JournalFailed as error:
            return self._conversation.deny(f"the change cannot be recorded: {error.why}")
        with self._lock:
            self._open[event.call] = pending, token, event.subagent
        return answer

    def after(self, event: HookEvent) -> bytes:
        """Record how an edit ended; an answer for the model if it overlaps with a change in another draft."""
        pending = self._record(event.call, event.failure)
        return inform(self._conversation.contract, self._describe_overlaps(pending) if pending else "")

    def _describe_overlaps(self, pending: PendingRecord) -> str:
        images = [one for one in pending.changes if isinstance(one, BeforeImage) and one.before is not None]
        changed = [(one, _read_image(one.path)) for one in images]
        contents = [(one.path, one.before or b"", now.before or b"") for one, now in changed if now]
        fill = self._session.dialect.templates.fill
        return "\n".join(fill(f"notes.{note.code}", note) for note in self._session.services.find_overlaps(contents))

    def record_patches(self) -> None:
        """Record patches in the place of a command: the agent does not report their end, but their files tell."""
        commands = self._conversation.contract.commands
        with self._lock:
            edits = [(call, one) for call, (one, _, _) in self._open.items() if one.call.tool in commands]
        for call, pending in edits:
            if any(isinstance(one, BeforeImage) and _read_image(one.path) != one for one in pending.changes):
                self._record(call, "")

    def end_open(self, subagent: str) -> None:
        """Record the edits that an agent has not reported the end of."""
        self.record_patches()
        with self._lock:
            calls = [call for call, (_, _, whose) in self._open.items() if whose == subagent]
        for call in calls:
            self._record(call, "the agent did not report its end")

    def _judge(self, event: HookEvent, tool: str, paths: Sequence[str]) -> tuple[bytes, list[Judged]]:
        """Judge the files that a tool names; an answer if one is refused, or the person has to be asked."""
        judged: list[Judged] = []
        answer = b""
        for path in paths:
            arguments = {"file_path": os.path.join(event.cwd, path), **({"content": ""} if tool == "Write" else {})}
            try:
                one = self._session.prepare(tool, arguments)
            except OutsideWorkspace:
                continue  # not ours to judge, and not recorded
            except ToolError as error:
                return self._conversation.deny(self._session.dialect.render_error(error)), judged
            # What the agent's tool will write is not known here, so paths alone decide.
            one = replace(one, verdict=self._session.services.approvals.verdict(one.accesses))
            if one.verdict.decision == "deny":
                return self._conversation.refuse(event, tool, arguments), judged
            if one.verdict.decision == "ask":
                answer = self._conversation.ask(one.verdict.why) or self._conversation.deny(one.verdict.why)
            judged.append(one)
        return answer, judged

    def _record(self, call: str, failure: str) -> PendingRecord | None:
        with self._lock:
            begun = self._open.pop(call, None)
        if begun is None:
            return None
        pending, token, _ = begun
        error = Failure("agent_failed", failure) if failure else None
        result = Result(pending.call.tool, "error" if failure else "ok", failure, error=error, id=call)
        record = Record(
            pending.call,
            pending.accesses,
            pending.verdict,
            origin=self._conversation.origin,
            result=result,
            token=token,
        )
        self._session.journal.record(record)
        self._watched.watch(_list_paths(pending), token.seq)
        return pending


def _read_image(path: str) -> BeforeImage | None:
    """A file before it is edited; None if it is too large to be saved, or no file."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_SAVED:
            return None
        with open(path, "rb") as file:
            return BeforeImage(path, file.read(), stat.S_IMODE(status.st_mode))
    except FileNotFoundError:
        return BeforeImage(path, None)


def _list_paths(pending: PendingRecord) -> list[str]:
    """The files that an edit may change."""
    return [one.path for one in pending.changes if isinstance(one, BeforeImage)]
