"""Ask people who have attached with `handrail approve` in another terminal. The first answer counts.

An approver identifies itself at once, and sends heartbeats while its person thinks; a silent approver is dropped.
Closing the connection withdraws the question.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from handrail.approval import json_socket
from handrail.approval.json_socket import VERSION, Disconnected
from handrail.approval.shorten import shorten
from handrail.files.locks import state_directory
from handrail.model import Answer, Question
from handrail.pipeline.approve import refuse_unasked
from handrail.settings import config_file
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.approval.json_socket import JsonSocket
    from handrail.pipeline.any_session import AnySession

ATTACH = "handrail approve"
"""The command a person runs in a terminal to answer questions."""
IN_TERMINAL = "in another terminal"
"""An approver's place, unless it gives one."""
GREETING = 2.0
"""Seconds in which an approver must identify itself."""
SILENCE = 30.0
"""Seconds without a heartbeat before an approver counts as gone."""
_RESCAN = 0.5
"""Seconds between looks for newly attached terminals, while nobody sees the question."""
_TICK = 0.1
"""Seconds between checks for a cancelled call."""
_CANCELLED = "it was answered elsewhere, or cancelled"
_MOST_PLACE = 100
"""The most characters of an approver's place."""


class Approvers:
    """The `approve` of a session with no person of its own: `Session(root, approve=Approvers.for_workspace(root))`.

    Each question looks up who is attached, because people come and go.
    """

    def __init__(self, state: str, workspace: str | os.PathLike[str], *, always: bool = True) -> None:
        """``always``: whether an answer may be saved as a rule, which applies to everybody on this machine."""
        self._state = state
        self._workspace = os.path.realpath(workspace)
        self._always = always

    @classmethod
    def for_workspace(cls, workspace: str | os.PathLike[str]) -> Approvers:
        """Ask the people attached for this directory. The user's settings give the state directory."""
        return cls(state_directory(config_file.load(os.environ).settings.state), workspace)

    @classmethod
    def of(cls, session: AnySession, *, always: bool = True) -> Approvers:
        """The people attached for a session's workspace."""
        return cls(state_directory(session.settings.state), session.workspace.home, always=always)

    def answer(self, question: Question, explain_cancel: Callable[[], str] = lambda: _CANCELLED) -> Answer | None:
        """The first answer; None if nobody is attached, or the call is cancelled meanwhile.

        ``explain_cancel``: the reason for the cancellation, sent to everybody who was asked.
        """
        question = replace(question, workspace=self._workspace)
        if self._always:
            return ask(self._state, question, explain_cancel)
        answer = ask(self._state, replace(question, verdict=replace(question.verdict, allow="")), explain_cancel)
        return replace(answer, lasting="session") if answer and answer.lasting == "always" else answer

    def __call__(self, question: Question) -> Answer:
        """Like `answer`, but if nobody is attached, raise `NeedsApproval`, which says how to attach."""
        return self.require(self.answer(question), question)

    def require(self, answer: Answer | None, question: Question) -> Answer:
        """Return the answer. If there is none, raise `NeedsApproval`, which says how to attach."""
        if answer is None and question.cancel and question.cancel.is_set():
            return Answer(False, "the call was cancelled")
        if answer is None:
            raise refuse_unasked(question.verdict, ATTACH)
        return answer


class BackgroundQuestion:
    """A question shown in all terminals attached now or later, while somebody else is asked too."""

    def __init__(self, approvers: Approvers, question: Question, on_answer: Callable[[], object] = bool) -> None:
        """``on_answer``: called in another thread when a person has answered."""
        self.answer: Answer | None = None
        self._approvers = approvers
        self._withdrawn = threading.Event()
        self._question = question
        self._on_answer = on_answer
        self._last_round = threading.Event()
        self._end = _CANCELLED
        self._thread = threading.Thread(target=self._ask, name="handrail-ask-attached", daemon=True)
        with contextlib.suppress(RuntimeError):  # no thread available: only the others are asked
            self._thread.start()

    def _ask(self) -> None:
        question = replace(self._question, cancel=self._withdrawn)
        while not self._withdrawn.is_set():
            last = self._last_round.is_set()
            self.answer = self._approvers.answer(question, lambda: self._end)
            if self.answer:
                self._on_answer()
            if self.answer or last:
                return
            self._last_round.wait(_RESCAN)

    def withdraw(self, answered_in: str = "") -> Answer | None:
        """Withdraw the question; return the answer if a person has already answered.

        ``answered_in``: the client in which a person answered, named to the others who were asked.
        """
        if answered_in and not self._withdrawn.is_set():
            self._end = f"it was answered in {escape(answered_in)}"
        self._withdrawn.set()
        self._last_round.set()
        if self._thread.is_alive():
            self._thread.join()
        return self.answer

    def wait(self, question: Question) -> Answer:
        """Wait for an attached person's answer; raise `NeedsApproval` for this question if nobody is left.

        Returns soon after the call of ``question`` is cancelled.
        """
        self._last_round.set()
        while self._thread.is_alive():
            self._thread.join(_TICK)
            if question.cancel and question.cancel.is_set():
                self.withdraw()
        return self._approvers.require(self.answer, question)


