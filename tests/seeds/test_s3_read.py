"""S3-2 to S3-11: the read mark, the boundary and read_file, in the dialect `hello`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests.seeds.golden import put, rows

Make = Callable[..., Session]
EMPTY_PATH = "错误:file_path 为空"
OUTSIDE = "错误:禁止访问工作区外的路径"
MISSING = "错误:文件不存在"
UNREAD = "错误:请先用 read_file 读取该文件,再调用 edit_file"


@pytest.fixture
def hello(make_session: Make) -> Session:
    return make_session(dialect="hello", durable=False)


def _read(session: Session, path: str, **more: Any) -> str:
    return session.call("read_file", {"file_path": path, **more}).text


def _edit(session: Session, path: str, old: str, new: str) -> str:
    return session.call("edit_file", {"file_path": path, "old_string": old, "new_string": new}).text


def test_s3_2_the_read_mark_belongs_to_one_session(make_session: Make, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "one\n")
    first, second = (make_session(dialect="hello", durable=False) for _ in range(2))
    _read(first, "a.txt")
    assert _edit(second, "a.txt", "one", "two") == UNREAD
    assert '"ok": true' in _edit(first, "a.txt", "one", "two")


@pytest.mark.parametrize("other", ["a.txt", "./a.txt", "sub/../a.txt", "{root}/a.txt", "{root}/sub/../a.txt"])
def test_s3_2_a_relative_path_is_taken_from_the_workspace_and_marks_the_same_file(
    hello: Session, tmp_path: Path, other: str
) -> None:
    put(tmp_path, "sub/b.txt", "")
    put(tmp_path, "a.txt", "one\n")
    _read(hello, other.format(root=tmp_path))
    assert f'"path": "{tmp_path}/a.txt"' in _edit(hello, "a.txt", "one", "two")


def test_s3_2_marking_clearing_and_asking(hello: Session, tmp_path: Path) -> None:
    path = str(put(tmp_path, "a.txt", "one\n"))
    assert not hello.tracker.knows(path)
    _read(hello, "a.txt")
    assert hello.tracker.knows(path)
    hello.tracker.forget(path)
    assert not hello.tracker.knows(path)
    assert _edit(hello, "a.txt", "one", "two") == UNREAD


@pytest.mark.parametrize("path", ["../secret", "sub/../../secret", "/etc/passwd", "..", "link"])
@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
def test_s3_3_a_path_outside_the_workspace_is_refused(make_session: Make, tmp_path: Path, tool: str, path: str) -> None:
    secret = put(tmp_path, "secret", "secret\n")
    root = tmp_path / "project"
    put(root, "sub/a.txt", "one\n")
    (root / "link").symlink_to(secret)
    more = {
        "read_file": {},
        "write_file": {"content": "mine"},
        "edit_file": {"old_string": "secret", "new_string": "mine"},
    }[tool]
    result = make_session(root, "hello", durable=False).call(tool, {"file_path": path, **more})
    assert (result.text, result.status) == (OUTSIDE, "denied")
    assert secret.read_text(encoding="utf-8") == "secret\n"


def test_s3_4_read_file_is_described_as_in_the_document(hello: Session) -> None:
    (spec,) = [spec for spec in hello.specs() if spec.name == "read_file"]
    assert spec.description == (
        "读取工作区内文本文件。返回带行前缀的行文本,便于 edit_file 精确匹配。可选 offset/limit。"
    )
    assert spec.schema == {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "相对或绝对路径(相对则相对当前工作目录)"},
            "offset": {"type": "integer", "description": "起始行号(从 1 开始)。省略则从文件开头读。"},
            "limit": {"type": "integer", "description": "最多读取行数。省略则读到末尾(受 maxLines 截断)。"},
        },
        "required": ["file_path"],
    }


def test_s3_4_offset_is_the_first_line_and_limit_how_many(hello: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "one\ntwo\nthree\nfour")
    assert _read(hello, "a.txt", offset=2, limit=2) == rows(["two", "three"], 2)
    assert _read(hello, "a.txt", offset=3) == rows(["three", "four"], 3)
    assert _read(hello, "a.txt", limit=1) == rows(["one"])


@pytest.mark.parametrize(
    "given", [{"file_path": ""}, {"file_path": " \t\n"}, {"file_path": None}, {"file_path": 3}, {}]
)
@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
def test_s3_5_an_empty_path_is_told_as_such(hello: Session, tool: str, given: dict[str, Any]) -> None:
    result = hello.call(tool, {**given, "content": "x"} if tool == "write_file" else given)
    assert (result.text, result.status) == (EMPTY_PATH, "error")


@pytest.mark.parametrize("offset", [0, -1, -5, 0.9, "x", math.nan, math.inf, None, True, [2], 1, 1.9])
def test_s3_6_an_offset_below_one_or_no_number_is_the_beginning(hello: Session, tmp_path: Path, offset: object) -> None:
    put(tmp_path, "a.txt", "one\ntwo")
    assert _read(hello, "a.txt", offset=offset) == rows(["one", "two"])


@pytest.mark.parametrize("limit", [0, -1, 0.5, "x", math.nan, math.inf, None, False, {}])
def test_s3_6_a_limit_below_one_or_no_number_is_two_thousand_lines(
    hello: Session, tmp_path: Path, limit: object
) -> None:
    put(tmp_path, "a.txt", "\n".join(map(str, range(1, 3001))))
    assert _read(hello, "a.txt", limit=limit) == rows([str(number) for number in range(1, 2001)])


def test_s3_6_without_a_limit_two_thousand_lines_are_shown_and_with_one_as_many_as_it_says(
    hello: Session, tmp_path: Path
) -> None:
    put(tmp_path, "a.txt", "\n".join(map(str, range(1, 3001))))
    result = hello.call("read_file", {"file_path": "a.txt"})
    assert result.text == rows([str(number) for number in range(1, 2001)])
    assert (result.status, [note.code for note in result.notes]) == ("partial", ["more_lines"])
    assert _read(hello, "a.txt", limit=2500) == rows([str(number) for number in range(1, 2501)])
    assert _read(hello, "a.txt", offset=2999) == rows(["2999", "3000"], 2999)


def test_s3_6_numbers_are_cut_to_whole_ones(hello: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "one\ntwo\nthree")
    assert _read(hello, "a.txt", offset=2.99, limit=1.99) == rows(["two"], 2)


def test_s3_7_a_missing_file_is_told_as_such(hello: Session) -> None:
    for path in ("no.txt", "no/such/file.txt"):
        result = hello.call("read_file", {"file_path": path})
        assert (result.text, result.status) == (MISSING, "error")


def test_s3_7_any_other_failure_comes_with_its_reason(hello: Session, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    put(tmp_path, "binary", "a\0b")
    for path in ("folder", "pipe", "binary"):
        result = hello.call("read_file", {"file_path": path})
        assert result.text.startswith(f"错误:读取失败 — {path} ") and result.status == "error"


def test_s3_8_lines_are_split_at_line_feeds_and_numbered(hello: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "one\r\ntwo\nthree\rthree still\n\n  four")
    assert _read(hello, "a.txt") == ("     1→one\n     2→two\n     3→three\rthree still\n     4→\n     5→  four")


@pytest.mark.parametrize(("text", "lines"), [("", [""]), ("one\n", ["one", ""]), ("\n", ["", ""]), ("one", ["one"])])
def test_s3_8_what_stands_behind_the_last_line_feed_is_a_line(
    hello: Session, tmp_path: Path, text: str, lines: list[str]
) -> None:
    put(tmp_path, "a.txt", text)
    assert _read(hello, "a.txt") == rows(lines)


def test_s3_8_the_number_is_six_wide_and_wider_where_it_must_be(hello: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "x\n" * 1_000_000)  # more than is ever loaded at once
    assert _read(hello, "a.txt", offset=99_999, limit=2) == " 99999→x\n100000→x"
    assert _read(hello, "a.txt", offset=999_999, limit=5) == "999999→x\n1000000→x\n1000001→"
    assert _read(hello, "a.txt", offset=1_000_001) == "1000001→"
    assert _read(hello, "a.txt", offset=1_000_002) == ""


def test_s3_9_a_file_that_was_read_may_be_changed(hello: Session, tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "one\n")
    assert _edit(hello, "a.txt", "one", "two") == UNREAD
    _read(hello, "a.txt")
    assert '"ok": true' in _edit(hello, "a.txt", "one", "two")
    assert path.read_text(encoding="utf-8") == "two\n"


def test_s3_9_a_page_behind_the_end_is_empty_and_marks_the_file_too(hello: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "one\n")
    result = hello.call("read_file", {"file_path": "a.txt", "offset": 9})
    assert (result.text, result.status) == ("", "ok")
    assert '"ok": true' in _edit(hello, "a.txt", "one", "two")


def test_s3_9_a_read_that_failed_marks_nothing(hello: Session, tmp_path: Path) -> None:
    assert _read(hello, "a.txt") == MISSING
    put(tmp_path, "a.txt", "one\n")
    assert _edit(hello, "a.txt", "one", "two") == UNREAD


@pytest.mark.parametrize("length", [119_993, 119_994, 500_000, 3_000_000])
def test_s3_10_an_answer_over_the_limit_is_cut_there(hello: Session, tmp_path: Path, length: int) -> None:
    put(tmp_path, "a.txt", "中" * length)
    whole = "     1→" + "中" * length
    expected = whole if len(whole) <= 120_000 else whole[:120_000] + "\n...(truncated)"
    result = hello.call("read_file", {"file_path": "a.txt"})
    assert result.text == expected
    assert result.status == ("ok" if len(whole) <= 120_000 else "partial")


def test_s3_10_line_numbers_and_line_ends_count(hello: Session, tmp_path: Path) -> None:
    lines = ["x" * 92] * 1200  # 100 characters a row, the line feed included
    put(tmp_path, "a.txt", "\n".join(lines))
    assert _read(hello, "a.txt") == rows(lines)
    put(tmp_path, "a.txt", "\n".join([*lines, "", "y"]))
    assert _read(hello, "a.txt") == rows([*lines, "", "y"])[:120_000] + "\n...(truncated)"


def test_s3_11_an_arrow_and_no_tab_parts_the_number_from_the_text(hello: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "\tone")
    assert _read(hello, "a.txt") == "     1→\tone"


def test_s3_11_the_prefix_is_no_part_of_old_string(hello: Session, tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "one\ntwo\n")
    shown = _read(hello, "a.txt").split("\n")[0]
    assert _edit(hello, "a.txt", shown, "1") == "错误:找不到 old_string,请与磁盘一致(可重新 read_file)"
    assert '"ok": true' in _edit(hello, "a.txt", shown.partition("→")[2], "1")
    assert path.read_text(encoding="utf-8") == "1\ntwo\n"
    (spec,) = [spec for spec in hello.specs() if spec.name == "edit_file"]
    assert spec.description.endswith("不要包含 read_file 返回的行号前缀。")
