"""Serve the pages on 127.0.0.1 until a signal arrives."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from handrail.web.access import HOST, PageAccess
from handrail.web.connections import is_stranger
from handrail.wire.http_server import configure_server

_GRACE = 2
"""Seconds that requests have to end when the server is to end."""


def open_socket(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1; port 0 means any free one. Raises `OSError`."""
    # The protocol is named, so that asyncio knows TCP and sets TCP_NODELAY: a small answer is sent at once.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def serve(app: ASGIApp, closing: threading.Event, listener: socket.socket, on_start: Callable[[str], object]) -> None:
    """Serve pages until SIGINT or SIGTERM, which sets ``closing``.

    ``on_start`` gets the address with the token, once requests are answered.
    """
    token = secrets.token_urlsafe(32)
    port = listener.getsockname()[1]

    class PageServer(uvicorn.Server):
        """Reports when it has started, and ends streams before it waits for requests."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_start(f"http://{HOST}:{port}/?token={token}")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            closing.set()
            await super().shutdown(sockets)

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """End in order, and with the exit code of the command."""
            old = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGTERM, signal.SIGINT)}
            try:
                yield
            finally:
                for one, before in old.items():
                    signal.signal(one, before)

    config = configure_server(PageAccess(app, port, token, is_stranger), _GRACE, proxy_headers=False)
    with listener:
        asyncio.run(PageServer(config).serve(sockets=[listener]))
