"""A progress bar on a terminal."""

from __future__ import annotations

import time
from typing import TextIO

_WIDTH = 30


class ProgressBar:
    """Shows how many workspaces are done, and about how long the rest takes; nothing where there is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shows = stream.isatty()
        self._started = time.monotonic()

    def show(self, done: int, total: int) -> None:
        if not self._shows:
            return
        self._stream.write(f"\r{draw(done, total, time.monotonic() - self._started)}")
        if done == total:
            self._stream.write("\n")
        self._stream.flush()


def draw(done: int, total: int, seconds: float) -> str:
    """The bar as text."""
    filled = _WIDTH * done // max(1, total)
    left = seconds / done * (total - done) if done else 0.0
    return f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {done} of {total}, {seconds:.0f} s, about {left:.0f} s left "
