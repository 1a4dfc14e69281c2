"""PDF pages: text and pictures of the pages asked for, whatever the file claims of itself."""

from __future__ import annotations

import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handrail.errors import ToolError
from handrail.media import BadPages, BadPdf, MediaLimits
from handrail.media.pdf import PdfExcerpt, count, page_range, read_pages
from tests import sizes
from tests.command import TIMEOUT
from tests.media.test_images import damaged, reopened

Open = Callable[[bytes], tuple[int, int]]
_FONT = b"/Resources << /Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"


def stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries, len(data), data)


def written(objects: list[bytes], trailer: bytes = b"") -> bytes:
    """A PDF with these objects, numbered from 1; the first one is the catalogue."""
    out, places = b"%PDF-1.7\n", []
    parts = [out]
    at = len(out)
    for number, body in enumerate(objects, 1):
        places.append(at)
        parts.append(b"%d 0 obj\n%s\nendobj\n" % (number, body))
        at += len(parts[-1])
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table))
    parts.append(b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, at))
    return b"".join(parts)


def make_pdf(
    *texts: str, box: bytes = b"0 0 612 792", total: int | None = None, extra: bytes = b"", trailer: bytes = b""
) -> bytes:
    """A PDF with one page a text."""
    kids = b" ".join(b"%d 0 R" % (3 + 2 * number) for number in range(len(texts)))
    number = len(texts) if total is None else total
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, number)]
    for index, text in enumerate(texts):
        body = b"BT /F 24 Tf 72 700 Td (%s) Tj ET" % text.encode("latin-1")
        page = b"/Type /Page /Parent 2 0 R /MediaBox [%s] /Contents %d 0 R %s %s" % (box, 4 + 2 * index, _FONT, extra)
        objects += [b"<< " + page + b" >>", stream(body)]
    return written(objects, trailer)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    held: list[int] = []

    def put(raw: bytes) -> tuple[int, int]:
        path = tmp_path / f"{len(held)}.pdf"
        path.write_bytes(raw)
        held.append(os.open(path, os.O_RDONLY))
        return held[-1], len(raw)

    yield put
    for fd in held:
        os.close(fd)


def facts(kind: type[ToolError], call: Callable[[], Any]) -> dict[str, Any]:
    with pytest.raises(kind) as caught:
        call()
    return caught.value.facts


@pytest.mark.parametrize(
    ("named", "meant"),
    [("3", (3, 3)), ("1-5", (1, 5)), (" 2 - 4 ", (2, 4)), ("10-", (10, None)), ("7-26", (7, 26)), ("5-5", (5, 5))],
)
def test_a_range_of_pages_is_understood(named: str, meant: tuple[int, int | None]) -> None:
    assert page_range(named) == meant


@pytest.mark.parametrize(
    ("named", "fact"),
    [
        ("", ("malformed", True)),
        ("abc", ("malformed", True)),
        ("1,3", ("malformed", True)),
        ("-5", ("malformed", True)),
        ("1-2-3", ("malformed", True)),
        ("1.5", ("malformed", True)),
        ("٣", ("malformed", True)),
        ("9" * 5000, ("malformed", True)),
        ("0", ("zero", True)),
        ("0-5", ("zero", True)),
        ("5-1", ("swapped", "1-5")),
        ("1-21", ("part", "1-20")),
        ("100-999999999", ("part", "100-119")),
    ],
)
def test_a_range_that_means_nothing_is_told_how_to_mend(named: str, fact: tuple[str, Any]) -> None:
    reported = facts(BadPages, lambda: page_range(named))
    assert reported[fact[0]] == fact[1]
    assert len(reported["pages"]) <= 80


def test_each_page_comes_as_text_and_as_a_picture(opened: Open) -> None:
    actual = read_pages(*opened(make_pdf("one", "two words", "three")), 2, 3)
    assert actual.total == 3
    assert [(page.number, page.text.strip(), page.problem, page.left) for page in actual.pages] == [
        (2, "two words", "", 0),
        (3, "three", "", 0),
    ]
    for page in actual.pages:
        assert page.picture and page.picture.mime_type == "image/png"
        image = reopened(page.picture).convert("L")
        assert image.size == (1212, 1568)
        assert image.getextrema() == (0, 255)  # black on white: something was drawn


