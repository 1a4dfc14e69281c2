"""Images and PDF pages: what goes out is small, clean and decodable; what comes in can do no harm."""

from __future__ import annotations

import io
import os
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from handrail.media import BadImage, MediaLimits, detect_kind
from handrail.media.image_decoder import decode_image
from handrail.media.images import Picture, read_picture
from tests import sizes
from tests.command import TIMEOUT

Shown = Callable[..., Picture]


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    return Image.frombytes(mode, (width, height), random.Random(7).randbytes(width * height * len(mode)))


def reopened(shot: Picture) -> Image.Image:
    image = Image.open(io.BytesIO(shot.raw))
    image.load()
    assert Image.MIME[image.format or ""] == shot.mime_type
    assert image.size == (shot.width, shot.height)
    return image


def png(width: int, height: int, data: bytes = b"", depth: int = 8, colour: int = 2) -> bytes:
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)),
        (b"IDAT", data),
        (b"IEND", b""),
    ]
    body = b"".join(
        struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part)) for name, part in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[bytes], tuple[int, int]]]:
    """Bytes as an open file and its size."""
    held: list[int] = []

    def put(raw: bytes) -> tuple[int, int]:
        path = tmp_path / str(len(held))
        path.write_bytes(raw)
        held.append(os.open(path, os.O_RDONLY))
        return held[-1], len(raw)

    yield put
    for fd in held:
        os.close(fd)


@pytest.fixture
def shown(opened: Callable[[bytes], tuple[int, int]]) -> Shown:
    return lambda raw, **limits: read_picture(*opened(raw), MediaLimits(**limits))


@pytest.mark.parametrize(
    ("form", "mime"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/gif"), ("WEBP", "image/webp")]
)
def test_a_kind_is_told_by_the_first_bytes(form: str, mime: str) -> None:
    assert detect_kind(saved(Image.new("RGB", (3, 3)), form)[:16]) == mime


@pytest.mark.parametrize(
    "head", [b"", b"<svg xmlns=", b"\x89PNG", b"RIFF\0\0\0\0WAVE", b"BM\0\0", b"import os", b"%PD"]
)
def test_everything_else_has_no_kind(head: bytes) -> None:
    assert detect_kind(head) is None
    assert detect_kind(b"%PDF-1.7\n") == "application/pdf"


@pytest.mark.parametrize(
    ("image", "form", "mime"),
    [
        (Image.new("RGB", (40, 20), "red"), "PNG", "image/png"),
        (Image.new("1", (40, 20), 1), "PNG", "image/png"),
        (Image.new("LA", (40, 20), (9, 9)), "PNG", "image/png"),
        (noise(400, 300), "PNG", "image/png"),
        (noise(1500, 1500), "PNG", "image/jpeg"),
        (noise(400, 300, "RGBA"), "PNG", "image/png"),
        (Image.new("RGB", (40, 20), "red"), "JPEG", "image/jpeg"),
        (Image.new("CMYK", (40, 20)), "JPEG", "image/jpeg"),
        (Image.new("L", (40, 20), 7), "JPEG", "image/jpeg"),
        (Image.new("P", (40, 20)), "GIF", "image/gif"),
        (Image.new("RGBA", (40, 20), (1, 2, 3, 4)), "WEBP", "image/webp"),
    ],
    ids=lambda value: value.mode if isinstance(value, Image.Image) else str(value),
)
def test_an_image_keeps_its_format_unless_it_is_too_long_in_it(
    shown: Shown, image: Image.Image, form: str, mime: str
) -> None:
    shot = shown(saved(image, form))
    assert shot.mime_type == mime
    assert (shot.width, shot.height, shot.frames, shot.changed) == (*image.size, 1, False)
    reopened(shot)


def test_what_can_be_seen_through_stays_so(shown: Shown) -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([255, 0, 0, 0, 255, 0])
    image.putpixel((3, 3), 1)
    result = reopened(shown(saved(image, "PNG", transparency=0)))
    assert result.mode == "RGBA"
    assert [result.getpixel(at) for at in ((0, 0), (3, 3))] == [(255, 0, 0, 0), (0, 255, 0, 255)]


def test_an_alpha_channel_that_hides_nothing_is_dropped(shown: Shown) -> None:
    assert reopened(shown(saved(Image.new("RGBA", (8, 8), "blue"), "PNG"))).mode == "RGB"


def test_sixteen_bits_keep_their_shades(shown: Shown) -> None:
    image = Image.new("I;16", (3, 1))
    for x, value in enumerate((0, 32768, 65535)):
        image.putpixel((x, 0), value)
    assert list(reopened(shown(saved(image, "PNG"))).tobytes()) == [0, 128, 255]
    row = b"\0" + struct.pack(">HHH", 65535, 32768, 0)
    assert reopened(shown(png(1, 1, zlib.compress(row), depth=16))).getpixel((0, 0)) == (255, 128, 0)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_an_image_is_scaled_down_to_the_longest_side(shown: Shown, form: str) -> None:
    shot = shown(saved(Image.new("RGB", (4000, 1000), "red"), form))
    assert (shot.width, shot.height) == (1568, 392)
    assert (shot.original_width, shot.original_height, shot.changed) == (4000, 1000, True)
    red, green, blue = reopened(shot).convert("RGB").getpixel((700, 200))  # type: ignore[misc]
    assert red > 250 and green < 5 and blue < 5


def test_a_thread_of_pixels_keeps_one_at_least(shown: Shown) -> None:
    shot = shown(saved(Image.new("RGB", (20_000, 1)), "PNG"))
    assert (shot.width, shot.height) == (1568, 1)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_an_image_that_cannot_be_packed_is_made_smaller_until_it_fits(shown: Shown, mode: str) -> None:
    shot = shown(saved(noise(600, 600, mode), "PNG"), encoded_bytes=20_000)
    assert len(shot.raw) <= 20_000
    assert 20 < shot.width < 600
    reopened(shot)
    with pytest.raises(BadImage) as caught:
        shown(saved(noise(600, 600, mode), "PNG"), encoded_bytes=5)
    assert caught.value.facts["most_encoded"] == 5


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_a_photo_stands_as_it_was_taken(shown: Shown, form: str, orientation: int) -> None:
    upright = Image.new("RGB", (64, 32), "white")
    upright.paste("black", (0, 0, 32, 16))
    exif = Image.Exif()
    exif[0x0112] = orientation
    back = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}.get(orientation)  # what the camera did: the reverse of it
    stored = upright if back is None else upright.transpose(Image.Transpose(back))
    shot = shown(saved(stored, form, exif=exif))
    assert (shot.original_width, shot.original_height, shot.changed) == (64, 32, False)
    result = reopened(shot).convert("L")
    dark = [result.getpixel(at) < 128 for at in ((8, 8), (56, 8), (8, 24), (56, 24))]  # type: ignore[operator]
    assert dark == [True, False, False, False]


