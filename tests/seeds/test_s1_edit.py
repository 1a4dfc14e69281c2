"""S1-18 to S1-27: one replacement by four levels of ever looser matching, in the dialect `claw`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.model import Result

Make = Callable[..., Session]
DONE = "✅ 成功修改文件: a.go"
NOT_FOUND = "在文件中未找到 old_text,请大模型先调用 read_file 仔细确认文件内容和缩进"
NO_SUCH_PIECE = "找不到该代码片段"


@pytest.fixture
def claw(make_session: Make) -> Session:
    return make_session(dialect="claw", durable=False, mode="accept-edits")


@pytest.fixture
def edit(make_session: Make, tmp_path: Path) -> Callable[[str, str, str], tuple[str, str]]:
    """`edit(content, old, new)`: the answer of a fresh session, and what the file holds afterwards."""

    def make(content: str, old: str, new: str) -> tuple[str, str]:
        path = tmp_path / "a.go"
        path.write_bytes(content.encode("utf-8"))
        result = _edit(make_session(dialect="claw", durable=False), "a.go", old, new)
        after = path.read_bytes().decode("utf-8")
        assert (result.status == "ok") == (after != content)
        return result.text, after

    return make


Edit = Callable[[str, str, str], tuple[str, str]]


def _edit(session: Session, path: str, old: str, new: str) -> Result:
    return session.call("edit_file", {"path": path, "old_text": old, "new_text": new})


def _many(count: int) -> str:
    return f"old_text 匹配到了 {count} 处,请提供更多的上下文代码以确保唯一性"


def _many_loose(count: int) -> str:
    return f"模糊匹配到了 {count} 处相似代码,请提供更多上下行代码以精确定位"


def test_s1_18_edit_file_is_described_as_in_the_document(claw: Session) -> None:
    (spec,) = [spec for spec in claw.specs() if spec.name == "edit_file"]
    assert spec.description == (
        "对现有文件进行局部的字符串替换。这比重写整个文件更安全、更快速。"
        "请提供足够的 old_text 上下文以确保匹配的唯一性。"
    )
    assert spec.schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "要修改的文件路径"},
            "old_text": {
                "type": "string",
                "description": "文件中原有的文本。必须包含足够的上下文(建议上下各多包含几行),以确保在文件中的唯一性。",
            },
            "new_text": {"type": "string", "description": "要替换成的新文本"},
        },
        "required": ["path", "old_text", "new_text"],
    }


@pytest.mark.parametrize("extra", [{"replace_all": True}, {"file_path": "a.go"}, {"old_string": "one"}])
def test_s1_18_there_is_no_replace_all_and_no_other_argument(
    claw: Session, tmp_path: Path, extra: dict[str, object]
) -> None:
    (tmp_path / "a.go").write_text("one one\n", encoding="utf-8")
    result = claw.call("edit_file", {"path": "a.go", "old_text": "one", "new_text": "two", **extra})
    assert result.text.startswith("参数解析失败: ") and next(iter(extra)) in result.text
    assert (tmp_path / "a.go").read_bytes() == b"one one\n"


def test_s1_19_an_exact_match_that_is_unique_is_replaced(edit: Edit) -> None:
    assert edit("a := 1\nb := 2\n", "b := 2", "b := 3") == (DONE, "a := 1\nb := 3\n")
    assert edit("a := 1\nb := 2\n", ":= 1\nb", ":= 0\nc") == (DONE, "a := 0\nc := 2\n")


@pytest.mark.parametrize("count", [2, 3, 12])
def test_s1_19_several_exact_matches_are_counted_and_refused(edit: Edit, count: int) -> None:
    content = "x := 1\n" * count
    assert edit(content, "x := 1", "x := 2") == (_many(count), content)


def test_s1_20_line_endings_do_not_count_and_the_file_keeps_its_own(edit: Edit) -> None:
    content = "if a {\r\n\treturn\r\n}\r\n"
    assert edit(content, "if a {\n\treturn\n}", "if b {\n\treturn\n}") == (DONE, "if b {\r\n\treturn\r\n}\r\n")
    content = "if a {\n\treturn\n}\n"
    assert edit(content, "if a {\r\n\treturn\r\n}", "if b {\r\n\treturn\r\n}") == (DONE, "if b {\n\treturn\n}\n")


def test_s1_21_blanks_around_the_text_do_not_count_and_only_the_rest_is_replaced(edit: Edit) -> None:
    content = "func f() {\n    a := 1\n    b := 2\n}\n"
    assert edit(content, "\n\n  b := 2  \n\n", "b := 3") == (DONE, "func f() {\n    a := 1\n    b := 3\n}\n")


def test_s1_21_a_part_of_a_line_is_replaced_where_it_stands(edit: Edit) -> None:
    content = "func f() {\n    x = call(one, two)\n}\n"
    assert edit(content, "  call(one, two)\n", "call(two)") == (DONE, "func f() {\n    x = call(two)\n}\n")


def test_s1_21_text_of_blanks_alone_is_no_text(edit: Edit) -> None:
    content = "a\nb\n"
    answer, after = edit(content, " \t ", "x")
    assert after == content and answer in (NOT_FOUND, NO_SUCH_PIECE)


def test_s1_22_lines_are_compared_without_the_blanks_around_them(edit: Edit) -> None:
    content = "func f() {\n\tif a {\n\t\treturn 1  \n\t}\n}\n"
    answer, after = edit(content, "if a {\n  return 1\n}", "if a {\n  return 2\n}")
    assert (answer, after) == (DONE, "func f() {\n\tif a {\n\t\treturn 2\n\t}\n}\n")


def test_s1_22_a_text_that_is_nowhere_is_not_found(edit: Edit) -> None:
    content = "a := 1\nb := 2\nc := 3\n"
    assert edit(content, "d := 4", "d := 5") == (NOT_FOUND, content)
    assert edit(content, "b := 2\na := 1", "x") == (NOT_FOUND, content)
    assert edit(content, "B := 2", "x") == (NOT_FOUND, content)


def test_s1_22_a_text_with_more_lines_than_the_file_has_no_place_at_all(edit: Edit) -> None:
    content = "a := 1\n"
    assert edit(content, "a := 1\nb := 2\nc := 3\nd := 4\n", "x") == (NO_SUCH_PIECE, content)
    assert edit("", "a := 1\nb := 2", "x") == (NO_SUCH_PIECE, "")


@pytest.mark.parametrize("count", [2, 5])
def test_s1_22_several_loose_matches_are_counted_and_refused(edit: Edit, count: int) -> None:
    content = "".join(f"{' ' * depth}if a {{\n{' ' * depth}  go()\n{' ' * depth}}}\n" for depth in range(1, count + 1))
    assert edit(content, "if a {\ngo()\n}", "if b {\ngo()\n}") == (_many_loose(count), content)


def test_s1_23_the_matched_lines_are_replaced_and_no_others(edit: Edit) -> None:
    content = "top\n\tone()\n\ttwo()\n\tthree()\nbottom\n"
    assert edit(content, "  one()\n  two()\n", "  uno()\n  due()\n  due_e_mezzo()\n") == (
        DONE,
        "top\n\tuno()\n\tdue()\n\tdue_e_mezzo()\n\tthree()\nbottom\n",
    )


def test_s1_24_the_block_of_the_document_is_found_without_its_indentation(edit: Edit) -> None:
    indented = "        if user == nil {\n            return err\n        }\n"
    content = f"func f() {{\n    for {{\n{indented}    }}\n}}\n"
    old = "if user == nil {\nreturn err\n}"
    answer, after = edit(content, old, "if user == nil {\nreturn errNoUser\n}")
    assert answer == DONE
    assert after == content.replace("return err\n", "return errNoUser\n")


def test_s1_25_a_file_that_cannot_be_read_or_written_back_says_so(claw: Session, tmp_path: Path) -> None:
    read = "读取文件失败,请确认路径是否正确: "
    (tmp_path / "src").mkdir()
    (tmp_path / "a.bin").write_bytes(b"\x7fELF\0\0\0\0")
    assert _edit(claw, "none.go", "a", "b").text == f"{read}none.go 不存在"
    assert _edit(claw, "src", "a", "b").text == f"{read}src 是一个目录,请指定其中的文件"
    assert _edit(claw, "a.bin", "E", "b").text.startswith(f"{read}a.bin 是二进制文件(8 字节: ")
    (tmp_path / "a.go").write_text("one\n", encoding="utf-8")
    os.link(tmp_path / "a.go", tmp_path / "b.go")
    answer = "写回文件失败: a.go 有 2 个硬链接,修改可能影响到工作区之外,因此未被修改"
    assert _edit(claw, "a.go", "one", "two").text == answer
    assert (tmp_path / "a.go").read_bytes() == b"one\n"


def test_s1_25_success_names_the_file_as_it_was_given(claw: Session, tmp_path: Path) -> None:
    (tmp_path / "源码").mkdir()
    (tmp_path / "源码" / "主.go").write_text("one\n", encoding="utf-8")
    for path, old, new in [("源码/主.go", "one", "two"), ("./源码/主.go", "two", "three")]:
        result = _edit(claw, path, old, new)
        assert (result.text, result.status) == (f"✅ 成功修改文件: {path}", "ok")


def test_s1_25_success_says_no_more_than_that_even_if_the_file_changed_elsewhere(claw: Session, tmp_path: Path) -> None:
    path = tmp_path / "a.go"
    path.write_text("one\ntwo\n", encoding="utf-8")
    claw.call("read_file", {"path": "a.go"})
    path.write_text("one\ntwo\nthree\n", encoding="utf-8")
    result = _edit(claw, "a.go", "one", "1")
    assert (result.text, [note.code for note in result.notes]) == (DONE, ["changed_elsewhere"])


@pytest.mark.parametrize(
    ("content", "old", "answer"),
    [
        ("a()\na()\n", "a()", _many(2)),
        ("aaa\n", "aa", _many(2)),
        ("\tf(\n\t)\nx\n  f(\n  )\n", " f(\n )", _many_loose(2)),
        ("if a {\r\n}\r\nif a {\n}\n", "if a {\n}", _many(2)),
    ],
)
def test_s1_26_several_matches_on_any_level_change_nothing(edit: Edit, content: str, old: str, answer: str) -> None:
    assert edit(content, old, "new()") == (answer, content)


def test_s1_27_what_the_tools_promise_holds_whatever_a_model_asks(claw: Session, tmp_path: Path) -> None:
    """Every limit is a refusal or a cut by the tool; none is only asked for in its description."""
    (tmp_path / "big.log").write_text("x" * 5_000_000, encoding="utf-8")
    (tmp_path / "a.go").write_text("a()\na()\n", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(claw.call("read_file", {"path": "big.log"}).text.encode("utf-8")) < 8100
    assert claw.call("read_file", {"path": "../../etc/passwd"}).status == "denied"
    assert claw.call("write_file", {"path": "../escaped.txt", "content": "x"}).status == "denied"
    assert _edit(claw, "../escaped.txt", "a", "b").status == "denied"
    assert _edit(claw, "a.go", "a()", "b()").status == "error"
    assert _edit(claw, "a.go", "c()", "b()").status == "error"
    assert claw.call("bash", {"command": "rm -rf .."}).status == "denied"
    assert claw.call("bash", {"command": "rm -rf ~"}).status == "denied"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert not (tmp_path.parent / "escaped.txt").exists()
