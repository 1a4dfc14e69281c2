"""A prompt that is there at once. The line editor takes ten times as long to import as Python takes to start.

So the prompt is written first, the terminal keeps what is typed, and when the editor is there it draws the same line
again with all of it. Nothing is echoed meanwhile, so that nothing stands there twice.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

PROMPT = "› "


@contextlib.contextmanager
def early_prompt() -> Iterator[None]:
    """The prompt, until the editor takes over."""
    import termios

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    quiet = list(before)
    quiet[3] &= ~(termios.ECHO | termios.ICANON)  # Ctrl-C stays what it is
    termios.tcsetattr(fd, termios.TCSANOW, quiet)
    try:
        _write(PROMPT)
        yield
    finally:
        _write("\r\x1b[K")
        termios.tcsetattr(fd, termios.TCSANOW, before)


def _write(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), text.encode("utf-8"))
