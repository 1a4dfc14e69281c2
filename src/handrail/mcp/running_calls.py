"""Track the running calls of a server: cancel them, and report their progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from handrail.json_types import JsonMapping
from handrail.mcp.progress import CallProgress
from handrail.mcp.protocol import BUSY, INVALID_REQUEST, ClientInfo, ProtocolError, get_meta
from handrail.mcp.sessions import get_conversation, read_model
from handrail.wire.mcp import drop_client_arguments

_TICK = 1.0
_SLICE = 0.1
"""Seconds after which the end of the input looks again whether the client still listens."""


class PendingForm:
    """A form that was sent to the client, and the client's reply when that has come."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.settled = threading.Event()
        self.answer: object = None
        self.refused = False
        """Whether the client could not ask anybody."""


Send = Callable[..., None]
"""``send(message, still)``: pass a message on, if it is ``still`` wanted when its turn comes."""


class RunningCall:
    """One call of a client's."""

    def __init__(
        self, id: int | str, params: JsonMapping, client: ClientInfo, send: Send, connection: str = ""
    ) -> None:
        """``connection``: whose id it is, on a server with several clients."""
        meta = get_meta(params)
        self.id = id
        self.send = send
        self.connection = connection
        self.params = params
        self.client = client
        self.tool: str = params["name"]
        self.arguments: Mapping[str, object] = drop_client_arguments(params.get("arguments"))
        token = meta.get("progressToken")
        self.token: int | str | None = token if type(token) in (int, str) else None
        self.thread = get_conversation(meta)
        self.model = read_model(meta)
        self.cancel = threading.Event()
        self.withdrawn = False
        """Whether the client wants no answer any more."""
        self.heard = True
        """Whether the client can still answer a question."""
        self.done = False
        self.progress: CallProgress | None = None
        """None until it begins, and for a client that wants no reports."""
        self.question: PendingForm | None = None

    def stop(self) -> None:
        """It ends soon, also if it waits for a person."""
        self.cancel.set()
        if question := self.question:
            question.settled.set()

    def withdraw(self) -> None:
        """End it soon; the client wants no answer."""
        self.withdrawn = True
        self.stop()

    def report(self, progress: CallProgress) -> dict[str, object]:
        params = {"progressToken": self.token, "progress": progress.seconds, "message": progress.describe()}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


class RunningCalls:
    """All that run, by the ids that the clients gave them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[tuple[str, int | str], RunningCall] = {}
        self._sending = 0
        self._changed = threading.Condition()
        self._ticking = False
        self._ended = False
        self._unheard = False

    @property
    def full(self) -> bool:
        return len(self._running) >= self._most

    def add(self, call: RunningCall) -> None:
        with self._changed:
            if self._ended:
                raise ProtocolError(BUSY, "the server is shutting down")
            if self.full:
                raise ProtocolError(BUSY, "too many calls at once; send it again when some have been answered")
            if (call.connection, call.id) in self._running:
                raise ProtocolError(INVALID_REQUEST, "a request with this id is still under way")
            self._running[call.connection, call.id] = call

    def begin(self, call: RunningCall) -> bool:
        """False if it is not wanted any more."""
        with self._changed:
            if call.withdrawn or self._unheard:
                return False
            if call.token is not None:
                call.progress = CallProgress(call.tool)
            if call.token is not None and not self._ticking:
                with suppress(RuntimeError):  # no thread to be had: the call is made, and nothing is told of it
                    threading.Thread(target=self._tick, name="handrail-progress", daemon=True).start()
                    self._ticking = True
        return True

    def finish(self, call: RunningCall, answer: Mapping[str, object]) -> None:
        """Answer, unless the client has cancelled; no progress follows."""
        with self._changed:
            self._running.pop((call.connection, call.id), None)  # before the answer is out: its id may come again then
            self._sending += 1
        call.send(answer, partial(_mark_ended, call))
        with self._changed:
            self._sending -= 1
            self._changed.notify_all()

    def cancel(self, id: object, connection: str = "") -> None:
        """The client wants no answer; an id that is not known is one that was answered a moment ago."""
        if isinstance(id, int | str):
            with self._changed:
                call = self._running.get((connection, id))
            if call:
                call.withdraw()

    def list_calls(self) -> list[RunningCall]:
        with self._changed:
            return list(self._running.values())

    def wait(self, listening: Callable[[], bool]) -> None:
        """Wait until every call is answered, as long as somebody is ``listening`` for the answers."""
        while listening():
            with self._changed:
                if self._changed.wait_for(lambda: not self._running and not self._sending, _SLICE):
                    return

    def cancel_all(self, heard: bool) -> None:
        """Cancel everything. Calls that have not started do not start, unless the client still reads."""
        with self._changed:
            self._ended = True
            self._unheard = not heard
            for call in self._running.values():
                call.stop()
            self._changed.notify_all()

    def _tick(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(_TICK)
                calls = [call for call in self._running.values() if call.token is not None]
                if self._ended or not calls:
                    self._ticking = False
                    return
            for call in calls:
                if call.progress and call.progress.seconds >= _TICK / 2:
                    call.send(call.report(call.progress), partial(_goes_on, call))


def _goes_on(call: RunningCall) -> bool:
    return not call.done and not call.withdrawn


def _mark_ended(call: RunningCall) -> bool:
    """Asked under the lock of the channel, so that no progress can follow the answer."""
    call.done = True
    return not call.withdrawn
