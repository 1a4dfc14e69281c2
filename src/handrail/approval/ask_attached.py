"""Ask people who have attached with `handrail approve` in another terminal. The first answer counts.

An approver says at once who it is, and sends a sign of life while its person thinks: a silent one is not waited for.
Closing the connection withdraws the question. Sockets are imported when something is asked.
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
"""The command that a person runs in a terminal, to be asked."""
IN_TERMINAL = "in another terminal"
"""Where an approver is, if it does not say."""
GREETING = 2.0
"""Seconds in which an approver must identify itself."""
SILENCE = 30.0
"""Seconds after which one that gives no sign of life has gone."""
_RESCAN = 0.5
"""Seconds after which a question that nobody sees looks for terminals that have attached meanwhile."""
_TICK = 0.1
"""Seconds between two looks at whether the call is cancelled."""
_CANCELLED = "it was answered elsewhere, or cancelled"
_MOST_PLACE = 100
"""Characters with which an approver may say where it is."""


class Approvers:
    """The `approve` of a session with no person of its own: `Session(root, approve=Approvers.for_workspace(root))`.

    Who is attached is looked up at every question, for people come and go.
    """

    def __init__(self, state: str, workspace: str | os.PathLike[str], *, always: bool = True) -> None:
        """``always``: whether an answer may be written down as a rule, which holds for everybody on this machine."""
        self._state = state
        self._workspace = os.path.realpath(workspace)
        self._always = always

    @classmethod
    def for_workspace(cls, workspace: str | os.PathLike[str]) -> Approvers:
        """Ask those who are attached for this directory, in the state directory of the user's configuration."""
        return cls(state_directory(config_file.load(os.environ).settings.state), workspace)

    @classmethod
    def of(cls, session: AnySession, *, always: bool = True) -> Approvers:
        """Those who are attached for the workspace of a session."""
        return cls(state_directory(session.settings.state), session.workspace.home, always=always)

    def answer(self, question: Question, explain_cancel: Callable[[], str] = lambda: _CANCELLED) -> Answer | None:
        """The first answer; None if nobody is attached, or the call is cancelled meanwhile.

        ``explain_cancel``: says why it was cancelled, to those who were asked.
        """
        question = replace(question, workspace=self._workspace)
        if self._always:
            return ask(self._state, question, explain_cancel)
        answer = ask(self._state, replace(question, verdict=replace(question.verdict, allow="")), explain_cancel)
        return replace(answer, lasting="session") if answer and answer.lasting == "always" else answer

    def __call__(self, question: Question) -> Answer:
        """The same; raises `NeedsApproval`, which says how a person can attach, if nobody has."""
        return self.require(self.answer(question), question)

    def require(self, answer: Answer | None, question: Question) -> Answer:
        """An answer; raises `NeedsApproval`, which says how a person can attach, if there is none."""
        if answer is None and question.cancel and question.cancel.is_set():
            return Answer(False, "the call was cancelled")
        if answer is None:
            raise refuse_unasked(question.verdict, ATTACH)
        return answer


class BackgroundQuestion:
    """A question shown in attached terminals, also in those that attach later, while somebody else is asked too."""

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
        with contextlib.suppress(RuntimeError):  # no thread to be had: only the others are asked
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
        """Take the question back; returns the answer if a person has given one before that.

        ``answered_in``: the client whose person has answered, for those who were asked too.
        """
        if answered_in and not self._withdrawn.is_set():
            self._end = f"it was answered in {escape(answered_in)}"
        self._withdrawn.set()
        self._last_round.set()
        if self._thread.is_alive():
            self._thread.join()
        return self.answer

    def wait(self, question: Question) -> Answer:
        """The answer of those who are attached; raises `NeedsApproval` for this question if nobody is, or is any more.

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

    Everybody else is told where the first answer was given.
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
    """Connections to those who want to be asked about this workspace, and where they are."""
    attached = {}
    for connection in json_socket.connect_to_listeners(state):
        peer = json_socket.JsonSocket(connection)
        try:
            json_socket.require_apart(connection, answers=True)  # a command of a model's does not approve itself
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
    """Wait for the first answer, and who gives it; None if everybody has gone, or the call is cancelled.

    Connections to those who have gone are closed, and taken off the list.
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
            except TimeoutError:  # a part of a line
                heard[peer] = time.monotonic()
            except Disconnected:
                _drop(attached, peer)
    return None


def read_answer(value: object, question: Question) -> Answer:
    """The answer that was sent back; raises `Disconnected` if it is no answer, or not one to this question."""
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
