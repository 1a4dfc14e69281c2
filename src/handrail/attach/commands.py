"""The commands of an attached agent: judged by their words before they run, then run in drafts."""

from __future__ import annotations

import itertools
import threading
from functools import partial

from handrail.approval.ask_attached import Approvers
from handrail.attach.agent_shell import AgentShell
from handrail.attach.contracts import HookEvent
from handrail.attach.conversation import AttachedConversation
from handrail.attach.sandboxes import read_limits
from handrail.attach.wrapped import Ended, RegisteredCommand, Started, Unwrapped, find_signal
from handrail.errors import ToolError
from handrail.model import Answer, Call, Question, Result
from handrail.pipeline.call_state import CallClock, Received
from handrail.shell.start_process import CommandStreams

_NUMBERS = itertools.count(1)
_NOT_KEPT = ("changes_dropped", "changes_left", "held_open")
"""Notes on a command whose changes, or some of them, were not kept."""


class AgentCommands:
    """The commands of one conversation, from their registration to their end."""

    def __init__(self, conversation: AttachedConversation, pid: int, calls: str) -> None:
        """``pid``: the agent; ``calls``: the place for the channels of its commands."""
        self._conversation = conversation
        self._session = conversation.session
        self._pid = pid
        self._calls = calls
        self._approvers = Approvers.of(self._session)
        self._asked: set[str] = set()
        """Calls about which the agent asks its person."""
        self._registered: dict[str, tuple[RegisteredCommand, HookEvent]] = {}
        self._lock = threading.Lock()

    @property
    def is_waiting(self) -> bool:
        """Whether a command has not been started yet."""
        return any(not (one.has_started or one.wait(0)) for one, _ in self._list())

    def list_running(self) -> list[HookEvent]:
        """The events of the commands that are running."""
        return [event for one, event in self._list() if one.has_started and not one.wait(0)]

    def withdraw(self, subagent: str | None = None) -> None:
        """Forget the commands that an agent has not started; None for every agent of the conversation."""
        with self._lock:
            for key, (one, event) in list(self._registered.items()):
                if subagent in (None, event.subagent) and one.withdraw():
                    del self._registered[key]

    def _list(self) -> list[tuple[RegisteredCommand, HookEvent]]:
        with self._lock:
            return list(self._registered.values())

    def before(self, event: HookEvent) -> bytes:
        """Register a command, or refuse it by its words."""
        contract, workdir = self._conversation.contract, self._conversation.locate(event.cwd)
        if event.mode in contract.read_only_modes:
            return b""
        answer = self._judge(event, workdir) if workdir else b""  # outside of the project it is only recorded
        if contract.wraps and b'"deny"' not in answer:
            self._register(event)
        if b'"ask"' in answer:
            self.note_question(event)
        return answer

    def _judge(self, event: HookEvent, workdir: str) -> bytes:
        try:
            judged = self._session.prepare("Bash", {"command": event.command, "workdir": workdir})
        except ToolError as error:
            return self._conversation.deny(self._session.dialect.render_error(error))
        if judged.verdict.decision == "deny":
            return self._conversation.refuse(event, "Bash", judged.call.arguments)
        return self._conversation.ask(judged.verdict.why) if judged.verdict.decision == "ask" else b""

    def after(self, event: HookEvent) -> None:
        """Record a command that ran without its wrapper."""
        if event.in_background:
            return  # its shell may not have begun yet
        arguments = {"command": event.command}
        if event.command and not self._conversation.contract.wraps:
            self._conversation.record_unwrapped(event.call, arguments, "this agent's commands cannot be wrapped")
            return
        with self._lock:
            command, _ = self._registered.get(event.call, (None, event))
        if command and command.withdraw():
            self._conversation.record_unwrapped(event.call, arguments, "its shell did not start Handrail")

    def note_question(self, event: HookEvent) -> None:
        """The agent asks its person about a command; if it starts, whenever that is, the person has allowed it."""
        with self._lock:
            asked = {key: one for key, (one, known) in self._registered.items() if known.command == event.command}
            self._asked |= asked.keys()
        for one in asked.values():
            one.wait_for_person()

    def approve(self, question: Question) -> Answer:
        """The person has answered in the agent before the command ran; everything else is asked elsewhere."""
        if question.call.id in self._asked and not question.files:
            return Answer(True)
        return self._approvers(question)

    def _register(self, event: HookEvent) -> None:
        number = next(_NUMBERS)
        call = RegisteredCommand(self._calls, number, event.command, self._pid, partial(self._run, event))
        with self._lock:
            others = self._registered.items()
            open_calls = {key: (one, whose) for key, (one, whose) in others if not (one.has_started and one.wait(0))}
            self._registered = {**open_calls, event.call or str(number): (call, event)}

    def _run(self, event: HookEvent, started: Started) -> Ended | Unwrapped:
        """Run a registered command in a draft; its streams are those of the wrapper."""
        call, command, is_job = event.call, event.command, event.in_background
        home, workdir = self._session.workspace.home, self._conversation.locate(started.cwd)
        arguments = {"command": command, "workdir": workdir or "."}
        limits = read_limits(started.pid, home, of_mounts=self._conversation.contract.has_mounted_sandbox)
        if limits.unknown or workdir is None:
            return self._leave(call, arguments, limits.unknown or f"it runs outside of {home}")
        if not limits.is_open and (is_job or not self._session.services.command_host().drafts.workspace):
            return self._leave(call, arguments, "no draft can keep to the agent's sandbox now")
        with AgentShell.open(started.text, command) as shell:
            if shell is None:
                return self._leave(call, arguments, "its shell is started in an unknown way")
            numbers = started.stdin, started.stdout, started.stderr
            streams = CommandStreams(
                shell.script, started.env, *numbers, shell.passed, limits.read_only, limits.offline
            )
            given = {**arguments, **({"background": True} if is_job else {})}
            received = Received(Call("Bash", {}, call), CallClock(), started.cancel, streams=streams)
            result = self._session.make_call(given, received)
            if is_job and "job" in result.data:
                return self._wait_for_job(str(result.data["job"]), started)
            return _describe_end(result, shell.read_directory())

    def _wait_for_job(self, job: str, started: Started) -> Ended:
        run = self._session.services.command_host().jobs.get(job).run
        while not started.cancel.is_set() and run.ended is None:
            run.wait(1.0, started.cancel, keep=True)
        if started.cancel.is_set():
            run.end("cancelled")
        ended = run.ended
        return Ended(ended.exit_code or 0, find_signal(ended.signal)) if ended else Ended(125)

    def _leave(self, call: str, arguments: dict[str, str], why: str) -> Unwrapped:
        self._conversation.record_unwrapped(call, arguments, why)
        return Unwrapped(f"no undo for this command: {why}")


def _describe_end(result: Result, directory: str) -> Ended:
    """How a wrapped command ended, with one line for the model if its changes or its run were refused."""
    if result.data.get("exit_code") is None and not result.data.get("signal"):
        return Ended(126, 0, "", result.text)
    remark = " ".join(note.text for note in result.notes)
    code = int(result.data["exit_code"] or 0)
    if any(note.code in _NOT_KEPT for note in result.notes):
        code = code or 126  # whoever only looks at the status must not believe that it has worked
    return Ended(code, find_signal(result.data.get("signal")), directory, remark)
