"""Show a prompt before the rest of the chat is loaded, which takes ten times as long to import as Python to start.

The prompt is written first, the terminal buffers typed keys, and the composer then draws the same line with them.
Nothing is echoed meanwhile, so that no text appears twice, and a paste is marked as one from the beginning.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from handrail.cli.output import on_terminal
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.cli.chat.plan import ChatPlan

PROMPT = "› "
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


def is_interactive(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a person watches a terminal that can do more than print lines."""
    return on_terminal(sys.stdout) and environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def chat(plan: ChatPlan) -> int:
    """A chat, until the person leaves; returns the exit code."""
    if not (is_interactive() and on_terminal(sys.stdin)):
        from handrail.cli.chat.repl import chat_by_lines

        return chat_by_lines(plan)
    mode = f"{escape(plan.model)} · {escape(plan.workspace)} · {plan.mode} · /help"
    print(f"\x1b[2m{mode}\x1b[0m" if "NO_COLOR" not in os.environ else mode, flush=True)
    with early_prompt():
        from handrail.cli.chat.repl import chat_at_terminal

        return chat_at_terminal(plan)


@contextlib.contextmanager
def early_prompt() -> Iterator[None]:
    """Around a chat: the prompt at its beginning, the modes of the terminal as they were at its end.

    The modes are not changed back in between: a terminal that reads line by line for a moment would cut a long paste.
    """
    import termios

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
