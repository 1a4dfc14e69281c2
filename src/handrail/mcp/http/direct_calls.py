"""Answer plain calls with one JSON response, past the streams and tasks of the SDK, which cost more than a small call.

A call is plain if its request is exactly as the protocol wants it and its tool runs no commands. It reports no
progress, because it ends within seconds. Whatever else arrives goes to the SDK, which answers, refuses or asks. So does
a plain call about which a person has to be asked: nothing has happened until then, and it starts again there.

A session of the protocol belongs to the SDK. Its client is learned from a call that the SDK has let in, and is known
for less time than an unused session lives, so that the SDK sees a session that is in use.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

import pydantic_core
from starlette.types import ASGIApp, Receive, Scope, Send

from handrail.approval.elicitation import Unanswered
from handrail.mcp import protocol
from handrail.mcp.http.access import replay
from handrail.mcp.http.calls import HttpCall, PrincipalService
from handrail.mcp.protocol import ClientInfo
from handrail.mcp.workers import WorkerPool
from handrail.model import Question

_CALL = b'"tools/call"'
_CANCEL = b'"notifications/cancelled"'
_SESSION = b"mcp-session-id"
_KNOWN_SECONDS = 600.0
"""How long a client is known: a third of the time after which the SDK ends an unused session."""
_MOST_CLIENTS = 256
_SOON = 0.1
"""Seconds after which it is worth noticing that the client of a call has gone."""
_CANCELLED = protocol.ProtocolError(-32800, "Request cancelled")
_FAULT = protocol.ProtocolError(protocol.INTERNAL_ERROR, "internal error of the server")
_MESSAGE = {"jsonrpc", "id", "method", "params"}
_PARAMS = {"name", "arguments", "_meta"}
_HEADER_ARGUMENT = "x-mcp-header"
"""Marks an argument of a tool that a request repeats in a header."""

Headers = Mapping[bytes, bytes]


class NeedsStream(Unanswered):
    """A person has to be asked, for which a call needs a stream."""


class DirectCall(HttpCall):
    """A call that nobody is asked about."""

    needs_stream = False
    """Whether the SDK has to make it after all."""

    def answer(self, question: Question) -> NoReturn:
        self.needs_stream = True
        raise NeedsStream(question)

    def run_until_asked(self) -> dict[str, Any]:
        """The result; empty if a person has to be asked."""
        try:
            return self.run()
        except NeedsStream:
            return {}


class DirectCalls:
    """The application of one principal: answers its plain calls, and knows the clients of its sessions."""

    def __init__(self, service: PrincipalService, sdk: ASGIApp) -> None:
        """``sdk``: the application that gets everything else."""
        self._service = service
        self._sdk = sdk
        self._tools = {
            tool["name"]
            for tool in service.tools
            if not tool["annotations"]["openWorldHint"] and _HEADER_ARGUMENT not in str(tool["inputSchema"])
        }
        self._clients: dict[str, tuple[ClientInfo, float]] = {}
        self._running: dict[tuple[str, int | str], DirectCall] = {}
        self._pool = WorkerPool()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = await receive()  # with the whole body: `AccessCheck` has waited for it
        body = first.get("body", b"")
        if _CALL in body and await self._answer(scope, body, receive, send):
            return
        if _CANCEL in body:
            self._cancel(scope, body)
        if scope["method"] == "DELETE":
            self._forget(scope)
        await self._sdk(scope, replay(first, receive), send)

    def learn(self, session: str, client: ClientInfo) -> None:
        """The SDK has let a call of this session in."""
        self._clients.pop(session, None)
        self._clients[session] = client, time.monotonic() + _KNOWN_SECONDS
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]

    def _forget(self, scope: Scope) -> None:
        """A request ends its session."""
        for name, value in scope["headers"]:
            if name == _SESSION:
                self._clients.pop(value.decode("latin-1"), None)

    def _cancel(self, scope: Scope, body: bytes) -> None:
        """A notification cancels a call, perhaps one of these. The SDK answers it."""
        with suppress(ValueError, TypeError, KeyError):
            request = pydantic_core.from_json(body)["params"]["requestId"]
            session = _get_session(dict(scope["headers"]))
            if call := self._running.get((session, request)):
                call.leave()

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> bool:
        """Answer a request if it is a plain call; False if it is one for the SDK, and nothing has been sent."""
        headers = _read_headers(scope)
        message = _parse_call(body) if headers and _is_plain(scope, headers) else None
        if not headers or not message or message["params"]["name"] not in self._tools:
            return False
        client = self._find_client(headers, message["params"])
        session, number = _get_session(headers), message["id"]
        if not client or (session, number) in self._running or not self._service.accepts:
            return False
        call = DirectCall(self._service, message["params"], client)
        with self._service.track(call):
            if client.enveloped:
                result = await self._run_while_connected(call, receive)
            else:
                result = await self._run_in_session(call, session, number)
        if call.needs_stream:
            return False
        if call.cancel.is_set():
            frame = protocol.make_fault_frame(number, _CANCELLED)
        elif result is None:
            frame = protocol.make_fault_frame(number, _FAULT)
        else:
            frame = protocol.make_result_frame(number, result)
        await _send_json(send, protocol.encode(frame), "" if client.enveloped else session)
        return True

    async def _run_in_session(self, call: DirectCall, session: str, number: int | str) -> dict[str, Any] | None:
        """Run a call that a notification of its session may cancel."""
        self._running[session, number] = call
        try:
            return await self._start(call)
        except asyncio.CancelledError:
            call.leave()
            raise
        finally:
            del self._running[session, number]

    async def _run_while_connected(self, call: DirectCall, receive: Receive) -> dict[str, Any] | None:
        """Run a call that its client cancels by closing the connection."""
        ended = self._start(call)
        gone = None
        try:
            await asyncio.wait((ended,), timeout=_SOON)
            if not ended.done():
                gone = asyncio.ensure_future(_wait_for_disconnect(receive))
                await asyncio.wait((ended, gone), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                call.leave()
            result = await ended
            return protocol.complete_result(result) if result else result
        except asyncio.CancelledError:
            call.leave()
            raise
        finally:
            if gone:
                gone.cancel()

    def _find_client(self, headers: Headers, params: Mapping[str, Any]) -> ClientInfo | None:
        version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
        if version in protocol.ENVELOPE:
            expected = {b"mcp-method": b"tools/call", b"mcp-name": params["name"].encode("utf-8", "replace")}
            if any(headers.get(name) != value for name, value in expected.items()):
                return None
            with suppress(protocol.ProtocolError):
                client = protocol.read_client(params)
                return client if client.version == version else None
            return None
        if version and version not in protocol.HANDSHAKE:
            return None
        known = self._clients.get(_get_session(headers))
        return known[0] if known and time.monotonic() < known[1] else None

    def _start(self, call: DirectCall) -> asyncio.Future[dict[str, Any] | None]:
        """Make a call in a worker thread; the future has its result, None after a fault."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[dict[str, Any] | None] = loop.create_future()

        def settle(result: dict[str, Any] | None) -> None:
            if not ended.done():
                ended.set_result(result)

        def work() -> None:
            result = None
            try:
                result = call.run_until_asked()
            finally:
                with suppress(RuntimeError):  # the server has ended meanwhile
                    loop.call_soon_threadsafe(settle, result)

        if not self._pool.submit(work):
            call.needs_stream = True  # the SDK has threads of its own
            settle(None)
        return ended


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _read_headers(scope: Scope) -> dict[bytes, bytes] | None:
    """The headers of a request; None if one of them comes twice."""
    headers = dict(scope["headers"])
    return headers if len(headers) == len(scope["headers"]) else None


