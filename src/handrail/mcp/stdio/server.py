"""The MCP server on stdio: a loop that answers `initialize` and `tools/list` before anything heavy is imported.

One line is one message. The loop answers simple requests itself, whatever the calls are doing; calls run in threads
(`workers.py`). Both generations of the protocol are supported, request by request.
"""

from __future__ import annotations

import os
import signal
import sys

from handrail.mcp import protocol
from handrail.mcp.protocol import Message, ProtocolError
from handrail.mcp.requests import Offer
from handrail.mcp.stdio.channel import Channel

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from handrail.mcp.calls import CallService
    from handrail.model import Approve
    from handrail.pipeline.any_session import AnySession

_OPENING_SECONDS = 5.0
"""How long the end waits for a session that is being opened."""
_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")


class StdioServer:
    """One client, its tools, and its calls once there are some."""

    def __init__(
        self,
        channel: Channel,
        specs: Sequence[dict[str, object]],
        root: str,
        opened: Callable[[Approve], AnySession],
        structured: bool = False,
    ) -> None:
        self._channel = channel
        self._offer = Offer(specs, root, structured=structured)
        self._opened = opened
        self._structured = structured
        self._client: protocol.ClientInfo | None = None
        self._work: CallService | None = None
        self._early: threading.Thread | None = None

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
        if self._work and not self._close(self._work):
            sys.stderr.write("handrail mcp: a call does not end; shutting down without it\n")
            sys.stderr.flush()
            os._exit(0)  # the interpreter would wait, or fall, over the thread that is still at work
        return 0

    def _end_on_signals(self) -> None:
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
            if message.method == "tools/list":
                self._open_service()

    def _answer(self, message: Message, id: int | str) -> dict[str, object] | None:
        """The result; None if a call has begun and will be answered when it is done."""
        method, params = message.method, message.params
        if method == "initialize":
            self._client = protocol.read_handshake(params)
            return self._offer.greet(self._client)
        client = protocol.read_client(params) if protocol.has_envelope(params) else self._client
        result = self._offer.answer(method, params, client)
        if result is None and client:
            self._open_service().make(id, params, client, self._channel.send)
        return result

    def _open_service(self) -> CallService:
        """Opened when the tool list has been answered, so that a server asked for no more never pays for it."""
        if self._work is None:
            import threading

            from handrail.mcp.calls import CallService

            self._work = CallService(self._opened, self._structured)
            self._early = threading.Thread(target=self._work.warm, name="handrail-open", daemon=True)
            try:
                self._early.start()
            except RuntimeError:  # no thread to be had now: the first call opens what it needs
                self._early = None
        return self._work

    def _close(self, work: CallService) -> bool:
        """End everything; False if something does not end.

        The end of the input cancels nothing: a script sends its calls down a pipe and then reads the answers, however
        long they take. A signal, or a client that reads no more, cancels what is left.
        """
        if not self._channel.is_woken():
            work.finish(self._is_listening)
            while self._early and self._early.is_alive() and self._is_listening():
                self._early.join(0.1)
        work.stop(self._channel.is_read())
        if self._early:
            self._early.join(_OPENING_SECONDS)
        return work.close() and not (self._early and self._early.is_alive())

    def _is_listening(self) -> bool:
        return self._channel.is_read() and not self._channel.is_woken()
