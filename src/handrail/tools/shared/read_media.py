"""The parts of Read that do not return plain lines: images, PDF pages, notebook cells and outlines."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from handrail import media
from handrail.errors import BinaryFile, NoOutline, PastEnd, ToolError
from handrail.files.pages import TextFile
from handrail.frozen import frozen
from handrail.text import lines
from handrail.text.display import replace_surrogates
from handrail.text.document import detect_encoding
from handrail.tools.notes import MoreLines, MorePages, NoteFacts, PagesStopped
from handrail.tools.tool import Context, Outcome, Templates

if TYPE_CHECKING:
    from handrail.media.images import Picture
    from handrail.media.pdf import PdfPage
    from handrail.text.notebooks.view import Image
    from handrail.text.outlines.outline import Symbol

_NOTEBOOK_BYTES = 50 << 20
_OUTLINE_BYTES = 20 << 20
_GRAMMAR_BYTES = 10 << 20
"""Parsing with a grammar takes many times the size of the file in memory."""
_PICTURES = 8
"""Pictures of one notebook that are shown."""
_FIRST_PAGES = 5
"""Pages of a PDF that are shown if none are asked for."""


@frozen
class FileFacts:
    """The facts about a file that every answer of Read has."""

    path: str
    size: int
    modified: bool
    """Whether the file was read before, and has changed since."""


@frozen
class ImageFacts(FileFacts):
    width: int
    height: int
    mime: str
    original: str | None
    """The size of the image in the file, if it was scaled down."""
    frames: int | None
    """How many frames it has, if more than one."""


@frozen
class PdfFacts(FileFacts):
    first: int
    last: int
    total: int
    pages: Sequence[PdfPage]


@frozen
class NotebookFacts(FileFacts):
    language: str
    cells: int
    rows: Sequence[tuple[str, str]]
    next: int | None


@frozen
class OutlineFacts(FileFacts):
    rows: Sequence[str]
    total: int


Facts = ImageFacts | PdfFacts | NotebookFacts | OutlineFacts


class CellData(TypedDict):
    id: str
    type: str


class Data(TypedDict, total=False):
    width: int
    height: int
    mime_type: str
    frames: int
    pages: list[int]
    total_pages: int
    cells: list[CellData]
    symbols: list[dict[str, object]]
    truncated: bool


def read_medium(
    file: TextFile, ctx: Context[object], about: FileFacts, pages: str | None, offset: int | None, most: int
) -> Outcome[Facts] | None:
    """Read an image, a PDF or a notebook; None if the file is to be read as text."""
    kind = media.detect_kind(file.head(media.HEAD))
    try:
        if kind and kind.startswith("image/"):
            return _read_image(file, ctx, about)
        if kind:
            return _read_pdf(file, ctx, about, pages)
    except ToolError as error:
        error.facts.setdefault("path", about.path)
        ctx.mark_seen(file)  # counts as read although it cannot be shown, so that it can be overwritten
        raise
    return _read_notebook(file, ctx, about, offset, most) if about.path.endswith(".ipynb") else None


def _block(picture: Picture) -> dict[str, str]:
    raw = base64.b64encode(picture.raw).decode("ascii")
    return {"type": "image", "base64": raw, "mime_type": picture.mime_type}


def _read_image(file: TextFile, ctx: Context[object], about: FileFacts) -> Outcome[ImageFacts]:
    from handrail.media import images

    picture = images.read_picture(file.fd, file.size)
    ctx.mark_seen(file)
    original = (picture.original_width, picture.original_height)
    facts = ImageFacts(
        **asdict(about),
        width=picture.width,
        height=picture.height,
        mime=picture.mime_type,
        original="{} x {}".format(*original) if (picture.width, picture.height) != original else None,
        frames=picture.frames if picture.frames > 1 else None,
    )
    data = Data(width=picture.width, height=picture.height, mime_type=picture.mime_type, frames=picture.frames)
    return Outcome("image", facts, data, blocks=(_block(picture),))


def _read_pdf(file: TextFile, ctx: Context[object], about: FileFacts, pages: str | None) -> Outcome[PdfFacts]:
    from handrail.media import pdf

    limits = media.MediaLimits()
    if pages is None:
        first, last, limits = 1, None, media.MediaLimits(pages=_FIRST_PAGES)
    else:
        first, last = pdf.page_range(pages, limits.pages)
    excerpt = pdf.read_pages(file.fd, file.size, first, last, limits)
    ctx.mark_seen(file)
    reached = excerpt.pages[-1].number if excerpt.pages else first - 1
    remaining = excerpt.total - reached
    notes: list[NoteFacts] = []
    if excerpt.stopped:
        following = str(reached + 2) if remaining > 1 else ""
        notes.append(PagesStopped(page=reached + 1, next=following))
    elif remaining > 0 and (last is None or pages is None):
        following = f"{reached + 1}-{min(excerpt.total, reached + _FIRST_PAGES)}"
        notes.append(MorePages(remaining=remaining, next=following))
    facts = PdfFacts(**asdict(about), first=first, last=reached, total=excerpt.total, pages=excerpt.pages)
    data = Data(pages=[page.number for page in excerpt.pages], total_pages=excerpt.total)
    blocks = tuple(_block(page.picture) for page in excerpt.pages if page.picture)
    return Outcome("pdf", facts, data, tuple(notes), blocks)


def _read_notebook(
    file: TextFile, ctx: Context[object], about: FileFacts, offset: int | None, most: int
) -> Outcome[NotebookFacts] | None:
    from handrail.text.notebooks import view

    raw = file.whole(_NOTEBOOK_BYTES)
    book = view.view(raw.decode("utf-8", "replace")) if raw else None
    if book is None:
        return None
    offset = offset or 1
    start = offset - 1 if offset > 0 else max(0, sum(1 for _ in view.iterate_rows(book)) + offset)
    rows = view.iterate_rows(book)
    above = sum(1 for _ in islice(rows, start))
    page = list(islice(rows, most))
    if start and not page:
        raise PastEnd(path=about.path, offset=offset, total=above)
    ctx.mark_seen(file)
    left = next(rows, None) is not None
    facts = NotebookFacts(
        **asdict(about),
        language=book.language,
        cells=len(book.cells),
        rows=page,
        next=start + len(page) + 1 if left else None,
    )
    data = Data(cells=[CellData(id=cell.id, type=cell.kind) for cell in book.cells], truncated=left)
    return Outcome("notebook", facts, data, blocks=_list_pictures(book.pictures[:_PICTURES]))


def _list_pictures(stored: Sequence[Image]) -> tuple[dict[str, str], ...]:
    from handrail.media import images

    blocks = []
    for image in stored:
        try:
            blocks.append(_block(images.read_picture(image.raw, len(image.raw))))
        except ToolError:  # the text of the output mentions it anyway
            continue
    return tuple(blocks)


def read_outline(
    file: TextFile, ctx: Context[object], about: FileFacts, offset: int | None, most: int | None
) -> Outcome[OutlineFacts]:
    """List the symbols of a source file with their lines, from the line ``offset`` on."""
    from handrail.text.outlines.outline import MOST

    try:
        text = _read_source(file, about.path)
    except BinaryFile as error:
        error.facts.update(asdict(about))
        raise
    total = lines.count(text)
    start = max(1, total + offset + 1 if offset and offset < 0 else offset or 1)
    most = min(most or MOST, MOST)
    listed = _list_symbols(text, about.path, start, most)
    ctx.mark_seen(file)
    symbols, more = listed[:most], listed[most:]
    rows = [_format_symbol(symbol) for symbol in symbols]
    data = Data(symbols=[symbol._asdict() for symbol in symbols], truncated=bool(more))
    notes = (MoreLines(next=more[0].first),) if more else ()
    return Outcome("outline", OutlineFacts(**asdict(about), rows=rows, total=total), data, notes)


def outline_rest(file: TextFile, name: str, start: int, most: int) -> str | None:
    """At most ``most`` symbols from line ``start`` on: two levels, or only the outer one if both do not fit.

    None for a file without any.
    """
    from handrail.text.outlines.outline import MOST, has_outline

    if not has_outline(name):
        return None
    try:
        symbols = _list_symbols(_read_source(file, name), name, start, MOST)
    except ToolError:
        return None
    depth = next((level for level in (2, 1) if sum(one.level < level for one in symbols) <= most), 1)
    rows = [_format_symbol(one) for one in symbols if one.level < depth]
    return "\n".join([*rows[:most], *(["..."] if len(rows) > most else [])]) or None


def _read_source(file: TextFile, name: str) -> str:
    """The text of a file that is small enough for an outline."""
    from handrail.text.outlines.outline import needs_grammar

    largest = _GRAMMAR_BYTES if needs_grammar(name) else _OUTLINE_BYTES
    raw = file.whole(largest) if file.size <= largest else None
    if raw is None:
        raise NoOutline(path=name, why=f"it is larger than {largest >> 20} MiB. Use Grep instead.")
    return detect_encoding(raw).decode(raw)


def _list_symbols(text: str, name: str, start: int, most: int) -> list[Symbol]:
    from handrail.text.outlines.outline import list_symbols, needs_grammar

    if needs_grammar(name):
        from handrail.media.outlines import list_symbols_apart as list_symbols  # the same, in a process of its own
    return list_symbols(text, name, start, most)


def _format_symbol(symbol: Symbol) -> str:
    return f"{symbol.first}-{symbol.last}\t{'  ' * symbol.level}{symbol.label}"


class PdfPageRow(NamedTuple):
    """The values of the template for one page of a PDF."""

    number: int
    text: str
    left: int | None
    """How many characters are left out."""
    problem: str | None
    """Why the page could not be drawn."""


def render(facts: Facts, templates: Templates) -> str:
    if isinstance(facts, PdfFacts):
        rows = [
            PdfPageRow(page.number, replace_surrogates(page.text), page.left or None, page.problem or None)
            for page in facts.pages
        ]
        return templates.fill("read.pdf", facts, texts="".join(templates.fill("read.pdf_page", row) for row in rows))
    if isinstance(facts, NotebookFacts):
        numbered = templates.number_lines((label, replace_surrogates(text)) for label, text in facts.rows)
        return templates.fill("read.notebook", facts, rows=numbered)
    if isinstance(facts, OutlineFacts):
        return templates.fill("read.outline", facts, rows="\n".join(map(replace_surrogates, facts.rows)))
    return templates.fill("read.image", facts)
