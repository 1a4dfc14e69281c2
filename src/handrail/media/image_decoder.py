"""Decode images, scale them to a size that model APIs accept, and encode them again: the work of the child process."""

from __future__ import annotations

import errno
import io
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from handrail.errors import ToolError
from handrail.errors.extras import needs
from handrail.media import BadImage, MediaLimits, detect_kind
from handrail.media.images import Picture
from handrail.text.display import escape

with needs("media"):
    from PIL import GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
    from PIL.Image import DecompressionBombError, Image, Resampling, Transpose
    from PIL.ImageFile import ImageFile

_FEW_COLOURS = 1 << 15
"""Drawings and screenshots have fewer, photos more."""
_QUALITIES = (85, 70, 50)
_ORIENTATION = 0x0112
_BROKEN: tuple[type[BaseException], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
)
_BROKEN += (RuntimeError, SyntaxError, TypeError, ValueError, struct.error, zlib.error)
"""Exceptions of decoders for broken bytes. Any other one ends the child process, which is an error as well."""
_BAD_EXIF = (SyntaxError, ValueError, KeyError, TypeError, IndexError, EOFError, OSError, struct.error)


def to_frame(shot: Picture) -> tuple[dict[str, object], bytes]:
    """The child process's answer for an image."""
    facts = asdict(shot)
    return facts, facts.pop("raw")


def answers(fd: int, size: int, limits: MediaLimits) -> Iterator[tuple[dict[str, object], bytes]]:
    """In the child process: the one frame for an image."""
    facts, raw = to_frame(decode_image(_read_all(fd, size), limits))
    yield {"picture": facts}, raw


def _read_all(fd: int, size: int) -> bytes:
    """The first ``size`` bytes; not through the position of the descriptor, which the parent shares."""
    parts: list[bytes] = []
    at = 0
    while at < size:
        try:
            part = os.pread(fd, size - at, at)
        except OSError as error:
            if error.errno != errno.ESPIPE:
                raise
            part = os.read(fd, size - at)  # bytes that the parent holds come through a pipe
        if not part:
            break
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def decode_image(raw: bytes, limits: MediaLimits) -> Picture:
    """The picture in a file's bytes. Does the work in this process: for the child, and for tests."""
    try:
        with warnings.catch_warnings():  # Pillow warns of what is corrupt, and decodes it all the same
            warnings.simplefilter("ignore")
            return _decode(raw, limits)
    except ToolError:
        raise
    except DecompressionBombError:
        raise BadImage(pixels="far too many", most_pixels=limits.pixels) from None
    except _BROKEN as error:
        raise BadImage(broken=escape(str(error)[:200]) or type(error).__name__) from None


def _decode(raw: bytes, limits: MediaLimits) -> Picture:
    image = _open_image(raw)
    width, height = image.size
    if width < 1 or height < 1:
        raise BadImage(empty=True)
    if width * height > limits.pixels:
        raise BadImage(pixels=f"{width} x {height}", most_pixels=limits.pixels)
    own = str(image.format)
    frames = _count_gif_frames(raw) if image.format == "GIF" else getattr(image, "n_frames", 1)
    turned = _find_rotation(image)
    image.draft(None, _fit_size(width, height, limits.side))  # a JPEG is decoded small, the others know no draft
    image.load()
    plain = _fit(_simplify(image), limits.side)
    if turned is not None:
        plain = plain.transpose(turned)
        width, height = (height, width) if turned in _list_rotations() else (width, height)
    mime, out, size = encode_image(plain, limits, own)
    return Picture(mime, out, *size, width, height, frames, size != (width, height) or frames > 1)


def _open_image(raw: bytes) -> ImageFile:
    """The reader for these bytes, which knows their size now; chosen here, so that no other of Pillow's 40 can run."""
    readers: dict[str | None, type[ImageFile]] = {
        "image/png": PngImagePlugin.PngImageFile,
        "image/jpeg": JpegImagePlugin.JpegImageFile,
        "image/gif": GifImagePlugin.GifImageFile,
        "image/webp": WebPImagePlugin.WebPImageFile,
    }
    reader = readers.get(detect_kind(raw))
    if not reader:
        raise BadImage(unknown=True)
    return reader(io.BytesIO(raw))


