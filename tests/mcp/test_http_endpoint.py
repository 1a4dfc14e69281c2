"""Calls over HTTP that are cancelled while they run: by a notification, or by the end of their session or connection.

The session is a stand-in whose calls last until they are cancelled.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from handrail.mcp.calls import CallService
from handrail.mcp.http import responses
from handrail.mcp.http.endpoint import Endpoint
from handrail.mcp.protocol import CAPABILITIES_KEY, ENVELOPE, HANDSHAKE, VERSION_KEY
from handrail.model import Result
from tests.command import TIMEOUT

if TYPE_CHECKING:
    from handrail.pipeline.any_session import AnySession

Message = dict[str, Any]

_ACCEPTED = (b"accept", b"application/json, text/event-stream")
_CALL = {"id": 1, "method": "tools/call", "params": {"name": "Grep", "arguments": {}}}


class EndlessSession:
    """Its calls end when they are cancelled."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.cancelled = threading.Event()

    def name_source(self, client: str, model: str) -> None:
        pass

    def close(self) -> None:
        pass

    def call(self, tool: str, _arguments: object, *, id: str, cancel: threading.Event, on_event: object) -> Result:
        self.started.set()
        if cancel.wait(TIMEOUT):
            self.cancelled.set()
        return Result(tool, "error", "cancelled")


class Exchange:
    """One request to the application, and what it sends back."""

    def __init__(self, app: Endpoint, body: Message, *headers: tuple[bytes, bytes]) -> None:
        self.gone = asyncio.Event()
        self.sent: list[Message] = []
        self._first = True
        self._body = json.dumps({"jsonrpc": "2.0", **body}).encode("ascii") if body else b""
        scope = {
            "type": "http",
            "method": "POST" if body else "DELETE",
            "headers": [(b"content-type", b"application/json"), *headers],
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if self._first:
            self._first = False
            return {"type": "http.request", "body": self._body}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


SPEC = {
    "name": "Grep",
    "core": True,
    "description": "",
    "inputSchema": {},
    "hints": {"read_only": True, "destructive": False, "idempotent": True, "open_world": False},
}


def serve() -> tuple[Endpoint, EndlessSession]:
    session = EndlessSession()
    service = CallService(lambda _: cast("AnySession", session), structured=False, principal="owner")
    return Endpoint([SPEC], service), session


async def open_session(app: Endpoint) -> tuple[bytes, bytes]:
    """The header that names a new session."""
    params = {"protocolVersion": HANDSHAKE[-1], "capabilities": {}}
    opened = Exchange(app, {"id": 0, "method": "initialize", "params": params}, _ACCEPTED)
    await opened.task
    return b"mcp-session-id", dict(opened.sent[0]["headers"])[b"mcp-session-id"]


async def wait(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, TIMEOUT)


def read_error(exchange: Exchange) -> Message:
    return cast("Message", json.loads(exchange.sent[-1]["body"])["error"])


@pytest.mark.parametrize("number", [7, "seven"])
def test_a_notification_of_its_session_cancels_a_call(number: int | str) -> None:
    async def run() -> None:
        app, session = serve()
        own, other = await open_session(app), await open_session(app)
        params = {"name": "Grep", "arguments": {}}
        call = Exchange(app, {"id": number, "method": "tools/call", "params": params}, _ACCEPTED, own)
        await wait(session.started)
        foreign: tuple[Message, ...] = ({"requestId": 8}, {"requestId": [number]}, {})  # of other calls, or of none
        for about in foreign:
            await Exchange(app, {"method": "notifications/cancelled", "params": about}, _ACCEPTED, own).task
        notification: Message = {"method": "notifications/cancelled", "params": {"requestId": number}}
        await Exchange(app, notification, _ACCEPTED, other).task
        assert not session.cancelled.is_set()
        await Exchange(app, notification, _ACCEPTED, own).task
        await asyncio.wait_for(call.task, TIMEOUT)
        assert session.cancelled.is_set()
        assert read_error(call)["code"] == -32800

    asyncio.run(run())


def test_the_end_of_its_session_cancels_a_call() -> None:
    async def run() -> None:
        app, session = serve()
        own, other = await open_session(app), await open_session(app)
        call = Exchange(app, _CALL, _ACCEPTED, own)
        await wait(session.started)
        await Exchange(app, {}, other).task
        assert not session.cancelled.is_set()
        await Exchange(app, {}, own).task
        await asyncio.wait_for(call.task, TIMEOUT)
        assert session.cancelled.is_set()

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
        await wait(session.cancelled)

    asyncio.run(run())


def test_a_closed_connection_does_not_cancel_a_call_of_a_session() -> None:
    async def run() -> None:
        app, session = serve()
        own = await open_session(app)
        call = Exchange(app, _CALL, _ACCEPTED, own)
        await wait(session.started)
        call.gone.set()
        await asyncio.wait_for(call.task, TIMEOUT)
        assert not session.cancelled.is_set()
        await Exchange(app, {"method": "notifications/cancelled", "params": {"requestId": 1}}, _ACCEPTED, own).task
        await wait(session.cancelled)

    asyncio.run(run())


def test_the_end_of_the_server_cancels_a_call() -> None:
    async def run() -> None:
        app, session = serve()
        call = Exchange(app, _CALL, _ACCEPTED, await open_session(app))
        await wait(session.started)
        call.task.cancel()
        await wait(session.cancelled)

    asyncio.run(run())


def test_a_long_call_becomes_a_stream_that_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "_KEEPALIVE_SECONDS", 0.05)

    async def run() -> None:
        app, session = serve()
        own = await open_session(app)
        call = Exchange(app, _CALL, _ACCEPTED, own)
        await wait(session.started)
        while len(call.sent) < 3:
            await asyncio.sleep(0.01)
        assert dict(call.sent[0]["headers"])[b"content-type"] == b"text/event-stream"
        assert call.sent[1]["body"].startswith(b":")
        await Exchange(app, {"method": "notifications/cancelled", "params": {"requestId": 1}}, _ACCEPTED, own).task
        await asyncio.wait_for(call.task, TIMEOUT)
        assert b'"code":-32800' in call.sent[-1]["body"]

    asyncio.run(run())
