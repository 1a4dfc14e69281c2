"""Text for a terminal: control characters escaped, styles and diffs in colours."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from handrail.text.words import Span

# What would move the cursor, recolour the screen or turn the reading direction if a terminal got it raw.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def escape_for_terminal(text: str) -> str:
    """Text that a terminal can be given: control characters and bidi controls as escapes; lines and tabs stay."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def on_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at this stream."""
    return stream is not None and stream.isatty()


_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}
NO_COLOURS, FEW_COLOURS, PALETTE, TRUE_COLOURS = 0, 16, 256, 1 << 24
DIFF_COLOURS: dict[int, dict[str, tuple[str | int, str | int]]] = {
    TRUE_COLOURS: {
        "added": ("#d9f2df", "#12301c"),
        "removed": ("#f7dcdb", "#3b1719"),
        "added word": ("#f2fff5", "#1f6b36"),
        "removed word": ("#fff5f5", "#8a2b2e"),
    },
    PALETTE: {"added": (194, 22), "removed": (224, 52), "added word": (231, 28), "removed word": (231, 88)},
}
"""Text and background of the lines of a diff. Both are set, so that they can be read on a light terminal too."""
_FEW = {"added": "32", "removed": "31", "added word": "7;32", "removed word": "7;31"}
_TO_THE_EDGE = "\x1b[K"
"""Gives the rest of the line its background."""


def count_colours(environ: Mapping[str, str] = os.environ) -> int:
    """How many colours the terminal shows, as far as it says."""
    term = environ.get("TERM", "")
    if term in ("dumb", "unknown") or environ.get("NO_COLOR"):
        return NO_COLOURS
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return TRUE_COLOURS
    return PALETTE if "256color" in term else FEW_COLOURS


def _write_diff_colours(colours: int) -> dict[str, str]:
    """The codes of the styles of a diff."""

    def code(place: int, colour: str | int) -> str:
        if isinstance(colour, str):
            return f"{place};2;" + ";".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
        return f"{place};5;{colour}"

    chosen = DIFF_COLOURS.get(colours, {})
    return {style: f"{code(38, text)};{code(48, ground)}" for style, (text, ground) in chosen.items()} or _FEW


class Screen:
    """Gives text the colours that a stream can show, if any; writing it is up to the caller."""

    def __init__(self, stream: TextIO | None) -> None:
        self._colours = count_colours() if on_terminal(stream) else NO_COLOURS
        self._diff = _write_diff_colours(self._colours)

    def render(self, *parts: tuple[str, str]) -> str:
        """One line, or several, of pairs of text and style; a style is one of the names above, or some of them."""
        text = "".join(self._paint(escape_for_terminal(piece), style) for piece, style in parts)
        return text if text.endswith("\n") else text + "\n"

    def _paint(self, text: str, style: str) -> str:
        if not (self._colours and style):
            return text
        of_diff = self._diff.get(style)
        begin = f"\x1b[{of_diff or ';'.join(str(_STYLES[name]) for name in style.split())}m"
        if self._colours > FEW_COLOURS and style in ("added", "removed"):
            begin += _TO_THE_EDGE
        # Line by line, so that a line that is taken out of the answer has its own colours.
        return "\n".join(f"{begin}{line}\x1b[0m" if line else "" for line in text.split("\n"))


def paint_diff(diff: str) -> list[tuple[str, str]]:
    """A unified diff in colours, safe for a terminal."""
    from handrail.text.words import mark_words

    pieces: list[tuple[str, str]] = []
    rows = diff.removesuffix("\n").split("\n")
    headers = {place for number in range(len(rows)) if _is_header(rows, number) for place in (number, number + 1)}
    kinds = ["" if number in headers else row[:1] for number, row in enumerate(rows)]
    marks = mark_words(kinds, [row[1:].removesuffix("\r") for row in rows])
    for number, row in enumerate(rows):
        if row.startswith("@@"):
            style = "cyan"
        else:
            style = "bold" if number in headers else {"+": "added", "-": "removed", "\\": "dim"}.get(row[:1], "")
        body = row.removesuffix("\r")
        pieces += _paint_words(body, style, marks.get(number, ()))
        if body != row:
            pieces.append(("\\r", "dim"))
        pieces.append(("\n", ""))
    return pieces


def _paint_words(row: str, style: str, marks: Sequence[Span]) -> list[tuple[str, str]]:
    """A line whose changed words stand out; the marks count from behind its sign."""
    pieces: list[tuple[str, str]] = []
    done = 0
    for start, stop in marks:
        pieces += [(row[done : start + 1], style), (row[start + 1 : stop + 1], f"{style} word")]
        done = stop + 1
    return [(escape_for_terminal(piece), how) for piece, how in [*pieces, (row[done:], style)] if piece]


def _is_header(rows: list[str], number: int) -> bool:
    """Whether a file's two header lines begin here; a removed line may look like one of them, not like both."""
    three = rows[number : number + 3]
    return len(three) == 3 and all(map(str.startswith, three, ("--- ", "+++ ", "@@ ")))