def _count_gif_frames(raw: bytes) -> int:
    """How many images the blocks of a GIF announce, also if it breaks off; none of them is decoded."""
    frames, at = 0, 13 + _count_palette_bytes(raw[10:11])
    while at < len(raw) and raw[at] in b"\x21\x2c":
        if raw[at] == 0x2C:
            frames += 1
            at += 11 + _count_palette_bytes(raw[at + 9 : at + 10])
        else:
            at += 2
        while at < len(raw) and raw[at]:
            at += raw[at] + 1
        at += 1
    return max(1, frames)


def _count_palette_bytes(flags: bytes) -> int:
    return 3 << ((flags[0] & 7) + 1) if flags and flags[0] & 0x80 else 0


def _find_rotation(image: ImageFile) -> Any:
    """Return the rotation by EXIF data; None if there is none."""
    if "exif" not in image.info:
        return None
    try:
        orientation = image.getexif().get(_ORIENTATION)
    except _BAD_EXIF:
        return None
    return {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }.get(orientation if isinstance(orientation, int) else 0)


def _list_rotations() -> tuple[Any, ...]:
    return (Transpose.TRANSPOSE, Transpose.ROTATE_270, Transpose.TRANSVERSE, Transpose.ROTATE_90)


def _simplify(image: Image) -> Image:
    """As grey, RGB or RGBA, 8 bits a channel; with alpha only where something is transparent."""
    if image.mode.startswith("I"):
        # Pillow would cut 16 bits off at 255, so that all but the darkest is white.
        image = image.point(lambda value: value * (1 / 256)).convert("L")
    if image.has_transparency_data:
        image = image if image.mode == "RGBA" else image.convert("RGBA")
        if image.getchannel("A").getextrema() != (255, 255):
            return image
    plain = "L" if image.mode in ("1", "L") else "RGB"
    return image if image.mode == plain else image.convert(plain)


def _fit_size(width: int, height: int, side: int) -> tuple[int, int]:
    scale = min(1.0, side / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _fit(image: Image, side: int) -> Image:
    size = _fit_size(*image.size, side)
    return image if size == image.size else image.resize(size, Resampling.LANCZOS, reducing_gap=3.0)


def encode_image(image: Image, limits: MediaLimits, own: str = "") -> tuple[str, bytes, tuple[int, int]]:
    """A picture as a file: its type, its bytes and its size. In its ``own`` format if that is short enough.

    Otherwise in the one that suits it, made smaller until it is short enough.
    """
    image.info.clear()  # Pillow would write the colour profile and the comment of the old file into the new one
    while True:
        raw = b""
        for mime, raw in _encode_candidates(image, own):
            if len(raw) <= limits.encoded_bytes:
                return mime, raw, image.size
        if max(image.size) == 1:
            raise BadImage(shortest=len(raw), most_encoded=limits.encoded_bytes)
        shrink = max(0.25, 0.9 * min(1.0, (limits.encoded_bytes / len(raw)) ** 0.5))
        image, own = _fit(image, max(1, int(max(image.size) * shrink))), ""


def _encode_candidates(image: Image, own: str) -> Iterator[tuple[str, bytes]]:
    """The ways to write a picture, the best one first."""
    drawing = image.mode == "RGBA" or bool(image.getcolors(_FEW_COLOURS))
    if own in ("PNG", "GIF", "WEBP"):
        yield f"image/{own.lower()}", _encode(image, own, **({"lossless": drawing} if own == "WEBP" else {}))
    if own not in ("PNG", "JPEG") and drawing:
        yield "image/png", _encode(image, "PNG")
    if image.mode != "RGBA":
        for quality in _QUALITIES:
            yield "image/jpeg", _encode(image, "JPEG", quality=quality)


def _encode(image: Image, form: str, **options: int) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()
