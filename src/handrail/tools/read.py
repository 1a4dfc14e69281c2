"""Read: a page of a text file with line numbers; images, PDF pages, notebooks and outlines in their own form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, NamedTuple

from handrail.errors import BadArguments, BinaryFile, PastColumn
from handrail.files.pages import PageLine, TextFile, TextPage
from handrail.frozen import frozen
from handrail.text.display import find_unseen, replace_surrogates
from handrail.tools.arguments import Field
from handrail.tools.notes import LongLines, MoreLines, NoteFacts
from handrail.tools.shared import read_media
from handrail.tools.shared.read_media import FileFacts
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Reads, Templates, Tool

_MOST_UNSEEN = 10


class Args(Arguments):
    file_path: Annotated[Reads, Field(description="The file to read")]
    offset: Annotated[int | None, Field(description="First line, from 1; negative counts from the end")] = None
    limit: Annotated[int | None, Field(ge=1, description="Max lines")] = None
    column: Annotated[int, Field(ge=1, description="First character of a cut line")] = 1
    pages: Annotated[str | None, Field(description="Pages of a PDF, such as 1-5")] = None
    outline: Annotated[bool, Field(description="Symbols only")] = False
    last: Annotated[int | None, Field(ge=1, hidden=True)] = None
    """The last line that is wanted; only for dialects that say where to stop and not how much to read."""

    @property
    def first(self) -> int:
        """The line to begin with; negative if it counts from the end."""
        return self.offset or 1

    @property
    def most(self) -> int | None:
        """How many lines are asked for, if any number is."""
        count = self.last - (self.offset or 1) + 1 if self.last is not None else None
        return self.limit if count is None else min(filter(None, (count, self.limit)), default=None)


@frozen
class Limits:
    """Limits that a dialect may set."""

    lines: int = 2000
    """Lines without `limit`."""
    most_lines: int | None = None
    """Lines at the most, whatever `limit` says."""
    line_chars: int = 2000
    page_chars: int = 25_000
    rest_symbols: int = 0
    """Symbols in the outline of the lines that the first page does not show."""


class ShownRow(NamedTuple):
    """A row of the answer: a line, or a part of one."""

    label: int | str
    text: str
    row: PageLine
    cut: int = 0
    """The column from which the rest of the line is left out; 0 if nothing is."""


_make_row: Callable[[Iterable[object]], ShownRow] = partial(tuple.__new__, ShownRow)
"""Makes a row of its four values: answers have thousands, and this takes half the time of calling the class."""


@frozen
class EmptyFacts(FileFacts):
    offset: int


@frozen
class PageFacts(FileFacts):
    """Numbered lines of a text."""

    rows: Sequence[ShownRow]
    next: int | None = None
    """The line to continue with, if exactly the lines that were asked for are shown and more follow."""
    unseen: str | None = None
    """Lines with characters that cannot be seen, and which these are."""
    outline: str | None = None
    """Symbols in the lines that follow."""


Facts = EmptyFacts | PageFacts | read_media.Facts


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
    file, about = open_file(args, ctx)
    medium = read_medium(file, ctx, about, args, ctx.limits.lines)
    if medium:
        return medium
    open_text(file, ctx, about)
    if is_empty(file):
        return describe_empty(file, ctx, about, args.first)
    page = read_page(file, args, ctx.limits)
    require_column(page, args, about)
    outcome = describe_page(file, ctx, about, page, show_rows(page.rows, args.column), args.most)
    if ctx.limits.rest_symbols and page.more and page.rows[0].number == 1 and args.most is None:
        outline = read_media.outline_rest(file, args.file_path, page.rows[-1].number + 1, ctx.limits.rest_symbols)
        return outcome.with_facts(replace(outcome.facts, outline=outline))
    return outcome


def open_file(args: Args, ctx: Context[object]) -> tuple[TextFile, FileFacts]:
    """The file of a call, and the facts that every answer has."""
    if args.last is not None and not 0 <= (args.offset or 0) <= args.last:
        raise BadArguments(problems=f"- the last line ({args.last}) must not be before the first ({args.offset})")
    file = ctx.open(args.file_path)
    return file, FileFacts(args.file_path, file.size, ctx.changed_since_read(file))


def read_medium(
    file: TextFile, ctx: Context[object], about: FileFacts, args: Args, rows: int
) -> Outcome[read_media.Facts] | None:
    """Read an outline, an image, a PDF or ``rows`` of a notebook; None if the file is to be read as text."""
    if args.outline:
        return read_media.read_outline(file, ctx, about, args.offset, args.most)
    return read_media.read_medium(file, ctx, about, args.pages, args.offset, args.most or rows)


def open_text(file: TextFile, ctx: Context[object], about: FileFacts, *, only_utf8: bool = False) -> None:
    """Detect the encoding of a file; raises `BinaryFile`."""
    try:
        file.open(only_utf8)
    except BinaryFile as error:
        ctx.mark_seen(file)  # there is no more to see of it, so that it may be overwritten knowingly
        error.facts.update(asdict(about))
        raise


def is_empty(file: TextFile) -> bool:
    """Whether a file holds nothing besides a byte order mark."""
    return file.size == len(file.codec.bom)


def describe_empty(file: TextFile, ctx: Context[object], about: FileFacts, first: int) -> Outcome[EmptyFacts]:
    """The answer for an empty file."""
    ctx.mark_seen(file)
    return Outcome("empty", EmptyFacts(**asdict(about), offset=first), file_data(file, about) | Data(lines=0))


def read_page(file: TextFile, args: Args, limits: Limits) -> TextPage:
    """The lines that were asked for, as far as they fit."""
    return file.page(args.first, count_lines(args, limits), limits.line_chars, limits.page_chars, args.column)


def require_column(page: TextPage, args: Args, about: FileFacts) -> None:
    """Raise `PastColumn` if the first line is too short to begin at the column that was asked for."""
    if args.column > 1 and not page.rows[0].text:
        raise PastColumn(**asdict(about), line=page.rows[0].number, column=args.column)


def count_lines(args: Args, limits: Limits) -> int:
    """How many lines a page may have."""
    most = args.most or limits.lines
    return min(most, limits.most_lines) if limits.most_lines else most


def show_rows(page: Sequence[PageLine], column: int = 1) -> list[ShownRow]:
    """The rows of a page; the first one begins at ``column``."""
    numbers, texts, lefts, _ = zip(*page, strict=True)
    if not any(lefts):  # nearly always
        return list(map(_make_row, zip(numbers, texts, page, lefts, strict=True)))
    rows = [ShownRow(row.number, row.text, row, 1 + len(row.text) if row.left else 0) for row in page]
    if column > 1 and rows and rows[0].cut:
        rows[0] = rows[0]._replace(cut=column + len(rows[0].text))
    return rows


def describe_page(
    file: TextFile,
    ctx: Context[object],
    about: FileFacts,
    page: TextPage,
    rows: list[ShownRow],
    requested: int | None,
    *,
    count_all: bool = False,
) -> Outcome[PageFacts]:
    """Return the ``rows`` of a page: partial if more lines follow, unless exactly ``requested`` lines are shown.

    ``count_all``: count the lines of the file for that note, however long it is.
    """
    first, last = rows[0].row.number, rows[-1].row.number
    ctx.mark_seen(file, first, last)
    more = page.more or rows[-1].row is not page.rows[-1]
    complete = len(rows) == requested
    notes: list[NoteFacts] = []
    if more and not complete:
        total = page.total or (file.count() if count_all else None)
        selected = min(total, first + requested - 1) if total and requested else total
        notes.append(MoreLines(next=last + 1, remaining=selected - last if selected else None, total=total))
    if cut := [row for row in rows if row.cut]:
        line = cut[0].row.number
        notes.append(LongLines(count=len(cut), line=line, next=line, column=cut[0].cut))
    following = last + 1 if more and complete else None
    facts = PageFacts(about.path, about.size, about.modified, rows, following, list_unseen(rows))
    return Outcome("page", facts, page_data(file, about, page, rows, more), tuple(notes))


def list_unseen(rows: Sequence[ShownRow]) -> str | None:
    """The lines with invisible, bidirectional and control characters; None if there are none."""
    if not find_unseen(" ".join([row.text for row in rows])):  # nearly always
        return None
    listed = [f"line {row.label}: {', '.join(chars)}" for row in rows if (chars := find_unseen(row.text))]
    rest = [f"{len(listed) - _MOST_UNSEEN} more lines"] if len(listed) > _MOST_UNSEEN else []
    return "; ".join((*listed[:_MOST_UNSEEN], *rest)) or None


def file_data(file: TextFile, about: FileFacts) -> Data:
    """The data about the file itself."""
    return {
        "mtime_ms": file.version.mtime_ns // 1_000_000,
        "modified_externally": about.modified,
        "fallback_encoding": "replace" if file.replaced else None,
    }


def page_data(file: TextFile, about: FileFacts, page: TextPage, rows: Sequence[ShownRow], more: bool) -> Data:
    """The data about a page and its file."""
    return file_data(file, about) | Data(
        truncated=more,
        first=rows[0].row.number,
        last=rows[-1].row.number,
        total_lines=page.total,
        next_offset=rows[-1].row.number + 1 if more else None,
        encoding=page.codec.label,
    )


class CutLine(NamedTuple):
    """The values of the template at the end of a line that is cut."""

    left: int
    column: int
    endless: bool


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    if isinstance(facts, EmptyFacts):
        return templates.fill("read.empty", facts)
    if isinstance(facts, PageFacts):
        return templates.fill("read.page", facts, rows=render_rows(facts.rows, templates))
    return read_media.render(facts, templates)


def render_rows(rows: Sequence[ShownRow], templates: Templates) -> str:
    """Rows behind their numbers, with a mark at the end of those that are cut."""
    labels, texts, _, cuts = zip(*rows, strict=True) if rows else ((), (), (), ())
    if any(cuts):
        texts = tuple(row.text + _render_cut(row, templates) if row.cut else row.text for row in rows)
    return replace_surrogates(templates.number_lines(zip(labels, texts, strict=True)))


def _render_cut(row: ShownRow, templates: Templates) -> str:
    return templates.fill("read.cut_line", CutLine(row.row.left, row.cut, row.row.endless))


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
