"""Text for a terminal: control characters escaped, styles and diffs in colours."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.text import Text

# What would move the cursor, recolour the screen or turn the reading direction if a terminal got it raw.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """Text that a terminal can be given: control characters and bidi controls as escapes; lines and tabs stay."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def on_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at this stream."""
    return stream is not None and stream.isatty()


class Screen:
    """Gives text the colours that a stream can show, if any; writing it is up to the caller."""

    def __init__(self, stream: TextIO | None) -> None:
        from rich.console import Console

        self._written = io.StringIO()  # rich only renders: what becomes of an answer is decided in `write`
        self._console = Console(
            file=self._written,
            force_terminal=on_terminal(stream),
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=True,
        )

    def worded(self, *parts: Text | tuple[str, str]) -> str:
        """One line, or several, of parts that are texts or pairs of text and style."""
        from rich.text import Text

        text = Text()
        for part in parts:
            text.append_text(part if isinstance(part, Text) else Text(safe(part[0]), part[1]))
        self._console.print(text, end="" if text.plain.endswith("\n") else "\n")
        rendered = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        return rendered


def painted(diff: str) -> Text:
    """A unified diff in colours."""
    from rich.text import Text

    text = Text()
    rows = diff.removesuffix("\n").split("\n")
    for number, row in enumerate(rows):
        if row.startswith("@@"):
            style = "cyan"
        elif _heads(rows, number) or (number and _heads(rows, number - 1)):
            style = "bold"
        else:
            style = {"+": "green", "-": "red", "\\": "dim"}.get(row[:1], "")
        body = row.removesuffix("\r")
        text.append(safe(body), style)
        if body != row:
            text.append("\\r", "dim")
        text.append("\n")
    return text


def _heads(rows: list[str], number: int) -> bool:
    """Whether a file's two header lines begin here; a removed line may look like one of them, not like both."""
    three = rows[number : number + 3]
    return len(three) == 3 and all(map(str.startswith, three, ("--- ", "+++ ", "@@ ")))
