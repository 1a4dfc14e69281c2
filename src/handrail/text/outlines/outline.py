"""List the symbols of a source file with their lines.

Markdown and Python are parsed here, line by line, so that broken files still give symbols. Other languages need
a grammar (`grammars.py`). A grammar can hang on hostile text and cannot be stopped, so callers run it in a child
process (`media/outlines.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from handrail.errors import NoOutline
from handrail.errors.extras import MissingExtra, needs
from handrail.text.outlines.grammars import GRAMMARS

MOST = 2000
"""Symbols of one answer."""
_LABEL = 120
_TAB = 8
_MARKDOWN = {"md", "markdown", "mdown", "mkd"}
_PYTHON = {"py", "pyi", "pyw"}


class Symbol(NamedTuple):
    """A class, function or heading."""

    first: int
    last: int
    label: str
    """Its first line, without the body."""
    level: int = 0


class _Open(NamedTuple):
    """A block that is not over yet: which symbol it is (-1: one that is not listed), and how deep it is indented."""

    place: int
    indent: int
    is_class: bool = False


def needs_grammar(name: str) -> bool:
    """Whether this file is read with a grammar: slow to load, and not to be trusted with hostile text."""
    return _get_extension(name) in GRAMMARS


def has_outline(name: str) -> bool:
    """Whether the file name stands for a language whose symbols can be listed."""
    return _get_extension(name) in {*_MARKDOWN, *_PYTHON, *GRAMMARS}


def list_symbols(text: str, name: str, start: int = 1, most: int = MOST) -> list[Symbol]:
    """The symbols from line ``start`` on, by the language that the file name stands for; raises `NoOutline`.

    One more than ``most`` says that there are more.
    """
    ending = _get_extension(name)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    stream: Iterator[Symbol]
    if ending in _MARKDOWN:
        stream = _Headings(start, most + 1).of(text)
    elif ending in _PYTHON:
        stream = _Definitions(start, most + 1).of(text)
    elif ending in GRAMMARS:
        from handrail.text.outlines.grammars import find_symbols

        try:
            with needs("outline"):
                stream = (Symbol(*symbol) for symbol in find_symbols(text, ending, start, most + 1))
        except MissingExtra as error:
            error.path, error.instead = name, "Or use Grep instead."
            raise
    else:
        raise NoOutline(path=name, why="the language of a file with this name is unknown. Use Grep instead.")
    return [symbol._replace(label=shorten_label(symbol.label)) for symbol in stream]


def _get_extension(name: str) -> str:
    _, dot, ending = name.rpartition("/")[2].rpartition(".")
    return ending.lower() if dot else ""


def shorten_label(line: str) -> str:
    """A line as a label."""
    line = line[: 4 * _LABEL].strip().removesuffix("{").rstrip()
    return line if len(line) <= _LABEL else line[: _LABEL - 1] + "…"


class _SymbolCollector:
    """Symbols as they come in: no more than are wanted are kept, whatever the file holds."""

    def __init__(self, start: int, most: int) -> None:
        self._start = start
        self._most = most
        self._open: list[_Open] = []
        self._symbols: list[Symbol] = []

    def _begin(self, symbol: Symbol, indent: int, is_class: bool = False) -> None:
        listed = symbol.first >= self._start and symbol.level >= 0 and len(self._symbols) < self._most
        self._open.append(_Open(len(self._symbols) if listed else -1, indent, is_class))
        if listed:
            self._symbols.append(symbol._replace(label=symbol.label[: 4 * _LABEL]))

    def _end(self, indent: int, last: int) -> None:
        """Close the blocks that are no less deep than this."""
        while self._open and self._open[-1].indent >= indent:
            place = self._open.pop().place
            if place >= 0:
                self._symbols[place] = self._symbols[place]._replace(last=last)


_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING = re.compile(r"(?:^|[ \t]+)#+[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_NO_PARAGRAPH = re.compile(r" {4}|\t| {0,3}(?:>|[-*+](?:[ \t]|$)|\d{1,9}[.)](?:[ \t]|$)|<|\|)")


class _Headings(_SymbolCollector):
    """The headings of a Markdown file: each lasts until the next one of its depth."""

    def of(self, text: str) -> Iterator[Symbol]:
        fence = ""
        above = 0
        """The first line of the paragraph that stands right above; 0: none does."""
        rows = text.split("\n")
        begin = _count_front_matter(rows)
        for number, row in enumerate(rows[begin:], begin + 1):
            fenced = _FENCE.match(row)
            if fence:
                if fenced and fenced[1].startswith(fence) and not fenced[2].strip():
                    fence = ""
                continue
            if fenced and not ("`" in fenced[1] and "`" in fenced[2]):
                fence, above = fenced[1], 0
            elif heading := _ATX.match(row):
                self._add_heading(number, len(heading[1]), f"{heading[1]} {_CLOSING.sub('', heading[2] or '')}")
                above = 0
            elif above and (line := _UNDERLINE.match(row)):
                depth = 1 if line[1][0] == "=" else 2
                self._add_heading(above, depth, f"{'#' * depth} {rows[above - 1].strip()}")
                above = 0
            elif not row.strip() or (not above and _NO_PARAGRAPH.match(row)):
                above = 0
            else:
                above = above or number
        self._end(0, max(1, len(rows) - (not rows[-1])))
        return iter(self._symbols)

    def _add_heading(self, line: int, depth: int, label: str) -> None:
        self._end(depth, line - 1)
        self._begin(Symbol(line, line, label, depth - 1), depth)


def _count_front_matter(rows: list[str]) -> int:
    """How many rows at the beginning are settings between two lines of dashes."""
    if rows[0].rstrip() != "---":
        return 0
    return next((at for at, row in enumerate(rows[1:1000], 2) if row.rstrip() in ("---", "...")), 0)


_DEFINITION = re.compile(r"[ \t\f]*(?:(?:async[ \t]+)?def|(class))[ \t]+[^\W\d]\w*[ \t]*(?:[(:\[\\]|$)")
_TOKEN = re.compile(r"""\"\"\"|'''|"(?:[^"\\]|\\.)*(?:"|\\?$)|'(?:[^'\\]|\\.)*(?:'|\\?$)|\#|[(\[{]|[)\]}]""")
_CLOSE = {quote: re.compile(r"\\.|" + quote) for quote in ('"""', "'''", '"', "'")}


class _Definitions(_SymbolCollector):
    """The classes and functions of a Python file: those of the module, and those of its classes."""

    def of(self, text: str) -> Iterator[Symbol]:
        rows = text.split("\n")
        number, whole = self._scan(rows, 0, True)
        if not whole:  # a text in quotes that never ends: from there on quotes mean nothing
            self._scan(rows, number, False)
        return iter(self._symbols)

    def _scan(self, rows: list[str], begin: int, trusting: bool) -> tuple[int, bool]:
        quote, opened, depth, last, decorator = "", 0, 0, begin, 0
        joined = False
        """Whether this line goes on from the one before."""
        for number in range(begin + 1, len(rows) + 1):
            row = rows[number - 1]
            at = 0
            if quote:
                at = _find_close(row, quote)
                last = number
                if at < 0:
                    if len(quote) == 1 and not row.endswith("\\"):
                        quote = ""  # broken: such a text ends with its line
                    continue
                quote = ""
            else:
                code = row.lstrip(" \t\f")
                if not code or code[0] == "#":
                    joined = False
                    continue
                definition = code[0] in "adc" and _DEFINITION.match(row)
                if definition or not (depth or joined):
                    depth = 0  # no expression has such a line in it: a bracket before it was never closed
                    decorator = self._read_line(number, row, code, definition or None, last, decorator)
                last = number
            depth, quote = _scan_brackets(row, at, depth, trusting)
            opened = number if quote else opened
            joined = row.endswith("\\")
        if len(quote) == 3:
            return opened, False
        self._end(0, last)
        return len(rows), True

    def _read_line(
        self, number: int, row: str, code: str, definition: re.Match[str] | None, last: int, decorator: int
    ) -> int:
        """A line that begins a statement; the line of the first decorator that waits for its definition."""
        indent = len(row[: len(row) - len(code)].expandtabs(_TAB))
        self._end(indent, last)
        if code[0] == "@":
            return decorator or number
        if definition:
            inside = self._open[-1] if self._open else None
            level = 0 if inside is None else 1 if len(self._open) == 1 and inside.is_class else -1
            self._begin(Symbol(decorator or number, number, code, level), indent, bool(definition[1]))
        return 0


def _find_close(row: str, quote: str, at: int = 0) -> int:
    """Where a text in quotes is over; -1: not in this line."""
    return next((match.end() for match in _CLOSE[quote].finditer(row, at) if match[0] == quote), -1)


def _scan_brackets(row: str, at: int, depth: int, trusting: bool) -> tuple[int, str]:
    """How many brackets are open at the end of a line, and the quotes that are."""
    while match := _TOKEN.search(row, at):
        sign, at = match[0], match.end()
        if sign == "#":
            break
        if sign in ("(", "[", "{"):
            depth += 1
        elif sign in (")", "]", "}"):
            depth = max(0, depth - 1)
        elif len(sign) == 3 and sign in _CLOSE:
            if not trusting:
                continue
            at = _find_close(row, sign, at)
            if at < 0:
                return depth, sign
        elif at == len(row) and sign[-1] == "\\":
            return depth, sign[0]
    return depth, ""
