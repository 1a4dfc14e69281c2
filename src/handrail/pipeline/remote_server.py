"""The server of a remote session: makes the calls of one client, beside the files.

One thread takes messages and never waits for a call; calls and other requests run in threads of a pool. When the client
has gone, or says nothing for too long, running commands are ended and the server ends.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from handrail.errors import Interrupted
from handrail.frozen import frozen
from handrail.json_types import JsonMapping, JsonObject
from handrail.model import Answer, Call, Note, Question, Result, access_as_json
from handrail.pipeline import remote_values as values
from handrail.pipeline.call_state import CallClock, Received
from handrail.pipeline.kept_answers import ChangeMade, KeptAnswers, KeyGuard
from handrail.remote.frames import BadMessage, FramePipe, PipeBroken
from handrail.text.display import escape
from handrail.tools.notes import AnswerLost
from handrail.version import __version__

if TYPE_CHECKING:
    from handrail.drafts.changes import FileSummary
    from handrail.pipeline.events import SessionEvent
    from handrail.pipeline.session import Session
    from handrail.pipeline.session_draft import SessionDraft

PROTOCOL = 2
_TICK = 1.0
SILENT_SECONDS = 60.0
"""A client that sends no heartbeat for so long has gone, even if the pipe is open."""
_MOST_THREADS = 64
_END_SECONDS = 10.0

OpenSession = Callable[[JsonMapping, Callable[[Question], Answer] | None], "Session"]
"""Opens the session of a client, by its options; the second argument asks the client's person."""


class Pages(Protocol):
    """The pages of `handrail web`, for a browser at the client."""

    def answer(
        self, message: Mapping[str, object], send: Callable[[JsonObject], None], gone: threading.Event
    ) -> None: ...

    def close(self) -> None: ...


class _Running:
    """A call on its way, and what the client sends for it."""

    is_left = False
    """Whether the client has gone. It repeats the call when it comes back."""

    def __init__(self) -> None:
        self.cancel = threading.Event()
        self.answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()


