"""Check each HTTP request before its body is parsed: host, origin, token, size and number of calls, in this order.

foreign Host    421     a name that somebody else's DNS points here (rebinding)
foreign Origin  403     a page in a browser that was not named with --allow-origin
two tokens      400     a proxy in front of this server might have checked the other one
no good token   401
too large       413
too many calls  429     for one principal; other requests always pass, so that calls can be cancelled
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handrail.mcp.http.principals import Principals

MOST_BYTES = 8 << 20
PATH = "/mcp"
_CALL = b'"tools/call"'


class AccessCheck:
    """Passes a request on to the application of its principal, or refuses it."""

    def __init__(
        self,
        apps: Mapping[str, ASGIApp],
        principals: Principals,
        hosts: Collection[str],
        origins: Collection[str],
        busy: Callable[[str], bool],
    ) -> None:
        self._apps = apps
        self._principals = principals
        self._hosts = {host.lower() for host in hosts}
        self._origins = {origin.lower() for origin in origins}
        self._busy = busy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refused = self._refuse(headers)
        if refused is None:
            principal = self._principals.find(headers.get("authorization", ""))
            if principal is None:
                challenge = {"WWW-Authenticate": 'Bearer realm="handrail", error="invalid_token"'}
                refused = build_response(401, "a bearer token is needed: Authorization: Bearer TOKEN", challenge)
            elif scope["path"].rstrip("/") != PATH:
                refused = build_response(404, f"the MCP endpoint is {PATH}")
            else:
                await self._let_in(principal.name, scope, receive, send)
                return
        await refused(scope, receive, send)

    def _refuse(self, headers: Headers) -> Response | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return build_response(421, "this Host is not allowed")
        if origins and (len(origins) > 1 or origins[0].lower() not in self._origins):
            return build_response(403, "this Origin is not allowed")
        if len(headers.getlist("authorization")) > 1:
            return build_response(400, "send one Authorization header")
        return None

    async def _let_in(self, principal: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read_body(scope, receive)
        if body is None:
            refused = build_response(413, f"the request is larger than {MOST_BYTES >> 20} MB")
        # Whoever hides the word from this look is refused later, with an error of the protocol.
        elif _CALL in body and self._busy(principal):
            refused = build_response(429, "too many calls at once", {"Retry-After": "1"})
        else:
            await self._apps[principal](scope, _replay(body, receive), send)
            return
        await refused(scope, receive, send)


async def _read_body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None if it is too large. A client that goes away meanwhile leaves a part of one."""
    declared = Headers(scope=scope).get("content-length", "")
    if declared.isdecimal() and int(declared) > MOST_BYTES:
        return None
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MOST_BYTES:
            return None
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """``receive`` of an application for which the body was read already."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again


def build_response(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    """A refusal that people and JSON-RPC clients can read."""
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": why}})
    return Response(body, status, headers, "application/json")
