"""Read: a page of a text file, with line numbers; pictures, PDF pages and notebooks in their own way."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, NamedTuple

from handrail.errors import BadArguments, BinaryFile, FileTooLarge, PageTooLarge, PastColumn, PastEnd
from handrail.files.pages import PageLine, TextFile, TextPage
from handrail.text import lines
from handrail.text.display import replace_surrogates
from handrail.tools.arguments import Field
from handrail.tools.shared import read_media
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Reads, Remark, Tool, Words

_FEED = re.compile(r"\r?\n")


class Args(Arguments):
    file_path: Annotated[Reads, Field(description="The file to read")]
    offset: Annotated[int | None, Field(description="First line, from 1; negative counts from the end")] = None
    limit: Annotated[int | None, Field(ge=1, description="Most lines")] = None
    column: Annotated[int, Field(ge=1, description="First character, in a cut line")] = 1
    pages: Annotated[str | None, Field(description="Of a PDF, such as 1-5")] = None
    outline: Annotated[bool, Field(description="Only the symbols")] = False
    last: Annotated[int | None, Field(ge=1, hidden=True)] = None
    """The last line that is wanted; only for dialects that say where to stop and not how much to read."""

    @property
    def most(self) -> int | None:
        """How many lines are asked for, if that is said."""
        wanted = self.last - (self.offset or 1) + 1 if self.last is not None else None
        return min(filter(None, (wanted, self.limit)), default=None)


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
    split_chars: int | None = None
    """Longer lines are not cut, but parted into rows of that length, `5.1`, `5.2`, each of which counts as a line."""
    answer_chars: int | None = None
    """From this length on the end of the answer gives way to the note that says so; `gutter_chars` belongs to it."""
    gutter_chars: int = 7
    """How long the dialect's gutter is."""
    plain_bytes: int | None = None
    """No rows at all: the text as it stands, up to so many bytes of UTF-8."""
    cut_is_partial: bool = False
    """Whether an answer is partial also if it is as long as was asked for, and more would have been there."""
    media: bool = True
    """Whether pictures, PDF pages and notebooks are shown as such."""
    nul_bytes: int = 0
    """So many bytes at the beginning must be free of NULs."""
    feeds: bool = False
    """Whether lines end at a line feed alone, and what stands behind the last one is a row too, even if it is empty.
    There is no page behind the end then, but an empty one, and what is over `answer_chars` is cut off."""
    only_utf8: bool = False
    """Whether other encodings are shown as broken UTF-8 rather than as what they are."""


class Shown(NamedTuple):
    """A row of the answer: a line, or a part of one."""

    label: int | str
    text: str
    row: PageLine
    cut: int = 0
    """The column from which the rest of the line is left out; 0 if nothing is."""


