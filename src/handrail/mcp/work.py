"""The calls of a client, from the frame to the answer: on threads, in sessions, with a person asked where one must be.

Made when the tool list has been answered, so that a server that is only asked for its tools never pays for it; the
engine itself is imported on a thread of its own.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from handrail.mcp import wire
from handrail.mcp.calls import Calls, Question, Running
from handrail.mcp.crew import Crew
from handrail.mcp.protocol import BUSY, INTERNAL_ERROR, Fault, Message, fault_frame, result_frame
from handrail.mcp.sessions import CannotOpen, Sessions

if TYPE_CHECKING:
    from handrail.mcp.asking import Asker
    from handrail.mcp.channel import Channel
    from handrail.prepared import Approve
    from handrail.session import Session

_GRACE = 5.0
"""Seconds that calls get to end when the client has gone; a file is never left half-written, whatever happens."""

Finished = Callable[[Running, dict[str, Any]], Mapping[str, Any]]


class Work:
    """Everything behind `tools/call`."""

    def __init__(self, channel: Channel, opened: Callable[[Approve], Session], finished: Finished, structured: bool):
        self._channel = channel
        self._opened = opened
        self._finished = finished
        self._structured = structured
        self._calls = Calls(channel.send)
        self._crew = Crew()
        self._sessions = Sessions(self._open)
        self._asker: Asker | None = None
        self._questions: dict[str, Question] = {}
        self._numbers = itertools.count(1)
        self._early = threading.Thread(target=self._open_early, name="handrail-open", daemon=True)
        self._early.start()

    def start(self, call: Running) -> None:
        """Have it done; raises `Fault` if it cannot even begin."""
        self._calls.add(call)
        if not self._crew.submit(lambda: self._do(call)):
            busy = Fault(BUSY, "too many calls are waiting; send it again when some have been answered")
            self._calls.finish(call, fault_frame(call.id, busy))

    def cancel(self, id: Any) -> None:
        self._calls.cancel(id)

    def answered(self, message: Message) -> None:
        """The client has answered a question of ours; one that nobody waits for any more is dropped."""
        question = self._questions.pop(message.id, None) if isinstance(message.id, str) else None
        if question:
            question.answer = message.answer
            question.refused = message.error is not None
            question.settled.set()

    def close(self) -> bool:
        """End everything; False if something does not end."""
        deadline = time.monotonic() + _GRACE
        self._calls.cancel_all(self._channel.heard())
        ended = self._crew.close(_GRACE)
        self._early.join(max(0.1, deadline - time.monotonic()))
        self._sessions.close()
        return ended and not self._early.is_alive()

    # On the threads.

    def _do(self, call: Running) -> None:
        answer = fault_frame(call.id, Fault(INTERNAL_ERROR, "the server has a fault; its log says more"))
        try:
            if not self._calls.begin(call):
                raise Fault(BUSY, "the call was cancelled before it began")
            answer = result_frame(call.id, self._finished(call, self._result(call)))
        except Fault as fault:
            answer = fault_frame(call.id, fault)
        finally:
            self._calls.finish(call, answer)

    def _result(self, call: Running) -> dict[str, Any]:
        try:
            with self._sessions.use(call.thread) as session:
                return self._called(session, call)
        except CannotOpen as error:
            return wire.failed_result(str(error), "no_session")

    def _called(self, session: Session, call: Running) -> dict[str, Any]:
        from handrail.mcp.asking import InputRequired, Withdrawn

        assert self._asker
        self._asker.attend(call)
        try:
            result = session.call(call.tool, call.arguments, id=str(call.id), cancel=call.cancel)
        except InputRequired as wanted:
            return wanted.result()
        except Withdrawn:
            raise Fault(BUSY, "the call was cancelled while a person was asked") from None
        return wire.call_result(result, self._structured)

    def _ask(self, call: Running, params: Mapping[str, Any]) -> Question:
        """Ask through the client, and wait; raises `Withdrawn` if the call is cancelled meanwhile."""
        from handrail.mcp.asking import METHOD, Withdrawn

        question = call.question = Question(f"handrail-{next(self._numbers)}")
        self._questions[question.id] = question
        if not call.cancel.is_set():
            self._channel.send({"jsonrpc": "2.0", "id": question.id, "method": METHOD, "params": params})
            question.settled.wait()
        call.question = None
        if self._questions.pop(question.id, None):  # nobody has answered: the call is over
            gone = {"requestId": question.id, "reason": "the call was cancelled"}
            self._channel.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone})
            raise Withdrawn
        return question

    def _open(self) -> Session:
        if self._asker is None:
            from handrail.mcp.asking import Asker

            self._asker = Asker(self._ask)
        return self._opened(self._asker)

    def _open_early(self) -> None:
        """What the first call would have to wait for."""
        try:
            with self._sessions.use(""):
                pass
        except CannotOpen as error:
            sys.stderr.write(f"handrail mcp: {error}\n")
