"""The HTTP door as the conformance suite can reach it: the suite sends no token, so one is put into every request.

`python -m tests.mcp.http_conformance ROOT` says where it serves, and ends with SIGTERM.
"""

from __future__ import annotations

import sys

from starlette.types import ASGIApp, Receive, Scope, Send

from handrail.mcp import http
from tests.mcp.http_server import TOKEN


def with_token(app: ASGIApp) -> ASGIApp:
    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        token = (b"authorization", f"Bearer {TOKEN}".encode("ascii"))
        await app({**scope, "headers": [*scope["headers"], token]}, receive, send)

    return wrapped


def main() -> int:
    options = http.parser().parse_args(["--http", "127.0.0.1:0", "--token", TOKEN, sys.argv[1]])
    asked = http.door(options)
    return http.serve(asked, http.listening(asked), with_token)


if __name__ == "__main__":
    sys.exit(main())