def run(args: Args, ctx: Context) -> Outcome:
    limits: Limits = ctx.limits
    if args.last is not None and not 0 <= (args.offset or 0) <= args.last:
        raise BadArguments(problems=f"- the last line ({args.last}) must not lie before the first ({args.offset})")
    file = ctx.open(args.file_path)
    facts: dict[str, Any] = {"path": args.file_path, "size": file.size, "modified": ctx.moved(file)}
    if args.outline:
        return read_media.outlined(file, ctx, facts, args.offset, args.most)
    found = (
        read_media.shown(file, ctx, facts, args.pages, args.offset, args.most or limits.lines) if limits.media else None
    )
    if found:
        return found
    try:
        if b"\0" in file.head(limits.nul_bytes):
            raise BinaryFile(path=args.file_path, size=file.size, why="it holds a NUL byte")
        file.open(limits.only_utf8)
    except BinaryFile as error:
        ctx.saw(file)  # there is no more to see of it, so that it may be overwritten knowingly
        raise BinaryFile(**{**error.facts, **facts}) from None
    if limits.whole_bytes and file.size > limits.whole_bytes and args.offset is None and args.most is None:
        raise FileTooLarge(**facts, kilobytes=file.size / 1024, most=limits.whole_bytes // 1024)
    first = 1 if args.offset is None or args.offset == 0 else args.offset
    if limits.feeds:
        return _by_feeds(file, ctx, facts, first, args.most)
    if file.size == len(file.codec.bom):
        ctx.saw(file)
        if limits.empty_is_error:
            raise PastEnd(**facts, offset=first, total=1)
        return Outcome("empty", {**facts, "offset": first}, {**_about(file, facts), "lines": 0})

    if limits.plain_bytes:
        return _plain(file, ctx, facts, limits.plain_bytes)
    most = args.most or limits.lines
    if limits.most_lines:
        most = min(most, limits.most_lines)
    page = _page(file, first, most, limits, args.column)
    chars = sum(len(row.text) + 1 for row in page.rows) - (0 if page.more or file.ended else 1)
    if limits.page_overflow_is_error and chars > limits.page_chars:
        raise PageTooLarge(**facts, chars=chars, most=limits.page_chars)
    if args.column > 1 and not page.rows[0].text:
        raise PastColumn(**facts, line=page.rows[0].number, column=args.column)

    rows = _rows(page.rows, args.column, limits.split_chars, most)
    more = page.more or rows[-1].row is not page.rows[-1]
    facts |= {"rows": rows, "next": None}
    ends = _ends(rows, limits.gutter_chars) if limits.answer_chars else []
    if limits.answer_chars and ends[-1] > limits.answer_chars:
        rows = rows[: bisect_right(ends, limits.answer_chars) + 1]
        ctx.saw(file, rows[0].row.number, rows[-1].row.number)
        remark = Remark("answer_cut", {"count": ends[-1] - 1 - limits.answer_chars})
        data = _about(file, facts) | _data(page, rows, True)
        return Outcome("page", {**facts, "most": limits.answer_chars}, data, (remark,))
    last = rows[-1].row.number
    ctx.saw(file, rows[0].row.number, last)
    asked = args.most is not None and len(rows) == args.most and not limits.cut_is_partial
    remarks = []
    if more and asked:
        facts["next"] = last + 1
    elif more:
        total = page.total or (file.count() if limits.most_lines else None)
        within = args.most if args.most and not limits.cut_is_partial else None
        selected = min(total, rows[0].row.number + within - 1) if total and within else total
        remaining = selected - last if selected else None
        remarks.append(Remark("more_lines", {"next": last + 1, "remaining": remaining, "total": total}))
    if file.replaced:
        remarks.append(Remark("fallback_encoding", {}))
    return Outcome("page", facts, _about(file, facts) | _data(page, rows, more), (*remarks, *_cut(rows)))


def _about(file: TextFile, facts: dict[str, Any]) -> dict[str, Any]:
    """What programs are told of the file itself."""
    return {
        "mtime_ms": file.version.mtime_ns // 1_000_000,
        "modified_externally": facts["modified"],
        "fallback_encoding": "replace" if file.replaced else None,
    }


def _page(file: TextFile, first: int, most: int, limits: Limits, column: int) -> TextPage:
    width, budget = limits.line_chars, limits.page_chars
    if limits.page_overflow_is_error:
        budget = most * (width + 1)
    if limits.answer_chars:  # so much that the answer is too long for sure if this is not all
        budget = 2 * limits.answer_chars
    if limits.split_chars:
        width = min(most * limits.split_chars, limits.answer_chars or limits.page_chars)
    return file.page(first, most, width, budget, column, limits.counts_long_lines)


def _rows(page: tuple[PageLine, ...], column: int, size: int | None, most: int) -> list[Shown]:
    """The rows of a page; with a ``size`` longer lines are parted, and parts count as lines."""
    rows: list[Shown] = []
    for row in page[:most]:
        start = column if row is page[0] else 1
        if not size or len(row.text) + row.left <= size:
            rows.append(Shown(row.number, row.text, row, start + len(row.text) if row.left else 0))
            continue
        parts = [row.text[at : at + size] for at in range(0, len(row.text), size)]
        fit = min(len(parts), most - len(rows))
        for number, part in enumerate(parts[:fit], start=1):
            rows.append(Shown(f"{row.number}.{number}", part, row))
        if fit and (row.left or fit < len(parts)):
            rows[-1] = rows[-1]._replace(cut=start + sum(map(len, parts[:fit])))
    return rows[:most]


def _ends(rows: list[Shown], gutter: int) -> list[int]:
    """How long the answer is with each row."""
    return list(accumulate(max(gutter, len(str(row.label)) + 1) + len(row.text) + 1 for row in rows))


def _plain(file: TextFile, ctx: Context, facts: dict[str, Any], most: int) -> Outcome:
    """The beginning of the text, never cut inside a character."""
    if file.raw is not None:
        text = file.codec.decode(file.raw)
    else:  # far longer than what is shown: its lines will do
        text = "\n".join(row.text for row in file.page(1, most + 1, most + 1, 2 * most + 2).rows)
    raw = text.encode("utf-8", file.codec.errors)
    cut = len(raw) > most or file.raw is None
    if cut:
        text = codecs.getincrementaldecoder("utf-8")(file.codec.errors).decode(raw[:most])
    ctx.saw(file, 1, lines.count(text))
    data = {**_about(file, facts), "lines": lines.count(text), "encoding": file.codec.label}
    if not cut:
        return Outcome("page", {**facts, "text": text}, data)
    remark = Remark("more_lines", {"next": lines.count(text) + 1, "remaining": None, "total": None})
    return Outcome("page", {**facts, "text": text, "cut": most}, data, (remark,))


def _by_feeds(file: TextFile, ctx: Context, facts: dict[str, Any], first: int, asked: int | None) -> Outcome:
    """Rows as a split of the text at its line feeds gives them."""
    limits: Limits = ctx.limits
    room = limits.answer_chars or limits.page_chars
    texts, more = _split(file, first, asked or limits.lines, room)
    rows = [Shown(number, text, PageLine(number, text)) for number, text in enumerate(texts, start=first)]
    ctx.saw(file, first if rows else 0, rows[-1].row.number if rows else 0)
    remarks = []
    if more and len(rows) != asked:
        remarks.append(Remark("more_lines", {"next": first + len(rows), "remaining": None, "total": None}))
    length = sum(max(limits.gutter_chars, len(str(row.label)) + 1) + len(row.text) + 1 for row in rows) - 1
    facts = {**facts, "rows": rows, "next": None}
    if length > room:
        remarks.append(Remark("answer_cut", {"count": length - room}))
        facts |= {"most": room, "besides": True}
    data = _about(file, facts) | {"truncated": more or bool(remarks), "lines": len(rows), "encoding": file.codec.label}
    return Outcome("page", facts, data, tuple(remarks))


def _split(file: TextFile, first: int, most: int, room: int) -> tuple[list[str], bool]:
    """The lines asked for, and whether more follow. A big file is not loaded, and a lone CR ends a line in it."""
    if file.raw is not None:
        texts = _FEED.split(file.codec.decode(file.raw))
        return texts[first - 1 : first - 1 + most], len(texts) > first - 1 + most
    try:
        page = file.page(first, most, room + 1, 2 * room)
    except PastEnd as error:
        return [""] if first == error.facts["total"] + 1 and file.ended else [], False
    texts = [row.text for row in page.rows]
    if page.more or not file.ended:
        return texts, page.more
    return ([*texts, ""], False) if len(texts) < most else (texts, True)


def _data(page: TextPage, rows: list[Shown], more: bool) -> dict[str, Any]:
    return {
        "truncated": more,
        "first": rows[0].row.number,
        "last": rows[-1].row.number,
        "total_lines": page.total,
        "next_offset": rows[-1].row.number + 1 if more else None,
        "encoding": page.codec.label,
    }


def _cut(rows: list[Shown]) -> list[Remark]:
    cut = [row for row in rows if row.cut]
    if not cut:
        return []
    line = cut[0].row.number
    return [Remark("long_lines", {"count": len(cut), "line": line, "next": line, "column": cut[0].cut})]


def say(outcome: Outcome, words: Words) -> str:
    facts = outcome.facts
    if outcome.kind == "empty":
        return words.say("read.empty", **facts)
    if outcome.kind != "page":
        return read_media.say(outcome, words)
    if "text" in facts:
        return words.say("read.page", **{"cut": None, **facts, "rows": facts["text"]})
    rows: list[tuple[int | str, str]] = []
    for row in facts["rows"]:
        text = replace_surrogates(row.text)
        if row.cut:
            left, endless = row.row.left, row.row.endless
            text += words.say("read.cut_line", left=left, column=row.cut, endless=endless)
        rows.append((row.label, text))
    if "most" in facts:  # as much of the rows as the note leaves room for
        room = facts["most"] - (0 if "besides" in facts else len(facts["notes"]))
        return words.rows(rows)[:room] + str(facts["notes"])
    return words.say("read.page", **{**facts, "cut": None, "rows": words.rows(rows)})


TOOL = Tool(id="read", args=Args, limits=Limits, run=run, say=say, hints=Hints(read_only=True, idempotent=True))