def test_nothing_of_the_file_but_its_pixels_goes_out(shown: Shown) -> None:
    from PIL.PngImagePlugin import PngInfo

    image, secret = Image.new("RGB", (9, 9), "red"), b"SECRET-4711"
    exif = Image.Exif()
    exif[0x010E] = secret.decode()
    info = PngInfo()
    info.add_text("note", secret.decode())
    files = [
        saved(image, "PNG", pnginfo=info, exif=exif, icc_profile=secret * 20) + secret,
        saved(image, "JPEG", comment=secret, exif=exif, icc_profile=secret * 20) + b"<script>" + secret,
        saved(image.convert("P"), "GIF", comment=secret) + secret,
        saved(image, "WEBP", exif=exif.tobytes(), xmp=secret),
    ]
    for raw in files:
        assert secret in raw or raw.startswith(b"\x89PNG")
        result = reopened(shown(raw))
        assert secret not in shown(raw).raw
        assert not {"icc_profile", "exif", "comment", "note", "xmp"} & set(result.info)


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_of_several_frames_the_first_is_shown_and_all_are_counted(shown: Shown, form: str) -> None:
    first, *others = (Image.new("RGB", (8, 8), colour) for colour in ("red", "green", "blue"))
    shot = shown(saved(first, form, save_all=True, append_images=others, duration=50, lossless=True))
    assert (shot.frames, shot.changed) == (3, True)
    assert reopened(shot).convert("RGB").getpixel((4, 4)) == (255, 0, 0)


def test_ten_thousand_frames_are_counted_without_being_decoded(shown: Shown) -> None:
    one = saved(Image.new("P", (500, 500)), "GIF")
    garbage = b"\x2c" + struct.pack("<HHHH", 0, 0, 500, 500) + b"\0\x08\x05\xff\xff\xff\xff\xff\0"
    assert shown(one[:-1] + garbage * 9_999 + b";").frames == 10_000
    assert shown(one[:-1] + garbage[:-1]).frames == 2  # breaks off: what was announced still counts


