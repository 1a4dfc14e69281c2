"""Read of pictures, PDF pages, notebooks and outlines, through a session."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from handrail import Result, Session
from tests.media.test_images import noise, saved
from tests.media.test_pdf import make_pdf

pytestmark = pytest.mark.slow  # starts many processes

MakeSession = Callable[..., Session]
Read = Callable[..., Result]


@pytest.fixture
def read(make_session: MakeSession, tmp_path: Path) -> Read:
    session = make_session(durable=False)

    def call(name: str, raw: bytes, **arguments: Any) -> Result:
        (tmp_path / name).write_bytes(raw)
        return session.call("Read", {"file_path": name, **arguments})

    return call


def opened(block: Any) -> Image.Image:
    assert block["type"] == "image"
    image = Image.open(io.BytesIO(base64.b64decode(block["base64"])))
    image.load()
    assert Image.MIME[image.format or ""] == block["mime_type"]
    return image


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_an_image_is_shown_whatever_its_name(read: Read, form: str) -> None:
    result = read("note.txt", saved(noise(40, 30), form))
    assert result.status == "ok"
    assert "40 x 30" in result.text
    assert result.blocks[0] == {"type": "text", "text": result.text}
    assert opened(result.blocks[1]).size == (40, 30)
    assert (result.data["width"], result.data["height"]) == (40, 30)


def test_a_large_image_is_brought_to_size_and_says_so(read: Read) -> None:
    result = read("big.png", saved(Image.new("RGB", (4000, 2000)), "PNG"))
    assert max(opened(result.blocks[1]).size) <= 1568
    assert "4000 x 2000" in result.text


def test_an_svg_is_text(read: Read) -> None:
    result = read("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>\n")
    assert "<svg" in result.text
    assert len(result.blocks) == 1


@pytest.mark.parametrize(
    ("name", "raw", "code"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0", "bad_image"),
        ("a.jpg", saved(noise(20, 20), "JPEG")[:30], "bad_image"),
        ("a.pdf", b"%PDF-1.7\nnothing of the kind", "bad_pdf"),
    ],
)
def test_a_corrupt_file_is_a_clear_error_and_may_be_written_over(
    make_session: MakeSession, tmp_path: Path, name: str, raw: bytes, code: str
) -> None:
    session = make_session(durable=False)
    (tmp_path / name).write_bytes(raw)
    assert session.call("Write", {"file_path": name, "content": "new\n"}).error
    result = session.call("Read", {"file_path": name})
    assert result.error and result.error.code == code
    assert name in result.text
    assert session.call("Write", {"file_path": name, "content": "new\n"}).status == "ok"
    assert (tmp_path / name).read_bytes() == b"new\n"


def test_an_image_that_was_looked_at_may_be_written_over_but_not_if_it_changed(
    make_session: MakeSession, tmp_path: Path
) -> None:
    session = make_session(durable=False)
    path = tmp_path / "a.png"
    path.write_bytes(saved(noise(9, 9), "PNG"))
    assert session.call("Read", {"file_path": "a.png"}).status == "ok"
    path.write_bytes(saved(noise(8, 8), "PNG"))
    refused = session.call("Write", {"file_path": "a.png", "content": "x"})
    assert refused.error and refused.error.code == "changed_since"
    session.call("Read", {"file_path": "a.png"})
    assert session.call("Write", {"file_path": "a.png", "content": "x"}).status == "ok"


def test_pages_of_a_pdf_have_text_and_a_picture_each(read: Read) -> None:
    raw = make_pdf(*(f"Page number {number}" for number in range(1, 8)))
    result = read("a.pdf", raw, pages="2-3")
    assert result.data == {"pages": [2, 3], "total_pages": 7}
    assert "Page number 2" in result.text and "Page number 3" in result.text and "Page number 4" not in result.text
    assert [opened(block).format for block in result.blocks[1:]] == ["PNG", "PNG"]
    assert result.status == "ok"
    assert read("a.pdf", raw, pages="7").data["pages"] == [7]
    assert read("a.pdf", raw, pages="6-").data["pages"] == [6, 7]


def test_without_pages_the_first_are_shown_and_the_way_on_is_named(read: Read) -> None:
    result = read("a.pdf", make_pdf(*("x" for _ in range(7))))
    assert result.status == "partial"
    assert result.data["pages"] == [1, 2, 3, 4, 5]
    assert 'pages="6-7"' in result.text
    assert read("b.pdf", make_pdf("only")).status == "ok"


@pytest.mark.parametrize("pages", ["0", "3-2", "1-21", "x", "9", ""])
def test_pages_that_cannot_be_are_refused(read: Read, pages: str) -> None:
    result = read("a.pdf", make_pdf("one", "two"), pages=pages)
    assert result.error and result.error.code == "bad_pages"


def book(*cells: dict[str, Any]) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)}).encode()


def cell(source: str, *outputs: dict[str, Any], id: str = "c1") -> dict[str, Any]:
    return {
        "cell_type": "code", "id": id, "metadata": {}, "source": source, "outputs": list(outputs),
        "execution_count": None,
    }  # fmt: skip


def test_a_notebook_is_shown_as_cells_with_ids_and_outputs(read: Read) -> None:
    picture = base64.b64encode(saved(noise(12, 10), "PNG")).decode()
    shown = {"output_type": "display_data", "metadata": {}, "data": {"image/png": picture}}
    printed = {"output_type": "stream", "name": "stdout", "text": "printed\n"}
    result = read("a.ipynb", book(cell("x = 1\nprint(x)", printed, shown), cell("y = 2", id="c2")))
    assert result.data["cells"] == [{"id": "c1", "type": "code"}, {"id": "c2", "type": "code"}]
    assert all(part in result.text for part in ("x = 1", "print(x)", "printed", "c1", "c2", "y = 2"))
    assert opened(result.blocks[1]).size == (12, 10)


def test_a_notebook_with_a_broken_picture_is_shown_without_it(read: Read) -> None:
    shown = {"output_type": "display_data", "metadata": {}, "data": {"image/png": base64.b64encode(b"no").decode()}}
    result = read("a.ipynb", book(cell("x = 1", shown)))
    assert result.error is None and "x = 1" in result.text
    assert len(result.blocks) == 1


def test_rows_of_a_notebook_come_in_pages(read: Read) -> None:
    raw = book(cell("\n".join(f"line{number}" for number in range(30))))
    first = read("a.ipynb", raw, limit=10)
    assert "line29" not in first.text
    following = next(word for word in first.text.split("offset=")[1].split(")"))
    assert "line29" in read("a.ipynb", raw, offset=int(following)).text
    past = read("a.ipynb", raw, offset=1000)
    assert past.error and past.error.code == "past_end"


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"cells": 3}', b"not json", b"\xff\xfe\x00"])
def test_what_is_no_notebook_is_read_as_what_it_is(read: Read, raw: bytes) -> None:
    result = read("a.ipynb", raw)
    assert result.error is None or result.error.code == "binary_file"


def test_an_outline_lists_symbols_with_their_lines(read: Read) -> None:
    result = read("a.py", b"import os\n\nclass A:\n    def m(self):\n        pass\n", outline=True)
    assert result.text == "a.py: 5 lines.\n3-5\tclass A:\n4-5\t  def m(self):"
    assert result.data["symbols"][1] == {"first": 4, "last": 5, "label": "def m(self):", "level": 1}


def test_an_outline_comes_in_parts(read: Read) -> None:
    raw = b"".join(b"def f%d(): ...\n" % number for number in range(30))
    first = read("a.py", raw, outline=True, limit=10)
    assert first.status == "partial" and "offset=11" in first.text
    assert read("a.py", raw, outline=True, offset=21).data["symbols"][0]["first"] == 21


@pytest.mark.parametrize(
    ("name", "raw", "code"),
    [
        ("a.csv", b"1,2\n", "no_outline"),
        ("a.py", b"\0\0\0\1", "binary_file"),
        ("a.md", b"x" * (21 << 20), "no_outline"),
    ],
)
def test_what_cannot_be_outlined_is_refused(read: Read, name: str, raw: bytes, code: str) -> None:
    result = read(name, raw, outline=True)
    assert result.error and result.error.code == code
