"""Reading in pages: every page of every file is what a plain model says, however the blocks fall."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handrail import Result, Session, system_calls
from handrail.files import pages
from handrail.files.pages import Indexes, LineIndex
from handrail.files.versions import Version
from tests import sizes
from tests.paging import blocks, counted_reads, numbered, plain_lines, rows_without_gutter

WIDTH, BUDGET, LINES = 7, 20, 9
UNICODE = "ab \t\f\x0b\x85\u2028é日𝄞\ufeff"
ALPHABETS = {
    "utf-8": UNICODE,
    "utf-8-sig": UNICODE,
    "utf-16-le": UNICODE,
    "utf-16-be": UNICODE,
    "utf-32-le": UNICODE,
    "utf-32-be": UNICODE,
    "cp1252": "ab éßü",
    "gbk": "ab 中文字",
    "cp932": "ab 日本語",
}
MARKS = {
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
    "utf-32-le": b"\xff\xfe\0\0",
    "utf-32-be": b"\0\0\xfe\xff",
}


@pytest.fixture
def narrow(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dialect whose pages are so small that every limit is met."""
    folder = tmp_path_factory.mktemp("narrow")
    limits = f"{{ lines = {LINES}, line_chars = {WIDTH}, page_chars = {BUDGET} }}"
    tools = f'gutter = "{{number}}:"\n[tools.Read]\nid = "read"\nlimits = {limits}\n'
    (folder / "tools.toml").write_text(tools, encoding="utf-8")
    (folder / "messages.toml").write_text("", encoding="utf-8")
    return str(folder)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes, str]:
    """An encoding, the bytes of a file in it, and the text they stand for."""
    name = draw(st.sampled_from(list(ALPHABETS)))
    line = st.text(ALPHABETS[name], max_size=12)
    parts = draw(st.lists(st.tuples(line, st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\r\r\n"])), max_size=25))
    text = "".join(body + end for body, end in parts) + draw(line)
    if name != "utf-8-sig":
        text = text.lstrip("\ufeff")
    return name, MARKS.get(name, b"") + text.encode(name), text


def rows_of(result: Result) -> dict[int, str]:
    """The rows of an answer without what is said around them."""
    shown = result.text.split("\n(")[0]
    rows = {}
    for row in shown.split("\n"):
        number, _, text = row.partition(":")
        rows[int(number)] = text.split(" [line cut")[0]
    return rows


def expected(actual: list[str], first: int, limit: int, column: int) -> list[str]:
    shown: list[str] = []
    spent = 0
    for place, line in enumerate(actual[first - 1 : first - 1 + limit]):
        start = column - 1 if place == 0 else 0
        text = line[start : start + WIDTH]
        spent += len(text) + 1
        if shown and spent > BUDGET:
            break
        shown.append(text)
    return shown


@settings(max_examples=sizes.pick(60, 400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    file=files(),
    offset=st.one_of(st.none(), st.integers(-40, 45)),
    limit=st.one_of(st.none(), st.integers(1, 12)),
    column=st.integers(1, 14),
    block=st.sampled_from([4, 8, 12, 20, 64]),
    small=st.sampled_from([0, 10**6]),
    counted=st.sampled_from([0, 10**6]),
)
def test_a_page_is_what_a_plain_model_says(
    make_session: Callable[..., Session],
    tmp_path: Path,
    narrow: str,
    file: tuple[str, bytes, str],
    offset: int | None,
    limit: int | None,
    column: int,
    block: int,
    small: int,
    counted: int,
) -> None:
    name, raw, text = file
    (tmp_path / "f").write_bytes(raw)
    actual = plain_lines(text)
    with pytest.MonkeyPatch.context() as patch:
        blocks(patch, block, small, counted)
        session = make_session(dialect=narrow, legacy_encoding=name if name in ("cp1252", "gbk", "cp932") else None)
        result = session.call("Read", {"file_path": "f", "offset": offset, "limit": limit, "column": column})
        session.close()
    if not text:
        assert result.status == "ok"
        assert result.data["lines"] == 0
        return
    first = 1 if not offset else offset if offset > 0 else max(1, len(actual) + 1 + offset)
    if first > len(actual):
        assert result.error
        assert result.error.code == "past_end"
        assert str(len(actual)) in result.text
        return
    wanted = expected(actual, first, limit or LINES, column)
    if column > 1 and not wanted[0]:
        assert result.error
        assert result.error.code == "past_column"
        return
    rows = rows_of(result)
    assert list(rows.values()) == wanted
    shift = len(actual) + 1 if result.data["first"] < 0 else 0
    assert [number + shift for number in rows] == list(range(first, first + len(wanted)))
    behind = first - 1 + len(wanted) < len(actual)
    assert result.data["next_offset"] == (result.data["last"] + 1 if behind else None)
    assert result.data["total_lines"] in (len(actual), None)
    assert result.data["total_lines"] == len(actual) or small == 0


@settings(max_examples=sizes.pick(30, 120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=files(), limit=st.integers(1, 5), block=st.sampled_from([4, 8, 16]))
def test_following_the_next_offset_shows_every_line_once(
    make_session: Callable[..., Session],
    tmp_path: Path,
    narrow: str,
    file: tuple[str, bytes, str],
    limit: int,
    block: int,
) -> None:
    name, raw, text = file
    (tmp_path / "f").write_bytes(raw)
    seen: dict[int, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        blocks(patch, block)
        patch.setattr(system_calls, "TICK", -(10**18))  # remember the index at once
        session = make_session(dialect=narrow, legacy_encoding=name if name in ("cp1252", "gbk", "cp932") else None)
        offset: int | None = 1 if text else None
        while offset:
            result = session.call("Read", {"file_path": "f", "offset": offset, "limit": limit})
            assert result.error is None
            rows = rows_of(result)
            assert not rows.keys() & seen.keys()
            seen |= rows
            offset = result.data["next_offset"]
        session.close()
    assert list(seen.values()) == [line[:WIDTH] for line in plain_lines(text)]


def test_a_long_line_is_read_to_its_end_column_by_column(
    make_session: Callable[..., Session], tmp_path: Path, narrow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "".join(f"<{number}é𝄞>" for number in range(40))
    (tmp_path / "f").write_text(f"first\r\n{line}\r\nlast", encoding="utf-8", newline="")
    blocks(monkeypatch)
    session = make_session(dialect=narrow)
    shown = ""
    while len(shown) < len(line):
        call = {"file_path": "f", "offset": 2, "limit": 1, "column": len(shown) + 1}
        result = session.call("Read", call)
        piece = rows_of(result)[2]
        assert 0 < len(piece) <= WIDTH
        shown += piece
    assert shown == line
    assert result.status == "ok"
    error = session.call("Read", {**call, "column": len(line) + 1}).error
    assert error
    assert error.code == "past_column"


def test_a_line_without_end_is_shown_and_not_counted_to_its_end(
    make_session: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"short\n" + b"x" * 500_000 + b"\nlast\n")
    blocks(monkeypatch, size=1000, endless=5000)
    read = counted_reads(monkeypatch)
    result = make_session().call("Read", {"file_path": "f", "offset": 1})
    assert result.status == "partial"
    assert "x" * 2000 + " [line cut: continue with column=2001]" in result.text
    assert result.data["next_offset"] == 3
    assert sum(read) < 150_000
    (tmp_path / "f").write_bytes(b"short\n" + b"x" * 500_000)
    tail = make_session().call("Read", {"file_path": "f", "offset": -1})
    assert (tail.data["last"], tail.data["next_offset"]) == (-1, None)


def test_a_page_that_is_full_does_not_read_the_long_line_behind_it(
    make_session: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"one\ntwo\n" + b"x" * 3_000_000 + b"\n")
    blocks(monkeypatch, size=1000)
    read = counted_reads(monkeypatch)
    result = make_session().call("Read", {"file_path": "f", "offset": 1, "limit": 2})
    assert result.data["next_offset"] == 3
    assert sum(read) < 150_000


def test_the_second_page_is_found_by_the_index(
    make_session: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered(tmp_path / "f", 400_000)
    time.sleep(system_calls.TICK / 1e9 * 2)
    session = make_session()
    read = counted_reads(monkeypatch)
    session.call("Read", {"file_path": "f", "offset": 300_000, "limit": 100})
    scanned = sum(read)
    read.clear()
    result = session.call("Read", {"file_path": "f", "offset": 300_100, "limit": 100})
    assert result.text.startswith("300100\tline 300100\n")
    assert sum(read) < scanned / 3
    read.clear()
    assert session.call("Read", {"file_path": "f", "offset": 17, "limit": 1}).text.startswith("17\tline 17")
    assert sum(read) < scanned / 3


def test_a_changed_file_is_indexed_anew(make_session: Callable[..., Session], tmp_path: Path) -> None:
    numbered(tmp_path / "f", 300_000)
    time.sleep(system_calls.TICK / 1e9 * 2)
    session = make_session()
    session.call("Read", {"file_path": "f", "offset": 250_000, "limit": 1})
    raw = (tmp_path / "f").read_bytes()
    (tmp_path / "f").write_bytes(raw.replace(b"line 7\n", b"line\n7\n"))
    result = session.call("Read", {"file_path": "f", "offset": 250_000, "limit": 1})
    assert result.text.startswith("250000\tline 249999")


def test_nothing_is_remembered_of_a_file_that_changed_within_the_clocks_tick() -> None:
    indexes, now = Indexes(), time.time_ns()
    fresh, settled = (Version(1, 2, 3, now, changed) for changed in (now, now - 10**9))
    assert indexes.of(fresh, 0) is not indexes.of(fresh, 0)
    assert indexes.of(settled, 0) is indexes.of(settled, 0)


def test_only_so_many_indexes_are_kept() -> None:
    indexes = Indexes()
    first = indexes.of(Version(1, 0, 3, 0, 0), 0)
    for number in range(1, pages._KEPT):
        indexes.of(Version(1, number, 3, 0, 0), 0)
    assert indexes.of(Version(1, 0, 3, 0, 0), 0) is first
    for number in range(pages._KEPT, 2 * pages._KEPT):
        indexes.of(Version(1, number, 3, 0, 0), 0)
    assert indexes.of(Version(1, 0, 3, 0, 0), 0) is not first


def test_the_block_before_a_line_is_never_one_that_starts_inside_or_behind_it() -> None:
    index = LineIndex(array("q", [3]))
    for start, ends in ((10, 0), (20, 2), (30, 2), (40, 5)):
        index.starts.append(start)
        index.ends.append(ends)
    assert [index.before(line) for line in (1, 2, 3, 4, 6, 7)] == [(3, 0), (10, 0), (10, 0), (30, 2), (30, 2), (40, 5)]


@settings(max_examples=sizes.pick(45, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text("a\r\n", max_size=40), wanted=st.integers(1, 12), block=st.integers(2, 9))
def test_the_tail_of_a_file_that_is_not_counted_is_its_last_lines(
    make_session: Callable[..., Session], tmp_path: Path, text: str, wanted: int, block: int
) -> None:
    (tmp_path / "f").write_bytes(b"top\n" + text.encode())
    rows = plain_lines("top\n" + text)
    with pytest.MonkeyPatch.context() as patch:
        blocks(patch, block)
        session = make_session()
        result = session.call("Read", {"file_path": "f", "offset": -wanted})
        session.close()
    assert rows_without_gutter(result) == rows[-wanted:]
    assert result.data["first"] == (-wanted if wanted < len(rows) else 1)


def test_the_tail_of_a_file_that_is_too_long_to_count_may_be_all_of_it(
    make_session: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks(monkeypatch)
    (tmp_path / "f").write_bytes(b"one\r\ntwo\rthree\nfour")
    result = make_session().call("Read", {"file_path": "f", "offset": -9})
    assert rows_without_gutter(result) == ["one", "two", "three", "four"]
    assert result.data["first"] == 1
