"""Images and PDF pages for a model: told apart by their first bytes, decoded, brought to size and encoded anew.

Decoders are large C libraries that read whatever a workspace holds. A PDF of two kilobytes can keep one busy for
years, and a picture can ask for gigabytes, so all of it happens in a child process (`apart.py`) with a deadline and a
limit of memory: what hangs or crashes there is an error here.
"""

from __future__ import annotations

from dataclasses import dataclass

from handrail.errors import BadImage, BadPages, BadPdf

__all__ = ["BadImage", "BadPages", "BadPdf", "Limits", "kind"]


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """What may be taken in, and what may come out. The defaults are what every model API of today accepts."""

    side: int = 1568
    """The longest side of a picture, in pixels: larger ones are scaled down by the APIs anyway."""
    encoded_bytes: int = 3_750_000
    """A picture that goes out; base64 makes a third more of it, and 5 MB is the usual limit."""
    image_bytes: int = 50_000_000
    """An image file that is opened at all."""
    pixels: int = 50_000_000
    """An image that is decoded at all."""
    pdf_bytes: int = 2_000_000_000
    """A PDF that is opened at all; it is read where needed, never as a whole."""
    pages: int = 20
    """PDF pages of one request."""
    page_chars: int = 60_000
    """Text of one PDF page."""
    dots_per_inch: int = 200
    """How sharp a small PDF page is drawn at the most; large ones are limited by `side`."""
    seconds: float = 20.0
    """Time of computing. On a busy machine a child may take several times as long by the clock."""
    memory_bytes: int = 1 << 30
    """Address space of the child process, where the system can limit it."""


HEAD = 16
"""How many bytes of a file `kind` wants to see; a PDF may have some before its mark, and then is not one here."""


def kind(head: bytes) -> str | None:
    """What a file is, by its first bytes; None for everything that is not shown as a picture or as pages."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return "application/pdf" if head.startswith(b"%PDF-") else None
