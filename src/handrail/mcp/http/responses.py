"""The response to a call: one JSON object if the result comes first and soon, else a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from starlette.types import Send

from handrail.json_types import JsonMapping
from handrail.mcp import protocol

_KEEPALIVE_SECONDS = 15.0
"""After so much silence a proxy may close a connection."""
_CANCELLED = protocol.ProtocolError(-32800, "Request cancelled")
_STREAM = {"content-type": "text/event-stream", "cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}


class CallResponse:
    """Takes messages from any thread, and sends them in the event loop."""

    def __init__(self, id: int | str, send: Send, headers: Mapping[str, str]) -> None:
        self._id = id
        self._send = send
        self._headers = headers
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[tuple[Mapping[str, object], Callable[[], bool] | None]] = asyncio.Queue()
        self._streams = False

    def put(self, message: Mapping[str, object], still: Callable[[], bool] | None = None) -> None:
        """Send a message, if it is ``still`` wanted when its turn comes. Called from any thread."""
        with suppress(RuntimeError):  # the server has ended meanwhile
            self._loop.call_soon_threadsafe(self._messages.put_nowait, (message, still))

    async def send_all(self) -> None:
        """Send everything up to the result."""
        while True:
            try:
                message, still = await asyncio.wait_for(self._messages.get(), _KEEPALIVE_SECONDS)
            except TimeoutError:
                await self._stream(b": still running\r\n\r\n")
                continue
            wanted = still is None or still()
            if "method" not in message:
                await self._finish(message if wanted else protocol.make_fault_frame(self._id, _CANCELLED))
                return
            if wanted:
                await self._stream(_make_event(message))

    async def _stream(self, part: bytes) -> None:
        if not self._streams:
            self._streams = True
            await self._start(200, _STREAM)
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def _finish(self, message: JsonMapping) -> None:
        if self._streams:
            body = _make_event(message)
        else:
            body = protocol.encode(message)
            in_session = bool(self._headers)
            status = 200 if in_session else protocol.HTTP_STATUS.get(message.get("error", {}).get("code"), 200)
            await self._start(status, {"content-type": "application/json", "content-length": str(len(body))})
        await self._send({"type": "http.response.body", "body": body})

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        pairs = {**headers, **self._headers}.items()
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})


def _make_event(message: Mapping[str, object]) -> bytes:
    return b"event: message\r\ndata: %s\r\n\r\n" % protocol.encode(message).rstrip()
