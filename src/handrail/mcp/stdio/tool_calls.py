"""Make the calls of a client, from the request to the response: in threads and sessions, with questions to a person.

Made when the tool list has been answered, so that a server that is only asked for its tools never pays for it; the
engine itself is imported on a thread of its own.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from handrail.approval.answer_tokens import AnswerTokens
from handrail.mcp.protocol import (
    BUSY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Message,
    ProtocolError,
    make_fault_frame,
    make_result_frame,
)
from handrail.mcp.sessions import CannotOpen, Sessions
from handrail.mcp.stdio.running_calls import PendingForm, RunningCall, RunningCalls
from handrail.mcp.workers import WorkerPool
from handrail.wire import mcp

if TYPE_CHECKING:
    from handrail.mcp.stdio.channel import Channel
    from handrail.model import Answer, Approve, Question
    from handrail.pipeline.any_session import AnySession

_GRACE = 5.0
"""Seconds that cancelled calls get to end; a file is never left half-written, whatever happens."""

_TICK = 0.1
"""Seconds between two looks at whether a question was answered elsewhere."""

Finished = Callable[[RunningCall, dict[str, Any]], Mapping[str, Any]]


class CallService:
    """Handles `tools/call` requests."""

    def __init__(self, channel: Channel, opened: Callable[[Approve], AnySession], finished: Finished, structured: bool):
        self._channel = channel
        self._opened = opened
        self._finished = finished
        self._structured = structured
        self._calls = RunningCalls(channel.send)
        self._pool = WorkerPool()
        self._sessions = Sessions(self._open)
        self._tokens = AnswerTokens()
        self._current = threading.local()
        self._questions: dict[str, PendingForm] = {}
        self._numbers = itertools.count(1)
        self._input_ended = False
        self._early = threading.Thread(target=self._open_early, name="handrail-open", daemon=True)
        with suppress(RuntimeError):  # no thread to be had now: the first call opens what it needs
            self._early.start()

    def start(self, call: RunningCall) -> None:
        """Have it done; raises `ProtocolError` if it cannot even begin."""
        self._calls.add(call)
        if not self._pool.submit(lambda: self._do(call)):
            busy = ProtocolError(BUSY, "too many calls are waiting; send it again when some have been answered")
            self._calls.finish(call, make_fault_frame(call.id, busy))

    def cancel(self, id: Any) -> None:
        self._calls.cancel(id)

    def take_answer(self, message: Message) -> None:
        """The client has answered a question of ours; one that nobody waits for any more is dropped."""
        question = self._questions.get(message.id) if isinstance(message.id, str) else None
        if question:
            question.answer = message.answer
            question.refused = message.error is not None
            self._questions.pop(question.id, None)  # from now on it counts as answered
            question.settled.set()

    def close(self) -> bool:
        """End everything; False if something does not end.

        The end of the input cancels nothing: a script sends its calls down a pipe and then reads the answers, however
        long they take. A signal, or a client that reads no more, cancels what is left.
        """
        if not self._channel.is_woken():
            self._refuse_questions()
            self._calls.wait(self._is_listening)
            while self._early.is_alive() and self._is_listening():
                self._early.join(0.1)
        deadline = time.monotonic() + _GRACE
        self._calls.cancel_all(self._channel.is_read())
        ended = self._pool.close(_GRACE)
        if self._early.is_alive():
            self._early.join(max(0.1, deadline - time.monotonic()))
        self._sessions.close()
        return ended and not self._early.is_alive()

    def _is_listening(self) -> bool:
        return self._channel.is_read() and not self._channel.is_woken()

    def _refuse_questions(self) -> None:
        """No more answers of the client can come: stop waiting for them."""
        self._input_ended = True  # before the questions are looked through: `_elicit` adds one, then looks at this
        for question in list(self._questions.values()):
            self._refuse(question)

    def _refuse(self, question: PendingForm) -> None:
        question.refused = True
        self._questions.pop(question.id, None)
        question.settled.set()

    # On the threads.

    def _do(self, call: RunningCall) -> None:
        answer = make_fault_frame(call.id, ProtocolError(INTERNAL_ERROR, "internal error of the server; see its log"))
        try:
            if not self._calls.begin(call):
                raise ProtocolError(BUSY, "the call was cancelled before it began")
            answer = make_result_frame(call.id, self._finished(call, self._compute_result(call)))
        except ProtocolError as fault:
            answer = make_fault_frame(call.id, fault)
        finally:
            self._calls.finish(call, answer)

    def _compute_result(self, call: RunningCall) -> dict[str, Any]:
        try:
            with self._sessions.use(call.thread) as session:
                return self._run_call(session, call)
        except CannotOpen as error:
            return mcp.build_failed_result(str(error), "no_session")

    def _run_call(self, session: AnySession, call: RunningCall) -> dict[str, Any]:
        from handrail.approval.elicitation import ForgedToken, InputRequired, Withdrawn

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
        return mcp.call_result(result, self._structured)

    def _approve(self, question: Question) -> Answer:
        """The `approve` of every session: asks the client whose call this thread makes."""
        from handrail.approval.ask_attached import Approvers
        from handrail.approval.elicitation import Elicitation

        call: RunningCall = self._current.call
        ask = Elicitation(
            call.client.version,
            call.client.shows_forms,
            call.client.enveloped,
            call.params,
            (call.thread,),
            lambda form, elsewhere: self._elicit(call, form, elsewhere),
            Approvers.of(self._current.session),
            self._tokens,
        )
        return ask(replace(question, client=call.client.name))

    def _elicit(self, call: RunningCall, form: Mapping[str, Any], elsewhere: threading.Event) -> Any:
        """Ask through the client, and wait; raises `Withdrawn` if the call is cancelled or answered ``elsewhere``."""
        from handrail.approval.elicitation import METHOD, CannotAsk, Withdrawn

        question = call.question = PendingForm(f"handrail-{next(self._numbers)}")
        self._questions[question.id] = question
        if self._input_ended:
            self._refuse(question)
        elif not call.cancel.is_set():
            self._channel.send({"jsonrpc": "2.0", "id": question.id, "method": METHOD, "params": form})
            while not question.settled.wait(_TICK) and not elsewhere.is_set():
                pass
        call.question = None
        if self._questions.pop(question.id, None):  # the client has not answered, and need not any more
            why = "it was answered elsewhere" if elsewhere.is_set() else "the call was cancelled"
            gone = {"requestId": question.id, "reason": why}
            self._channel.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone})
            raise Withdrawn
        if question.refused:
            raise CannotAsk
        return question.answer

    def _open(self) -> AnySession:
        return self._opened(self._approve)

    def _open_early(self) -> None:
        """Import and open what the first call needs."""
        try:
            with self._sessions.use("") as session:
                session.warm()
        except CannotOpen as error:
            sys.stderr.write(f"handrail mcp: {error}\n")
