"""Serve the pages on 127.0.0.1 until a signal arrives."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Callable

from starlette.types import ASGIApp

from handrail.web.access import HOST, PageAccess
from handrail.web.connections import is_stranger
from handrail.wire.http_server import HttpServer

_GRACE = 2
"""Seconds that requests have to end when the server is to end."""


def serve(app: ASGIApp, closing: threading.Event, listener: socket.socket, on_start: Callable[[str], object]) -> None:
    """Serve pages until SIGINT or SIGTERM, which sets ``closing``.

    ``on_start`` gets the address with the token, once requests are answered.
    """
    token = secrets.token_urlsafe(32)
    port = listener.getsockname()[1]

    async def stop() -> None:
        closing.set()  # streams end with it

    checked = PageAccess(app, port, token, is_stranger)
    address = f"http://{HOST}:{port}/?token={token}"
    server = HttpServer(checked, _GRACE, lambda: on_start(address), stop, proxy_headers=False)
    with listener:
        asyncio.run(server.serve(sockets=[listener]))
