"""Check each HTTP request before the SDK sees it: host, origin, token, size and number of calls, in this order.

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

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handrail.mcp.http.principals import Principals

MOST_BYTES = 8 << 20
PRINCIPAL = "handrail.principal"
PATH = "/mcp"
_CALL = b'"tools/call"'


class AccessCheck:
    """Passes a request on to the SDK's application of its principal, or refuses it."""

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
        self._bounded = RequestBodyLimitMiddleware(self._let_in, MOST_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refused = self._refuse(headers)
        if refused is None:
            principal = self._principals.find(headers.get("authorization", ""))
            if principal is None:
                challenge = {"WWW-Authenticate": 'Bearer realm="handrail", error="invalid_token"'}
                refused = _build_response(401, "a bearer token is needed: Authorization: Bearer TOKEN", challenge)
            elif scope["path"].rstrip("/") != PATH:
                refused = _build_response(404, f"the MCP endpoint is {PATH}")
            else:
                # The SDK ties a session to the user who opened it; ours is the principal.
                token = AccessToken(token="", client_id=principal.name, scopes=[])
                scope = {**scope, "user": AuthenticatedUser(token), PRINCIPAL: principal, "path": PATH}
        await (refused or self._bounded)(scope, receive, send)

    def _refuse(self, headers: Headers) -> Response | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _build_response(421, "this Host is not allowed")
        if origins and (len(origins) > 1 or origins[0].lower() not in self._origins):
            return _build_response(403, "this Origin is not allowed")
        if len(headers.getlist("authorization")) > 1:
            return _build_response(400, "send one Authorization header")
        return None

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = await receive()
        # Whoever hides the word from this look is refused at the desk, with an error of the protocol.
        if _CALL in first.get("body", b"") and self._busy(scope[PRINCIPAL].name):
            await _build_response(429, "too many calls at once", {"Retry-After": "1"})(scope, receive, send)
        else:
            await self._apps[scope[PRINCIPAL].name](scope, replay(first, receive), send)


def replay(first: Message, receive: Receive) -> Receive:
    """``receive`` of an application for which the first message was taken already: that one, then the others."""
    pending = [first]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again


def _build_response(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    """A refusal that people and JSON-RPC clients can read."""
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": why}})
    return Response(body, status, headers, "application/json")
