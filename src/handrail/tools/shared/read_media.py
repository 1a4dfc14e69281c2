"""What Read shows of files that are not plain text: pictures, pages of a PDF, cells of a notebook, an outline."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from handrail import media
from handrail.errors import BinaryFile, NoOutline, PastEnd, ToolError
from handrail.files.pages import TextFile
from handrail.text import lines
from handrail.text.codec import detect_encoding
from handrail.text.display import replace_surrogates
from handrail.tools.tool import Context, Outcome, Remark, Words

if TYPE_CHECKING:
    from handrail.media.images import Picture

_NOTEBOOK_BYTES = 50 << 20
_OUTLINE_BYTES = 20 << 20
_GRAMMAR_BYTES = 10 << 20
"""A grammar takes many times the size of a file."""
_PICTURES = 8
"""Pictures of one notebook that are shown."""
_FIRST_PAGES = 5
"""Pages of a PDF that are shown if none are asked for."""


def shown(
    file: TextFile, ctx: Context, facts: dict[str, Any], pages: str | None, offset: int | None, most: int
) -> Outcome | None:
    """The file as what it is; None if it is to be read as text."""
    kind = media.kind(file.head(media.HEAD))
    try:
        if kind and kind.startswith("image/"):
            return _image(file, ctx, facts)
        if kind:
            return _pdf(file, ctx, facts, pages)
    except ToolError as error:
        error.facts.setdefault("path", facts["path"])
        ctx.saw(file)  # there is no more to see of it, so that it may be overwritten knowingly
        raise
    return _notebook(file, ctx, facts, offset, most) if facts["path"].endswith(".ipynb") else None


def _block(picture: Picture) -> dict[str, Any]:
    raw = base64.b64encode(picture.raw).decode("ascii")
    return {"type": "image", "base64": raw, "mime_type": picture.mime_type}


def _image(file: TextFile, ctx: Context, facts: dict[str, Any]) -> Outcome:
    from handrail.media import images

    picture = images.picture(file.fd, file.size)
    ctx.saw(file)
    size = {"width": picture.width, "height": picture.height}
    original = f"{picture.original_width} x {picture.original_height}"
    said = {
        **facts,
        **size,
        "mime": picture.mime_type,
        "original": original if (picture.width, picture.height) != _original(picture) else None,
        "frames": picture.frames if picture.frames > 1 else None,
    }
    data = {**size, "mime_type": picture.mime_type, "frames": picture.frames}
    return Outcome("image", said, data, blocks=(_block(picture),))


def _original(picture: Picture) -> tuple[int, int]:
    return picture.original_width, picture.original_height


def _pdf(file: TextFile, ctx: Context, facts: dict[str, Any], pages: str | None) -> Outcome:
    from handrail.media import pdf

    limits = media.MediaLimits()
    if pages is None:
        first, last, limits = 1, None, media.MediaLimits(pages=_FIRST_PAGES)
    else:
        first, last = pdf.page_range(pages, limits.pages)
    excerpt = pdf.pages(file.fd, file.size, first, last, limits)
    ctx.saw(file)
    reached = excerpt.pages[-1].number if excerpt.pages else first - 1
    remaining = excerpt.total - reached
    remarks = []
    if excerpt.stopped:
        remarks.append(Remark("pages_stopped", {"next": str(reached + 2)}))
    elif remaining > 0 and (last is None or pages is None):
        following = f"{reached + 1}-{min(excerpt.total, reached + _FIRST_PAGES)}"
        remarks.append(Remark("more_pages", {"remaining": remaining, "next": following}))
    said = {**facts, "first": first, "last": reached, "total": excerpt.total, "pages": excerpt.pages}
    data = {"pages": [page.number for page in excerpt.pages], "total_pages": excerpt.total}
    blocks = tuple(_block(page.picture) for page in excerpt.pages if page.picture)
    return Outcome("pdf", said, data, tuple(remarks), blocks)


def _notebook(file: TextFile, ctx: Context, facts: dict[str, Any], offset: int | None, most: int) -> Outcome | None:
    from handrail.text.notebooks import view

    raw = file.whole(_NOTEBOOK_BYTES)
    book = view.view(raw.decode("utf-8", "replace")) if raw else None
    if book is None:
        return None
    rows = list(view.rows(book))
    start = max(0, (offset or 1) - 1) if (offset or 0) >= 0 else max(0, len(rows) + (offset or 0))
    if start and start >= len(rows):
        raise PastEnd(path=facts["path"], offset=offset, total=len(rows))
    page = rows[start : start + most]
    ctx.saw(file)
    left = len(rows) - start - len(page)
    said = {
        **facts,
        "language": book.language,
        "cells": len(book.cells),
        "rows": page,
        "next": start + len(page) + 1 if left else None,
    }
    data = {"cells": [{"id": cell.id, "type": cell.kind} for cell in book.cells], "truncated": left > 0}
    return Outcome("notebook", said, data, blocks=_pictures(book.pictures[:_PICTURES]))


def _pictures(found: Any) -> tuple[dict[str, Any], ...]:
    from handrail.media import images

    blocks = []
    for image in found:
        try:
            blocks.append(_block(images.picture(image.raw, len(image.raw))))
        except ToolError:  # mentioned in the text all the same
            continue
    return tuple(blocks)


def outlined(file: TextFile, ctx: Context, facts: dict[str, Any], offset: int | None, most: int | None) -> Outcome:
    """The symbols of a source file with the lines they stand in, from the line ``offset`` on."""
    from handrail.text.outlines.outline import MOST, needs_grammar, outline

    name = facts["path"]
    largest = _GRAMMAR_BYTES if needs_grammar(name) else _OUTLINE_BYTES
    raw = file.whole(largest) if file.size <= largest else None
    if raw is None:
        raise NoOutline(path=name, why=f"it is longer than {largest} bytes. Use Grep to find your way.")
    try:
        text = detect_encoding(raw).decode(raw)
    except BinaryFile as error:
        raise BinaryFile(**facts, **error.facts) from None
    if needs_grammar(name):
        from handrail.media.outlines import symbols as outline  # the same, in a process of its own
    total = lines.count(text)
    start = max(1, total + offset + 1 if offset and offset < 0 else offset or 1)
    most = min(most or MOST, MOST)
    found = outline(text, name, start, most)
    ctx.saw(file)
    symbols, more = found[:most], found[most:]
    rows = [f"{symbol.first}-{symbol.last}\t{'  ' * symbol.level}{symbol.label}" for symbol in symbols]
    data = {"symbols": [symbol._asdict() for symbol in symbols], "truncated": bool(more)}
    remarks = [Remark("more_lines", {"next": more[0].first, "remaining": None, "total": None})] if more else []
    return Outcome("outline", {**facts, "rows": rows, "total": total}, data, tuple(remarks))


def say(outcome: Outcome, words: Words) -> str:
    facts = dict(outcome.facts)
    if outcome.kind == "pdf":
        facts["texts"] = "".join(
            words.say(
                "read.pdf_page",
                number=page.number,
                text=replace_surrogates(page.text),
                left=page.left or None,
                problem=page.problem or None,
            )
            for page in facts.pop("pages")
        )
    elif outcome.kind == "notebook":
        facts["rows"] = words.rows((label, replace_surrogates(text)) for label, text in facts["rows"])
    elif outcome.kind == "outline":
        facts["rows"] = "\n".join(replace_surrogates(row) for row in facts["rows"])
    return words.say(f"read.{outcome.kind}", **facts)
