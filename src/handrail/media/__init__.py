"""Decode images and PDF pages for a model, scale them and encode them again.

Decoders are large C libraries, and files of a workspace can be hostile: a PDF of two kilobytes can keep one busy for
years, and an image can ask for gigabytes. So they run in a child process (`separate_process.py`) with a deadline and a
memory limit. If the child hangs or crashes, the call fails.
"""

from __future__ import annotations

from handrail.errors import BadImage, BadPages, BadPdf
from handrail.frozen import frozen

__all__ = ["BadImage", "BadPages", "BadPdf", "Limits", "kind"]


@frozen
class MediaLimits:
    """Limits of input and output. Every current model API accepts the defaults."""

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
"""How many bytes of a file `detect_kind` wants; a PDF may have some before its mark, and then is not one here."""


def detect_kind(head: bytes) -> str | None:
    """Return the MIME type of an image or PDF by its first bytes; None for every other file."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return "application/pdf" if head.startswith(b"%PDF-") else None