class RemoteServer:
    """Serves one client until it has gone."""

    def __init__(
        self,
        pipe: FramePipe,
        open_session: OpenSession,
        answers: KeptAnswers,
        open_pages: Callable[[], Pages] | None = None,
    ) -> None:
        """``open_pages``: opens the pages when a client asks for the first; None refuses them."""
        self._pipe = pipe
        self._open_pages = open_pages
        self._pages: Pages | None = None
        self._open_session = open_session
        self._answers = answers
        self._session: Session | None = None
        self._drafts: dict[str, SessionDraft[Session]] = {}
        self._running: dict[int, _Running] = {}
        self._current = threading.local()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_MOST_THREADS, "handrail-call")

    def run(self) -> None:
        """Answer until the client has gone, or is silent for too long."""
        try:
            self._pipe.greet()
            while True:
                try:
                    message = self._pipe.take(_TICK)
                except BadMessage as error:
                    self._refuse(str(error))
                    continue
                if message is not None:
                    self._take(message)
                elif time.monotonic() - self._pipe.last_taken > SILENT_SECONDS:
                    break
        except PipeBroken:
            pass
        finally:
            self._close()

    def _take(self, message: JsonObject) -> None:
        do, number = message.get("do"), message.get("id", 0)
        if not isinstance(do, str) or type(number) is not int:
            self._refuse("a request has a text as `do` and a number as `id`")
            return
        running = self._running.get(number)
        if do == "ping":
            self._pipe.send_at_once({"id": 0})
        elif do == "cancel" and running:
            running.cancel.set()
        elif do == "answer" and running:
            running.answers.put(_read_answer(message.get("answer")))
        elif do not in ("cancel", "answer"):
            if do in ("call", "page"):
                self._running[number] = _Running()
            self._pool.submit(self._serve, number, do, message).add_done_callback(partial(self._reply, number))

    def _refuse(self, why: str) -> None:
        """Answer a message that is no request, and so has no number."""
        self._pipe.send_at_once({"id": 0, "error": values.error_as_json(ValueError(why))})

    def _serve(self, number: int, do: str, message: JsonObject) -> JsonObject:
        """The reply to a request; what it raises is one too."""
        if do == "call":
            return {"value": self._call(number, message)}
        if do == "page":
            return {"value": values.read(partial(self._answer_page, number), message)}
        if (known := _REQUESTS.get(do)) and known.changes(message):
            self._require_changes(do)
        return self._answer_once(do, message) if "key" in message else {"value": self._answer(do, message)}

    def _reply(self, number: int, done: Future[Any]) -> None:
        """Send the value of a request, or the exception for the client to raise."""
        self._running.pop(number, None)
        if done.cancelled():
            return
        error = done.exception()
        reply = done.result() if error is None else {"error": values.error_as_json(error)}
        self._send({"id": number, **reply})

    def _send(self, reply: JsonObject) -> None:
        try:
            self._pipe.send(reply)
        except PipeBroken:  # nobody waits for it any more
            return
        except (TypeError, ValueError) as error:
            self._pipe.send({"id": reply["id"], "error": values.error_as_json(ValueError(f"no JSON: {error}"))})

    # Calls.

    def _call(self, number: int, message: JsonObject) -> JsonObject:
        running = self._running[number]
        session = self._find_session(message.get("draft", ""))
        self._current.number, self._current.running = number, running
        call = Call(str(message.get("tool")), {}, str(message.get("call", "")))
        on_event = partial(self._send_event, number) if message.get("events") else None
        with closing(self._guard(message, session)) as guard:
            received = Received(call, CallClock(), running.cancel, on_event, guard)
            return self._make_call(session, message.get("arguments"), received, guard)

    def _make_call(self, session: Session, arguments: Any, received: Received, guard: KeyGuard) -> dict[str, object]:
        try:
            earlier = guard.find_answer()
        except Interrupted as error:
            result = values.fail(session.dialect, received.call, error)
        else:
            if isinstance(earlier, dict):
                return {**earlier, "id": received.call.id}
            result = (
                _report_change(session, received.call, earlier) if earlier else session.make_call(arguments, received)
            )
        answer = values.result_as_json(result)
        if not (result.data.get("cancelled") and self._current.running.is_left):  # the repeat is `interrupted`
            guard.keep(answer)
        return answer

    def _send_event(self, number: int, event: SessionEvent) -> None:
        if values.is_sent(event):
            self._send({"id": number, "event": values.event_as_json(event)})

    def ask(self, question: Question) -> Answer:
        """Ask the client whose call this thread makes; a no if the call is cancelled meanwhile."""
        running: _Running = self._current.running
        self._send({"id": self._current.number, "question": question.as_json()})
        while not running.cancel.is_set():
            try:
                return running.answers.get(timeout=_TICK)
            except queue.Empty:
                continue
        return Answer(False, "the call was cancelled")

    # Other requests.

    def _answer_page(self, number: int, message: Mapping[str, object]) -> None:
        def send(part: JsonObject) -> None:
            self._send({"id": number, "part": part})

        self.find_pages().answer(message, send, self._running[number].cancel)

    def _answer_once(self, do: str, message: Mapping[str, object]) -> dict[str, object]:
        """Answer a request that has an effect, under its key: a repeat gets the first answer."""
        session = self._find_session("")
        with closing(self._guard(message, session)) as guard:
            earlier = guard.find_answer()
            if isinstance(earlier, dict):
                return earlier
            guard.before_command(False)
            reply: dict[str, object]
            try:
                reply = {"value": self._answer(do, message)}
            except values.EXPECTED as error:
                reply = {"error": values.error_as_json(error)}
            guard.keep(reply)
            return reply

    def _guard(self, message: Mapping[str, object], session: Session) -> KeyGuard:
        return self._answers.guard(
            str(message.get("key")),
            again=bool(message.get("again")),
            durable=session.settings.durable,
            recover=session.services.locks.sweep,
        )

    def _answer(self, do: str, message: JsonMapping) -> object:
        if do == "open":
            return self._open(message)
        if do not in _REQUESTS:
            raise ValueError(f"unknown request {do[:80]!r}")
        session = self._find_session("" if do.startswith("draft ") else message.get("draft", ""))
        return values.read(lambda one: _REQUESTS[do].run(self, session, one), message)

    def _require_changes(self, do: str) -> None:
        """Raise `ValueError` if this server may not change files."""
        if self._find_session("").mode == "read-only":
            raise ValueError(f"{do} changes files, and this server is in mode read-only")

    def _open(self, message: Mapping[str, object]) -> dict[str, object]:
        if message.get("protocol") != PROTOCOL:
            raise ValueError(f"this server is handrail {__version__} and speaks protocol {PROTOCOL}; install the same")
        session = self._open_session(message, self.ask if message.get("asks") else None)
        if message.get("session"):
            session.resume(str(message["session"]))
        with self._lock:
            self._session = session
        home = os.path.realpath(session.workspace.home)
        return {"home": home, "session": session.origin.session, "version": __version__}

    def _find_session(self, draft: str) -> Session:
        if draft:
            return self._find_draft(draft).session
        if self._session is None:
            raise ValueError("the session is not open yet")
        return self._session

    def find_draft(self, message: JsonMapping) -> SessionDraft[Session]:
        """The draft that a request names."""
        return self._find_draft(message["draft"])

    def _find_draft(self, name: str) -> SessionDraft[Session]:
        """The draft of a name, created if there is none; with an empty name a new one."""
        self._require_changes("a draft")
        main = self._find_session("")
        with self._lock:
            draft = self._drafts.get(name) or main.draft(name)
            self._drafts[draft.name] = draft
            return draft

    def find_pages(self) -> Pages:
        """The pages of this machine; raises `ValueError` where they are not served."""
        if self._open_pages is None:
            raise ValueError("the pages show all projects, and undo there: they need a server in mode full")
        with self._lock:
            self._pages = self._pages or self._open_pages()
            return self._pages

    def _close(self) -> None:
        if self._pages:
            self._pages.close()
        for running in list(self._running.values()):
            running.is_left = True
            running.cancel.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for draft in self._drafts.values():
            draft.close()
        if self._session:
            self._session.close()