def _get_session(headers: Headers) -> str:
    return headers.get(_SESSION, b"").decode("latin-1")


def _is_plain(scope: Scope, headers: Headers) -> bool:
    """Whether a request posts JSON, and its client takes JSON and streams."""
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    accepts = {part.split(b";")[0].strip().lower() for part in headers.get(b"accept", b"").split(b",")}
    return (
        scope["method"] == "POST"
        and kind == b"application/json"
        and {b"application/json", b"text/event-stream"} <= accepts
        and not any(name.startswith(b"mcp-param-") for name in headers)
    )


def _parse_call(body: bytes) -> dict[str, Any] | None:
    """The message of a `tools/call` with nothing unusual in it; None for any other."""
    try:
        message = pydantic_core.from_json(body)  # as the SDK parses it
    except ValueError:
        return None
    if not isinstance(message, dict) or message.keys() != _MESSAGE:
        return None
    params = message["params"]
    if message["jsonrpc"] != "2.0" or message["method"] != "tools/call" or type(message["id"]) not in (int, str):
        return None
    if not isinstance(params, dict) or not params.keys() <= _PARAMS or not isinstance(params.get("name"), str):
        return None
    if not isinstance(params.get("arguments", {}), dict) or not isinstance(params.get("_meta", {}), dict):
        return None
    return message


async def _send_json(send: Send, body: bytes, session: str) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if session:
        headers.append((_SESSION, session.encode("latin-1")))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
