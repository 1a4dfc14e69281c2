"""Read frames from stdin in bounded memory, and write complete frames to stdout.

The protocol uses its own descriptors. Other code that prints writes to stderr, and other code that reads gets nothing,
so that neither a library nor a command can disturb the conversation.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from select import PIPE_BUF, POLLERR, POLLHUP, POLLIN, POLLOUT, poll

from handrail.mcp.protocol import MOST_BYTES, encode

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_CHUNK = 1 << 16
_LAST_WORDS_MS = 1000
"""How long a client that does not read is waited for when the server is to end."""


def take_over_stdio() -> tuple[int, int]:
    """Descriptors of stdin and stdout that nobody else uses from now on; raises `OSError`."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr; what is printed goes nowhere
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)
    return source, sink


class Channel:
    """Frames from and to one client."""

    def __init__(self, source: int, sink: int, most: int = MOST_BYTES) -> None:
        self._source = source
        self._sink = sink
        self._most = most
        self._lock = allocate_lock()
        self._broken = False
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)

    @classmethod
    def of_process(cls) -> Channel:
        """On stdin and stdout of this process, which from now on are nobody else's."""
        return cls(*take_over_stdio())

    def wake(self) -> None:
        """End the reading, from any thread or from a signal."""
        try:
            os.write(self._waker, b"!")
        except BlockingIOError:  # it is full, and will wake
            return

    def is_woken(self) -> bool:
        """Whether the end was asked for with `wake`: by a signal, or because nobody reads the answers."""
        poller = poll()
        poller.register(self._woken, POLLIN)
        return bool(poller.poll(0))

    def frames(self) -> Iterator[bytes | None]:
        """Every line that is not blank; None for one that is too long. Ends at the end of the input, or when woken."""
        held = bytearray()
        dropping = False
        while chunk := self._read():
            start = 0
            while (end := chunk.find(b"\n", start)) >= 0:
                if dropping or len(held) + end - start > self._most:
                    dropping = False
                    held = bytearray()
                    yield None
                else:
                    held += chunk[start:end]
                    line, held = bytes(held), bytearray()
                    if line.strip():
                        yield line
                start = end + 1
            if not dropping:
                held += chunk[start:]
                if len(held) > self._most:
                    dropping, held = True, bytearray()
        if self.is_woken():
            return
        if dropping:
            yield None
        elif held.strip():  # the last line of a script needs no line feed
            yield bytes(held)

    def send(self, message: Mapping[str, object], still: Callable[[], bool] | None = None) -> None:
        """One frame, if it is ``still`` wanted when its turn comes; one that nobody reads is dropped."""
        frame = memoryview(encode(message))
        with self._lock:
            if self._broken or (still and not still()):
                return
            try:
                while frame:
                    frame = frame[self._write(frame) :]
            except OSError:  # the client has gone, or does not read; what was to be said to it has no reader
                self._broken = True
        if self._broken:
            self.wake()

    def is_read(self) -> bool:
        """Tell whether the client still reads: a script that has closed its end of the pipe waits for results."""
        if self._broken:
            return False
        poller = poll()
        poller.register(self._sink, 0)
        return not any(
            event & (POLLERR | POLLHUP) for _, event in poller.poll(0)
        )  # a pipe says one, a socket the other

    def _read(self) -> bytes:
        try:
            poller = poll()
            poller.register(self._source, POLLIN)
            poller.register(self._woken, POLLIN)
            if any(ready == self._woken for ready, _ in poller.poll()):
                return b""
            return os.read(self._source, _CHUNK)
        except OSError:
            return b""

    def _write(self, frame: memoryview) -> int:
        """As much as goes without waiting for longer than until the end is asked for; raises `OSError`."""
        poller = poll()
        poller.register(self._sink, POLLOUT)
        poller.register(self._woken, POLLIN)
        if all(ready == self._woken for ready, _ in poller.poll()):
            poller.unregister(self._woken)
            if not poller.poll(_LAST_WORDS_MS):
                raise BrokenPipeError
        # So much goes through whenever there is room at all; others may share the descriptor, which has to block.
        return os.write(self._sink, frame[:PIPE_BUF])
