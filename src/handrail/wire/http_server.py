"""What the HTTP servers of Handrail have in common: the browser page and the MCP server."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import uvicorn
from starlette.requests import Request


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 means any free one. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, so that asyncio knows TCP and sets TCP_NODELAY: a small answer is sent at once.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


class HttpServer(uvicorn.Server):
    """A quiet server without WebSockets that says when it has started, and ends what runs before it waits for it.

    A signal ends it in order, with the exit code of the command.
    """

    def __init__(
        self,
        app: Any,
        grace: int,
        on_start: Callable[[], object],
        on_stop: Callable[[], Coroutine[object, object, object]],
        **settings: Any,
    ) -> None:
        """``grace``: seconds that requests have to end when the server is to end."""
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=grace,
            **settings,
        )
        super().__init__(config)
        self._on_start, self._on_stop = on_start, on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()  # from now on a signal ends it in order

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._on_stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        try:
            old = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGTERM, signal.SIGINT)}
        except ValueError:  # not the main thread: whoever runs us there ends us
            old = {}
        try:
            yield
        finally:
            for one, before in old.items():
                signal.signal(one, before)


async def read_body(request: Request, most: int) -> bytes | None:
    """The body of a request; None if it is longer than ``most`` bytes."""
    body = bytearray()
    async for block in request.stream():
        body += block
        if len(body) > most:
            return None
    return bytes(body)
