"""A session whose files are on another machine: each call is made by `handrail serve` there.

`connect` opens it. If the connection is cut, a call is repeated over a new one under the same key, and
the server makes sure its effect happens once. The server's memory of what was read is gone then: files must be read
again before they are changed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache
from typing import Any, Literal, Self, TypeVar, Unpack

from handrail import dialects
from handrail.drafts.changes import FileSummary
from handrail.errors import ConnectionLost, RootMissing, SessionOver, ToolError
from handrail.files.locks import state_directory
from handrail.journal import Journal, NoJournal, Origin
from handrail.journal.undo import UndoReport
from handrail.json_types import JsonMapping, JsonObject
from handrail.model import Access, Answer, Call, Question, Result, Verdict, read_access
from handrail.pipeline import remote_values as values
from handrail.pipeline.any_session import AnySession
from handrail.pipeline.approve import resolve_answer
from handrail.pipeline.call_state import CallClock, Declared, Judged, Received, Resolved, StagedChanges
from handrail.pipeline.events import Events, OnEvent, ToolFinished, naming
from handrail.pipeline.options import ConnectOptions, UndoOptions
from handrail.pipeline.prepare import parse, read_arguments
from handrail.pipeline.project import ProjectFacts
from handrail.pipeline.remote_server import PROTOCOL
from handrail.pipeline.session_draft import SessionDraft
from handrail.policy.files import PolicyFile, load
from handrail.policy.modes import DEFAULT_MODE, MODES, Mode
from handrail.policy.stricter import Restriction
from handrail.remote.address import parse_address
from handrail.remote.client import Connection, RemoteRequest
from handrail.settings import config_file
from handrail.workspace import Root, WorkPath, Workspace

T = TypeVar("T")

_POLL_SECONDS = 0.05
_RECONNECT_SECONDS = 30.0
"""How long a call tries to reach a server again before it is answered that the connection is lost."""
_ATTEMPTS = 5
_PAUSES = (0.0, 0.2, 0.5, 1.0, 2.0)


def connect(address: str | Sequence[str], **options: Unpack[ConnectOptions]) -> RemoteSession:
    """Open a session on a workspace of another machine, with the methods of `Session`; see `ConnectOptions`.

    ``address``: `ssh://HOST/PATH`, `docker://CONTAINER/PATH`, `kubectl://NAMESPACE/POD/PATH`, or the words of a command
    that runs `handrail serve --stdio ROOT` there. The rules of both machines hold, and the stricter verdict wins;
    questions are answered here. A call whose connection was cut is repeated and has its effect once. Raises
    `ConnectionLost` if there is no server, and `ValueError` for an option it does not accept.
    """
    if unknown := options.keys() - ConnectOptions.__annotations__.keys():
        raise TypeError(f"connect has no option {min(unknown)}")
    return RemoteSession(address, options)


class RemoteSession:
    """A session over a connection, with the methods of `AnySession`. Many threads may use it at once."""

    def __init__(self, address: str | Sequence[str], options: ConnectOptions) -> None:
        chosen: Mode = options.get("mode") or DEFAULT_MODE
        if chosen not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, not {chosen!r}")
        rules = tuple(options.get("rules", ()))
        for one in rules:
            if not isinstance(one, PolicyFile) or not one.text:
                raise ValueError("rules must be PolicyFile objects, as parse_rules(text) returns them")
        self.settings = config_file.load(os.environ).settings
        self._restriction = Restriction(chosen, (*_load_rules(state_directory(self.settings.state)), *rules))
        offer = options.get("offer", ())
        self.dialect = dialects.load(options.get("dialect", "native")).offering(offer)
        self._approve = options.get("approve")
        self._report = Events(options.get("on_event"))
        opening = {
            "do": "open",
            "protocol": PROTOCOL,
            "dialect": self.dialect.name,
            "restriction": values.restriction_as_json(self._restriction),
            "asks": self._approve is not None,
            "matching": options.get("matching"),
            "offer": list(offer),
        }
        self._link = _Link(address, chosen, opening)
        greeting = self._link.open()
        self._keys = _Keys(options.get("name", ""))
        self._draft = ""
        home = str(greeting["home"])
        self.workspace: Workspace = _FarWorkspace([Root(home)])
        self.origin = Origin(str(greeting["session"]), self.dialect.name, home)
        self.server_version = str(greeting["version"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def sent_bundle(self) -> bool:
        """Whether Handrail was sent to the other machine, where it is not installed."""
        return self._link.find_connection().sent_bundle

    def close(self) -> None:
        """End the connection, and every command that runs there. No call is possible afterwards."""
        if not self._draft:
            self._link.close()

    @property
    def journal(self) -> Journal:
        """Calls are recorded on the other machine: nothing is here."""
        return _FarJournal()

    def name_source(self, client: str, model: str = "") -> None:
        self.request("source", client=client, model=model)

    def record_prompt(self, text: str) -> None:
        self.request("prompt", once=True, text=text)

    def warm(self) -> None:
        self.request("warm")

    def specs(self) -> list[dialects.Spec]:
        return [values.read(values.read_spec, one) for one in self.request("specs")]

    def call(
        self,
        tool: str,
        arguments: Mapping[str, object] | str | None = None,
        *,
        id: str = "",
        cancel: threading.Event | None = None,
        on_event: OnEvent | None = None,
    ) -> Result:
        return self.make_call(arguments, Received(Call(str(tool), {}, id), CallClock(), cancel, on_event))

    def make_call(self, arguments: Mapping[str, object] | str | None, received: Received) -> Result:
        call = received.call
        shown = _ShownCall(call)
        sent = dict(arguments) if isinstance(arguments, Mapping) else arguments
        key, again = self._keys.take(call.tool, sent)
        message = {
            "do": "call",
            "tool": call.tool,
            "arguments": sent,
            "call": call.id,
            "key": key,
            "draft": self._draft,
            "events": bool(self._report.on_event or received.on_event),
        }
        try:
            result = self._link.repeat(
                again,
                lambda connection, again: self._exchange(connection, {**message, "again": again}, received, shown),
            )
        except (ToolError, ValueError, values.RemoteFailed) as error:
            result = values.fail(self.dialect, call, error)
        result = replace(result, time_ms=received.clock.seconds * 1000)
        self._report.send(ToolFinished(shown.call, result), received.on_event)
        return result

    def _exchange(self, connection: Connection, message: JsonObject, received: Received, shown: _ShownCall) -> Result:
        """Make one call over a connection: relay its events and questions until its result comes."""
        with closing(connection.start(message)) as request:
            for reply in _take_replies(request, received.cancel):
                if "event" in reply:
                    event = values.read(lambda value: values.read_event(value, shown.call), reply["event"])
                    shown.call = event.call
                    self._report.send(event, received.on_event)
                elif "question" in reply:
                    question = replace(Question.from_json(reply["question"]), cancel=received.cancel)
                    asked = time.perf_counter()
                    answer = self._ask(question)
                    received.clock.leave_out(asked)
                    request.send({"do": "answer", "answer": answer.as_json()})
                else:
                    return values.read(values.read_result, _open_reply(reply))
        raise AssertionError("a request ends with its answer")

    def stream(
        self, do: str, message: Mapping[str, object], take: Callable[[JsonMapping], None], cancel: threading.Event
    ) -> None:
        """Make a request whose answer comes in parts. It is not repeated if the connection is lost."""
        with closing(self._link.find_live_connection().start({"do": do, **message})) as request:
            for reply in _take_replies(request, cancel):
                if "part" not in reply:
                    _open_reply(reply)
                    return
                take(reply["part"])

    def _ask(self, question: Question) -> Answer:
        if self._approve is None:
            return Answer(False, "there is nobody to ask")
        try:
            with naming("approve"):
                return resolve_answer(self._approve(question))
        except ToolError as error:  # the server waits for an answer, whatever a callback does
            return Answer(False, self.dialect.render_error(error))

    def undo(self, **which: Unpack[UndoOptions]) -> UndoReport:
        reply = self.request("undo", once=not which.get("dry_run", False), which=which)
        return values.read(values.read_report, reply)

    def redo(self, *, any_session: bool = False, dry_run: bool = False) -> UndoReport:
        return self.undo(redo=True, any_session=any_session, dry_run=dry_run)

    def prepare(self, tool: str, arguments: Mapping[str, object] | str | None = None) -> Judged:
        """A call as far as it goes without changing anything; raises `ToolError`. `proposed` is empty here."""
        read = read_arguments(arguments)
        received = Received(Call(tool, read), CallClock())
        parsed = parse(received, self.dialect, None, self.settings.matching)
        reply = self.request("prepare", tool=tool, arguments=dict(read))
        accesses = tuple(values.read(read_access, one) for one in reply["accesses"])
        verdict = Verdict(**{name: str(value) for name, value in reply["verdict"].items()})  # type: ignore[arg-type]
        resolved = Resolved(Declared(parsed, accesses), accesses, _list_paths(accesses, self.workspace.roots[0]))

        @cache
        def preview() -> StagedChanges:
            return _FarChanges.of(str(self.request("preview", tool=tool, arguments=dict(read))))

        return Judged(resolved, verdict, preview)

    def draft(self, name: str = "") -> SessionDraft[AnySession]:
        return RemoteDraft(self, name)

    def set_mode(self, mode: Mode) -> None:
        self.restrict(replace(self._restriction, mode=mode))

    def restrict(self, restriction: Restriction) -> None:
        self._restriction = restriction
        sent = values.restriction_as_json(restriction)
        self._link.options["restriction"] = sent
        self.request("restrict", restriction=sent)

    def list_background_calls(self) -> list[tuple[str, JsonMapping]]:
        return values.read(
            lambda value: [(str(tool), dict(given)) for tool, given in value], self.request("background")
        )

    @property
    def mode(self) -> Mode:
        """The mode of this side; the other machine has one too, and the stricter verdict wins."""
        return self._restriction.mode

    def describe_project(self) -> ProjectFacts:
        return values.read(lambda value: ProjectFacts(**value), self.request("project"))

    def request(self, do: str, *, once: bool = False, **message: object) -> Any:
        """Make a request that is not a call; raises what the session on the other side raises.

        ``once``: it has an effect. If the connection is cut it is repeated under its key, and has the effect once.
        """
        key, again = self._keys.take(do, message) if once else ("", False)
        sent = {"do": do, "draft": self._draft, **message}

        def make(connection: Connection, again: bool) -> object:
            return _request(connection, {**sent, "key": key, "again": again} if once else sent)

        return self._link.repeat(again, make)


class RemoteDraft(SessionDraft[AnySession]):
    """A draft of a remote workspace, with the methods of `SessionDraft`."""

    def __init__(self, parent: RemoteSession, name: str) -> None:  # the parent's store is on the other machine
        self._parent = parent
        self._is_named = bool(name)
        self.name = name or f"session-{secrets.token_hex(4)}"  # chosen here: a repeat opens no second draft
        parent.request("draft open", draft=self.name)
        self._is_over = False

    @property
    def session(self) -> AnySession:
        self._require_open()
        session = object.__new__(RemoteSession)  # over the same connection
        session.__dict__.update(self._parent.__dict__, _draft=self.name)
        return session

    def changes(self) -> list[FileSummary]:
        return values.read(values.read_summaries, self._do("changes"))

    def diff(self) -> str:
        return str(self._do("diff"))

    def keep(self, *paths: str) -> list[FileSummary]:
        kept = values.read(values.read_summaries, self._do("keep", once=True, paths=list(paths)))
        self._is_over = not paths
        return kept

    def resolve(self, side: Literal["ours", "theirs", "merge"], *paths: str) -> list[str]:
        left = self._do("resolve", once=True, side=side, paths=list(paths))
        return [str(path) for path in left] if isinstance(left, list) else []

    def rebase(self) -> list[str]:
        merged = self._do("rebase", once=True)
        return [str(path) for path in merged] if isinstance(merged, list) else []

    def drop(self) -> None:
        if not self._is_over:
            self._do("drop")
            self._is_over = True

    def close(self) -> None:
        if not self._is_over:
            self._do("close")

    def _do(self, what: str, **message: Any) -> object:
        self._require_open()
        return self._parent.request(f"draft {what}", draft=self.name, **message)


class _Link:
    """The connection of a session, opened anew when it is lost."""

    def __init__(self, address: str | Sequence[str], mode: Mode, options: JsonObject) -> None:
        self._target = parse_address(address, mode)
        self.options = options
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    def open(self) -> JsonMapping:
        """Connect, and open the session there; raises `ConnectionLost` and what the server raises."""
        connection = Connection(self._target)
        try:
            reply: JsonMapping = _request(connection, self.options)
        except BaseException:
            connection.close()
            raise
        self.options["session"] = str(reply["session"])
        self._connection = connection
        return reply

    def find_connection(self) -> Connection:
        with self._lock:
            if self._closed or self._connection is None:
                raise SessionOver
            return self._connection

    def find_live_connection(self) -> Connection:
        """A connection that is not known to be lost."""
        connection = self.find_connection()
        if connection.is_lost:
            self.reconnect(connection)
            connection = self.find_connection()
        return connection

    def reconnect(self, lost: Connection) -> None:
        """Connect again, unless somebody else has; raises `ConnectionLost` if that fails for too long."""
        deadline = time.monotonic() + _RECONNECT_SECONDS
        with self._lock:
            for pause in itertools.chain(_PAUSES, itertools.repeat(_PAUSES[-1])):
                if self._closed:
                    raise SessionOver
                if self._connection is not lost:
                    return
                time.sleep(pause)
                try:
                    self.open()
                except ConnectionLost:
                    if time.monotonic() >= deadline:
                        raise

    def repeat(self, again: bool, make: Callable[[Connection, bool], T]) -> T:
        """Make a request, and make it again over a new connection if the one before was lost.

        ``make`` gets the connection, and whether the request may have been made before. Raises `ConnectionLost` if no
        server can be reached, or one after the other is lost over this request.
        """
        for left in reversed(range(_ATTEMPTS)):
            connection = self.find_connection()
            try:
                return make(connection, again)
            except ConnectionLost:
                if not left:
                    raise
                again = True
                self.reconnect(connection)
        raise AssertionError("the last attempt ends above")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection:
                self._connection.close()


def _request(connection: Connection, message: JsonObject) -> Any:
    with closing(connection.start(message)) as request:
        return _open_reply(request.next())


def _take_replies(request: RemoteRequest, cancel: threading.Event | None) -> Iterator[JsonObject]:
    """The replies of a request; once ``cancel`` is set, the server is asked to stop and answers soon."""
    cancelled = False
    while True:
        if cancel and not cancelled and cancel.is_set():
            cancelled = True
            request.send({"do": "cancel"})
        with suppress(TimeoutError):
            yield request.next(_POLL_SECONDS if cancel and not cancelled else None)


def _open_reply(reply: Mapping[str, object]) -> object:
    if "error" in reply:
        raise values.read(values.read_error, reply["error"])
    return reply.get("value")


class _ShownCall:
    """A call as its events show it: with the arguments that the server sent, in which secrets are hidden."""

    def __init__(self, call: Call) -> None:
        self.call = call


class _FarJournal(NoJournal):
    """Keeps nothing here."""

    why = "the journal of this session is on the other machine: run `handrail log` there"


class _Keys:
    """The keys of calls: never the same, or the same for the same calls where the session has a name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._token = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, tool: str, arguments: object) -> tuple[str, bool]:
        """The key of the next call, and whether it may have been made before."""
        if not self._name:
            return f"{self._token}-{next(self._numbers)}", False
        words = json.dumps([self._name, tool, arguments], sort_keys=True, default=repr)
        digest = hashlib.sha256(words.encode("ascii")).hexdigest()
        with self._lock:
            self._seen[digest] += 1
            return f"{digest}-{self._seen[digest]}", True


class _FarWorkspace(Workspace):
    """The roots of a workspace on another machine: no path is opened here."""

    def resolve(self, named: str) -> WorkPath:
        raise RootMissing(path=named, root=self.home)


class _FarChanges(StagedChanges):
    """Changes of which only the diff is here."""

    text = ""

    @classmethod
    def of(cls, text: str) -> _FarChanges:
        changes = cls((), (), ())
        object.__setattr__(changes, "text", text)
        return changes

    def diff(self) -> str:
        return self.text


def _list_paths(accesses: Sequence[Access], root: Root) -> dict[str, WorkPath]:
    return {one.target: WorkPath(one.target, one.path, one.path, root) for one in accesses if one.path}


def _load_rules(state: str) -> tuple[PolicyFile, ...]:
    """The rules of this machine and its user; those of a project are on the other one."""
    return tuple(one for one in load(os.path.sep, os.environ, state) if one.origin != "project")
