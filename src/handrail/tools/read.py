"""Read: a page of a text file with line numbers; images, PDF pages, notebooks and outlines in their own form."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Annotated, NamedTuple

from handrail.errors import BadArguments, BinaryFile, FileTooLarge, PageTooLarge, PastColumn, PastEnd
from handrail.files.pages import PageLine, TextFile, TextPage
from handrail.text import lines
from handrail.text.display import replace_surrogates
from handrail.tools.arguments import Field
from handrail.tools.notes import AnswerCut, FallbackEncoding, LongLines, MoreLines, NoteFacts
from handrail.tools.shared import read_media
from handrail.tools.shared.read_media import FileFacts
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Reads, Templates, Tool

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
        """How many lines are asked for, if any number is."""
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
    """Whether even an endless line is read to its end, to report its length."""
    empty_is_error: bool = False
    page_chars: int = 60_000
    page_overflow_is_error: bool = False
    whole_bytes: int | None = None
    """Above this size a part must be asked for."""
    split_chars: int | None = None
    """Longer lines are not cut, but split into rows of that length, `5.1`, `5.2`, each of which counts as a line."""
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


class ShownRow(NamedTuple):
    """A row of the answer: a line, or a part of one."""

    label: int | str
    text: str
    row: PageLine
    cut: int = 0
    """The column from which the rest of the line is left out; 0 if nothing is."""


@dataclass(frozen=True, slots=True)
class EmptyFacts(FileFacts):
    offset: int


@dataclass(frozen=True, slots=True)
class PageFacts(FileFacts):
    """Numbered lines of a text."""

    rows: Sequence[ShownRow]
    next: int | None = None
    """The line to continue with, if exactly the lines that were asked for are shown and more follow."""
    most: int | None = None
    """The rows are longer than these characters, and are cut there."""
    makes_room: bool = True
    """Whether the rows give way to the notes, so that both together fit in `most`."""


@dataclass(frozen=True, slots=True)
class TextFacts(FileFacts):
    """A text as it is, without line numbers."""

    text: str
    cut: int | None = None
    """The bytes that are shown, if that is not all."""


Facts = EmptyFacts | PageFacts | TextFacts | read_media.Facts


class Data(read_media.Data, total=False):
    mtime_ms: int
    modified_externally: bool
    fallback_encoding: str | None
    first: int
    last: int
    lines: int
    total_lines: int | None
    next_offset: int | None
    encoding: str


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    limits = ctx.limits
    if args.last is not None and not 0 <= (args.offset or 0) <= args.last:
        raise BadArguments(problems=f"- the last line ({args.last}) must not lie before the first ({args.offset})")
    file = ctx.open(args.file_path)
    about = FileFacts(args.file_path, file.size, ctx.moved(file))
    if args.outline:
        return read_media.read_outline(file, ctx, about, args.offset, args.most)
    if limits.media:
        medium = read_media.read_medium(file, ctx, about, args.pages, args.offset, args.most or limits.lines)
        if medium:
            return medium
    try:
        if b"\0" in file.head(limits.nul_bytes):
            raise BinaryFile(path=args.file_path, size=file.size, why="it holds a NUL byte")
        file.open(limits.only_utf8)
    except BinaryFile as error:
        ctx.saw(file)  # there is no more to see of it, so that it may be overwritten knowingly
        raise BinaryFile(**{**error.facts, **asdict(about)}) from None
    if limits.whole_bytes and file.size > limits.whole_bytes and args.offset is None and args.most is None:
        raise FileTooLarge(**asdict(about), kilobytes=file.size / 1024, most=limits.whole_bytes // 1024)
    first = 1 if args.offset is None or args.offset == 0 else args.offset
    if limits.feeds:
        return _read_by_feeds(file, ctx, about, first, args.most)
    if file.size == len(file.codec.bom):
        ctx.saw(file)
        if limits.empty_is_error:
            raise PastEnd(**asdict(about), offset=first, total=1)
        facts = EmptyFacts(**asdict(about), offset=first)
        return Outcome("empty", facts, _file_data(file, about) | Data(lines=0))
    if limits.plain_bytes:
        return _read_plain(file, ctx, about, limits.plain_bytes)
    return _read_page(file, ctx, about, first, args)


def _read_page(file: TextFile, ctx: Context[Limits], about: FileFacts, first: int, args: Args) -> Outcome[PageFacts]:
    """Numbered lines, as many as were asked for and fit."""
    limits = ctx.limits
    most = args.most or limits.lines
    if limits.most_lines:
        most = min(most, limits.most_lines)
    page = _page(file, first, most, limits, args.column)
    chars = sum(len(row.text) + 1 for row in page.rows) - (0 if page.more or file.ended else 1)
    if limits.page_overflow_is_error and chars > limits.page_chars:
        raise PageTooLarge(**asdict(about), chars=chars, most=limits.page_chars)
    if args.column > 1 and not page.rows[0].text:
        raise PastColumn(**asdict(about), line=page.rows[0].number, column=args.column)

    rows = _split_rows(page.rows, args.column, limits.split_chars, most)
    more = page.more or rows[-1].row is not page.rows[-1]
    ends = _ends(rows, limits.gutter_chars) if limits.answer_chars else []
    if limits.answer_chars and ends[-1] > limits.answer_chars:
        rows = rows[: bisect_right(ends, limits.answer_chars) + 1]
        ctx.saw(file, rows[0].row.number, rows[-1].row.number)
        cut = AnswerCut(count=ends[-1] - 1 - limits.answer_chars)
        facts = PageFacts(**asdict(about), rows=rows, most=limits.answer_chars)
        return Outcome("page", facts, _page_data(file, about, page, rows, True), (cut,))
    last = rows[-1].row.number
    ctx.saw(file, rows[0].row.number, last)
    asked = args.most is not None and len(rows) == args.most and not limits.cut_is_partial
    notes: list[NoteFacts] = []
    if more and not asked:
        total = page.total or (file.count() if limits.most_lines else None)
        within = args.most if args.most and not limits.cut_is_partial else None
        selected = min(total, rows[0].row.number + within - 1) if total and within else total
        notes.append(MoreLines(next=last + 1, remaining=selected - last if selected else None, total=total))
    if file.replaced:
        notes.append(FallbackEncoding())
    facts = PageFacts(**asdict(about), rows=rows, next=last + 1 if more and asked else None)
    return Outcome("page", facts, _page_data(file, about, page, rows, more), (*notes, *_cut_lines(rows)))


def _file_data(file: TextFile, about: FileFacts) -> Data:
    """The data about the file itself."""
    return {
        "mtime_ms": file.version.mtime_ns // 1_000_000,
        "modified_externally": about.modified,
        "fallback_encoding": "replace" if file.replaced else None,
    }


def _page_data(file: TextFile, about: FileFacts, page: TextPage, rows: list[ShownRow], more: bool) -> Data:
    return _file_data(file, about) | Data(
        truncated=more,
        first=rows[0].row.number,
        last=rows[-1].row.number,
        total_lines=page.total,
        next_offset=rows[-1].row.number + 1 if more else None,
        encoding=page.codec.label,
    )


def _page(file: TextFile, first: int, most: int, limits: Limits, column: int) -> TextPage:
    width, budget = limits.line_chars, limits.page_chars
    if limits.page_overflow_is_error:
        budget = most * (width + 1)
    if limits.answer_chars:  # so much that the answer is too long for sure if this is not all
        budget = 2 * limits.answer_chars
    if limits.split_chars:
        width = min(most * limits.split_chars, limits.answer_chars or limits.page_chars)
    return file.page(first, most, width, budget, column, limits.counts_long_lines)


def _split_rows(page: tuple[PageLine, ...], column: int, size: int | None, most: int) -> list[ShownRow]:
    """The rows of a page; with a ``size`` longer lines are split, and each part counts as a line."""
    rows: list[ShownRow] = []
    for row in page[:most]:
        start = column if row is page[0] else 1
        if not size or len(row.text) + row.left <= size:
            rows.append(ShownRow(row.number, row.text, row, start + len(row.text) if row.left else 0))
            continue
        parts = [row.text[at : at + size] for at in range(0, len(row.text), size)]
        fit = min(len(parts), most - len(rows))
        for number, part in enumerate(parts[:fit], start=1):
            rows.append(ShownRow(f"{row.number}.{number}", part, row))
        if fit and (row.left or fit < len(parts)):
            rows[-1] = rows[-1]._replace(cut=start + sum(map(len, parts[:fit])))
    return rows[:most]


def _ends(rows: list[ShownRow], gutter: int) -> list[int]:
    """The length of the answer up to and with each row."""
    return list(accumulate(max(gutter, len(str(row.label)) + 1) + len(row.text) + 1 for row in rows))


def _cut_lines(rows: list[ShownRow]) -> list[NoteFacts]:
    cut = [row for row in rows if row.cut]
    if not cut:
        return []
    line = cut[0].row.number
    return [LongLines(count=len(cut), line=line, next=line, column=cut[0].cut)]


def _read_plain(file: TextFile, ctx: Context[Limits], about: FileFacts, most: int) -> Outcome[TextFacts]:
    """The beginning of the text, never cut inside a character."""
    if file.raw is not None:
        text = file.codec.decode(file.raw)
    else:  # far longer than what is shown: its lines will do
        text = "\n".join(row.text for row in file.page(1, most + 1, most + 1, 2 * most + 2).rows)
    raw = text.encode("utf-8", file.codec.errors)
    cut = len(raw) > most or file.raw is None
    if cut:
        text = codecs.getincrementaldecoder("utf-8")(file.codec.errors).decode(raw[:most])
    count = lines.count(text)
    ctx.saw(file, 1, count)
    data = _file_data(file, about) | Data(lines=count, encoding=file.codec.label)
    facts = TextFacts(**asdict(about), text=text, cut=most if cut else None)
    return Outcome("page", facts, data, (MoreLines(next=count + 1),) if cut else ())


def _read_by_feeds(
    file: TextFile, ctx: Context[Limits], about: FileFacts, first: int, asked: int | None
) -> Outcome[PageFacts]:
    """Rows as a split of the text at its line feeds gives them."""
    limits = ctx.limits
    room = limits.answer_chars or limits.page_chars
    texts, more = _split_at_feeds(file, first, asked or limits.lines, room)
    rows = [ShownRow(number, text, PageLine(number, text)) for number, text in enumerate(texts, start=first)]
    ctx.saw(file, first if rows else 0, rows[-1].row.number if rows else 0)
    notes: list[NoteFacts] = []
    if more and len(rows) != asked:
        notes.append(MoreLines(next=first + len(rows)))
    length = sum(max(limits.gutter_chars, len(str(row.label)) + 1) + len(row.text) + 1 for row in rows) - 1
    too_long = length > room
    if too_long:
        notes.append(AnswerCut(count=length - room))
    facts = PageFacts(**asdict(about), rows=rows, most=room if too_long else None, makes_room=False)
    data = _file_data(file, about) | Data(truncated=more or bool(notes), lines=len(rows), encoding=file.codec.label)
    return Outcome("page", facts, data, tuple(notes))


def _split_at_feeds(file: TextFile, first: int, most: int, room: int) -> tuple[list[str], bool]:
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


class CutLine(NamedTuple):
    """The values of the template at the end of a line that is cut."""

    left: int
    column: int
    endless: bool


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    if isinstance(facts, EmptyFacts):
        return templates.fill("read.empty", facts)
    if isinstance(facts, TextFacts):
        return templates.fill("read.page", facts, rows=facts.text)
    if not isinstance(facts, PageFacts):
        return read_media.render(facts, templates)
    rows: list[tuple[int | str, str]] = []
    for row in facts.rows:
        text = replace_surrogates(row.text)
        if row.cut:
            text += templates.fill("read.cut_line", CutLine(row.row.left, row.cut, row.row.endless))
        rows.append((row.label, text))
    if facts.most is not None:
        room = facts.most - (len(templates.notes) if facts.makes_room else 0)
        return templates.number_lines(rows)[:room] + templates.notes
    return templates.fill("read.page", facts, rows=templates.number_lines(rows))


TOOL = Tool(
    id="read",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(read_only=True, idempotent=True),
    rendered=("texts",),
    rows={"cut_line": CutLine, "pdf_page": read_media.PdfPageRow},
)
