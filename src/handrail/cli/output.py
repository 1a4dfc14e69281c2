"""What the command writes: bytes for programs, safe and coloured text for a terminal, and how it ends early."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from handrail.cli.minimal import Stop as Stop
from handrail.cli.minimal import UsageError as UsageError
from handrail.cli.minimal import write as write
from handrail.text.display import replace_surrogates

if TYPE_CHECKING:
    from rich.text import Text

# What would move the cursor, recolour the screen or turn the reading direction if a terminal got it raw.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def on_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at this stream."""
    return stream is not None and stream.isatty()


def warn(text: str) -> None:
    """A line for the person, on stderr."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write((safe(replace_surrogates(text)) + "\n").encode("utf-8"))
            sys.stderr.buffer.flush()


def safe(text: str) -> str:
    """Text that a terminal can be given: control characters and bidi controls as escapes; lines and tabs stay."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def as_line(value: Any) -> str:
    """JSON on one line, in ASCII and well-formed Unicode, so that any reader in any locale can take it."""
    text = json.dumps(value, allow_nan=False)
    if "\\ud" in text:  # perhaps half a character, which strict readers refuse
        text = json.dumps(json.loads(replace_surrogates(json.dumps(value, allow_nan=False, ensure_ascii=False))))
    return text


def as_document(value: Any) -> str:
    """JSON for the reader at hand: indented on a terminal, on one line in a pipe."""
    if on_terminal(sys.stdout):
        return safe(replace_surrogates(json.dumps(value, indent=2, ensure_ascii=False))) + "\n"
    return as_line(value) + "\n"


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


def show_diff(diff: str) -> None:
    """A diff for the person, on stderr: in colours on a terminal, as it is elsewhere."""
    if not diff or sys.stderr is None:
        return
    text = Screen(sys.stderr).worded(painted(diff)) if on_terminal(sys.stderr) else diff
    with contextlib.suppress(OSError):
        sys.stderr.buffer.write(text.encode("utf-8"))
        sys.stderr.buffer.flush()
