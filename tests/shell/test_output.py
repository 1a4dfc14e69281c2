"""What a command printed, as a reader sees it: cleaned, bounded, never an exception."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.shell.runner import output
from handrail.shell.runner.output import OutputView, clean, find_cut, read_pieces, view
from tests import sizes

Look = Callable[..., OutputView]


@pytest.fixture
def look(tmp_path: Path) -> Iterator[Look]:
    fds: list[int] = []

    def make(raw: bytes, head: int, tail: int, start: int = 0) -> OutputView:
        (tmp_path / "log").write_bytes(raw)
        fds.append(os.open(tmp_path / "log", os.O_RDONLY))
        return view(fds[-1], head, tail, start)

    yield make
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (b"plain\n", "plain\n"),
        (b"tab\there\n", "tab\there\n"),
        ("grüße 你好\n".encode(), "grüße 你好\n"),
        (b"\x1b[1;31mred\x1b[0m\n", "red\n"),
        (b"\x1b]0;title\x07text\n", "text\n"),
        (b"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
        (b"\x1b(Bcharset\x1bM\n", "charset\n"),
        (b"\x1bPq#0;2;0;0;0\x1b\\picture\n", "picture\n"),
        (b"\x1b[38;5;1", ""),
        (b" 10%\r 50%\r100%\n", "100%\n"),
        (b"long line\rshort\x1b[K\n", "short\n"),
        (b"long line\rshort\n", "shortline\n"),
        (b"old\x1b[2K\rnew\n", "new\n"),
        (b"old text\r\x1b[2Knew\n", "new\n"),
        (b"dos\r\n", "dos\n"),
        (b"dos\r\r\n", "dos\n"),
        (b"waiting\r", "waiting"),
        (b"N\bNA\bAM\bM_\bx\n", "NAMx\n"),
        (b"\b\bstart\n", "start\n"),
        (b"bell\a\n", "bell\n"),
        (b"nul\0 and \x01\x7f\n", "nul\\x00 and \\x01\\x7f\n"),
        (b"bad \xff\xfe byte \xc3\n", "bad \ufffd\ufffd byte \ufffd\n"),
        ("c1 \x9b31m\n".encode(), "c1 \\x9b31m\n"),
        (b"", ""),
    ],
)
def test_a_line_is_shown_as_a_terminal_would_leave_it(raw: bytes, seen: str) -> None:
    assert clean(raw) == seen


@given(st.binary(max_size=400))
def test_any_bytes_can_be_shown(raw: bytes) -> None:
    text = clean(raw)
    assert not any((ord(char) < 32 and char not in "\t\n") or 0x7F <= ord(char) <= 0x9F for char in text)
    text.encode("utf-8")


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=200))
def test_plain_text_is_not_touched(text: str) -> None:
    assert clean(text.encode()) == text


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=2, max_size=50), st.integers(1, 200))
def test_a_cut_never_tears_a_character(text: str, at: int) -> None:
    raw = b"x" + text.encode()[:at]
    cut = find_cut(raw)
    assert len(raw) - 4 < cut <= len(raw)
    raw[:cut].decode("utf-8")


@pytest.mark.parametrize("escape", [b"\x1b", b"\x1b[", b"\x1b[31", b"\x1b]0;tit", b"\x1b(", b"\x1bPabc"])
def test_a_cut_never_tears_an_escape_sequence(escape: bytes) -> None:
    assert find_cut(b"text" + escape) == 4


def test_a_short_log_is_shown_whole(look: Look) -> None:
    seen = look(b"a\nb\n", 100, 100)
    assert (seen.text(), seen.truncated, seen.omitted_bytes, seen.omitted_lines) == ("a\nb\n", False, 0, 0)


def test_the_middle_of_a_long_log_is_left_out_and_counted(look: Look) -> None:
    raw = "".join(f"line {number:04}\n" for number in range(1000)).encode()
    seen = look(raw, 20, 30)
    assert (seen.head, seen.tail) == ("line 0000\nline 0001\n", "line 0997\nline 0998\nline 0999\n")
    assert (seen.omitted_lines, seen.omitted_bytes, seen.size) == (995, 9950, 10000)
    assert seen.text("[cut]\n").count("[cut]\n") == 1


@pytest.mark.parametrize(("head", "tail"), [(0, 30), (20, 0), (0, 0), (25, 35)])
def test_a_huge_log_gives_the_same_beginning_and_end_as_a_small_one(look: Look, head: int, tail: int) -> None:
    count = output.WHOLE // 10 + 1000
    raw = "".join(f"{number:09}\n" for number in range(count)).encode()
    seen = look(raw, head, tail)
    text = raw.decode()
    assert seen.head == text[:head] and seen.tail == text[len(text) - tail :]
    assert seen.omitted_bytes == len(raw) - head - tail
    whole_lines = raw[head : len(raw) - tail].count(b"\n")
    assert seen.omitted_lines is not None and whole_lines <= seen.omitted_lines <= whole_lines + 2


def test_an_endless_line_is_shown_by_its_two_ends(look: Look) -> None:
    seen = look("ä".encode() * 5_000_000 + b"end", 10, 10)
    assert (seen.head, seen.tail) == ("ä" * 10, "ä" * 7 + "end")
    assert seen.omitted_bytes == 10_000_003 - 20 - 17


def test_binary_output_is_bounded(look: Look) -> None:
    seen = look(bytes(range(256)) * 40_000, 100, 100)
    assert len(seen.head) == len(seen.tail) == 100 and seen.truncated
    assert look(b"\0" * 6_000_000, 40, 40).head == "\\x00" * 10


def test_endless_progress_shows_its_last_state(look: Look) -> None:
    raw = b"".join(b"\r\x1b[K%d of 1000000" % number for number in range(400_000)) + b"\rdone\x1b[K\n"
    assert look(raw, 50, 50).tail.endswith("done\n")


def test_what_is_too_much_to_count_is_not_counted(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "COUNTED", 1000)
    assert look(b"line\n" * 1_000_000, 10, 10).omitted_lines is None


def test_a_view_may_begin_in_the_middle(look: Look) -> None:
    assert look(b"first\nsecond\n", 100, 0, start=6).text() == "second\n"


@settings(max_examples=sizes.pick(16, 50))
@given(st.binary(max_size=3000), st.integers(4, 200))
def test_the_pieces_are_the_log(raw: bytes, size: int) -> None:
    fd = os.memfd_create("log") if hasattr(os, "memfd_create") else -1
    if fd < 0:
        pytest.skip("no file in memory on this system")
    old = output.PIECE
    try:
        os.write(fd, raw)
        output.PIECE = size
        actual = list(read_pieces(fd, 0, len(raw)))
    finally:
        output.PIECE = old
        os.close(fd)
    assert b"".join(piece for _, piece in actual) == raw
    assert all(piece for _, piece in actual)
    at = 0
    for behind, piece in actual:
        at += len(piece)
        assert behind == at and b"\n" not in piece[:-1]
