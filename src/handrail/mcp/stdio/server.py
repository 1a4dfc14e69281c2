"""The MCP server on stdio: a loop that answers `initialize` and `tools/list` before anything heavy is imported.

One line is one message. The loop answers simple requests itself, whatever the calls are doing; calls run in threads
(`workers.py`). Both generations of the protocol are supported, request by request.
"""

from __future__ import annotations

import os
import sys

from handrail.mcp import protocol
from handrail.mcp.protocol import Message, ProtocolError
from handrail.mcp.stdio.channel import Channel
from handrail.wire.mcp import FRESHNESS, build_definition

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from handrail.mcp.stdio.running_calls import RunningCall
    from handrail.mcp.stdio.tool_calls import CallService
    from handrail.model import Approve
    from handrail.pipeline.any_session import AnySession

_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")


class StdioServer:
    """One client, its tools, and its calls once there are some."""

    def __init__(
        self,
        channel: Channel,
        specs: Sequence[dict[str, Any]],
        root: str,
        opened: Callable[[Approve], AnySession],
        structured: bool = False,
    ) -> None:
        self._channel = channel
        self._tools = [build_definition(spec) for spec in specs]
        self._names = [spec["name"] for spec in specs]
        self._about = protocol.describe_server(root)
        self._opened = opened
        self._structured = structured
        self._client: protocol.ClientInfo | None = None
        self._work: CallService | None = None

    def run(self) -> int:
        """Answer until the client has gone, or a signal ends it; the exit code."""
        self._end_on_signals()
        for line in self._channel.frames():
            try:
                if line is None:
                    most = protocol.MOST_BYTES >> 20
                    raise ProtocolError(
                        protocol.INVALID_REQUEST, f"the frame was longer than {most} MB and was dropped"
                    )
                self._take(protocol.parse(line))
            except ProtocolError as fault:
                self._channel.send(protocol.make_fault_frame(fault.id, fault))
        if self._work and not self._work.close():
            sys.stderr.write("handrail mcp: a call does not end; shutting down without it\n")
            sys.stderr.flush()
            os._exit(0)  # the interpreter would wait, or fall, over the thread that is still at work
        return 0

    def _end_on_signals(self) -> None:
        import signal

        for name in _SIGNALS:
            number = getattr(signal, name, None)
            # Ignored from the start (nohup, a job in the background) stays ignored, but SIGTERM always means: end.
            if number is not None and (name == "SIGTERM" or signal.getsignal(number) != signal.SIG_IGN):
                signal.signal(number, lambda *_: self._channel.wake())

    def _take(self, message: Message) -> None:
        if not message.method:
            if self._work:
                self._work.take_answer(message)
        elif message.id is None:
            if message.method == "notifications/cancelled" and self._work:
                self._work.cancel(message.params.get("requestId"))
        else:
            try:
                result = self._answer(message, message.id)
            except ProtocolError as fault:
                fault.id = message.id
                raise
            if result is not None:
                self._channel.send(protocol.make_result_frame(message.id, result))
            if message.method == "tools/list" and self._work is None:
                self._work = self._create_service()

    def _answer(self, message: Message, id: int | str) -> dict[str, Any] | None:
        """The result; None if a call has begun and will be answered when it is done."""
        method, params = message.method, message.params
        if method == "initialize":
            self._client = protocol.read_handshake(params)
            return {"protocolVersion": self._client.version, **self._introduce(), "serverInfo": protocol.SERVER}
        client = protocol.read_client(params) if protocol.has_envelope(params) else self._client
        if method == "ping" and not (client and client.enveloped):
            return {}
        if method not in ("server/discover", "tools/list", "tools/call"):
            raise ProtocolError(protocol.METHOD_NOT_FOUND, f"unknown method {method[:80]!r}", {"method": method[:80]})
        if client is None or (method == "server/discover" and not client.enveloped):
            expected = f"send initialize first, or _meta with {protocol.VERSION_KEY} and {protocol.CAPABILITIES_KEY}"
            raise ProtocolError(protocol.INVALID_PARAMS, f"the protocol version is unknown: {expected}")
        if method == "tools/call":
            self._call(id, params, client)
            return None
        if method == "server/discover":
            spoken = [*protocol.ENVELOPE, *reversed(protocol.HANDSHAKE)]
            return protocol.complete_result({"supportedVersions": spoken, **self._introduce(), **FRESHNESS})
        if params.get("cursor") is not None:
            raise ProtocolError(protocol.INVALID_PARAMS, "the list has only one page: leave out cursor")
        listed = {"tools": self._tools}
        return protocol.complete_result({**listed, **FRESHNESS}) if client.enveloped else listed

    def _call(self, id: int | str, params: dict[str, Any], client: protocol.ClientInfo) -> None:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise ProtocolError(protocol.INVALID_PARAMS, "tools/call needs name, a string")
        if name not in self._names:
            raise ProtocolError(
                protocol.INVALID_PARAMS, f"unknown tool {name[:80]!r}; the tools are {', '.join(self._names)}"
            )
        if arguments is not None and not isinstance(arguments, dict):
            raise ProtocolError(protocol.INVALID_PARAMS, "arguments is not an object")
        if self._work is None:
            self._work = self._create_service()
        from handrail.mcp.stdio.running_calls import RunningCall

        self._work.start(RunningCall(id, params, client))

    def _introduce(self) -> dict[str, Any]:
        return {"capabilities": {"tools": {}}, "instructions": self._about}

    def _create_service(self) -> CallService:
        from handrail.mcp.stdio.tool_calls import CallService

        return CallService(self._channel, self._opened, _finish_result, self._structured)


def _finish_result(call: RunningCall, result: dict[str, Any]) -> dict[str, Any]:
    return protocol.complete_result(result) if call.client.enveloped else result
