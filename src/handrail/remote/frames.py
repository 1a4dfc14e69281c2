"""Messages as frames on two descriptors.

A message is a JSON object. It is cut into frames of at most 64 KB, each with the number of its message, so that a large
result does not hold up the small ones beside it. Both sides bound what they take.
"""

from __future__ import annotations

import json
import os
import select
import struct
import threading
import time
from collections import deque

from handrail.json_types import JsonObject

GREETING = b"\0handrail-remote-1\n"
"""The first bytes of a server: whatever a login shell has printed before them is not part of the conversation."""
MOST_BYTES = 64 << 20
"""The longest message; also the most that messages may hold which have begun and not ended."""
_FRAME = 1 << 16
_MOST_NOISE = 1 << 16
_LAST_WORDS_SECONDS = 1.0
_HEADER = struct.Struct(">IIB")
_WHOLE, _MORE = 1, 0


class PipeBroken(Exception):
    """The other side has gone, or does not speak as we do; the text says which."""


class BadMessage(PipeBroken):
    """A whole message that is not a JSON object. The messages after it can be taken as usual."""


class FramePipe:
    """Sends and takes messages. One thread takes; any thread may send."""

    def __init__(self, source: int, sink: int) -> None:
        """Owns both descriptors."""
        self._source, self._sink = source, sink
        os.set_blocking(sink, False)
        self._sending = threading.Lock()
        self._numbers = 0
        self._held = bytearray()
        self._parts: dict[int, bytearray] = {}
        self._taken: deque[JsonObject | BadMessage] = deque()
        self._poll = select.poll()
        self._poll.register(source, select.POLLIN)
        self.last_taken = time.monotonic()
        """When the other side was heard last."""

    def close_source(self) -> None:
        """Take no more messages; only the thread that takes them may close it."""
        os.close(self._source)

    def close_sink(self) -> None:
        """Send no more messages: the other side reads the end. A thread that is sending keeps it open until it ends."""
        if self._sending.acquire(timeout=_LAST_WORDS_SECONDS):
            try:
                sink, self._sink = self._sink, -1
                if sink >= 0:
                    os.close(sink)
            finally:
                self._sending.release()

    def greet(self) -> None:
        """Send the first bytes of a server."""
        with self._sending:
            self._write(memoryview(GREETING))

    def wait_for_greeting(self, seconds: float) -> None:
        """Skip what comes before the greeting; raises `PipeBroken` with its end if there is none."""
        self._skip_to(GREETING, time.monotonic() + seconds)
        self._split()

    def take_line(self, start: bytes, seconds: float) -> bytes:
        """A line before there are frames, without its start and all that came before; raises `PipeBroken`."""
        deadline = time.monotonic() + seconds
        self._skip_to(start, deadline)
        return self._skip_to(b"\n", deadline)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes before there are frames; raises `PipeBroken`."""
        with self._sending:
            self._write(memoryview(data))

    def _skip_to(self, end: bytes, deadline: float) -> bytes:
        """The bytes before ``end``, which are taken with it."""
        while (at := self._held.find(end)) < 0:
            if len(self._held) > _MOST_NOISE or time.monotonic() >= deadline:
                raise PipeBroken(f"it is not a handrail server: {_display(self._held)}")
            if self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000) and not self._read():
                raise PipeBroken(_display(self._held) if self._held.strip() else "")
        skipped = bytes(self._held[:at])
        del self._held[: at + len(end)]
        return skipped

    def send(self, message: JsonObject) -> None:
        """Send a message; raises `PipeBroken`, or `ValueError` if it is too long or no JSON."""
        data = memoryview(json.dumps(message, separators=(",", ":")).encode("ascii"))
        if len(data) > MOST_BYTES:
            raise ValueError(f"a message of {len(data)} bytes is longer than {MOST_BYTES}")
        with self._sending:
            self._numbers = number = (self._numbers + 1) & 0xFFFFFFFF
        while True:
            frame, data = data[:_FRAME], data[_FRAME:]
            head = _HEADER.pack(len(frame), number, _MORE if data else _WHOLE)
            with self._sending:
                self._write(memoryview(head + bytes(frame)))
            if not data:
                return

    def send_at_once(self, message: JsonObject) -> None:
        """Send a small message if that needs no waiting; drop it otherwise. Raises `PipeBroken`."""
        if not self._sending.acquire(blocking=False):
            return
        try:
            if self._is_writable(0):
                self._numbers = (self._numbers + 1) & 0xFFFFFFFF
                data = json.dumps(message, separators=(",", ":")).encode("ascii")
                self._write(memoryview(_HEADER.pack(len(data), self._numbers, _WHOLE) + data))
        finally:
            self._sending.release()

    def take(self, seconds: float) -> JsonObject | None:
        """The next message; None if none is complete in this time. Raises `BadMessage`, and `PipeBroken` at the end."""
        if not self._taken and self._poll.poll(max(0.0, seconds) * 1000):
            if not self._read():
                raise PipeBroken("the other side closed the connection")
            self._split()
        message = self._taken.popleft() if self._taken else None
        if isinstance(message, BadMessage):
            raise message
        return message

    def _read(self) -> bool:
        try:
            block = os.read(self._source, _FRAME + _HEADER.size)
        except OSError as error:
            raise PipeBroken(error.strerror or "it cannot be read") from None
        self._held += block
        self.last_taken = time.monotonic()
        return bool(block)

    def _split(self) -> None:
        """Turn the bytes that have come into messages; raises `PipeBroken` if they are none."""
        at, held = 0, self._held
        while len(held) - at >= _HEADER.size:
            length, number, last = _HEADER.unpack_from(held, at)
            if length > _FRAME or last not in (_WHOLE, _MORE):
                raise PipeBroken("it does not speak this protocol")
            if len(held) - at - _HEADER.size < length:
                break
            start = at + _HEADER.size
            at = start + length
            part = self._parts.pop(number, bytearray()) + held[start:at]
            if last:
                self._taken.append(_parse(part))
                continue
            self._parts[number] = part
            if sum(map(len, self._parts.values())) > MOST_BYTES:
                raise PipeBroken("its messages are too long")
        del held[:at]

    def _is_writable(self, seconds: float | None) -> bool:
        if self._sink < 0:
            raise PipeBroken("the connection is closed")
        poll = select.poll()
        poll.register(self._sink, select.POLLOUT)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def _write(self, data: memoryview) -> None:
        """Write all of it, however long the other side takes; whoever gives it up kills the process behind the pipe."""
        while data:
            self._is_writable(None)
            try:
                data = data[os.write(self._sink, data) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise PipeBroken(error.strerror or "it cannot be written") from None


def _parse(data: bytearray) -> JsonObject | BadMessage:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return BadMessage("it sent a message that is not JSON")
    return message if isinstance(message, dict) else BadMessage("it sent a message that is no object")


def _display(raw: bytes | bytearray) -> str:
    return bytes(raw[-400:]).decode("utf-8", "replace").strip()
