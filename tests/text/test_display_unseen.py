"""Characters that cannot be seen are named, and those that belong to a script or to an emoji are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.text.display import find_unseen
from tests.sizes import spread

UNSEEN = (
    *(0x00, 0x07, 0x08, 0x1B, 0x7F, 0x9B, 0xAD, 0x061C, 0x115F, 0x180E, 0x200B, 0x200E, 0x200F, 0x2060, 0x3164, 0xFEFF),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xE0020, 0xE0080),
    *range(0xE0100, 0xE01F0),
)


AROUND = ("{}", "a{}b", "  {}", "if x:{}  # ok", "ä{}")


@pytest.mark.parametrize("around", AROUND)
def test_each_invisible_character_is_named(around: str) -> None:
    for code in UNSEEN:
        assert find_unseen(around.format(chr(code))) == [f"U+{code:04X}"], hex(code)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "\tindented",
        "ümlaut",
        "page\f",
        "👩‍💻 family 👨‍👩‍👧",
        "می‌خواهم",
        "日本語",
        "x\u0301",
        "❤️",
        "x\u00a0y",
        "\x85",
    ],
)
def test_usual_text_has_none(text: str) -> None:
    assert find_unseen(text) == []


def test_joiners_between_letters_of_ascii_are_named() -> None:
    assert find_unseen("pass\u200dword") == ["U+200D"]


@pytest.mark.parametrize("around", AROUND)
def test_read_marks_each_of_them(around: str, tmp_path: Path, make_session: Callable[..., Session]) -> None:
    session = make_session()
    codes = [code for code in UNSEEN if code]  # a file with a NUL is shown as binary
    assert len(codes) * len(AROUND) >= 200
    unmarked = []
    for code in spread(codes, 30):
        (tmp_path / "a.txt").write_text(f"plain\n{around.format(chr(code))}x\n", encoding="utf-8")
        text = session.call("Read", {"file_path": "a.txt"}).text
        unmarked += [] if f"in line 2: U+{code:04X})" in text else [(hex(code), text)]
    assert unmarked == []


def test_read_names_the_lines(tmp_path: Path, make_session: Callable[..., Session]) -> None:
    (tmp_path / "a.py").write_text("one\naccess = 'user\u202e \u2066// admin'\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("plain\n", encoding="utf-8")
    (tmp_path / "c.py").write_text("\u200b\n" * 30, encoding="utf-8")
    session = make_session()
    text = session.call("Read", {"file_path": "a.py"}).text
    assert text.endswith("\n(invisible or control characters in line 2: U+202E, U+2066)")
    assert "invisible" not in session.call("Read", {"file_path": "b.py"}).text
    assert session.call("Read", {"file_path": "c.py"}).text.endswith("line 10: U+200B; 20 more lines)")
