"""Read that splits long lines into rows `5.1`, `5.2`, and cuts an answer that is too long at its end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import accumulate
from typing import Annotated

from handrail.files.pages import PageLine
from handrail.frozen import frozen
from handrail.tools import read
from handrail.tools.arguments import Field
from handrail.tools.notes import AnswerCut
from handrail.tools.read import PageFacts, ShownRow
from handrail.tools.shared.read_media import FileFacts
from handrail.tools.tool import Context, Outcome, Templates

_GUTTER = 7
"""The characters of the gutter, which count as part of the answer."""
_NOTE = 400
"""Room for the note at the end of an answer that is cut."""
_NO_LINES = (
    "System reminder: no lines were read because `limit` was 0. The file was not inspected and may have contents; "
    "retry with `limit` >= 1 to read it."
)
_BEFORE_START = "[Requested offset {offset} is before the start of the file; read from line 1 instead.]"


class Args(read.Args):
    limit: Annotated[int | None, Field(ge=0)] = None


@frozen
class Limits:
    """Limits that a dialect may set."""

    lines: int = 100
    """Rows without `limit`."""
    split_chars: int = 5000
    """Longer lines are split into rows of that length, each of which counts as a line."""
    answer_chars: int = 80_000
    """The answer with its notes, at the most."""


@frozen
class CutPageFacts(PageFacts):
    """Rows that are longer than the answer may be."""

    most: int = 0
    """The characters to show."""


@frozen
class NoLinesFacts(FileFacts):
    """Not a single line was asked for."""


Facts = read.Facts | CutPageFacts | NoLinesFacts


def run(args: read.Args, ctx: Context[Limits]) -> Outcome[Facts]:
    if args.limit == 0:
        file, about = read.open_file(args, ctx)
        return Outcome("page", NoLinesFacts(**asdict(about)), read.file_data(file, about) | read.Data(lines=0))
    if args.first >= 0:
        return _read_rows(args, ctx, args.first)
    notice = {"type": "text", "text": _BEFORE_START.format(offset=args.offset)}
    outcome = _read_rows(args, ctx, 1)
    return replace(outcome, blocks=(*outcome.blocks, notice))


def _read_rows(args: read.Args, ctx: Context[Limits], first: int) -> Outcome[Facts]:
    limits = ctx.limits
    file, about = read.open_file(args, ctx)
    medium = read.read_medium(file, ctx, about, args, limits.lines)
    if medium:
        return medium
    read.open_text(file, ctx, about)
    if read.is_empty(file):
        return read.describe_empty(file, ctx, about, first)
    most = args.most or limits.lines
    width = min(most * limits.split_chars, limits.answer_chars)
    # With this budget the answer is too long for sure if the page is not all that was asked for.
    page = file.page(first, most, width, 2 * limits.answer_chars)
    rows = _split_rows(page.rows, limits.split_chars, most)
    ends = list(accumulate(max(_GUTTER, len(str(row.label)) + 1) + len(row.text) + 1 for row in rows))
    if ends[-1] <= limits.answer_chars:
        return read.describe_page(file, ctx, about, page, rows, args.most)
    rows = rows[: bisect_right(ends, limits.answer_chars) + 1]
    ctx.mark_seen(file, rows[0].row.number, rows[-1].row.number)
    facts = CutPageFacts(**asdict(about), rows=rows, most=limits.answer_chars)
    data = read.page_data(file, about, page, rows, more=True)
    following = rows[bisect_right(ends, limits.answer_chars - _NOTE)].row.number
    count = ends[-1] - 1 - limits.answer_chars
    return Outcome("page", facts, data, (AnswerCut(count=count, next=following if following > first else None),))


def _split_rows(page: Sequence[PageLine], size: int, most: int) -> list[ShownRow]:
    """At most ``most`` rows of a page, no longer than ``size``."""
    rows: list[ShownRow] = []
    for row in page[:most]:
        if len(row.text) + row.left <= size:
            rows += read.show_rows([row])
            continue
        parts = [row.text[at : at + size] for at in range(0, len(row.text), size)]
        fit = min(len(parts), most - len(rows))
        for number, part in enumerate(parts[:fit], start=1):
            rows.append(ShownRow(f"{row.number}.{number}", part, row))
        if fit and (row.left or fit < len(parts)):
            rows[-1] = rows[-1]._replace(cut=1 + sum(map(len, parts[:fit])))
    return rows[:most]


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    if isinstance(facts, NoLinesFacts):
        return _NO_LINES
    if isinstance(facts, CutPageFacts):
        return read.render_rows(facts.rows, templates)[: facts.most - len(templates.notes)] + templates.notes
    return read.render(outcome.with_facts(facts), templates)


TOOL = replace(read.TOOL.adapt(Limits, run, render, Facts), args=Args)
