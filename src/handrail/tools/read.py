"""Read: a page of a text file, with line numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from handrail.errors import BinaryFile, FileTooLarge, PageTooLarge, PastColumn, PastEnd
from handrail.files.pages import Page, Row
from handrail.text.shown import readable
from handrail.tool import Arguments, Context, Hints, Outcome, Reads, Remark, Tool, Words


class Args(Arguments):
    file_path: Annotated[Reads, Field(description="The file to read")]
    offset: Annotated[int | None, Field(description="First line, from 1; negative counts from the end")] = None
    limit: Annotated[int | None, Field(ge=1, description="Most lines")] = None
    column: Annotated[int, Field(ge=1, description="First character of the first line, to go on in a long line")] = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    lines: int = 2000
    """Lines without `limit`."""
    most_lines: int | None = None
    """Lines at the most, whatever `limit` says."""
    line_chars: int = 2000
    counts_long_lines: bool = False
    """Whether even an endless line is read to its end, to say how long it is."""
    empty_is_error: bool = False
    page_chars: int = 60_000
    page_overflow_is_error: bool = False
    whole_bytes: int | None = None
    """Above this size a part must be asked for."""


def run(args: Args, ctx: Context) -> Outcome:
    limits: Limits = ctx.limits
    file = ctx.open(args.file_path)
    facts = {"path": args.file_path, "size": file.size}
    try:
        file.open()
    except BinaryFile as error:
        ctx.saw(file)  # there is no more to see of it, so that it may be overwritten knowingly
        raise BinaryFile(**facts, **error.facts) from None
    if limits.whole_bytes and file.size > limits.whole_bytes and args.offset is None and args.limit is None:
        raise FileTooLarge(**facts, kilobytes=file.size / 1024, most=limits.whole_bytes // 1024)
    first = 1 if args.offset is None or args.offset == 0 else args.offset
    if file.size == len(file.codec.bom):
        ctx.saw(file)
        if limits.empty_is_error:
            raise PastEnd(**facts, offset=first, total=1)
        return Outcome("empty", {**facts, "offset": first}, {"lines": 0})

    most = args.limit or limits.lines
    if limits.most_lines:
        most = min(most, limits.most_lines)
    strict = limits.page_overflow_is_error
    budget = most * (limits.line_chars + 1) if strict else limits.page_chars
    page = file.page(first, most, limits.line_chars, budget, args.column, limits.counts_long_lines)
    chars = sum(len(row.text) + 1 for row in page.rows) - (0 if page.more or file.ended else 1)
    if strict and chars > limits.page_chars:
        raise PageTooLarge(**facts, chars=chars, most=limits.page_chars)
    if args.column > 1 and not page.rows[0].text:
        raise PastColumn(**facts, line=page.rows[0].number, column=args.column)
    last = page.rows[-1].number
    ctx.saw(file, page.rows[0].number, last)

    asked = args.limit is not None and len(page.rows) == args.limit
    remarks = []
    if page.more and not asked:
        total = page.total or (file.count() if limits.most_lines else None)
        selected = min(total, page.rows[0].number + args.limit - 1) if total and args.limit else total
        remaining = selected - last if selected else None
        remarks.append(Remark("more_lines", {"next": last + 1, "remaining": remaining, "total": total}))
    return Outcome(
        "page",
        {**facts, "rows": page.rows, "column": args.column, "next": last + 1 if page.more and asked else None},
        _data(page),
        (*remarks, *_cut(page.rows, args.column)),
    )


def _data(page: Page) -> dict[str, object]:
    return {
        "first": page.rows[0].number,
        "last": page.rows[-1].number,
        "total_lines": page.total,
        "next_offset": page.rows[-1].number + 1 if page.more else None,
        "encoding": page.codec.label,
    }


def _cut(rows: tuple[Row, ...], column: int) -> list[Remark]:
    cut = [row for row in rows if row.left]
    if not cut:
        return []
    start = column if cut[0] is rows[0] else 1
    return [Remark("long_lines", {"count": len(cut), "line": cut[0].number, "column": start + len(cut[0].text)})]


def say(outcome: Outcome, words: Words) -> str:
    facts = outcome.facts
    if outcome.kind == "empty":
        return words.say("read.empty", **facts)
    rows: list[tuple[int | str, str]] = []
    for row in facts["rows"]:
        text = readable(row.text)
        if row.left:
            start = facts["column"] if row is facts["rows"][0] else 1
            text += words.say("read.cut_line", left=row.left, column=start + len(row.text), endless=row.endless)
        rows.append((row.number, text))
    return words.say("read.page", **{**facts, "rows": words.rows(rows)})


TOOL = Tool(id="read", args=Args, limits=Limits, run=run, say=say, hints=Hints(read_only=True, idempotent=True))
