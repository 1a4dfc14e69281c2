"""The client's end of a connection: starts the server's command, and exchanges numbered requests with it.

A thread reads all messages and hands each to the request it belongs to. The same thread sends a heartbeat when nothing
comes, and ends the connection if the far side stays silent, so that no request waits for a dead server.
"""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from handrail.errors import ConnectionLost
from handrail.json_types import JsonObject
from handrail.programs import make_search_path, resolve_words
from handrail.remote.address import HELPERS, Target
from handrail.remote.frames import FramePipe, PipeBroken

HEARTBEAT_SECONDS = 2.0
SILENT_SECONDS = 10.0
"""A far side that sends nothing for so long, not even the answer to a heartbeat, is taken for dead."""
START_SECONDS = 60.0
_END_SECONDS = 5.0
_MOST_WAITING = 256
"""Output and progress of one request that may wait for a slow listener."""
_STDERR = 4096
_NOT_FOUND = (126, 127)
"""Exit codes of shells, ssh, docker and kubectl for a program that is not there."""


def start_server(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start the command of a server, with pipes to it; raises `OSError`."""
    if argv[0] in HELPERS:  # which start other programs: those that connect, or know a password
        options.setdefault("env", {**os.environ, "PATH": make_search_path()})
    return subprocess.Popen(  # noqa: S603 - the command of the user's address
        resolve_words(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in our terminal is for us
        **options,
    )


class RemoteRequest:
    """One request, and the messages that came for it."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._messages: queue.SimpleQueue[JsonObject | None] = queue.SimpleQueue()
        self._number = number
        self._omitted = 0

    def send(self, message: JsonObject) -> None:
        """Send another message of this request; raises `ConnectionLost`."""
        self._connection.send({"id": self._number, **message})

    def next(self, seconds: float | None = None) -> JsonObject:
        """The next message; raises `ConnectionLost`, and `TimeoutError` if none comes in time."""
        try:
            message = self._messages.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if message is None:
            raise self._connection.lost_error()
        return message

    def close(self) -> None:
        """No more messages are expected."""
        self._connection.forget(self._number)

    def put(self, message: JsonObject | None) -> None:
        """Take a message from the reading thread, which never waits: of too much output the newest is left out."""
        event = message.get("event") if message else None
        if event and event.get("type") == "output":
            if self._messages.qsize() >= _MOST_WAITING:
                self._omitted += int(event.get("omitted", 0)) + len(
                    str(event.get("text", "")).encode("utf-8", "replace")
                )
                return
            event["omitted"] = int(event.get("omitted", 0)) + self._omitted
            self._omitted = 0
        self._messages.put(message)


class Connection:
    """A running server and the pipe to it."""

    def __init__(self, target: Target) -> None:
        """Raises `ConnectionLost` if the server does not start."""
        self.target = target
        self.sent_bundle = False
        """Whether Handrail was sent to the other side, where it is not installed."""
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._start(target.argv)
        try:
            self._greet()
        except ConnectionLost:
            if not target.loader or self._process.returncode not in _NOT_FOUND:
                raise
            self._start(target.loader)
            self._greet(self._send_bundle)
        self._reader = threading.Thread(target=self._read, name="handrail-remote", daemon=True)
        self._reader.start()

    def _start(self, argv: Sequence[str]) -> None:
        """Start the command of a server; raises `ConnectionLost` if there is no such program."""
        self._why = ""
        self._requests: dict[int, RemoteRequest] | None = {}
        self._stderr = bytearray()
        try:
            self._process = start_server(argv)
        except OSError as error:
            raise ConnectionLost(where=self.target.name, why=f"{argv[0]}: {error.strerror}") from None
        assert self._process.stdin
        assert self._process.stdout
        self._stderr_reader = threading.Thread(target=self._keep_stderr, args=(self._process.stderr,), daemon=True)
        self._stderr_reader.start()
        self._pipe = FramePipe(os.dup(self._process.stdout.fileno()), os.dup(self._process.stdin.fileno()))
        self._process.stdout.close()
        self._process.stdin.close()

    def _greet(self, prepare: Callable[[], None] = lambda: None) -> None:
        """Wait until the server greets; raises `ConnectionLost`."""
        try:
            prepare()
            self._pipe.wait_for_greeting(START_SECONDS)
        except PipeBroken as error:
            self._end(str(error), patience=1.0)
            self._pipe.close_source()
            self._stderr_reader.join(1.0)
            raise self.lost_error() from None

    def _send_bundle(self) -> None:
        """Send Handrail to the loader, unless it has it; raises `PipeBroken`."""
        from handrail.remote.bundle import build_bundle, find_misfit, read_facts  # slow to import, and rarely needed

        try:
            facts = read_facts(self._pipe.take_line(b"\0handrail-loader-1 ", START_SECONDS))
        except ValueError as error:
            raise PipeBroken(f"it is not a Python for Handrail: {error}") from None
        if misfit := find_misfit(facts):
            raise PipeBroken(f"Handrail is not installed there and cannot be sent: {misfit}. Install it there")
        bundle = build_bundle()
        self.sent_bundle = True
        self._pipe.send_bytes(f"{bundle.digest} {len(bundle.data)}\n".encode("ascii"))
        if self._pipe.take_line(b"", START_SECONDS) == b"send":
            self._pipe.send_bytes(bundle.data)

    @property
    def pid(self) -> int:
        """The process of the command that was started here."""
        return self._process.pid

    @property
    def is_lost(self) -> bool:
        """Whether no request can be made any more."""
        return self._requests is None

    def start(self, message: JsonObject) -> RemoteRequest:
        """Send a request; its answers come to the object that is returned. Raises `ConnectionLost`."""
        request = RemoteRequest(self, next(self._numbers))
        with self._lock:
            if self._requests is None:
                raise self.lost_error()
            self._requests[request._number] = request
        try:
            request.send(message)
        except BaseException:
            request.close()
            raise
        return request

    def send(self, message: JsonObject) -> None:
        try:
            self._pipe.send(message)
        except PipeBroken as error:
            self._end(str(error))
            raise self.lost_error() from None

    def forget(self, number: int) -> None:
        with self._lock:
            if self._requests is not None:
                self._requests.pop(number, None)

    def close(self) -> None:
        """End the connection; the server ends what it runs."""
        self._end("the session was closed")

    def lost_error(self) -> ConnectionLost:
        """Why the connection has ended, with the last words of the far side."""
        words = bytes(self._stderr).decode("utf-8", "replace").strip()
        why = "; ".join(part for part in (self._why, words[-500:]) if part)
        return ConnectionLost(where=self.target.name, why=why or "the server ended")

    def _read(self) -> None:
        beat = time.monotonic()
        try:
            while not self.is_lost:
                message = self._pipe.take(HEARTBEAT_SECONDS)
                now = time.monotonic()
                if now - self._pipe.last_taken > SILENT_SECONDS:
                    self._end(f"nothing was heard for {now - self._pipe.last_taken:.0f} s", patience=0.0)
                    break
                if now - beat >= HEARTBEAT_SECONDS:
                    beat = now
                    self._pipe.send_at_once({"do": "ping"})
                if message is None:
                    continue
                with self._lock:
                    request = (self._requests or {}).get(message.get("id", 0))
                if request:
                    request.put(message)
        except PipeBroken as error:
            self._end(str(error))
        finally:
            self._pipe.close_source()

    def _end(self, why: str, patience: float = _END_SECONDS) -> None:
        """End the connection, once: waiting requests get the error, and the command gets time to end by itself."""
        with self._lock:
            waiting, self._requests = self._requests, None
            if waiting is None:
                return
            self._why = why
        for request in waiting.values():
            request.put(None)
        self._pipe.close_sink()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _keep_stderr(self, stream: Any) -> None:
        """Keep the last words of the far side, for the message about its end."""
        with stream:
            while block := stream.read1(_STDERR):
                self._stderr += block
                del self._stderr[:-_STDERR]
