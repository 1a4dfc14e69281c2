"""Read and draw PDF pages with pdfium: the work of the child process."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Iterator
from typing import Any

from handrail.errors.extras import needs
from handrail.json_types import JsonObject
from handrail.media import BadPages, BadPdf, MediaLimits
from handrail.media.image_decoder import encode_image, to_frame
from handrail.media.images import Picture
from handrail.text.display import escape

with needs("media"):
    from pypdfium2 import PdfDocument, PdfiumError  # type: ignore[import-untyped]
    from pypdfium2.raw import FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY  # type: ignore[import-untyped]

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")
_POINTS_AN_INCH = 72


class _Descriptor(io.RawIOBase):
    """An open file as a stream that leaves the position of the descriptor alone, and is read only where needed."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd, self._size, self._at = fd, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        part = os.pread(self._fd, min(len(buffer), max(0, self._size - self._at)), self._at)
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def answers(
    fd: int, size: int, first: int, last: int | None, limits: MediaLimits, only_count: bool = False
) -> Iterator[tuple[JsonObject, bytes]]:
    """In the child process: a frame with the number of pages, and one for each page that was asked for."""
    document = _open_document(fd, size)
    total = len(document)
    if not only_count and max(first, last or 0) > total:
        raise BadPages(pages=_name_pages(first, last), total=total, part=_suggest_range(first, total, limits.pages))
    yield {"total": total}, b""
    if only_count:
        return
    for number in range(first, (last or min(total, first + limits.pages - 1)) + 1):
        yield _draw(document, number, limits)


def _name_pages(first: int, last: int | None) -> str:
    return f"{first}-" if last is None else str(first) if first == last else f"{first}-{last}"


def _suggest_range(first: int, total: int, most: int) -> str:
    """A valid request instead."""
    start = first if first <= total else max(1, total - most + 1)
    return _name_pages(start, min(total, start + most - 1))


def _open_document(fd: int, size: int) -> PdfDocument:
    stream = io.BufferedReader(_Descriptor(fd, size), 1 << 16)
    try:
        document = PdfDocument(stream)
        document.init_forms()  # so that what was filled into a form is drawn
    except PdfiumError as error:
        if error.err_code in (FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY):
            raise BadPdf(page=None, password=True) from None
        raise BadPdf(page=None, broken="it has no pages, or is damaged") from None
    return document


def _draw(document: PdfDocument, number: int, limits: MediaLimits) -> tuple[JsonObject, bytes]:
    """The frame for a page; a page that is broken does not take the others with it."""
    text, left, problem = "", 0, ""
    facts: JsonObject | None = None
    raw = b""
    try:
        page = document[number - 1]
        whole = _clean(page.get_textpage().get_text_bounded())
        text, left = whole[: limits.page_chars], max(0, len(whole) - limits.page_chars)
        facts, raw = to_frame(_render_page(page, limits))
        page.close()
    except (PdfiumError, ValueError, OverflowError) as error:
        problem = escape(str(error)[:200]) or type(error).__name__
    return {"page": {"number": number, "text": text, "left": left, "problem": problem}, "picture": facts}, raw


def _clean(text: str) -> str:
    # pdfium writes a hyphen at the end of a line as a control character.
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x02", "-"))


def _render_page(page: Any, limits: MediaLimits) -> Picture:
    width, height = page.get_size()
    if not (math.isfinite(width) and math.isfinite(height) and width > 0 and height > 0):
        raise ValueError(f"a page of {width:g} x {height:g} points")
    scale = min(limits.dots_per_inch / _POINTS_AN_INCH, limits.side / max(width, height))
    # Sides are rounded up to whole pixels, so that even a page like a thread is a pixel wide.
    image = page.render(scale=scale * (1 - 1e-6), rev_byteorder=True, limit_image_cache=True).to_pil()
    mime, raw, size = encode_image(image, limits)
    return Picture(mime, raw, *size, *size, 1, False)
