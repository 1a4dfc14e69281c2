"""Show a unified diff at a terminal: line numbers, syntax colours, and the changed words of changed lines marked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.syntax import Syntax
from rich.text import Text

from handrail.approval.screen import DIFF_COLOURS, TRUE_COLOURS, count_colours
from handrail.cli.chat.diff_lines import PrintedLine, parse_diff
from handrail.cli.output import escape_for_terminal
from handrail.text.display import replace_surrogates
from handrail.text.words import mark_words

_MOST_HIGHLIGHTED = 2_000
_WIDEST = 100
"""Columns that the background of changed lines fills."""


def render_diff(diff: str, most: int | None = None, colours: int | None = None) -> Text:
    """A diff in colours, at most so many lines of it; ``colours``: how many the terminal shows."""
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
        code = "\n".join(escape_for_terminal(self._lines[at].text.removesuffix("\r")) for at in numbers)
        syntax = Syntax("", Syntax.guess_lexer(path), theme="ansi_dark", background_color="default")
        for at, text in zip(numbers, syntax.highlight(code).split("\n", allow_blank=True), strict=False):
            self._known[at] = text

    def of(self, at: int, shown: str) -> Text:
        known = self._known.get(at)
        return known.copy() if known is not None and known.plain == shown else Text(shown)
