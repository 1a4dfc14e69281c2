"""Unified diffs as rows for a page: line numbers, syntax colours, marked words, in one column or side by side."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup, escape
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from handrail.text.words import Span, compare_words
from handrail.web.text import show_text

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MOST_ROWS = 3_000
"""Rows that are shown of one diff."""
_MOST_COLOURED = 200_000
"""Characters of a hunk that get syntax colours."""
_RANGE = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_KINDS = {
    "Comment": "c",
    "Keyword": "k",
    "Literal.String": "s",
    "Literal.Number": "m",
    "Name.Function": "f",
    "Name.Class": "f",
    "Name.Decorator": "f",
    "Name.Tag": "k",
    "Name.Builtin": "b",
}


@dataclass(slots=True)
class DiffLine:
    """One line of one side."""

    sign: str
    number: int
    text: str
    marks: list[Span] = field(default_factory=list)
    unended: bool = False
    """Whether the file ends here, without the end of a line."""
    html: Markup = field(default_factory=Markup)


@dataclass(slots=True)
class DiffRow:
    """A line of the old text beside one of the new text; in one column the old one comes first."""

    old: DiffLine | None
    new: DiffLine | None


@dataclass(slots=True)
class DiffHunk:
    """Neighbouring lines. ``note`` stands where lines are not shown."""

    header: str
    rows: list[DiffRow] = field(default_factory=list)
    note: str = ""

    def column(self) -> Iterator[tuple[str, int | None, int | None, Markup]]:
        """The lines in one column: sign, both numbers, and the line."""
        waiting: list[DiffLine] = []
        for row in self.rows:
            if row.old and row.new and row.old.sign == " ":
                yield from (("+", None, line.number, line.html) for line in waiting)
                waiting.clear()
                yield " ", row.old.number, row.new.number, row.new.html
                continue
            if row.old:
                yield "-", row.old.number, None, row.old.html
            if row.new:
                waiting.append(row.new)
        yield from (("+", None, line.number, line.html) for line in waiting)


@dataclass(slots=True)
class FileView:
    """The diff of one file."""

    path: str
    hunks: list[DiffHunk] = field(default_factory=list)
    description: str = ""
    """Text that stands in the place of lines."""

    @property
    def rows(self) -> int:
        return sum(len(hunk.rows) for hunk in self.hunks) + self.description.count("\n")

    @property
    def counts(self) -> tuple[int, int]:
        """Lines that are added, and removed."""
        rows = [row for hunk in self.hunks for row in hunk.rows]
        added = sum(row.new is not None and row.new.sign == "+" for row in rows)
        return added, sum(row.old is not None and row.old.sign == "-" for row in rows)


def parse_diff(text: str) -> list[FileView]:
    """The files of a unified diff. Lines belong to a hunk by its counts, whatever they look like."""
    rows = text.removesuffix("\n").split("\n") if text else []
    files: list[FileView] = []
    position, left = 0, MOST_ROWS
    while position < len(rows):
        row = rows[position]
        if row.startswith("--- ") and position + 1 < len(rows) and rows[position + 1].startswith("+++ "):
            old, new = row[4:], rows[position + 1][4:]
            files.append(FileView(old if new == "/dev/null" else new))
            position += 2
            continue
        if not files:
            files.append(FileView(""))
        match = _RANGE.match(row)
        if match is None:
            files[-1].description += row.removeprefix("\\ ") + "\n"
            position += 1
            continue
        if left <= 0:
            files[-1].hunks.append(DiffHunk("", note=f"{len(rows) - position} more rows are not shown"))
            break
        hunk, position = _parse_hunk(rows, position, match, files[-1].path)
        left -= len(hunk.rows)
        files[-1].hunks.append(hunk)
    return files


def view_hunks(path: str, hunks: Sequence[str], description: str) -> FileView:
    """The diff of one file of a question, with the same hunks in the same order."""
    view = FileView(path, description=description)
    for text in hunks:
        rows = text.removesuffix("\n").split("\n")
        match = _RANGE.match(rows[0])
        view.hunks.append(_parse_hunk(rows, 0, match, path)[0] if match else DiffHunk("", note=text.strip("\\ \n")))
    return view


def _parse_hunk(rows: Sequence[str], position: int, match: re.Match[str], path: str) -> tuple[DiffHunk, int]:
    old, new = int(match[1]), int(match[3])
    olds, news = int(match[2] or 1), int(match[4] or 1)
    hunk, position = DiffHunk(rows[position]), position + 1
    removed: list[DiffLine] = []
    added: list[DiffLine] = []

    def pair() -> None:
        for place in range(max(len(removed), len(added))):
            row = DiffRow(*(side[place] if place < len(side) else None for side in (removed, added)))
            if row.old and row.new and (marks := compare_words(row.old.text, row.new.text)):
                row.old.marks, row.new.marks = marks
            hunk.rows.append(row)
        removed.clear()
        added.clear()

    while position < len(rows) and (olds > 0 or news > 0 or rows[position].startswith("\\")):
        row, position = rows[position], position + 1
        sign, body = row[:1] or " ", row[1:]
        if sign == "\\":
            for side in (removed, added):  # it speaks of the line above it
                if side and (side is added or not added):
                    side[-1].unended = True
            continue
        if sign == "-" and olds:
            removed.append(DiffLine("-", old, body))
            old, olds = old + 1, olds - 1
        elif sign == "+" and news:
            added.append(DiffLine("+", new, body))
            new, news = new + 1, news - 1
        else:
            pair()
            hunk.rows.append(DiffRow(DiffLine(" ", old, body), DiffLine(" ", new, body)))
            old, new, olds, news = old + 1, new + 1, olds - 1, news - 1
    pair()
    _colour(hunk, path)
    return hunk, position


def _colour(hunk: DiffHunk, path: str) -> None:
    """Render the lines of both sides, each side read as one text."""
    for side in ("old", "new"):
        lines: list[DiffLine] = [line for row in hunk.rows if (line := getattr(row, side))]
        for line, kinds in zip(lines, _read_kinds([line.text for line in lines], path), strict=True):
            line.html = _render_line(line.text, kinds, line.marks)
            if line.unended:
                line.html += Markup('<span class="note"> no newline at the end of the file</span>')


def _read_kinds(lines: Sequence[str], path: str) -> list[list[tuple[int, str]]]:
    """For each line: where a part ends, and its kind."""
    lexer = _find_lexer(path)
    if lexer is None or sum(map(len, lines)) > _MOST_COLOURED:
        return [[(len(line), "")] for line in lines]
    every: list[list[tuple[int, str]]] = [[] for _ in lines]
    number, column = 0, 0
    for _, token, value in lexer.get_tokens_unprocessed("\n".join(lines)):
        kind = _name_kind(str(token))
        for place, part in enumerate(value.split("\n")):
            if place:
                number, column = number + 1, 0
            column += len(part)
            if part and number < len(every):
                every[number].append((column, kind))
    return [kinds or [(len(line), "")] for kinds, line in zip(every, lines, strict=True)]


@lru_cache(512)
def _name_kind(token: str) -> str:
    name = token.removeprefix("Token.")
    return next((kind for prefix, kind in _KINDS.items() if name.startswith(prefix)), "")


@lru_cache(256)
def _find_lexer(path: str) -> Lexer | None:
    try:
        return get_lexer_for_filename(path.rpartition("/")[2], stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _render_line(text: str, kinds: Sequence[tuple[int, str]], marks: Sequence[Span]) -> Markup:
    """One line as HTML: cut wherever the kind or the mark changes."""
    edges = sorted(
        {0, len(text), *(min(end, len(text)) for end, _ in kinds), *(edge for mark in marks for edge in mark)}
    )
    parts: list[str] = []
    upcoming = iter([*kinds, (len(text), "")])
    end, kind = next(upcoming)
    for start, stop in itertools.pairwise(edges):
        while start >= end and end < len(text):
            end, kind = next(upcoming)
        piece = str(escape(show_text(text[start:stop])))
        piece = f'<span class="t-{kind}">{piece}</span>' if kind else piece
        parts.append(f"<mark>{piece}</mark>" if any(a <= start < b for a, b in marks) else piece)
    return Markup("".join(parts))  # noqa: S704 - each part is escaped