def ask(state: str, question: Question, explain_cancel: Callable[[], str] = lambda: _CANCELLED) -> Answer | None:
    """The first answer; None if nobody is attached, everybody has gone, or the call is cancelled.

    The others are told where the first answer was given.
    """
    places = _connect_approvers(state, question.workspace)
    attached = list(places)
    over, first = "the asking process has ended", None
    try:
        if not attached:
            return None
        sent = shorten(question)
        for peer in [*attached]:
            try:
                peer.send({"ask": sent.as_json()})
            except Disconnected:
                _drop(attached, peer)
        accepted = wait_for_answer(attached, sent, question.cancel)
        if accepted is None:
            over = explain_cancel()
            return None
        first, answer = accepted
        over = f"it was answered {places[first]}: {'yes' if answer.yes else 'no'}"
        return answer
    finally:
        for peer in attached:
            with contextlib.suppress(Disconnected):
                peer.send({"over": over, "accepted": peer is first})
            peer.close()


def _connect_approvers(state: str, workspace: str) -> dict[JsonSocket, str]:
    """Connect to the approvers for this workspace; return each connection with its approver's place."""
    attached = {}
    for connection in json_socket.connect_to_listeners(state):
        peer = json_socket.JsonSocket(connection)
        try:
            json_socket.require_apart(connection, answers=True)  # a model's command must not approve itself
            hello = peer.wait(GREETING)
            if not _wants_workspace(hello, workspace):
                raise json_socket.Disconnected
        except (json_socket.Disconnected, TimeoutError):
            peer.close()
        else:
            place = hello.get("place")
            attached[peer] = escape(place[:_MOST_PLACE]) if isinstance(place, str) and place else IN_TERMINAL
    return attached


def _wants_workspace(hello: dict[str, object], workspace: str) -> bool:
    if hello.get("handrail") != VERSION:
        return False
    attached = hello.get("workspace")
    if attached is None:
        return True
    return isinstance(attached, str) and (workspace == attached or workspace.startswith(attached.rstrip("/") + "/"))


def wait_for_answer(
    attached: list[JsonSocket], question: Question, cancel: threading.Event | None
) -> tuple[JsonSocket, Answer] | None:
    """Wait for the first answer; return it with its connection. None if everybody has gone, or the call is cancelled.

    Connections to approvers who have gone are closed and removed from the list.
    """
    heard = dict.fromkeys(attached, time.monotonic())
    while attached and not (cancel and cancel.is_set()):
        poll = select.poll()
        for peer in attached:
            poll.register(peer, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(_TICK * 1000 if cancel else 1000)}
        for peer in [*attached]:
            try:
                if peer.fileno() in ready:
                    message = peer.wait(0)
                    heard[peer] = time.monotonic()
                    if "answer" in message:
                        return peer, read_answer(message["answer"], question)
                elif time.monotonic() - heard[peer] > SILENCE:
                    raise Disconnected
            except TimeoutError:  # part of a line has arrived
                heard[peer] = time.monotonic()
            except Disconnected:
                _drop(attached, peer)
    return None


def read_answer(value: object, question: Question) -> Answer:
    """Parse an answer; raise `Disconnected` if it is invalid or does not fit the question."""
    try:
        answer = Answer.from_json(value)
    except ValueError:
        raise Disconnected from None
    files = {file.path: file for file in question.files}
    if not all(path in files and files[path].selectable for path in answer.hunks or ()):
        raise Disconnected
    if not all(path in files and files[path].editable for path in answer.contents or ()):
        raise Disconnected
    return answer


def _drop(attached: list[JsonSocket], peer: JsonSocket) -> None:
    attached.remove(peer)
    peer.close()
