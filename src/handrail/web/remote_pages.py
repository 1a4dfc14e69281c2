"""The pages of another machine: requests of the browser here are answered there, over the pipe of a remote session.

`RemotePages` is the application that the server on this machine serves, behind its check of access. `PageAnswerer` is
the other end: it runs the pages beside their journal, without a socket.
"""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Mapping

import anyio
import anyio.from_thread
import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handrail.errors import ToolError
from handrail.json_types import JsonMapping, JsonObject
from handrail.pipeline.remote_session import RemoteSession
from handrail.pipeline.remote_values import RemoteFailed
from handrail.web.plain import make_plain_page
from handrail.wire.http_server import read_body

_MOST_BYTES = 1 << 20
"""The longest body of a request: forms."""
_LOOK_SECONDS = 0.2
_HEADERS = ("accept", "content-type", "last-event-id")
"""Headers of a request that the pages read; cookies stay on this machine."""


class RemotePages:
    """Passes each request on to the machine of a session. One that fails is not repeated: it may be an undo."""

    def __init__(self, session: RemoteSession, closing: threading.Event) -> None:
        self._session = session
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            body = await read_body(request, _MOST_BYTES)
        except ClientDisconnect:
            return
        if body is None:
            await make_plain_page(413, "Too long", "The form is too long to be sent.")(scope, receive, send)
            return
        message = {
            "method": scope["method"],
            "path": scope["path"],
            "query": scope["query_string"].decode("latin-1"),
            "headers": [[name, value] for name in _HEADERS if (value := request.headers.get(name))],
            "body": base64.b64encode(body).decode("ascii"),
        }
        begun, error = await self._exchange(message, receive, send)
        if error and not begun:  # where the answer has begun, the browser sees that it ends too early
            why = error.facts.get("why", "") if isinstance(error, ToolError) else error
            page = make_plain_page(502, "The other machine did not answer", f"{why}. Load this page again to retry.")
            await page(scope, receive, send)

    async def _exchange(
        self, message: Mapping[str, object], receive: Receive, send: Send
    ) -> tuple[bool, Exception | None]:
        """Pass a request on; returns whether the answer has begun, and why it did not end well."""
        gone, begun, failed = threading.Event(), threading.Event(), None

        async def wait_for_the_end() -> None:
            while not self._closing.is_set() and (await _receive_in_time(receive)) != "http.disconnect":
                pass
            gone.set()

        async def send_part(part: Mapping[str, object]) -> None:
            begun.set()
            await send(_read_part(part))

        def take(part: Mapping[str, object]) -> None:
            anyio.from_thread.run(send_part, part)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_the_end)
            try:
                await anyio.to_thread.run_sync(self._session.stream, "page", message, take, gone)
            except (ToolError, RemoteFailed, ValueError) as error:
                failed = error
            finally:
                gone.set()
                tasks.cancel_scope.cancel()
        return begun.is_set(), failed


async def _receive_in_time(receive: Receive) -> str:
    with anyio.move_on_after(_LOOK_SECONDS):
        return str((await receive())["type"])
    return ""


def _read_part(part: JsonMapping) -> Message:
    if "status" in part:
        headers = [(str(name).encode("latin-1"), str(value).encode("latin-1")) for name, value in part["headers"]]
        return {"type": "http.response.start", "status": int(part["status"]), "headers": headers}
    return {
        "type": "http.response.body",
        "body": base64.b64decode(part["body"], validate=True),
        "more_body": bool(part["more"]),
    }


class PageAnswerer:
    """Answers requests of `RemotePages`. Each runs in the thread that asks."""

    def __init__(self, app: ASGIApp, closing: threading.Event) -> None:
        self._app = app
        self._closing = closing

    def close(self) -> None:
        """End streams."""
        self._closing.set()

    def answer(self, message: Mapping[str, object], send: Callable[[JsonObject], None], gone: threading.Event) -> None:
        """Answer one request: ``send`` gets the parts, until ``gone`` is set. Raises `ValueError` for no request."""
        scope = _read_scope(message)
        body = base64.b64decode(str(message["body"]), validate=True)
        asyncio.run(self._run(scope, body, send, gone))

    async def _run(self, scope: Scope, body: bytes, take: Callable[[JsonObject], None], gone: threading.Event) -> None:
        bodies = [body]

        async def receive() -> Message:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            while not gone.is_set():
                await anyio.sleep(_LOOK_SECONDS)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            await anyio.to_thread.run_sync(take, _write_part(message))

        await self._app(scope, receive, send)


def _read_scope(message: JsonMapping) -> Scope:
    path = str(message["path"])
    headers = [(str(name).encode("latin-1"), str(value).encode("latin-1")) for name, value in message["headers"]]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": str(message["method"]),
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "surrogateescape"),
        "root_path": "",
        "query_string": str(message["query"]).encode("latin-1"),
        "headers": headers,
        "client": None,
        "server": None,
    }


def _write_part(message: Message) -> dict[str, object]:
    if message["type"] == "http.response.start":
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in message["headers"]]
        return {"status": message["status"], "headers": headers}
    body = base64.b64encode(message.get("body", b"")).decode("ascii")
    return {"body": body, "more": message.get("more_body", False)}
