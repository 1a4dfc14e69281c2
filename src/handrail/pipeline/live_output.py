"""Send the output of a running command to the host, while it is written to its log.

A thread reads the log: the command itself never waits for the host. A host that listens too slowly misses the middle of
long output, and the event says how many bytes. Only whole lines are sent, so that no secret is cut in two.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from handrail.shell.runner.output import clean

_INTERVAL = 0.1
_TICK = 1.0
"""Seconds between two reports that the command still runs."""
_MOST = 1 << 16
"""Bytes of one event."""
_BEHIND = 1 << 20
"""Bytes that may wait to be sent; if there are more, the older ones are left out."""
_PATIENCE = 2.0
"""Seconds that the end of a call waits for a host that is busy with an event."""


class OutputFollower:
    """Follows one log until it is closed."""

    def __init__(self, log: str, send: Callable[[str, int], object], tick: Callable[[], object]) -> None:
        """``send`` gets text and the number of bytes left out before it; ``tick`` is called once a second."""
        self._fd = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        self._send, self._tick = send, tick
        self._at = 0
        self._over = threading.Event()
        self._abandoned = False
        self._thread = threading.Thread(target=self._follow, name="handrail-output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the rest and stop. A host that does not come back in time is not waited for."""
        self._over.set()
        self._thread.join(_PATIENCE)
        self._abandoned = True

    def _follow(self) -> None:
        try:
            next_tick = time.monotonic() + _TICK
            while not self._over.wait(_INTERVAL):
                self._send_new(last=False)
                if time.monotonic() >= next_tick and not self._over.is_set():
                    next_tick = time.monotonic() + _TICK
                    self._tick()
            self._send_new(last=True)
        finally:
            os.close(self._fd)

    def _send_new(self, *, last: bool) -> None:
        """Send all whole lines that are new; with ``last``, also a line that nothing ends."""
        while not self._abandoned:
            behind, omitted = os.fstat(self._fd).st_size - self._at, 0
            if behind > _BEHIND:
                omitted = behind - _MOST
                omitted += os.pread(self._fd, _MOST, self._at + omitted).find(b"\n") + 1  # not the rest of a line
            raw = os.pread(self._fd, _MOST, self._at + omitted)
            # A carriage return ends a state of a progress bar, unless a line feed follows.
            end = max(raw.rfind(b"\n"), raw.rfind(b"\r", 0, -1)) + 1
            if len(raw) == _MOST:
                end = end or _MOST
            elif last:
                end = len(raw)
            if not end:
                return
            self._at += omitted + end
            self._send(_clean_lines(raw[:end]), omitted)


def _clean_lines(raw: bytes) -> str:
    *lines, rest = raw.split(b"\n")
    text = "".join(clean(line + b"\n") for line in lines) + clean(rest)
    return text + "\n" if raw.endswith(b"\r") else text
