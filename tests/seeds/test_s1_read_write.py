"""S1-2 to S1-7 and S1-10: reading and writing as the first document's Go tools answer, in the dialect `claw`."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handrail import Root, Session, Setup, dialects
from handrail.agent.prompt import system_prompt

Make = Callable[..., Session]
CUT = "\n\n...[由于内容过长,已被系统截断至前 8000 字节]..."


@pytest.fixture
def claw(make_session: Make) -> Session:
    return make_session(dialect="claw", durable=False)


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def _spec(session: Session, name: str) -> tuple[str, object]:
    (spec,) = [spec for spec in session.specs() if spec.name == name]
    return spec.description, spec.schema


def test_s1_2_read_file_is_described_as_in_the_document(claw: Session) -> None:
    description, schema = _spec(claw, "read_file")
    assert description == "读取指定路径的文件内容。请提供相对工作区的路径。"
    assert schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "要读取的文件路径,如 cmd/claw/main.go"},
            "offset": {"type": "integer", "description": "起始行号(从 1 开始)。省略则从文件开头读取"},
            "limit": {"type": "integer", "description": "最多读取的行数"},
        },
        "required": ["path"],
    }


def test_s1_2_read_file_takes_a_path_alone(claw: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    assert claw.call("read_file", {"path": "a.txt"}).text == "one\n"
    for extra in ({"column": 1}, {"file_path": "a.txt"}):
        assert claw.call("read_file", {"path": "a.txt", **extra}).text.startswith("参数解析失败: ")


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
@pytest.mark.parametrize("arguments", ['{"path": ', "path=a.txt", "", '{"path": "a"} x', "{'path': 'a'}"])
def test_s1_3_broken_json_comes_back_to_the_model_with_the_reason(claw: Session, tool: str, arguments: str) -> None:
    with pytest.raises(json.JSONDecodeError) as raised:
        json.loads(arguments)
    result = claw.call(tool, arguments)
    assert (result.text, result.status) == (f"参数解析失败: {raised.value}", "error")


def test_s1_3_arguments_of_the_wrong_type_or_missing_are_a_parse_failure_too(claw: Session) -> None:
    assert claw.call("read_file", "[1]").text == "参数解析失败: 参数不是一个对象"
    result = claw.call("read_file", {})
    assert result.text == "参数解析失败: - path: 缺少该参数(要读取的文件路径,如 cmd/claw/main.go),类型: string"
    result = claw.call("read_file", {"path": 3})
    assert result.text == "参数解析失败: - path: 取值无效(类型应为 string),实际为 3"


def test_s1_4_a_path_is_taken_from_the_workspace(make_session: Make, tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "cmd" / "claw").mkdir(parents=True)
    (root / "cmd" / "claw" / "main.go").write_text("package main\n", encoding="utf-8")
    (tmp_path / "secret").write_text("secret\n", encoding="utf-8")
    (root / "link").symlink_to(tmp_path / "secret")
    claw = make_session(root, "claw", durable=False)
    for path in ("cmd/claw/main.go", "./cmd/../cmd/claw/main.go", str(root / "cmd/claw/main.go")):
        assert claw.call("read_file", {"path": path}).text == "package main\n"
    for path, how in [
        ("../../etc/passwd", ""),
        ("../secret", ""),
        ("cmd/../../secret", ""),
        ("/etc/passwd", ""),
        ("link", "(经由链接指向外部)"),
    ]:
        outside = f"{path} 位于工作区之外{how},工作区: {root}"
        result = claw.call("read_file", {"path": path})
        assert (result.text, result.status) == (f"打开文件失败: {outside}", "denied")
        assert claw.call("write_file", {"path": path, "content": "x"}).text == f"写入文件失败: {outside}"
        result = claw.call("edit_file", {"path": path, "old_text": "secret", "new_text": "x"})
        assert result.text == f"读取文件失败,请确认路径是否正确: {outside}"
    assert (tmp_path / "secret").read_text(encoding="utf-8") == "secret\n"


def test_s1_5_a_file_that_cannot_be_opened_says_so(claw: Session, tmp_path: Path) -> None:
    assert claw.call("read_file", {"path": "cmd/none.go"}).text == "打开文件失败: cmd/none.go 不存在"
    (tmp_path / "main.go").touch()
    assert claw.call("read_file", {"path": "man.go"}).text == "打开文件失败: man.go 不存在,相近的名称: main.go"
    result = claw.call("read_file", {"path": ""})
    assert (result.text, result.status) == ("打开文件失败:  不能用作路径: 为空", "error")


def test_s1_5_a_file_that_cannot_be_read_says_so(claw: Session, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    assert claw.call("read_file", {"path": "src"}).text == "读取文件内容失败: src 是一个目录,请指定其中的文件"
    os.mkfifo(tmp_path / "pipe")
    assert claw.call("read_file", {"path": "pipe"}).text == "读取文件内容失败: pipe 不是普通文件(命名管道)"
    (tmp_path / "a.bin").write_bytes(b"\x7fELF\0\0\0\0")
    result = claw.call("read_file", {"path": "a.bin"})
    assert result.text.startswith("读取文件内容失败: a.bin 是二进制文件(8 字节: ")
    assert result.status == "error"


@pytest.mark.parametrize("size", [0, 1, 7999, 8000])
def test_s1_6_a_file_of_up_to_8000_bytes_is_given_whole(claw: Session, tmp_path: Path, size: int) -> None:
    text = ("0123456789" * 800)[:size]
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    result = claw.call("read_file", {"path": "a.txt"})
    assert (result.text, result.status, result.notes) == (text, "ok", ())


@pytest.mark.parametrize("size", [8001, 100_000, 3_000_000])
@pytest.mark.parametrize("line", ["0123456789", "012345678\n", "\n"])
def test_s1_6_a_longer_file_is_cut_after_8000_bytes(claw: Session, tmp_path: Path, size: int, line: str) -> None:
    text = (line * size)[:size]
    (tmp_path / "a.log").write_text(text, encoding="utf-8")
    result = claw.call("read_file", {"path": "a.log"})
    assert result.text == text[:8000] + CUT
    assert (result.status, [note.code for note in result.notes]) == ("partial", ["more_lines"])


@pytest.mark.parametrize(("lead", "kept"), [("", 2666), ("a", 2666), ("ab", 2666), ("abc", 2665)])
def test_s1_6_the_cut_never_goes_through_a_character(claw: Session, tmp_path: Path, lead: str, kept: int) -> None:
    """8000 bytes are bytes of UTF-8: what would not be whole any more is left out, so that it may be up to 3 fewer."""
    (tmp_path / "a.txt").write_text(lead + "好" * 3000, encoding="utf-8")
    assert claw.call("read_file", {"path": "a.txt"}).text == lead + "好" * kept + CUT


def test_s1_6_bytes_are_those_of_the_text_as_it_is_given_whatever_the_file_is_in(claw: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeff".encode("utf-16-le") + ("x" * 8000).encode("utf-16-le"))
    assert claw.call("read_file", {"path": "a.txt"}).text == "x" * 8000


@pytest.mark.parametrize(
    "text", ["one\ntwo\n", "no final newline", "\n\n", "\ttab  \n", "a\r\nb\r\n", "a\rb", "好\n{path}[[x]]\n", ""]
)
def test_s1_7_the_content_is_given_as_it_is_without_line_numbers(claw: Session, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode("utf-8"))
    result = claw.call("read_file", {"path": "a.txt"})
    assert (result.text, result.status) == (text, "ok")


def test_s1_10_write_file_is_described_as_in_the_document(claw: Session) -> None:
    description, schema = _spec(claw, "write_file")
    assert description == "创建或覆盖写入一个文件。如果目录不存在会自动创建。请提供相对于工作区的相对路径。"
    assert schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "要写入的文件路径,如 src/main.go"},
            "content": {"type": "string", "description": "要写入的完整文件内容"},
        },
        "required": ["path", "content"],
    }


def test_s1_10_a_file_is_created_with_its_directories_and_overwritten_unread(
    claw: Session, tmp_path: Path, usual_umask: None
) -> None:
    path = tmp_path / "src" / "deep" / "main.go"
    for content in ("package main\n", "package other", "package other"):
        result = claw.call("write_file", {"path": "src/deep/main.go", "content": content})
        assert (result.text, result.status) == ("成功将内容写入到文件: src/deep/main.go", "ok")
        assert path.read_bytes() == content.encode("utf-8")
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent, path.parent.parent)] == [0o644, 0o755, 0o755]


def test_s1_10_a_file_that_was_there_before_is_overwritten_without_a_read(claw: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n", encoding="utf-8")
    assert claw.call("write_file", {"path": "a.txt", "content": "new\n"}).text == "成功将内容写入到文件: a.txt"
    assert (tmp_path / "a.txt").read_bytes() == b"new\n"


def test_s1_10_directories_that_cannot_be_made_and_files_that_cannot_be_written_say_so(
    make_session: Make, tmp_path: Path
) -> None:
    root, library = tmp_path / "project", tmp_path / "library"
    root.mkdir()
    library.mkdir()
    claw = make_session(root, "claw", durable=False, setup=Setup(roots=[Root(str(library), writable=False)]))
    (root / "file").write_text("old\n", encoding="utf-8")
    (root / "src").mkdir()
    os.link(root / "file", root / "twin")
    path = str(library / "a.txt")
    for name, answer in {
        "file/a.txt": "创建父目录失败: file/a.txt 不能用作路径: 路径中有一部分不是目录",
        "src": "写入文件失败: src 是一个目录,请指定其中的文件",
        "file": "写入文件失败: file 有 2 个硬链接,修改可能影响到工作区之外,因此未被修改",
        path: f"写入文件失败: {path} 未被修改: {library} 只允许读取",
    }.items():
        assert claw.call("write_file", {"path": name, "content": "new\n"}).text == answer
    assert (root / "file").read_bytes() == b"old\n"
    assert list(library.iterdir()) == [] and list((root / "src").iterdir()) == []


def _read_to_the_end(claw: Session, path: str) -> list[str]:
    """The lines of a text, as a model gets them that follows each hint to the next page."""
    pages: list[str] = []
    arguments: dict[str, object] = {"path": path}
    while True:
        result = claw.call("read_file", arguments)
        page, cut, _ = result.text.partition(CUT)
        lines = page.split("\n")
        if not cut:
            whole = "offset" not in arguments  # then the line feed at its end is there, too
            return [*pages, *(lines[:-1] if whole else lines)]
        hint = re.fullmatch(r"\(后面还有内容,继续读取请使用 offset=(\d+)\)", str(result.blocks[1]["text"]))
        assert hint and int(hint[1]) > len(pages)
        pages += lines[: int(hint[1]) - 1 - len(pages)]
        arguments = {"path": path, "offset": int(hint[1])}


@pytest.mark.parametrize("line", ["line {}", "{} 好好好好好好", "", "x" * 7990 + "{}"])
@pytest.mark.parametrize("count", [1_200, 9_000])
def test_s1_28_every_line_of_a_long_file_can_be_reached(claw: Session, tmp_path: Path, line: str, count: int) -> None:
    lines = [line.format(number) for number in range(count if len(line) < 100 else 20)]
    (tmp_path / "a.txt").write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")
    assert _read_to_the_end(claw, "a.txt") == lines
    assert claw.call("read_file", {"path": "a.txt", "offset": len(lines), "limit": 1}).text == lines[-1]


@pytest.mark.parametrize("count", [2_500, 20_000])
def test_s1_28_every_line_of_long_output_can_be_reached(claw: Session, count: int) -> None:
    result = claw.call("bash", {"command": f"seq {count}"}, id="call-1")
    path = str(result.data["log"])
    assert path in "".join(str(block["text"]) for block in result.blocks)
    assert claw.call("read_file", {"path": path, "offset": count}).text == str(count)
    assert _read_to_the_end(claw, path) == [str(number) for number in range(1, count + 1)]


def _is_chinese(text: str) -> bool:
    return bool(re.search(r"[\u4e00-\u9fff]", text))


def test_s1_29_prompt_tools_and_argument_errors_are_chinese(claw: Session) -> None:
    assert _is_chinese(claw.dialect.prompt)
    for spec in claw.specs():
        assert _is_chinese(spec.description)
        assert all(_is_chinese(one["description"]) for one in spec.schema["properties"].values())
        for wrong in ({}, {"other": 1}, dict.fromkeys(spec.schema["required"], 3)):
            result = claw.call(spec.name, wrong)
            assert result.error and result.error.code == "bad_arguments"
            for problem in result.text.splitlines():
                assert _is_chinese(problem) and not re.search(r"missing|unknown|should|got ", problem), problem


_PRINTED = ("arguments", "apply_patch", "bash", "edit", "errors", "notes", "prompt", "read", "uppercase", "write")
_OF_OTHER_TOOLS = {
    "bad_anchor",
    "bad_filter",
    "bad_glob",
    "bad_notebook",
    "bad_pattern",
    "bad_replacement",
    "count_limit",
    "cut_matches",
    "empty_match",
    "fallback",
    "invalid_notebook",
    "job_more",
    "kept",
    "more_entries",
    "more_occurrences",
    "more_paths",
    "more_results",
    "no_outline",
    "no_such_cell",
    "no_such_job",
    "not_all_searched",
    "other_count",
    "past_column",
    "search_timed_out",
    "slow_filter",
    "started",
    "stdin_closed",
    "time_limit",
    "too_many_jobs",
    "too_many_occurrences",
    "unknown_occurrence",
    "unknown_type",
    "unreadable",
}
"""Sentences about tools and arguments that these dialects do not have."""


@pytest.mark.parametrize("dialect", ["claw", "hello"])
def test_s1_29_every_sentence_that_a_tool_of_the_dialect_prints_is_chinese(dialect: str) -> None:
    english = []
    for key, template in dialects.load(dialect).templates.messages.items():
        group, _, code = key.partition(".")
        words = re.sub(r"\[\[!?\w+\?|\{[^}]*\}|`[^`]*`", "", template)
        if group in _PRINTED and code not in _OF_OTHER_TOOLS and re.search(r"[a-z]{3,} [a-z]{2,}", words):
            english += [] if _is_chinese(words) else [key]
    assert english == []


@pytest.mark.parametrize("dialect", ["claw", "hello"])
def test_s1_29_the_whole_system_prompt_is_chinese(make_session: Make, tmp_path: Path, dialect: str) -> None:
    (tmp_path / "AGENTS.md").write_text("用制表符缩进。\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "AGENTS.md").write_text("x\n", encoding="utf-8")
    for line in system_prompt(make_session(dialect=dialect)).splitlines():
        assert not line.strip() or _is_chinese(line) or line == "- sub/AGENTS.md", line


def test_s1_29_failures_are_chinese(claw: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    calls: list[tuple[str, dict[str, object]]] = [
        ("read_file", {"path": "none.txt"}),
        ("read_file", {"path": "a.txt", "offset": 9}),
        ("read_file", {"path": "."}),
        ("write_file", {"path": "../b.txt", "content": "x"}),
        ("edit_file", {"path": "a.txt", "old_text": "two", "new_text": "2"}),
        ("bash", {"command": "true; apply_patch"}),
    ]
    for tool, arguments in calls:
        result = claw.call(tool, arguments)
        assert result.error and _is_chinese(result.text), result.text
