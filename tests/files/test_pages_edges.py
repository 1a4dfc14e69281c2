"""Paging at its edges: files cut short, bytes that are no characters, absurd numbers, too little time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session, system_calls
from handrail.files import pages
from tests import sizes
from tests.paging import blocks, numbered, plain_lines, rows_without_gutter


@pytest.mark.parametrize("left", [0, 3, 40, 41, 500])
def test_a_file_cut_short_between_two_pages_ends_where_it_ends_now(
    make_session: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    blocks(monkeypatch, size=64)
    numbered(tmp_path / "f", 200)
    session = make_session()
    session.call("Read", {"file_path": "f", "offset": 150, "limit": 2})
    raw = (tmp_path / "f").read_bytes()[:left]
    os.truncate(tmp_path / "f", left)
    result = session.call("Read", {"file_path": "f", "offset": 152, "limit": 2})
    if left:
        assert result.error
        assert result.error.code == "past_end"
        assert f"has {len(plain_lines(raw.decode()))} line" in result.text
    else:
        assert "empty" in result.text


@pytest.mark.parametrize("offset", [1, 120, 200, -3, -150])
@pytest.mark.parametrize("moment", sizes.spread(range(1, 12), 4))
@pytest.mark.parametrize("left", [0, 37, 900])
def test_a_file_cut_short_while_it_is_read_is_no_fault_of_ours(
    make_session: Callable[..., Session],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    offset: int,
    moment: int,
    left: int,
) -> None:
    blocks(monkeypatch, size=256)
    numbered(tmp_path / "f", 200)
    whole = plain_lines((tmp_path / "f").read_text(encoding="utf-8"))
    real, calls = os.pread, 0

    def pread(fd: int, size: int, at: int) -> bytes:
        nonlocal calls
        calls += 1
        if calls == moment:
            os.truncate(tmp_path / "f", left)
        return real(fd, size, at)

    monkeypatch.setattr(os, "pread", pread)
    result = make_session().call("Read", {"file_path": "f", "offset": offset, "limit": 5})
    if result.error:
        assert result.error.code == "past_end"
        return
    rows = [row.partition("\t") for row in result.text.split("\n(")[0].split("\n")]
    for number, _, text in rows:
        if int(number) > 0:
            assert whole[int(number) - 1].startswith(text)
        else:  # counted from an end that moved, so the number says nothing
            assert any(line.startswith(text) for line in whole)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\xff\xfe" + "a\nb".encode("utf-16-le") + b"c", "b\ufffd"),
        (b"\xff\xfe" + "a\n".encode("utf-16-le") + b"\x00\xd8x\0", "\ufffdx"),
        (b"\xff\xfe\0\0" + "a\n".encode("utf-32-le") + b"\0\0\x20\0y\0\0\0", "\ufffdy"),
    ],
    ids=["half a unit at the end", "half a pair", "no code point"],
)
def test_what_is_no_character_in_a_big_wide_file_is_shown_as_one_mark(
    make_session: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bytes, shown: str
) -> None:
    blocks(monkeypatch, size=4)
    monkeypatch.setattr(pages, "_HEAD", 4)  # of a big file only the head is looked at first
    (tmp_path / "f").write_bytes(raw)
    result = make_session().call("Read", {"file_path": "f"})
    assert rows_without_gutter(result) == ["a", shown]


def test_marks_and_foreign_bytes_far_behind_the_head_are_text_of_their_page(
    make_session: Callable[..., Session], tmp_path: Path
) -> None:
    head = b"plain\n" * 400_000
    (tmp_path / "f").write_bytes(head + b"\xff\xfe marked\n\xe9t\xe9\n")
    session = make_session(legacy_encoding="cp1252")
    result = session.call("Read", {"file_path": "f", "offset": 400_001})
    assert rows_without_gutter(result) == ["ÿþ marked", "été"]
    assert result.data["encoding"] == "cp1252"
    assert session.call("Read", {"file_path": "f", "limit": 1}).data["encoding"] == "utf-8"


def test_a_foreign_byte_at_the_very_end_is_not_taken_for_the_beginning_of_a_character(
    make_session: Callable[..., Session], tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"plain\n" * 400_000 + b"Stra\xdf")
    result = make_session(legacy_encoding="cp1252").call("Read", {"file_path": "f", "offset": -1})
    assert rows_without_gutter(result) == ["Straß"]


def test_absurd_numbers_are_numbers(make_session: Callable[..., Session], tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\n", encoding="utf-8")
    session = make_session()

    def ask(**numbers: Any) -> Result:
        return session.call("Read", {"file_path": "f", **numbers})

    assert rows_without_gutter(ask(limit=10**30)) == ["one", "two"]
    assert rows_without_gutter(ask(offset=-(10**30), limit=10**30)) == ["one", "two"]
    for numbers, code in (({"column": 10**30}, "past_column"), ({"offset": 10**30}, "past_end")):
        error = ask(**numbers).error
        assert error
        assert error.code == code


def test_a_scan_that_takes_too_long_stops_and_goes_on_from_there(
    make_session: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered(tmp_path / "f", 20_000)
    blocks(monkeypatch, size=64)
    monkeypatch.setattr(system_calls, "TICK", -(10**18))
    session = make_session(read_seconds=0.002)
    reached = 0
    for _ in range(10_000):
        result = session.call("Read", {"file_path": "f", "offset": 19_999, "limit": 1})
        if result.error is None:
            break
        assert result.error.code == "timed_out"
        now = int(result.text.partition(" at line ")[2].partition(".")[0])
        assert now >= reached
        reached = now
    assert rows_without_gutter(result) == ["line 19999"]


def test_a_page_is_given_even_if_the_lines_behind_it_take_too_long_to_count(
    make_session: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered(tmp_path / "f", 400_000)
    monkeypatch.setattr(pages, "_BLOCK", 16)
    session = make_session(dialect="claude", read_seconds=0.3)
    result = session.call("Read", {"file_path": str(tmp_path / "f"), "offset": 1, "limit": 4000})
    assert result.error is None
    assert result.data["last"] == 2000
    assert result.data["next_offset"] == 2001