def test_an_open_range_gives_as_many_pages_as_one_request_may_have(opened: Open) -> None:
    file = opened(make_pdf(*"abcdefg"))
    assert [page.number for page in read_pages(*file, 3, None).pages] == [3, 4, 5, 6, 7]
    actual = read_pages(*file, 3, None, MediaLimits(pages=2))
    assert ([page.number for page in actual.pages], actual.total) == ([3, 4], 7)
    assert count(*file) == 7


def test_pages_beyond_the_end_are_refused_with_their_number(opened: Open) -> None:
    file = opened(make_pdf("one", "two"))
    for first, last, named, part in [(3, 3, "3", "1-2"), (2, 4, "2-4", "2"), (9, None, "9-", "1-2")]:
        reported = facts(BadPages, partial(read_pages, *file, first, last))
        assert reported == {"pages": named, "total": 2, "part": part}
    assert "count" in facts(BadPages, lambda: read_pages(*file, 1, 21))
    assert "zero" in facts(BadPages, lambda: read_pages(*file, 0, 1))


@pytest.mark.parametrize(
    "box",
    [b"0 0 14400 14400", b"0 0 99999999 99999999", b"0 0 0 0", b"9 9 1 1", b"0 0 1e30 5", b"0 0 20000 0.01", b"x"],
)
def test_a_page_of_any_size_is_drawn_within_bounds(opened: Open, box: bytes) -> None:
    (page,) = read_pages(*opened(make_pdf("text", box=box, extra=b"/UserUnit 75000")), 1, 1).pages
    assert page.picture or page.problem
    if page.picture:
        assert min(page.picture.width, page.picture.height) >= 1
        assert max(page.picture.width, page.picture.height) <= 1568


def test_a_small_page_is_not_blown_up(opened: Open) -> None:
    (page,) = read_pages(*opened(make_pdf("x", box=b"0 0 36 72")), 1, 1, MediaLimits(dots_per_inch=100)).pages
    assert page.picture
    assert (page.picture.width, page.picture.height) == (50, 100)


def test_text_beyond_the_limit_is_cut_and_counted(opened: Open) -> None:
    (page,) = read_pages(*opened(make_pdf("abcdefghij")), 1, 1, MediaLimits(page_chars=4)).pages
    assert (page.text, page.left) == ("abcd", 6)


def test_a_hundred_thousand_pages_are_no_trouble(opened: Open) -> None:
    kids = b" ".join(b"%d 0 R" % number for number in range(3, 100_003))
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 72 72] >>"
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [%s] /Count 100000 >>" % kids]
    file = opened(written([*objects, *[page] * 100_000]))
    assert count(*file) == 100_000
    assert [one.number for one in read_pages(*file, 99_990, 99_992).pages] == [99_990, 99_991, 99_992]


@pytest.mark.parametrize("total", [0, -3, 5, 2_000_000_000])
def test_a_wrong_number_of_pages_is_survived(opened: Open, total: int) -> None:
    file = opened(make_pdf("one", total=total))
    assert read_pages(*file, 1, 1).pages[0].text.strip() == "one"
    if total == 5:
        assert facts(BadPdf, lambda: read_pages(*file, 2, 3))["page"] == 2
        assert [bool(page.problem) for page in read_pages(*file, 1, 2).pages] == [False, True]


_LOCKED = b"/ID [<00> <00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (b"41" * 32, b"42" * 32)


@pytest.mark.parametrize(
    ("raw", "fact"),
    [
        (b"", "broken"),
        (b"%PDF-1.7\n", "broken"),
        (b"%PDF-1.7\n" + bytes(5000), "broken"),
        (written([b"<< /Type /Catalog >>"]), "broken"),
        (make_pdf(), "broken"),
        (make_pdf("secret", trailer=_LOCKED), "password"),
    ],
    ids=["empty", "head", "zeros", "no pages", "0 pages", "password"],
)
def test_a_pdf_that_cannot_be_opened_is_a_bad_pdf(opened: Open, raw: bytes, fact: str) -> None:
    file = opened(raw)
    assert facts(BadPdf, lambda: read_pages(*file, 1, 1))[fact]
    assert facts(BadPdf, lambda: count(*file))[fact]


def test_a_pdf_over_the_limit_is_not_opened(opened: Open) -> None:
    file = opened(make_pdf("one"))
    reported = facts(BadPdf, lambda: count(*file, MediaLimits(pdf_bytes=100)))
    assert reported == {"size": file[1], "most_bytes": 100}


