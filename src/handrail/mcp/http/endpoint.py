"""The MCP endpoint of one principal: streamable HTTP in both generations of the protocol.

A request with a version of the envelope generation, or an unknown one, stands alone. The others belong to a session
that `initialize` has opened. Sessions keep no streams: a GET is refused, and the response to a call carries its
progress and questions.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import threading
import time
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from handrail.mcp import protocol
from handrail.mcp.calls import CallService
from handrail.mcp.http.access import build_response
from handrail.mcp.http.responses import CallResponse
from handrail.mcp.protocol import ClientInfo, Message, ProtocolError
from handrail.mcp.requests import Offer
from handrail.mcp.running_calls import RunningCall

_MOST_SESSIONS = 128
_UNUSED_SECONDS = 1800.0
_SOON = 0.1
"""Seconds after which it is worth noticing that the client of a call has gone."""
_ROUTING = ("mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id")
_SESSION = "Mcp-Session-Id"


class _ClientSession:
    """A client that has shaken hands."""

    def __init__(self, client: ClientInfo) -> None:
        self.client = client
        self.last_used = time.monotonic()


class Endpoint:
    """Answers the requests of one principal; an ASGI application."""

    def __init__(self, specs: Sequence[dict[str, object]], service: CallService) -> None:
        self._offer = Offer(specs, structured=service.structured)
        self._service = service
        self._sessions: dict[str, _ClientSession] = {}
        self._is_opened = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        body = (await receive())["body"]
        response: Response | None
        if scope["method"] == "DELETE":
            response = self._end_session(headers.get("mcp-session-id", ""))
        elif scope["method"] != "POST":
            response = build_response(405, "send requests by POST", {"Allow": "POST, DELETE"})
        else:
            response = _check_form(headers)
        try:
            if response is None:
                response = await self._take(protocol.parse(body), headers, receive, send)
        except ProtocolError as fault:
            response = _build_fault(fault, protocol.HTTP_STATUS.get(fault.code, 200))
        if response is not None:
            await response(scope, receive, send)

    async def _take(self, message: Message, headers: Headers, receive: Receive, send: Send) -> Response | None:
        """The response to a message; None if it has been sent. Raises `ProtocolError`."""
        version = headers.get("mcp-protocol-version")
        if version is not None and version not in protocol.HANDSHAKE:
            return await self._take_alone(message, version, headers, receive, send)
        if message.method == "initialize" and message.id is not None:
            return self._open_session(message)
        name = headers.get("mcp-session-id", "")
        session = self._find_session(name)
        if not session:
            status = 404 if name else 400
            return build_response(status, "no such session" if name else "send initialize first, then Mcp-Session-Id")
        if message.id is None or not message.method:
            if message.method == "notifications/cancelled":
                self._service.cancel(message.params.get("requestId"), name)
            elif not message.method:
                self._service.take_answer(message, name)
            return Response(status_code=202)
        try:
            return await self._answer(message, message.id, session.client, name, receive, send)
        except ProtocolError as fault:
            fault.id = message.id
            return _build_fault(fault, 200, name)
        finally:
            session.last_used = time.monotonic()

    async def _take_alone(
        self, message: Message, version: str, headers: Headers, receive: Receive, send: Send
    ) -> Response | None:
        """A message that brings its own description of the client."""
        if not message.method:
            raise ProtocolError(protocol.INVALID_REQUEST, "this version of the protocol has no answers of clients")
        if (
            message.id is None
        ):  # nothing that a client tells is of use here: it cancels a call by closing the connection
            if version not in protocol.ENVELOPE:
                raise protocol.refuse_version(version)
            return Response(status_code=202)
        try:
            _check_routing(message, headers)
            client = protocol.read_client(message.params)
            return await self._answer(message, message.id, client, "", receive, send)
        except ProtocolError as fault:
            fault.id = message.id
            raise

    async def _answer(
        self, message: Message, id: int | str, client: ClientInfo, session: str, receive: Receive, send: Send
    ) -> Response | None:
        result = self._offer.answer(message.method, message.params, client)
        if result is not None:
            if message.method == "tools/list":
                self._open_early()
            return _build_json(protocol.make_result_frame(id, result), 200, session)
        reply = CallResponse(id, send, _name_session(session))
        # A request that stands alone shares its id with those of other clients.
        call = self._service.make(id, message.params, client, reply.put, session or secrets.token_hex(8))
        await self._follow(call, reply, receive)
        return None

    def _open_early(self) -> None:
        """Open a session on a thread, once: who asks for the tools is about to call them, and may not wait long."""
        if not self._is_opened:
            self._is_opened = True
            threading.Thread(target=self._service.warm, name="handrail-open", daemon=True).start()

    async def _follow(self, call: RunningCall, reply: CallResponse, receive: Receive) -> None:
        """Send the response. If the client goes away meanwhile, that cancels a call outside of a session."""
        sending = asyncio.ensure_future(reply.send_all())
        gone: asyncio.Future[None] | None = None
        try:
            await asyncio.wait((sending,), timeout=_SOON)
            if not sending.done():
                gone = asyncio.ensure_future(_wait_for_disconnect(receive))
                await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            elif call.client.enveloped:
                call.withdraw()
            else:
                self._service.stop_asking(call)
        except asyncio.CancelledError:
            call.withdraw()
            raise
        finally:
            sending.cancel()
            if gone:
                gone.cancel()

    def _open_session(self, message: Message) -> Response:
        client = protocol.read_handshake(message.params)
        oldest = time.monotonic() - _UNUSED_SECONDS
        for name in [name for name, session in self._sessions.items() if session.last_used < oldest]:
            self._end_session(name)
        if len(self._sessions) >= _MOST_SESSIONS:
            return build_response(503, "too many sessions are open")
        name = secrets.token_hex(16)
        self._sessions[name] = _ClientSession(client)
        assert message.id is not None
        return _build_json(protocol.make_result_frame(message.id, self._offer.greet(client)), 200, name)

    def _find_session(self, name: str) -> _ClientSession | None:
        if session := self._sessions.get(name):
            session.last_used = time.monotonic()
        return session

    def _end_session(self, name: str) -> Response:
        if self._sessions.pop(name, None) is None:
            return build_response(404, "no such session")
        self._service.end_connection(name)
        return Response(status_code=200)


def _check_form(headers: Headers) -> Response | None:
    """Refuse a request that is not JSON, or is ambiguous, or whose client cannot read the answer."""
    accepted = {part.split(";")[0].strip().lower() for part in headers.get("accept", "").split(",")}
    if not {"application/json", "text/event-stream"} <= accepted and "*/*" not in accepted:
        return build_response(406, "Accept needs application/json and text/event-stream")
    if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        return build_response(415, "Content-Type needs to be application/json")
    if twice := [name for name in _ROUTING if len(headers.getlist(name)) > 1]:
        return build_response(400, f"{twice[0]} appears more than once")
    return None


def _check_routing(message: Message, headers: Headers) -> None:
    """What proxies read in headers has to be what the message says."""
    expected = {"mcp-method": message.method}
    stated = protocol.get_meta(message.params).get(protocol.VERSION_KEY)
    if isinstance(stated, str):
        expected["mcp-protocol-version"] = stated
    if message.method == "tools/call" and isinstance(tool := message.params.get("name"), str):
        expected["mcp-name"] = tool
    for name, value in expected.items():
        encoded = base64.b64encode(value.encode("utf-8", "replace")).decode("ascii")
        if headers.get(name) not in (value, f"=?base64?{encoded}?="):
            raise ProtocolError(protocol.HEADER_MISMATCH, f"the header {name} does not match the message")


def _build_json(frame: dict[str, object], status: int, session: str = "") -> Response:
    return Response(protocol.encode(frame), status, _name_session(session), "application/json")


def _build_fault(fault: ProtocolError, status: int, session: str = "") -> Response:
    return _build_json(protocol.make_fault_frame(fault.id, fault), status, session)


def _name_session(session: str) -> dict[str, str]:
    return {_SESSION: session} if session else {}


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
