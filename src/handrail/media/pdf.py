"""Read PDF pages: the text of each page, and an image of it.

pdfium must not be used by two threads at once, and a page can hang or crash it. So it runs in a child process with one
thread (`separate_process.py`), and no lock is needed.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from handrail.errors.extras import needs
from handrail.frozen import frozen
from handrail.json_types import JsonObject
from handrail.media import BadPages, BadPdf, MediaLimits, separate_process
from handrail.media.images import Picture, encode_image, from_frame, to_frame
from handrail.text.display import escape

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(-\s*([0-9]{1,9})?)?\s*")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")
_POINTS_AN_INCH = 72


@frozen
class PdfPage:
    """One page."""

    number: int
    """From 1."""
    text: str
    picture: Picture | None
    """None if the page could not be drawn; `problem` says why."""
    left: int = 0
    """How many characters of its text are left out."""
    problem: str = ""


@frozen
class PdfExcerpt:
    """Some pages of a PDF."""

    total: int
    """How many pages the PDF has."""
    pages: tuple[PdfPage, ...]
    stopped: str = ""
    """Why requested pages are missing at the end: `late` or `crashed`, caused by the next page."""


def page_range(named: str, most: int = 20) -> tuple[int, int | None]:
    """The pages that `3`, `1-5` or `10-` means: the first and the last, or None for all that one request may have."""
    match = _RANGE.fullmatch(named)
    pages = escape(named[:80])
    if not match:
        raise BadPages(pages=pages, malformed=True)
    first = int(match[1])
    last = int(match[3]) if match[3] else None if match[2] else first
    if first < 1:
        raise BadPages(pages=pages, zero=True)
    if last is None:
        return first, None
    if last < first:
        raise BadPages(pages=pages, swapped=f"{max(last, 1)}-{first}")
    if last - first >= most:
        raise BadPages(pages=pages, count=last - first + 1, most=most, part=f"{first}-{first + most - 1}")
    return first, last


def count(fd: int, size: int, limits: MediaLimits | None = None) -> int:
    """How many pages there are; raises `BadPdf`."""
    return _ask("count", fd, size, limits or MediaLimits(), 1).total


def read_pages(fd: int, size: int, first: int, last: int | None, limits: MediaLimits | None = None) -> PdfExcerpt:
    """Pages ``first`` to ``last`` of an open file; raises `BadPdf`, or `BadPages` if it does not have them."""
    limits = limits or MediaLimits()
    named = f"{first}-{last or ''}"
    if first < 1 or (last or first) < first or (last or first) - first >= limits.pages:
        page_range(named, limits.pages)  # says what is wrong with it
    answer = _ask("pages", fd, size, limits, first, last=last)
    if not any(page.picture or page.text for page in answer.pages):
        problem = next((page.problem for page in answer.pages if page.problem), "")
        if problem:
            raise BadPdf(broken=problem, page=first)
    return answer


def _ask(task: str, fd: int, size: int, limits: MediaLimits, first: int, **more: object) -> PdfExcerpt:
    if size > limits.pdf_bytes:
        raise BadPdf(size=size, most_bytes=limits.pdf_bytes)
    frames, end = separate_process.ask(task, fd, size, limits, first=first, **more)
    answered = tuple(_page(frame) for frame in frames[1:])
    if end and not answered:
        # Before the count it is the document that is at fault, behind it the page.
        page = first if frames else None
        raise BadPdf(page=page, seconds=limits.seconds) if end == "late" else BadPdf(page=page, crashed=True)
    if not frames:
        raise BadPdf(page=None, crashed=True)
    return PdfExcerpt(frames[0].head["total"], answered, end)


def _page(frame: separate_process.WorkerFrame) -> PdfPage:
    shot = from_frame(frame) if frame.head["picture"] else None
    return PdfPage(picture=shot, **frame.head["page"])


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
    with needs("media"):
        import PIL.Image  # noqa: F401 - pages are drawn with both: fail before any work is done
        import pypdfium2  # noqa: F401

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
    import pypdfium2
    from pypdfium2.raw import FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY  # type: ignore[import-untyped]

    stream = io.BufferedReader(_Descriptor(fd, size), 1 << 16)
    try:
        document = pypdfium2.PdfDocument(stream)
        document.init_forms()  # so that what was filled into a form is drawn
    except pypdfium2.PdfiumError as error:
        if error.err_code in (FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY):
            raise BadPdf(page=None, password=True) from None
        raise BadPdf(page=None, broken="it has no pages, or is damaged") from None
    return document


def _draw(document: PdfDocument, number: int, limits: MediaLimits) -> tuple[JsonObject, bytes]:
    """The frame for a page; a page that is broken does not take the others with it."""
    import pypdfium2

    text, left, problem = "", 0, ""
    facts: JsonObject | None = None
    raw = b""
    try:
        page = document[number - 1]
        whole = _clean(page.get_textpage().get_text_bounded())
        text, left = whole[: limits.page_chars], max(0, len(whole) - limits.page_chars)
        facts, raw = to_frame(_render_page(page, limits))
        page.close()
    except (pypdfium2.PdfiumError, ValueError, OverflowError) as error:
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
