"""Make the calls of clients, from the request to the response: in threads and sessions, with questions to a person.

The transports read requests and write messages; everything between is the same for both.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from handrail.approval.answer_tokens import AnswerTokens
from handrail.approval.ask_attached import Approvers
from handrail.approval.elicitation import METHOD, CannotAsk, Elicitation, ForgedToken, InputRequired, Withdrawn
from handrail.mcp.protocol import (
    BUSY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ClientInfo,
    Message,
    ProtocolError,
    complete_result,
    make_fault_frame,
    make_result_frame,
)
from handrail.mcp.running_calls import PendingForm, RunningCall, RunningCalls, Send
from handrail.mcp.sessions import CannotOpen, Sessions
from handrail.mcp.workers import CallThreads
from handrail.wire import mcp

if TYPE_CHECKING:
    from handrail.json_types import JsonMapping
    from handrail.model import Answer, Approve, Question
    from handrail.pipeline.any_session import AnySession

_GRACE = 5.0
"""Seconds that cancelled calls get to end; a file is never left half-written, whatever happens."""

_TICK = 0.1
"""Seconds between two looks at whether a question was answered elsewhere."""

_MOST_CALLS = 1024


class CallService:
    """Handles `tools/call` requests: of one client on stdio, or of all clients of one principal over HTTP."""

    def __init__(
        self,
        opened: Callable[[Approve], AnySession],
        structured: bool,
        most: int = _MOST_CALLS,
        principal: str = "",
    ) -> None:
        """``principal``: whose calls these are, on a server for several."""
        self.sessions = Sessions(lambda: opened(self._approve))
        self.structured = structured
        self._principal = principal
        self._calls = RunningCalls(most)
        self._threads = CallThreads()
        self._tokens = AnswerTokens()
        self._current = threading.local()
        self._questions: dict[tuple[str, str], PendingForm] = {}
        self._numbers = itertools.count(1)

    @property
    def busy(self) -> bool:
        """Whether so much runs, or waits to, that no more is taken."""
        return self._calls.full

    def make(self, id: int | str, params: JsonMapping, client: ClientInfo, send: Send, who: str = "") -> RunningCall:
        """Start a call; raises `ProtocolError` if it cannot even begin. ``who``: the connection that chose the id."""
        call = RunningCall(id, params, client, send, who)
        self._calls.add(call)
        if not self._threads.start(lambda: self._do(call)):
            busy = ProtocolError(BUSY, "too many calls are waiting; send it again when some have been answered")
            self._calls.finish(call, make_fault_frame(call.id, busy))
        return call

    def cancel(self, id: object, connection: str = "") -> None:
        self._calls.cancel(id, connection)

    def end_connection(self, connection: str) -> None:
        """A client has gone for good: cancel its calls."""
        for call in self._calls.list_calls():
            if call.connection == connection:
                call.withdraw()

    def take_answer(self, message: Message, connection: str = "") -> None:
        """The client has answered a question of ours; one that nobody waits for any more is dropped."""
        if isinstance(message.id, str) and (question := self._questions.pop((connection, message.id), None)):
            question.answer = message.answer
            question.refused = message.error is not None
            question.settled.set()

    def stop_asking(self, call: RunningCall) -> None:
        """The client of a call cannot answer questions any more: do not wait for it."""
        call.heard = False  # before its question is looked at: `_elicit` adds one, then looks at this
        if question := call.question:
            self._questions.pop((call.connection, question.id), None)
            question.refused = True
            question.settled.set()

    def finish(self, listening: Callable[[], bool]) -> None:
        """The input has ended: finish the calls that run, as long as somebody is ``listening`` for the answers."""
        for call in self._calls.list_calls():
            self.stop_asking(call)
        self._calls.wait(listening)

    def stop(self, heard: bool = True) -> None:
        """Cancel every call; see `RunningCalls.cancel_all`."""
        self._calls.cancel_all(heard)

    def close(self) -> bool:
        """Wait for the cancelled calls, and close the sessions; False if something does not end."""
        ended = self._threads.close(_GRACE)
        self.sessions.close()
        return ended

    def warm(self) -> None:
        """Import and open what the first call needs."""
        try:
            with self.sessions.use("") as session:
                session.warm()
        except CannotOpen as error:
            sys.stderr.write(f"handrail mcp: {error}\n")

    # On the threads.

    def _do(self, call: RunningCall) -> None:
        answer = make_fault_frame(call.id, ProtocolError(INTERNAL_ERROR, "internal error of the server; see its log"))
        try:
            if not self._calls.begin(call):
                raise ProtocolError(BUSY, "the call was cancelled before it began")
            result = self._compute_result(call)
            answer = make_result_frame(call.id, complete_result(result) if call.client.enveloped else result)
        except ProtocolError as fault:
            answer = make_fault_frame(call.id, fault)
        finally:
            self._calls.finish(call, answer)

    def _compute_result(self, call: RunningCall) -> dict[str, object]:
        try:
            with self.sessions.use(call.thread) as session:
                return self._run_call(session, call)
        except CannotOpen as error:
            return mcp.build_failed_result(str(error), "no_session")

    def _run_call(self, session: AnySession, call: RunningCall) -> dict[str, object]:
        self._current.call, self._current.session = call, session
        session.name_source(call.client.name, call.model)
        try:
            listener = call.progress.take_event if call.progress else None
            result = session.call(call.tool, call.arguments, id=str(call.id), cancel=call.cancel, on_event=listener)
        except InputRequired as wanted:
            return wanted.result()
        except ForgedToken as forged:
            raise ProtocolError(INVALID_PARAMS, str(forged)) from None
        except Withdrawn:
            raise ProtocolError(BUSY, "the call was cancelled while waiting for approval") from None
        return mcp.call_result(result, self.structured)

    def _approve(self, question: Question) -> Answer:
        """The `approve` of every session: asks the client whose call this thread makes."""
        call: RunningCall = self._current.call
        always = not self._principal  # a rule that is written down would hold for every principal
        ask = Elicitation(
            call.client.version,
            call.client.shows_forms,
            call.client.enveloped,
            call.params,
            (call.thread,),
            lambda form, elsewhere: self._elicit(call, form, elsewhere),
            Approvers.of(self._current.session, always=always),
            self._tokens,
            always,
        )
        return ask(replace(question, client=self._principal or call.client.name))

    def _elicit(self, call: RunningCall, form: Mapping[str, object], elsewhere: threading.Event) -> object:
        """Ask through the client, and wait; raises `Withdrawn` if the call is cancelled or answered ``elsewhere``."""
        question = call.question = PendingForm(f"handrail-{next(self._numbers)}")
        self._questions[call.connection, question.id] = question
        if not call.heard:
            self.stop_asking(call)
        elif not call.cancel.is_set():
            call.send({"jsonrpc": "2.0", "id": question.id, "method": METHOD, "params": form})
            while not question.settled.wait(_TICK) and not elsewhere.is_set():
                pass
        call.question = None
        if self._questions.pop((call.connection, question.id), None):  # not answered, and need not be any more
            why = "it was answered elsewhere" if elsewhere.is_set() else "the call was cancelled"
            gone = {"requestId": question.id, "reason": why}
            call.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone})
            raise Withdrawn
        if question.refused:
            raise CannotAsk
        return question.answer
