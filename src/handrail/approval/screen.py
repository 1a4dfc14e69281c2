"""Text for a terminal: control characters escaped, styles and diffs in colours."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from typing import TextIO

# What would move the cursor, recolour the screen or turn the reading direction if a terminal got it raw.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def escape_for_terminal(text: str) -> str:
    """Text that a terminal can be given: control characters and bidi controls as escapes; lines and tabs stay."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def on_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at this stream."""
    return stream is not None and stream.isatty()


_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


class Screen:
    """Gives text the colours that a stream can show, if any; writing it is up to the caller."""

    def __init__(self, stream: TextIO | None) -> None:
        capable = os.environ.get("TERM", "") not in ("dumb", "unknown") and not os.environ.get("NO_COLOR")
        self._coloured = capable and on_terminal(stream)

    def render(self, *parts: tuple[str, str]) -> str:
        """One line, or several, of pairs of text and style; a style is one of the names above, or some of them."""
        text = "".join(self._paint(escape_for_terminal(piece), style) for piece, style in parts)
        return text if text.endswith("\n") else text + "\n"

    def _paint(self, text: str, style: str) -> str:
        if not (self._coloured and style):
            return text
        begin = f"\x1b[{';'.join(str(_STYLES[name]) for name in style.split())}m"
        # Line by line, so that a line that is taken out of the answer has its own colours.
        return "\n".join(f"{begin}{line}\x1b[0m" if line else "" for line in text.split("\n"))


def paint_diff(diff: str) -> list[tuple[str, str]]:
    """A unified diff in colours, safe for a terminal."""
    pieces: list[tuple[str, str]] = []
    rows = diff.removesuffix("\n").split("\n")
    for number, row in enumerate(rows):
        if row.startswith("@@"):
            style = "cyan"
        elif _is_header(rows, number) or (number and _is_header(rows, number - 1)):
            style = "bold"
        else:
            style = {"+": "green", "-": "red", "\\": "dim"}.get(row[:1], "")
        body = row.removesuffix("\r")
        pieces.append((escape_for_terminal(body), style))
        if body != row:
            pieces.append(("\\r", "dim"))
        pieces.append(("\n", ""))
    return pieces


def _is_header(rows: list[str], number: int) -> bool:
    """Whether a file's two header lines begin here; a removed line may look like one of them, not like both."""
    three = rows[number : number + 3]
    return len(three) == 3 and all(map(str.startswith, three, ("--- ", "+++ ", "@@ ")))