def laughing(levels: int, before: int = 0) -> bytes:
    """A PDF whose last page draws a form ten times, which draws another ten times, and so on; plain pages before it."""
    names = [b"%d 0 R" % (3 + number) for number in range(before + 1)]
    kids = b" ".join(names)
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, before + 1)]
    objects += [b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 72 72] >>"] * before
    at = len(objects) + 2  # the number of the page's contents
    use = b"/Resources << /XObject << /F %d 0 R >> >>"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 72 72] /Contents %d 0 R %s >>"
    objects += [page % (at, use % (at + 1)), stream(b"/F Do")]
    for level in range(levels):
        body = b"/F Do " * 10 if level < levels - 1 else b"0 0 9 9 re f"
        objects.append(stream(body, b"/Subtype /Form /BBox [0 0 72 72] " + use % (at + 2 + level)))
    return written(objects)


def test_a_page_that_would_take_years_is_given_up(opened: Open) -> None:
    assert read_pages(*opened(laughing(2)), 1, 1).pages[0].picture
    reported = facts(BadPdf, lambda: read_pages(*opened(laughing(30)), 1, 1, MediaLimits(seconds=2)))
    # Its time or its memory ends it, whichever this machine comes to first.
    assert reported in ({"page": 1, "seconds": 2}, {"page": 1, "crashed": True})


def test_pages_that_were_finished_before_that_are_kept(opened: Open) -> None:
    actual = read_pages(*opened(laughing(30, before=2)), 1, 3, MediaLimits(seconds=4))
    assert [page.number for page in actual.pages] == [1, 2]
    assert actual.stopped in ("late", "crashed")  # its time or its memory was up, whichever came first


def gigabytes(entries: bytes) -> bytes:
    """A stream that is short in the file and 900 MB long when it is unpacked."""
    squeeze = zlib.compressobj(9)
    once = b"".join(squeeze.compress(bytes(1_000_000)) for _ in range(900)) + squeeze.flush()
    return stream(zlib.compress(once), entries + b" /Filter [/FlateDecode /FlateDecode]")


@pytest.mark.long
def test_an_image_of_gigabytes_inside_a_page_is_drawn_small(opened: Open) -> None:
    page = b"/Type /Page /Parent 2 0 R /MediaBox [0 0 72 72] /Contents 4 0 R /Resources << /XObject << /I 5 0 R >> >>"
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>", b"<< %s >>" % page]
    image = gigabytes(b"/Subtype /Image /Width 30000 /Height 30000 /ColorSpace /DeviceGray /BitsPerComponent 8")
    (actual,) = read_pages(*opened(written([*objects, stream(b"72 0 0 72 0 0 cm /I Do"), image])), 1, 1).pages
    assert actual.picture
    assert (actual.picture.width, actual.picture.height) == (200, 200)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the address space of a process")
@pytest.mark.long
def test_a_page_that_takes_all_memory_ends_the_child_and_nothing_else(opened: Open) -> None:
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 72 72] /Contents 4 0 R >>"
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>", page]
    file = opened(written([*objects, gigabytes(b"")]))
    assert facts(BadPdf, lambda: read_pages(*file, 1, 1)) == {"page": 1, "crashed": True}


def test_threads_can_read_pdfs_at_the_same_time(opened: Open) -> None:
    file = opened(make_pdf("one", "two", "three", "four"))
    collected: list[PdfExcerpt] = []
    threads = [threading.Thread(target=lambda: collected.append(read_pages(*file, 1, 4))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert len(collected) == 4
    assert len(set(collected)) == 1


@settings(
    max_examples=sizes.pick(15, 40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    cut=st.none() | st.integers(0, 10_000),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=8),
)
def test_a_damaged_pdf_is_pages_or_a_bad_pdf(tmp_path: Path, cut: int | None, flips: list[tuple[int, int]]) -> None:
    raw = damaged(make_pdf("one", "two"), cut, flips)
    (tmp_path / "damaged.pdf").write_bytes(raw)
    fd = os.open(tmp_path / "damaged.pdf", os.O_RDONLY)
    try:
        actual = read_pages(fd, len(raw), 1, 1, MediaLimits(seconds=10))
    except (BadPdf, BadPages):
        return
    finally:
        os.close(fd)
    assert [page.number for page in actual.pages] == [1]
