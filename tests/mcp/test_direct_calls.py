"""Plain calls over HTTP that are cancelled while they run: by a notification of their session, or by the end of theirs.

The session is a stand-in whose calls last until they are cancelled.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from handrail.mcp.http.calls import PrincipalService
from handrail.mcp.http.direct_calls import DirectCalls
from handrail.mcp.protocol import CAPABILITIES_KEY, ENVELOPE, HANDSHAKE, VERSION_KEY, ClientInfo
from handrail.model import Result
from tests.command import TIMEOUT

Message = dict[str, Any]

_ACCEPTED = (b"accept", b"application/json, text/event-stream")


class EndlessSession:
    """Its calls end when they are cancelled."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.cancelled = threading.Event()

    def name_source(self, client: str, model: str) -> None:
        pass

    def call(self, tool: str, _arguments: object, *, cancel: threading.Event, on_event: object) -> Result:
        assert on_event is None
        self.started.set()
        if cancel.wait(TIMEOUT):
            self.cancelled.set()
        return Result(tool, "error", "cancelled")


class OneSession:
    """A service with one tool and one session."""

    tools = ({"name": "Grep", "annotations": {"openWorldHint": False}, "inputSchema": {}},)
    accepts = True
    structured = False

    def __init__(self) -> None:
        self.session = EndlessSession()

    @property
    def sessions(self) -> OneSession:
        return self

    @contextmanager
    def use(self, _thread: str) -> Iterator[EndlessSession]:
        yield self.session

    @contextmanager
    def track(self, _call: object) -> Iterator[None]:
        yield


class Exchange:
    """One request to the application, and what it sends back."""

    def __init__(self, app: DirectCalls, body: Message, *headers: tuple[bytes, bytes]) -> None:
        self.gone = asyncio.Event()
        self.sent: list[Message] = []
        self._first = True
        self._body = json.dumps({"jsonrpc": "2.0", **body}).encode("ascii")
        scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"application/json"), *headers]}
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if self._first:
            self._first = False
            return {"type": "http.request", "body": self._body}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


async def refuse(_scope: object, _receive: object, _send: object) -> None:
    """An SDK that takes the messages and answers nothing."""


def serve() -> tuple[DirectCalls, EndlessSession]:
    service = OneSession()
    return DirectCalls(cast("PrincipalService", service), refuse), service.session


async def wait(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, TIMEOUT)


def read_error(exchange: Exchange) -> Message:
    return cast("Message", json.loads(exchange.sent[-1]["body"])["error"])


@pytest.mark.parametrize("number", [7, "seven"])
def test_a_notification_of_its_session_cancels_a_call(number: int | str) -> None:
    async def run() -> None:
        app, session = serve()
        app.learn("s", ClientInfo(HANDSHAKE[-1], {}))
        headers = (_ACCEPTED, (b"mcp-session-id", b"s"))
        params = {"name": "Grep", "arguments": {}}
        call = Exchange(app, {"id": number, "method": "tools/call", "params": params}, *headers)
        await wait(session.started)
        foreign: tuple[Message, ...] = ({"requestId": 8}, {"requestId": [number]}, {})  # of other calls, or of none
        for about in foreign:
            await Exchange(app, {"method": "notifications/cancelled", "params": about}, *headers).task
        other = (_ACCEPTED, (b"mcp-session-id", b"t"))
        notification: Message = {"method": "notifications/cancelled", "params": {"requestId": number}}
        await Exchange(app, notification, *other).task
        assert not session.cancelled.is_set()
        await Exchange(app, notification, *headers).task
        await asyncio.wait_for(call.task, TIMEOUT)
        assert session.cancelled.is_set()
        assert read_error(call)["code"] == -32800

    asyncio.run(run())


def test_a_client_that_closes_the_connection_cancels_its_call() -> None:
    async def run() -> None:
        app, session = serve()
        headers = (
            _ACCEPTED,
            (b"mcp-protocol-version", ENVELOPE[0].encode("ascii")),
            (b"mcp-method", b"tools/call"),
            (b"mcp-name", b"Grep"),
        )
        params = {"name": "Grep", "arguments": {}, "_meta": {VERSION_KEY: ENVELOPE[0], CAPABILITIES_KEY: {}}}
        call = Exchange(app, {"id": 1, "method": "tools/call", "params": params}, *headers)
        await wait(session.started)
        call.gone.set()
        await asyncio.wait_for(call.task, TIMEOUT)
        assert session.cancelled.is_set()

    asyncio.run(run())


def test_the_end_of_the_server_cancels_a_call() -> None:
    async def run() -> None:
        app, session = serve()
        app.learn("s", ClientInfo(HANDSHAKE[-1], {}))
        params = {"name": "Grep", "arguments": {}}
        message = {"id": 1, "method": "tools/call", "params": params}
        call = Exchange(app, message, _ACCEPTED, (b"mcp-session-id", b"s"))
        await wait(session.started)
        call.task.cancel()
        await wait(session.cancelled)

    asyncio.run(run())
