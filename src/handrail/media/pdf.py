"""Read PDF pages: the text of each page, and an image of it.

pdfium must not be used by two threads at once, and a page can hang or crash it. So it runs in a child process with one
thread (`separate_process.py`), and no lock is needed.
"""

from __future__ import annotations

import re

from handrail.frozen import frozen
from handrail.media import BadPages, BadPdf, MediaLimits, separate_process
from handrail.media.images import Picture, from_frame
from handrail.text.display import escape

_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(-\s*([0-9]{1,9})?)?\s*")


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
