"""One conversation of an attached agent: its commands, edits and prompts, in a session of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from handrail.approval.ask_attached import Approvers
from handrail.attach.agent_shell import AgentShell
from handrail.attach.contracts import Contract, HookEvent, decide, tell
from handrail.attach.outside import WatchedFiles
from handrail.attach.sandboxes import read_limits
from handrail.attach.wrapped import Ended, RegisteredCommand, Started, Unwrapped, find_signal
from handrail.errors import JournalFailed, OutsideWorkspace, ToolError
from handrail.journal import BeforeImage, PendingRecord, Record, Token
from handrail.model import Access, Answer, Call, Failure, Question, Result, Verdict
from handrail.pipeline.call_state import CallClock, Received
from handrail.pipeline.session import Session
from handrail.shell.start_process import CommandStreams

if TYPE_CHECKING:
    from handrail.journal.queries import JournalReader
    from handrail.pipeline.call_state import Judged

OUTSIDE = "Changed outside"
"""The name under which changes of others are in the journal."""
_MOST_SAVED = 64 << 20
"""Of a larger file no copy is saved before an edit."""
_NOTIFICATION = "<task-notification>"
"""How a prompt begins that the agent itself makes when a background command has ended."""
_NUMBERS = itertools.count(1)


class AttachedAgent:
    """A conversation of an agent in one project."""

    def __init__(self, contract: Contract, root: str, pid: int, calls: str) -> None:
        """``calls``: the place for the channels of its commands."""
        self.pid = pid
        self.used = time.monotonic()
        self._contract = contract
        self._calls = calls
        self.session = Session(root, approve=self._approve)
        self.session.name_source(contract.name)
        self._origin = replace(self.session.origin, client=contract.name)
        self._approvers = Approvers.of(self.session)
        self._asked: set[str] = set()
        """Calls about which the agent asks its person."""
        self._commands: dict[str, RegisteredCommand] = {}
        self._edits: dict[str, tuple[PendingRecord, Token]] = {}
        self._lock = threading.Lock()
        self._watched = WatchedFiles(self._is_recorded)

    @property
    def is_busy(self) -> bool:
        with self._lock:
            commands = list(self._commands.values())
        return any(one.has_started and not one.wait(0) for one in commands)

    def close(self) -> None:
        for one in self._commands.values():
            one.withdraw()
        self.session.close()

    def handle(self, event: HookEvent) -> bytes:
        """Handle one event; returns what the hook prints."""
        self.used = time.monotonic()
        self._note_outside_changes()
        if event.kind == "prompt" and not event.prompt.startswith(_NOTIFICATION):
            self._begin_turn(event.prompt)
        elif event.kind == "before":
            return self._handle_before(event)
        elif event.kind == "asked":
            self._note_question(event)
        elif event.kind in ("after", "failed"):
            self._handle_after(event)
        elif event.kind == "stop":
            self._end_open_calls()
            return tell(self._summarize_turn())
        return b""

    def _handle_before(self, event: HookEvent) -> bytes:
        self._record_patches()
        if event.edited:
            return self._before_edit(event)
        if event.command:
            return self._before_command(event, event.command)
        return self._before_read(event) if event.read else b""

    def _handle_after(self, event: HookEvent) -> None:
        if event.arguments.get("run_in_background"):
            return  # its shell may not have begun yet
        with self._lock:
            command = self._commands.pop(event.call, None)
        if command and command.withdraw() and event.kind == "after":
            self._leave_unwrapped(event.call, {"command": event.command}, "its shell did not start Handrail")
        self._after_edit(event)

    def _end_open_calls(self) -> None:
        """Forget the calls that the agent has not made, or has not reported the end of."""
        with self._lock:
            commands, edits = list(self._commands.values()), list(self._edits)
        for one in commands:
            one.withdraw()
        self._record_patches()
        for call in edits:
            self._record_edit(call, "the agent did not report its end")

    # Commands.

    def _before_command(self, event: HookEvent, command: str) -> bytes:
        """Register a command, or refuse it by its words."""
        workdir = self._locate(event.cwd)
        if workdir is None or event.mode in self._contract.read_only_modes:
            return b""
        arguments = {"command": command, "workdir": workdir}
        answer = b""
        try:
            judged = self.session.prepare("Bash", arguments)
            if judged.verdict.decision == "deny":
                return self._refuse(event, judged)
            if judged.verdict.decision == "ask" and self._contract.asks:
                answer = decide("ask", f"handrail: {judged.verdict.why}")
        except ToolError as error:
            return decide("deny", f"handrail: {self._explain(error)}")
        self._register(event, arguments)
        if answer:
            self._note_question(event)
        return answer

    def _register(self, event: HookEvent, arguments: dict[str, str]) -> None:
        is_job = bool(event.arguments.get("run_in_background"))

        def run(started: Started) -> Ended | Unwrapped:
            return self._run_command(event.call, arguments["command"], is_job, started)

        number = next(_NUMBERS)
        call = RegisteredCommand(self._calls, number, arguments["command"], self.pid, run)
        with self._lock:
            self._commands[event.call or str(number)] = call

    def _refuse(self, event: HookEvent, judged: Judged) -> bytes:
        """Record a refusal, as the pipeline words it, and tell the model."""
        result = self.session.call("Bash", judged.call.arguments, id=event.call)
        return decide("deny", f"handrail: {_join_lines(result.text)}")

    def _note_question(self, event: HookEvent) -> None:
        """The agent asks its person about a command; if it starts, whenever that is, the person has allowed it."""
        with self._lock:
            asked = {call: one for call, one in self._commands.items() if one.command == event.command}
            self._asked |= asked.keys()
        for one in asked.values():
            one.wait_for_person()

    def _run_command(self, call: str, command: str, is_job: bool, started: Started) -> Ended | Unwrapped:
        """Run a registered command in a draft; its streams are those of the wrapper."""
        home, workdir = self.session.workspace.home, self._locate(started.cwd)
        arguments = {"command": command, "workdir": workdir or "."}
        limits = read_limits(started.pid, home, of_mounts=self._contract.has_mounted_sandbox)
        if limits.unknown or workdir is None:
            return self._leave_unwrapped(call, arguments, limits.unknown or f"it runs outside of {home}")
        if not limits.is_open and (is_job or not self.session.command_host().drafts_of):
            return self._leave_unwrapped(call, arguments, "no draft can keep to the agent's sandbox now")
        with AgentShell.open(started.text, command) as shell:
            if shell is None:
                return self._leave_unwrapped(call, arguments, "its shell is started in an unknown way")
            numbers = started.stdin, started.stdout, started.stderr
            streams = CommandStreams(
                shell.script, started.env, *numbers, shell.passed, limits.read_only, limits.offline
            )
            given = {**arguments, **({"background": True} if is_job else {})}
            received = Received(Call("Bash", {}, call), CallClock(), started.cancel, streams=streams)
            result = self.session.make_call(given, received)
            if is_job and "job" in result.data:
                return self._wait_for_job(str(result.data["job"]), started)
            return _describe_end(result, shell.read_directory())

    def _wait_for_job(self, job: str, started: Started) -> Ended:
        run = self.session.command_host().jobs.get(job).run
        while not started.cancel.is_set() and run.ended is None:
            run.wait(1.0, started.cancel, keep=True)
        if started.cancel.is_set():
            run.end("cancelled")
        ended = run.ended
        return Ended(ended.exit_code or 0, find_signal(ended.signal)) if ended else Ended(125)

    def _leave_unwrapped(self, call: str, arguments: dict[str, str], why: str) -> Unwrapped:
        """Record a command that runs without Handrail, and cannot be undone."""
        access = Access("run", arguments["command"], doubt=why)
        result = Result("Bash", "ok", f"It ran without a draft: {why}.", data={"irreversible": why}, id=call)
        self.session.journal.record(
            Record(Call("Bash", arguments, call), (access,), None, origin=self._origin, result=result)
        )
        return Unwrapped(f"no undo for this command: {why}")

    def _approve(self, question: Question) -> Answer:
        """The person has answered in the agent before the command ran; everything else is asked elsewhere."""
        if question.call.id in self._asked and not question.files:
            return Answer(True)
        return self._approvers(question)

    def _locate(self, path: str) -> str | None:
        """A path below the workspace, relative to it; None for one outside."""
        home = os.path.realpath(self.session.workspace.home)
        relative = os.path.relpath(os.path.realpath(path or home), home)
        return None if relative == ".." or relative.startswith("../") else relative

    # Edits.

    def _judge_files(self, event: HookEvent, tool: str, paths: Sequence[str]) -> tuple[bytes, list[Judged]]:
        """Judge the files that a tool names; an answer if one is refused, or the person has to be asked."""
        judged: list[Judged] = []
        answer = b""
        for path in paths:
            arguments = {"file_path": os.path.join(event.cwd, path), **({"content": ""} if tool == "Write" else {})}
            try:
                one = self.session.prepare(tool, arguments)
            except OutsideWorkspace:
                continue  # not ours to judge, and not recorded
            except ToolError as error:
                return decide("deny", f"handrail: {self._explain(error)}"), judged
            if one.verdict.decision == "deny":
                result = self.session.call(tool, arguments, id=event.call)
                return decide("deny", f"handrail: {_join_lines(result.text)}"), judged
            if one.verdict.decision == "ask":
                answer = decide("ask" if self._contract.asks else "deny", f"handrail: {one.verdict.why}")
            judged.append(one)
        return answer, judged

    def _before_read(self, event: HookEvent) -> bytes:
        answer, judged = self._judge_files(event, "Read", [event.read])
        if not answer:
            self._watched.watch(path.real for one in judged for path in one.paths.values())
        return answer

    def _before_edit(self, event: HookEvent) -> bytes:
        """Save the files as they are, before the agent's tool changes them."""
        answer, judged = self._judge_files(event, "Write", event.edited)
        images = [_read_image(path) for one in judged for path in one.written_paths]
        if not images or b'"deny"' in answer:
            return answer
        verdict = next((one.verdict for one in judged if one.verdict.decision == "ask"), judged[0].verdict)
        accesses = tuple(access for one in judged for access in one.accesses)
        call = Call(event.tool, event.arguments, event.call)
        saved = [image for image in images if image is not None]
        pending = PendingRecord(call, accesses, verdict, saved, self._origin)
        try:
            token = self.session.journal.begin(pending)
        except JournalFailed as error:
            return decide("deny", f"handrail: the change cannot be recorded: {error.why}")
        with self._lock:
            self._edits[event.call] = pending, token
        return answer

    def _after_edit(self, event: HookEvent) -> None:
        failure = str(event.fields.get("error") or "it failed") if event.kind == "failed" else ""
        self._record_edit(event.call, failure)

    def _record_patches(self) -> None:
        """Record patches in the place of a command: the agent does not report their end, but their files tell."""
        with self._lock:
            edits = [(call, one) for call, (one, _) in self._edits.items() if one.call.tool in self._contract.commands]
        for call, pending in edits:
            if any(isinstance(one, BeforeImage) and _read_image(one.path) != one for one in pending.changes):
                self._record_edit(call, "")

    def _record_edit(self, call: str, failure: str) -> None:
        with self._lock:
            begun = self._edits.pop(call, None)
        if begun is None:
            return
        pending, token = begun
        error = Failure("agent_failed", failure) if failure else None
        result = Result(pending.call.tool, "error" if failure else "ok", failure, error=error, id=call)
        self.session.journal.record(
            Record(pending.call, pending.accesses, pending.verdict, origin=self._origin, result=result, token=token)
        )
        self._watched.watch(_list_paths(pending), token.seq)

    # Changes of others.

    def _note_outside_changes(self) -> None:
        """Record files that changed since the agent has read or changed them. Nobody undoes them with the agent's."""
        if self.is_busy:
            return  # a command may be keeping its changes just now
        with self._lock:
            changing = {path for pending, _ in self._edits.values() for path in _list_paths(pending)}
        for path in self._watched.list_changed(changing):
            call, result = Call(OUTSIDE, {"path": self._locate(path) or path}), Result(OUTSIDE, "ok", "")
            with contextlib.suppress(JournalFailed):
                record = Record(call, (), Verdict("allow", "", ""), origin=self._origin, result=result)
                self.session.journal.record(record)

    def _is_recorded(self, path: str, digest: str, after: int) -> bool:
        with contextlib.suppress(JournalFailed), self._open_journal() as reader:
            return reader.find_last_change(path, digest, after) is not None
        return False

    def _open_journal(self) -> JournalReader:
        from handrail.files.locks import state_directory
        from handrail.journal.queries import JournalReader
        from handrail.journal.store import get_default_path

        return JournalReader(get_default_path(state_directory(self.session.settings.state)))

    # Turns.

    def _begin_turn(self, prompt: str) -> None:
        self._end_open_calls()
        with contextlib.suppress(JournalFailed):
            self.session.record_prompt(prompt)

    def _summarize_turn(self) -> str:
        """What changed since the last prompt, and how to undo it; empty if nothing did."""
        with contextlib.suppress(JournalFailed), self._open_journal() as reader:
            session = self._origin.session
            prompt = reader.find_prompt(session, reader.find_last_call() + 1)
            changed = {
                file.path
                for row in reader.iterate_calls(session=session)
                if prompt and row.seq > prompt
                for file in reader.read_files(row.seq)
                if file.after != file.before
            }
            if changed:
                count = f"{len(changed)} file{'' if len(changed) == 1 else 's'} changed"
                return f"handrail: {count}; `handrail undo --turn` undoes this turn"
        return ""

    def _explain(self, error: ToolError) -> str:
        return _join_lines(self.session.dialect.render_error(error))


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


def _describe_end(result: Result, directory: str) -> Ended:
    """How a wrapped command ended, with one line for the model if its changes or its run were refused."""
    remarks = [note.text for note in result.notes]
    if result.data.get("exit_code") is None and not result.data.get("signal"):
        return Ended(126, 0, "", result.text)
    return Ended(
        int(result.data["exit_code"] or 0), find_signal(result.data.get("signal")), directory, " ".join(remarks)
    )


def _join_lines(text: str) -> str:
    return " ".join(text.split())