def _read_answer(value: object) -> Answer:
    try:
        return Answer.from_json(value)
    except ValueError as error:
        return Answer(False, str(error))


def _list_specs(session: Session) -> list[dict[str, object]]:
    return [values.spec_as_json(spec) for spec in session.specs()]


def _restrict(session: Session, message: Mapping[str, object]) -> None:
    session.restrict(values.read_restriction(message["restriction"], session.workspace.home))


def _summarize(changes: Sequence[FileSummary]) -> list[JsonObject]:
    return [asdict(one) for one in changes]


def _prepare(session: Session, message: JsonMapping) -> dict[str, object]:
    judged = session.prepare(str(message["tool"]), message["arguments"])
    return {"accesses": [access_as_json(one) for one in judged.accesses], "verdict": asdict(judged.verdict)}


def _preview(session: Session, message: JsonMapping) -> str:
    return session.prepare(str(message["tool"]), message["arguments"]).preview()


def _report_change(session: Session, call: Call, change: ChangeMade) -> Result:
    """The answer of a call whose change was made, and whose own answer is lost."""
    note = AnswerLost(paths=", ".join(map(escape, change.paths[:20])))
    text = session.dialect.templates.fill(f"notes.{note.code}", note)
    return Result(
        call.tool, "partial", text, ({"type": "text", "text": text},), notes=(Note(note.code, text),), id=call.id
    )


@frozen
class _Request:
    """A request that is not a call."""

    run: Callable[[RemoteServer, Session, JsonMapping], Any]
    changes: Callable[[JsonMapping], bool] = lambda _: False
    """Whether a message changes files or drafts: a server in mode read-only refuses it, with a key or without."""


def _always(_: Mapping[str, object]) -> bool:
    return True


def _undoes(message: Mapping[str, object]) -> bool:
    which = message.get("which")
    return not (isinstance(which, dict) and which.get("dry_run") is True)


_REQUESTS: Mapping[str, _Request] = {
    "specs": _Request(lambda _, session, __: _list_specs(session)),
    "undo": _Request(lambda _, session, one: asdict(session.undo(**one["which"])), _undoes),
    "prepare": _Request(lambda _, session, one: _prepare(session, one)),
    "preview": _Request(lambda _, session, one: _preview(session, one)),
    "source": _Request(lambda _, session, one: session.name_source(str(one["client"]), str(one["model"]))),
    "prompt": _Request(lambda _, session, one: session.record_prompt(str(one["text"]))),
    "restrict": _Request(lambda _, session, one: _restrict(session, one)),
    "project": _Request(lambda _, session, __: asdict(session.describe_project())),
    "background": _Request(lambda _, session, __: session.list_background_calls()),
    "warm": _Request(lambda _, session, __: session.warm()),
    "pages": _Request(lambda server, *_: server.find_pages() and None),
    "draft open": _Request(lambda server, _, one: server.find_draft(one).name, _always),
    "draft changes": _Request(lambda server, _, one: _summarize(server.find_draft(one).changes())),
    "draft diff": _Request(lambda server, _, one: server.find_draft(one).diff()),
    "draft keep": _Request(lambda server, _, one: _summarize(server.find_draft(one).keep(*one["paths"])), _always),
    "draft resolve": _Request(
        lambda server, _, one: server.find_draft(one).resolve(one["side"], *one["paths"]), _always
    ),
    "draft rebase": _Request(lambda server, _, one: server.find_draft(one).rebase(), _always),
    "draft drop": _Request(lambda server, _, one: server.find_draft(one).drop(), _always),
    "draft close": _Request(lambda server, _, one: server.find_draft(one).close()),
}
