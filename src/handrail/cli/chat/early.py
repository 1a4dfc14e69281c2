"""Show a prompt before the line editor is loaded, which takes ten times as long to import as Python takes to start.

The prompt is written first, the terminal buffers typed keys, and the editor then draws the same line with them.
Nothing is echoed meanwhile, so that no text appears twice.
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
