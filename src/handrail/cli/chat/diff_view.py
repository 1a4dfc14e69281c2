"""Show a unified diff at a terminal: line numbers, syntax colours, and the changed words of changed lines marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from handrail.approval.screen import DIFF_COLOURS, TRUE_COLOURS, count_colours
from handrail.cli.output import escape_for_terminal
from handrail.frozen import frozen
from handrail.text.display import replace_surrogates
from handrail.text.words import mark_words

if TYPE_CHECKING:
    from rich.text import Text

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_MOST_HIGHLIGHTED = 2_000
_WIDEST = 100
"""Columns that the background of changed lines fills."""


@frozen
class PrintedLine:
    """One line of a diff."""

    kind: str
    """`+`, `-` or a space; `@` for the head of a hunk, `f` for the name of a file, empty for a remark."""
    text: str
    number: int = 0
    path: str = ""


def count_changes(diff: str) -> tuple[int, int]:
    """How many lines a unified diff adds and removes."""
    kinds = [line.kind for line in parse_diff(diff)]
    return kinds.count("+"), kinds.count("-")


def parse_diff(diff: str) -> Iterator[PrintedLine]:
    """The lines of a unified diff, with the numbers that they have in the new file, or in the old one if removed."""
    rows = diff.removesuffix("\n").split("\n") if diff else []
    path, old, new, at = "", 0, 0, 0
    while at < len(rows):
        row = rows[at]
        head = rows[at : at + 3]
        if len(head) == 3 and all(map(str.startswith, head, ("--- ", "+++ ", "@@ "))):
            path = head[0 if head[1].startswith("+++ /dev/null") else 1][4:].split("\t")[0]
            yield PrintedLine("f", path, path=path)
            at += 2
            continue
        if match := _HUNK.match(row):
            old, new = int(match[1]), int(match[2])
            yield PrintedLine("@", row, path=path)
        elif not path or row[:1] not in ("+", "-", " "):
            yield PrintedLine("", row, path=path)
        elif row[0] == "-":
            yield PrintedLine("-", row[1:], old, path)
            old += 1
        else:
            yield PrintedLine(row[0], row[1:], new, path)
            new += 1
            old += row[0] == " "
        at += 1


def render_diff(diff: str, most: int | None = None, colours: int | None = None) -> Text:
    """A diff in colours, at most so many lines of it; ``colours``: how many the terminal shows."""
    from rich.cells import cell_len
    from rich.text import Text

    styles = _choose_styles(count_colours() if colours is None else colours)
    lines = list(parse_diff(replace_surrogates(diff)))[:most]
    marks = mark_words([line.kind for line in lines], [line.text for line in lines])
    highlighted = _Colours(lines)
    wide = len(str(max((line.number for line in lines), default=0)))
    edge = min(_WIDEST, max((cell_len(line.text) for line in lines if line.kind in "+-"), default=0))
    result = Text()
    for at, line in enumerate(lines):
        shown = escape_for_terminal(line.text.removesuffix("\r"))
        ending = ("\\r", "dim") if line.text.endswith("\r") else ""
        if line.kind in ("f", "@", ""):
            result.append_text(Text(shown, {"f": "bold", "@": "cyan", "": "dim"}[line.kind]))
        else:
            body = highlighted.of(at, shown) if line.kind != "-" else Text(shown)
            kind = {"+": "added", "-": "removed"}.get(line.kind, "")
            if kind:
                body.stylize(styles[f"{kind} ground"])  # the colours of a language have a ground of their own
            for start, stop in marks.get(at, ()) if shown == line.text else ():
                body.stylize(styles[f"{kind} word"], start, stop)
            if kind and styles[f"{kind} ground"]:
                body.append(" " * (edge - body.cell_len), styles[f"{kind} ground"])
            whole = Text(line.kind).append_text(body)
            if kind:
                whole.stylize_before(styles[kind])
            result.append(f"{line.number:>{wide}} ", "dim").append_text(whole)
        if ending:
            result.append(*ending)
        result.append("\n")
    return result


def _choose_styles(colours: int) -> dict[str, str]:
    """The styles of changed lines and words, as rich names them."""
    names = [f"{kind}{part}" for kind in ("added", "removed") for part in ("", " ground", " word")]
    if not colours:
        return dict.fromkeys(names, "")
    if colours not in DIFF_COLOURS:
        few = {"added": "green", "removed": "red", "added word": "reverse green", "removed word": "reverse red"}
        return dict.fromkeys(names, "") | few
    name = "{}" if colours == TRUE_COLOURS else "color({})"
    styles = {}
    for style, (text, ground) in DIFF_COLOURS[colours].items():
        styles[style] = f"{name.format(text)} on {name.format(ground)}"
        styles[f"{style} ground"] = f"on {name.format(ground)}"
    return styles


class _Colours:
    """Syntax colours of the context and the added lines, by the names of their files."""

    def __init__(self, lines: Sequence[PrintedLine]) -> None:
        self._lines = lines
        self._known: dict[int, Text] = {}
        numbers = [at for at, line in enumerate(lines) if line.kind in ("+", " ")]
        if len(numbers) <= _MOST_HIGHLIGHTED:
            for path in dict.fromkeys(lines[at].path for at in numbers):
                self._highlight(path, [at for at in numbers if lines[at].path == path])

    def _highlight(self, path: str, numbers: Sequence[int]) -> None:
        from rich.syntax import Syntax

        code = "\n".join(escape_for_terminal(self._lines[at].text.removesuffix("\r")) for at in numbers)
        syntax = Syntax("", Syntax.guess_lexer(path), theme="ansi_dark", background_color="default")
        for at, text in zip(numbers, syntax.highlight(code).split("\n", allow_blank=True), strict=False):
            self._known[at] = text

    def of(self, at: int, shown: str) -> Text:
        from rich.text import Text

        known = self._known.get(at)
        return known.copy() if known is not None and known.plain == shown else Text(shown)