@pytest.mark.parametrize(
    "raw",
    [
        png(50_000, 50_000, zlib.compress(bytes(1000))),
        b"GIF89a"
        + struct.pack("<HH", 65535, 65535)
        + b"\0\0\0\x2c\0\0\0\0"
        + struct.pack("<HH", 65535, 65535)
        + b"\0\2",
        b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (16382).to_bytes(3, "little") * 2 + bytes(8),
        saved(Image.new("L", (16, 16)), "JPEG").replace(b"\x08\0\x10\0\x10", b"\x08\xff\xff\xff\xff"),
    ],
    ids=["png", "gif", "webp", "jpeg"],
)
def test_a_bomb_is_refused_by_its_header(shown: Shown, raw: bytes) -> None:
    with pytest.raises(BadImage) as caught:
        shown(raw, seconds=30)
    assert "pixels" in caught.value.facts, caught.value


def test_limits_of_bytes_and_pixels_are_exact(shown: Shown) -> None:
    raw = saved(Image.new("RGB", (10, 10)), "PNG")
    assert shown(raw, pixels=100, image_bytes=len(raw)).width == 10
    with pytest.raises(BadImage) as caught:
        shown(raw, pixels=99)
    assert caught.value.facts == {"pixels": "10 x 10", "most_pixels": 99}
    with pytest.raises(BadImage) as caught:
        shown(raw, image_bytes=len(raw) - 1)
    assert caught.value.facts == {"size": len(raw), "most_bytes": len(raw) - 1}


@pytest.mark.parametrize("raw", [b"", b"\x89PNG\r\n\x1a\n", png(0, 5), png(5, 0), png(5, 5), b"GIF89a", b"just text"])
def test_what_holds_no_picture_is_a_bad_image(shown: Shown, raw: bytes) -> None:
    with pytest.raises(BadImage) as caught:
        shown(raw)
    assert caught.value.facts


_SOURCES = [
    saved(noise(20, 20), "PNG"),
    saved(noise(20, 20), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"),
    saved(noise(20, 20), "JPEG", progressive=True),
    saved(noise(20, 20).convert("P"), "GIF", save_all=True, append_images=[noise(20, 20).convert("P")]),
    saved(noise(20, 20), "WEBP"),
    saved(noise(20, 20, "RGBA"), "WEBP", lossless=True),
]
_DAMAGE = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=6)


def damaged(raw: bytes, cut: int | None, flips: list[tuple[int, int]]) -> bytes:
    changed = bytearray(raw if cut is None else raw[: cut % (len(raw) + 1)])
    for at, bits in flips:
        if changed:
            changed[at % len(changed)] ^= bits
    return bytes(changed)


@settings(max_examples=sizes.pick(60, 400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(_SOURCES), st.none() | st.integers(0, 10_000), _DAMAGE)
def test_a_damaged_image_is_a_picture_or_a_bad_image(raw: bytes, cut: int | None, flips: list[tuple[int, int]]) -> None:
    try:
        shot = decode_image(damaged(raw, cut, flips), MediaLimits(pixels=1_000_000))
    except BadImage:
        return
    reopened(shot)
    assert max(shot.width, shot.height) <= 1568


def test_bytes_can_be_shown_too() -> None:
    raw = saved(noise(600, 600, "RGBA"), "PNG")
    assert read_picture(raw, len(raw)).width == 600


def test_the_position_of_the_descriptor_stays_where_it_was(opened: Any) -> None:
    fd, size = opened(saved(Image.new("RGB", (9, 9)), "PNG"))
    os.lseek(fd, 5, os.SEEK_SET)
    read_picture(fd, size)
    assert os.lseek(fd, 0, os.SEEK_CUR) == 5


def test_a_big_image_costs_the_session_nothing(tmp_path: Path) -> None:
    path = tmp_path / "big.png"
    path.write_bytes(saved(Image.new("RGB", (8000, 6000), "red"), "PNG", compress_level=1))
    code = """
import os, resource, sys
from handrail.media.images import read_picture
def peak(who): return resource.getrusage(who).ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1 << 10)
before = peak(resource.RUSAGE_SELF)
fd = os.open(sys.argv[1], os.O_RDONLY)
shot = read_picture(fd, os.fstat(fd).st_size)
print(shot.width, "PIL" in sys.modules, peak(resource.RUSAGE_SELF) - before, peak(resource.RUSAGE_CHILDREN))
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, encoding="utf-8", timeout=TIMEOUT
    )
    width, decoded_here, more, child = run.stdout.split()
    assert (width, decoded_here) == ("1568", "False"), run.stderr
    assert int(more) < 30
    assert int(child) < 1024
