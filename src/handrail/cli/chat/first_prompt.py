"""Show a prompt before the rest of the chat is loaded, which takes ten times as long to import as Python to start.

The prompt is written first, the terminal buffers typed keys, and the composer then draws the same line with them.
Nothing is echoed meanwhile, so that no text appears twice, and a paste is marked as one from the beginning.
"""

from __future__ import annotations

import contextlib
import os
import sys
import termios
from collections.abc import Iterator

PROMPT = "› "
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


@contextlib.contextmanager
def early_prompt() -> Iterator[None]:
    """Around a chat: the prompt at its beginning, the modes of the terminal as they were at its end.

    The modes are not changed back in between: a terminal that reads line by line for a moment would cut a long paste.
    """
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    quiet = list(before)
    quiet[0] &= ~termios.ICRNL
    quiet[3] &= ~(termios.ECHO | termios.ICANON)  # Ctrl-C stays what it is
    termios.tcsetattr(fd, termios.TCSANOW, quiet)
    try:
        write_raw(_PASTE_ON + PROMPT)
        yield
    finally:
        write_raw(_PASTE_OFF + "\r\x1b[K")
        with contextlib.suppress(termios.error):  # a terminal that has gone
            termios.tcsetattr(fd, termios.TCSANOW, before)


def write_raw(text: str) -> None:
    """Write to the terminal at once."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), text.encode("utf-8"))
