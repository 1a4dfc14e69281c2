"""Check each request before anything else sees it: Host, Origin, token or cookie, and who sends it.

The token in the first address is exchanged for a cookie and leaves the address. A wrong token, or none, gets 401 and a
page that says how to get in. Requests that change something must come from a page of this server.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs

import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handrail.web.plain import make_plain_page

HOST = "127.0.0.1"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    # With "no-referrer", browsers send "Origin: null" with a form.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE_METHODS = ("GET", "HEAD")


class PageAccess:
    """Passes a request on to the pages, or refuses it."""

    def __init__(
        self, app: ASGIApp, port: int, token: str, is_stranger: Callable[[tuple[str, int], tuple[str, int]], bool]
    ) -> None:
        self._app = app
        self._port = port
        self._token = token
        self._is_stranger = is_stranger
        # Cookies do not tell ports apart: two servers of one user need two names.
        self._cookie_name = f"handrail-{port}"
        self._cookie = secrets.token_urlsafe(32)
        self._hosts = (f"{HOST}:{port}", f"localhost:{port}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = await self._check(scope)
        await (answer or self._app)(scope, receive, send_with_headers)

    async def _check(self, scope: Scope) -> Response | None:
        """The answer to a request that is not passed on; None for one that is."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _refuse(421)
        if origins and origins != [f"http://{hosts[0].lower()}"]:
            return _refuse(403)
        if scope["method"] not in _SAFE_METHODS and not origins:
            return _refuse(403)
        if scope.get("client") and await anyio.to_thread.run_sync(
            self._is_stranger, tuple(scope["client"]), (HOST, self._port)
        ):
            return _refuse(401)
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if tokens := query.get("token"):
            if len(tokens) != 1 or not _is_equal(tokens[0], self._token) or scope["method"] not in _SAFE_METHODS:
                return _refuse(401)
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict")
            return answer
        sent = cookie_parser(headers.get("cookie", "")).get(self._cookie_name, "")
        return None if _is_equal(sent, self._cookie) else _refuse(401)


def _is_equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode("ascii"))


_REASONS = {
    401: (
        "This page needs its full address",
        "Open the address that `handrail web` printed when it started: it ends with a token, which is new each time. "
        "If that terminal is gone, run `handrail web` again.",
    ),
    403: ("Not allowed", "This request did not come from a page of Handrail. Nothing was changed."),
    421: ("Wrong address", "Open the address that `handrail web` printed: it begins with http://127.0.0.1."),
}


def _refuse(status: int) -> Response:
    return make_plain_page(status, *_REASONS[status])
