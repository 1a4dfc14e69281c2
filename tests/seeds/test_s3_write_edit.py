"""S3-12 to S3-20: write_file, edit_file and the order of their checks, in the dialect `hello`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from handrail.model import Result
from tests.seeds.golden import put, tree

Make = Callable[..., Session]
EMPTY_PATH = "错误:file_path 为空"
OUTSIDE = "错误:禁止访问工作区外的路径"
MISSING = "错误:文件不存在"
EXISTS = "错误:目标文件已存在,请先用 read_file 读取后再 write_file(与先读后写策略一致)"
SAME = "错误:old_string 与 new_string 相同,无需修改"
UNREAD = "错误:请先用 read_file 读取该文件,再调用 edit_file"
NONE_AT_ALL = "错误:找不到任何 old_string"
NOT_THERE = "错误:找不到 old_string,请与磁盘一致(可重新 read_file)"
TWICE = "错误:old_string 出现多次,请扩大上下文使片段唯一,或设置 replace_all: true"


@pytest.fixture
def hello(make_session: Make) -> Session:
    return make_session(dialect="hello", durable=False)


@pytest.fixture
def seen(hello: Session, tmp_path: Path) -> Callable[[str, str], Path]:
    """`seen("a.txt", "text")`: a file that exists and was read."""

    def make(name: str, text: str) -> Path:
        path = put(tmp_path, name, text)
        hello.call("read_file", {"file_path": name})
        return path

    return make


Seen = Callable[[str, str], Path]


def _write(session: Session, path: str, content: str) -> Result:
    return session.call("write_file", {"file_path": path, "content": content})


def _edit(session: Session, path: str, old: str, new: str, **more: Any) -> Result:
    return session.call("edit_file", {"file_path": path, "old_string": old, "new_string": new, **more})


def _spec(session: Session, name: str) -> tuple[str, object]:
    (spec,) = [spec for spec in session.specs() if spec.name == name]
    return spec.description, spec.schema


def test_s3_12_write_file_is_described_as_in_the_document(hello: Session) -> None:
    description, schema = _spec(hello, "write_file")
    assert description == (
        "向工作区写入文本(整文件覆盖)。若路径已存在须先 read_file;新建可直接写入。大段修改更推荐 edit_file。"
    )
    assert schema == {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "目标路径(相对或绝对)"},
            "content": {"type": "string", "description": "完整文件内容"},
        },
        "required": ["file_path", "content"],
    }


def test_s3_12_an_existing_file_must_be_read_before_it_is_written(hello: Session, tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "one\n")
    result = _write(hello, "a.txt", "two\n")
    assert (result.text, result.status) == (EXISTS, "error")
    assert path.read_bytes() == b"one\n"
    hello.call("read_file", {"file_path": "a.txt"})
    assert _write(hello, "a.txt", "two\n").status == "ok"
    assert path.read_bytes() == b"two\n"


def test_s3_12_a_new_file_needs_no_reading(hello: Session, tmp_path: Path) -> None:
    assert _write(hello, "new.txt", "one\n").status == "ok"
    assert tree(tmp_path) == {"new.txt": "one\n"}


def test_s3_13_directories_on_the_way_are_made(hello: Session, tmp_path: Path) -> None:
    assert _write(hello, "a/b/c.txt", "one\n").status == "ok"
    assert tree(tmp_path) == {"a/b/c.txt": "one\n"}


@pytest.mark.parametrize("content", ["", "one\n", "中文 é\n", 'quotes " and \\ here'])
def test_s3_13_the_answer_is_json_with_the_path_and_the_bytes(hello: Session, tmp_path: Path, content: str) -> None:
    length = len(content.encode("utf-8"))
    result = _write(hello, "sub/../a.txt", content)
    assert result.text == f'{{\n  "ok": true,\n  "path": "{tmp_path}/a.txt",\n  "bytes": {length}\n}}'
    assert json.loads(result.text) == {"ok": True, "path": str(tmp_path / "a.txt"), "bytes": length}
    assert (tmp_path / "a.txt").read_bytes() == content.encode("utf-8")


def test_s3_13_a_path_with_quotes_is_still_json(hello: Session, tmp_path: Path) -> None:
    answer = json.loads(_write(hello, 'a "b".txt', "x").text)
    assert answer == {"ok": True, "path": str(tmp_path / 'a "b".txt'), "bytes": 1}


@pytest.mark.parametrize(
    "before", ["one\r\ntwo\r\n".encode("utf-16"), b"caf\xe9 \xe0 la carte\r\n", b"one\r\n", b"\xef\xbb\xbfx\n"]
)
def test_s3_13_what_is_written_is_utf_8_whatever_was_there(hello: Session, tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(before)
    hello.call("read_file", {"file_path": "a.txt"})
    assert json.loads(_write(hello, "a.txt", "drei\nél\n").text)["bytes"] == 9
    assert path.read_bytes() == "drei\nél\n".encode()


def test_s3_13_a_file_that_was_written_must_be_read_again(hello: Session, seen: Seen) -> None:
    path = seen("a.txt", "one\n")
    assert _write(hello, "a.txt", "two\n").status == "ok"
    assert _write(hello, "a.txt", "three\n").text == EXISTS
    assert _edit(hello, "a.txt", "two", "three").text == UNREAD
    assert path.read_bytes() == b"two\n"
    hello.call("read_file", {"file_path": "a.txt"})
    assert _edit(hello, "a.txt", "two", "three").status == "ok"


def test_s3_13_so_must_a_new_one_and_one_that_was_written_as_it_was(hello: Session, seen: Seen) -> None:
    _write(hello, "new.txt", "one\n")
    assert _write(hello, "new.txt", "two\n").text == EXISTS
    seen("same.txt", "one\n")
    assert _write(hello, "same.txt", "one\n").status == "ok"
    assert _write(hello, "same.txt", "two\n").text == EXISTS


def test_s3_14_edit_file_is_described_as_in_the_document(hello: Session) -> None:
    description, schema = _spec(hello, "edit_file")
    assert description == (
        "在已读取过的文本文件内做精确字符串替换。old_string 须唯一,除非 replace_all 为 true。"
        "不要包含 read_file 返回的行号前缀。"
    )
    assert schema == {
        "type": "object",
        "properties": {
            "file_path": {"type": "string"},
            "old_string": {"type": "string", "description": "要被替换的原文(唯一匹配)"},
            "new_string": {"type": "string", "description": "替换后的内容"},
            "replace_all": {"type": "boolean", "description": "为 true 时替换所有 old_string"},
        },
        "required": ["file_path", "old_string", "new_string"],
    }


@pytest.mark.parametrize("text", ["one", "", "not there"])
def test_s3_14_the_same_text_twice_is_no_edit(hello: Session, seen: Seen, text: str) -> None:
    path = seen("a.txt", "one\n")
    result = _edit(hello, "a.txt", text, text)
    assert (result.text, result.status) == (SAME, "error")
    assert path.read_bytes() == b"one\n"


def test_s3_15_a_file_that_was_not_read_is_not_edited(hello: Session, tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "one\n")
    result = _edit(hello, "a.txt", "one", "two")
    assert (result.text, result.status) == (UNREAD, "error")
    assert path.read_bytes() == b"one\n"


def test_s3_16_replace_all_replaces_every_one(hello: Session, seen: Seen) -> None:
    path = seen("a.txt", "TODO a\nTODO b\r\nno\nTODO")
    assert _edit(hello, "a.txt", "TODO", "DONE", replace_all=True).status == "ok"
    assert path.read_bytes() == b"DONE a\nDONE b\r\nno\nDONE"


def test_s3_16_replace_all_without_any_is_told(hello: Session, seen: Seen) -> None:
    path = seen("a.txt", "one\n")
    assert _edit(hello, "a.txt", "two", "three", replace_all=True).text == NONE_AT_ALL
    path.write_bytes(b"changed by another program\n")
    assert _edit(hello, "a.txt", "two", "three", replace_all=True).text == NONE_AT_ALL


def test_s3_17_a_text_that_is_not_there_is_told(hello: Session, seen: Seen) -> None:
    path = seen("a.txt", "  one\n")
    for old in ("two", "One", "   one", "one  "):
        result = _edit(hello, "a.txt", old, "three")
        assert (result.text, result.status) == (NOT_THERE, "error")
    path.write_bytes(b"changed by another program\n")
    assert _edit(hello, "a.txt", "one", "three").text == NOT_THERE


def test_s3_18_a_second_occurrence_is_told(hello: Session, seen: Seen) -> None:
    path = seen("a.txt", "one\ntwo\none\n")
    result = _edit(hello, "a.txt", "one", "three")
    assert (result.text, result.status) == (TWICE, "error")
    assert path.read_bytes() == b"one\ntwo\none\n"
    assert _edit(hello, "a.txt", "two\none", "three").status == "ok"
    assert path.read_bytes() == b"one\nthree\n"


def test_s3_19_the_answer_is_json_with_the_path(hello: Session, seen: Seen, tmp_path: Path) -> None:
    seen("sub/a.txt", "one\n")
    expected = f'{{\n  "ok": true,\n  "path": "{tmp_path}/sub/a.txt"\n}}'
    assert _edit(hello, "sub/a.txt", "one", "two").text == expected
    assert _edit(hello, f"{tmp_path}/sub/a.txt", "two", "three", replace_all=True).text == expected


def test_s3_19_an_edited_file_counts_as_read(hello: Session, seen: Seen) -> None:
    path = seen("a.txt", "one\n")
    for old, new in (("one", "two"), ("two", "three")):
        assert _edit(hello, "a.txt", old, new).status == "ok"
    assert _write(hello, "a.txt", "four\n").status == "ok"
    assert path.read_bytes() == b"four\n"


def test_s3_20_the_checks_come_in_the_order_of_the_document(make_session: Make, tmp_path: Path) -> None:
    put(tmp_path, "outside.txt", "x\n")
    root = tmp_path / "project"
    put(root, "a.txt", "one\none\n")
    hello = make_session(root, "hello", durable=False)
    assert _edit(hello, " ", "x", "x").text == EMPTY_PATH  # and the strings are the same
    assert _edit(hello, "../outside.txt", "x", "x").text == SAME  # and it is outside
    assert _edit(hello, "../outside.txt", "x", "y").text == OUTSIDE  # and was not read
    assert _edit(hello, "../missing.txt", "x", "y").text == OUTSIDE  # and is not there
    assert _edit(hello, "missing.txt", "x", "y").text == UNREAD  # and is not there
    assert _edit(hello, "a.txt", "x", "y").text == UNREAD  # and there is no x
    hello.call("read_file", {"file_path": "a.txt"})
    assert _edit(hello, "a.txt", "x", "y").text == NOT_THERE
    assert _edit(hello, "a.txt", "one", "y").text == TWICE
    (root / "a.txt").unlink()
    assert _edit(hello, "a.txt", "x", "y").text == MISSING  # it was read, and is gone


def test_s3_20_a_directory_that_was_never_read_is_unread_too(hello: Session, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert _edit(hello, "folder", "x", "y").text == UNREAD


NOT_TEXTS: list[Any] = [None, 3, 1.5, True, ["a"], {"a": 1}]


@pytest.mark.parametrize("value", NOT_TEXTS)
def test_s3_23_content_that_is_no_text_is_empty(hello: Session, tmp_path: Path, value: Any) -> None:
    result = hello.call("write_file", {"file_path": "a.txt", "content": value})
    assert json.loads(result.text) == {"ok": True, "path": str(tmp_path / "a.txt"), "bytes": 0}
    put(tmp_path, "old.txt", "one\n")
    assert hello.call("write_file", {"file_path": "old.txt", "content": value}).text == EXISTS
    assert tree(tmp_path) == {"a.txt": "", "old.txt": "one\n"}


def test_s3_23_absent_content_empties_only_a_file_that_was_read(hello: Session, tmp_path: Path) -> None:
    put(tmp_path, "old.txt", "one\n")
    assert hello.call("write_file", {"file_path": "old.txt"}).text == EXISTS
    hello.call("read_file", {"file_path": "old.txt"})
    assert json.loads(hello.call("write_file", {"file_path": "old.txt"}).text)["bytes"] == 0
    assert tree(tmp_path) == {"old.txt": ""}


@pytest.mark.parametrize("value", [*NOT_TEXTS, "", "x", "2", 0, -3, float("inf")])
def test_s3_23_a_number_that_is_none_counts_as_absent(hello: Session, tmp_path: Path, value: Any) -> None:
    put(tmp_path, "a.txt", "one\ntwo")
    if value == 1.5:
        assert hello.call("read_file", {"file_path": "a.txt", "offset": value, "limit": value}).text == "     1→one"
    elif value == 3 and value is not True:
        assert hello.call("read_file", {"file_path": "a.txt", "offset": value}).text == ""
    else:
        result = hello.call("read_file", {"file_path": "a.txt", "offset": value, "limit": value})
        assert (result.text, result.status) == ("     1→one\n     2→two", "ok")


@pytest.mark.parametrize("value", [value for value in NOT_TEXTS if value is not True] + ["true", 1])
def test_s3_23_only_true_replaces_all(hello: Session, tmp_path: Path, value: Any) -> None:
    put(tmp_path, "a.txt", "x x\n")
    hello.call("read_file", {"file_path": "a.txt"})
    arguments = {"file_path": "a.txt", "old_string": "x", "new_string": "y", "replace_all": value}
    assert hello.call("edit_file", arguments).text == TWICE


@pytest.mark.parametrize("value", NOT_TEXTS)
def test_s3_23_other_arguments_are_empty_texts_too(hello: Session, tmp_path: Path, value: Any) -> None:
    put(tmp_path, "a.txt", "one\n")
    hello.call("read_file", {"file_path": "a.txt"})
    assert hello.call("read_file", {"file_path": value}).text == EMPTY_PATH
    both = {"file_path": "a.txt", "old_string": value, "new_string": value}
    assert hello.call("edit_file", both).text == SAME
    shorter = {"file_path": "a.txt", "old_string": "one", "new_string": value}
    assert json.loads(hello.call("edit_file", shorter).text)["ok"] is True
    assert tree(tmp_path) == {"a.txt": "\n"}
    assert hello.call("uppercase", {"text": value}).text == ""
