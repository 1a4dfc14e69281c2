"""Read whose rows are the text split at its line feeds, so that text behind the last one is a row too, even if empty.

A page behind the end is empty, and an answer that is too long is cut at its end.
"""

from __future__ import annotations

import re
from dataclasses import asdict

from handrail.errors import PastEnd
from handrail.files.pages import PageLine, TextFile
from handrail.frozen import frozen
from handrail.tools import read
from handrail.tools.notes import AnswerCut, MoreLines, NoteFacts
from handrail.tools.read import PageFacts, ShownRow
from handrail.tools.tool import Context, Outcome, Templates

_FEED = re.compile(r"\r?\n")
_GUTTER = 7
"""The characters of the gutter, which count as part of the answer."""


@frozen
class Limits:
    """Limits that a dialect may set."""

    lines: int = 2000
    """Lines without `limit`."""
    answer_chars: int = 120_000
    """A longer answer is cut there."""


@frozen
class Facts(PageFacts):
    """Rows, and the character at which they are cut."""

    most: int | None = None


def run(args: read.Args, ctx: Context[Limits]) -> Outcome[Facts]:
    limits = ctx.limits
    file, about = read.open_file(args, ctx)
    read.open_text(file, ctx, about)
    first, room = args.first, limits.answer_chars
    texts, more = _split_at_feeds(file, first, args.most or limits.lines, room)
    rows = [ShownRow(number, text, PageLine(number, text)) for number, text in enumerate(texts, start=first)]
    ctx.mark_seen(file, first if rows else 0, rows[-1].row.number if rows else 0)
    notes: list[NoteFacts] = []
    if more and len(rows) != args.most:
        notes.append(MoreLines(next=first + len(rows)))
    length = sum(max(_GUTTER, len(str(row.label)) + 1) + len(row.text) + 1 for row in rows) - 1
    if length > room:
        notes.append(AnswerCut(count=length - room))
    facts = Facts(**asdict(about), rows=rows, most=room if length > room else None)
    data = read.file_data(file, about) | read.Data(
        truncated=more or bool(notes), lines=len(rows), encoding=file.codec.label
    )
    return Outcome("page", facts, data, tuple(notes))


def _split_at_feeds(file: TextFile, first: int, most: int, room: int) -> tuple[list[str], bool]:
    """The lines asked for, and whether more follow. A big file is not loaded, and a lone CR ends a line in it."""
    if file.raw is not None:
        texts = _FEED.split(file.codec.decode(file.raw))
        return texts[first - 1 : first - 1 + most], len(texts) > first - 1 + most
    try:
        page = file.page(first, most, room + 1, 2 * room)
    except PastEnd as error:
        return [""] if first == error.total + 1 and file.ended else [], False
    texts = [row.text for row in page.rows]
    if page.more or not file.ended:
        return texts, page.more
    return ([*texts, ""], False) if len(texts) < most else (texts, True)


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    rows = read.render_rows(facts.rows, templates)
    if facts.most is not None:
        return rows[: facts.most] + templates.notes
    return templates.fill("read.page", facts, rows=rows)


TOOL = read.TOOL.adapt(Limits, run, render, Facts)
