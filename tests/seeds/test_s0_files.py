"""S0-4 to S0-22: read_file, write_file and edit_file in the dialect `deepagents`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from handrail.model import Result

Make = Callable[..., Session]
EMPTY = "System reminder: File exists but has empty contents"
LONG = (
    "\n\n[The answer was cut here: it is too long.{next} Read less at a time with offset and limit. If single lines are"
    " very long, format the file first (JSON with jq, other files with a formatter of their kind), then read the"
    " result.]"
)
BEFORE_EDIT = (
    "You must read the file before editing. This tool will error if you attempt an edit without reading the file first."
)


@pytest.fixture
def agent(make_session: Make) -> Session:
    return make_session(dialect="deepagents", durable=False)


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    """`file("a.txt", "text")`: a file that exists, as an absolute path."""

    def make(name: str, text: str = "") -> str:
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8"))
        return str(path)

    return make


File = Callable[..., str]


def _read(session: Session, path: str, **more: Any) -> Result:
    return session.call("read_file", {"file_path": path, **more})


def _write(session: Session, path: str, content: str) -> Result:
    return session.call("write_file", {"file_path": path, "content": content})


def _edit(session: Session, path: str, old: str, new: str, **more: Any) -> Result:
    return session.call("edit_file", {"file_path": path, "old_string": old, "new_string": new, **more})


def _numbered(first: int, last: int) -> str:
    return "\n".join(f"{number:>6}\tline {number}" for number in range(first, last + 1))


def _lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def _unread(path: str) -> str:
    return f"Error: {path} was not changed. You must read the file before editing: call read_file first."


def _spec(session: Session, name: str) -> Any:
    (spec,) = [spec for spec in session.specs() if spec.name == name]
    return spec


def test_s0_4_a_file_of_100_000_lines_does_not_flood_the_context(agent: Session, file: File) -> None:
    path = file("big.log", _lines(100_000))
    result = _read(agent, path)
    assert result.text == _numbered(1, 100) + "\n(more lines follow: go on with offset=100)"
    result = _read(agent, path, limit=100_000)
    assert (len(result.text), result.status) == (80_000, "partial")


def test_s0_4_a_write_requires_a_read_and_an_edit_requires_the_text(agent: Session, file: File) -> None:
    path = file("a.txt", "one\n")
    assert _write(agent, path, "new\n").text == _unread(path)
    _read(agent, path)
    assert _edit(agent, path, "what I believe is there", "x").text == f"Error: Text not found in {path}"
    assert Path(path).read_bytes() == b"one\n"
    assert _edit(agent, path, "one", "two").status == "ok"


@pytest.mark.parametrize("text", ["one\ntwo\n", "one\ntwo", "one\r\ntwo\r\n"])
def test_s0_6_rows_have_numbers_from_1_right_aligned_in_six_places(agent: Session, file: File, text: str) -> None:
    result = _read(agent, file("a.txt", text))
    assert (result.text, result.status) == ("     1\tone\n     2\ttwo", "ok")


def test_s0_6_numbers_of_every_length_end_in_the_same_column(agent: Session, file: File) -> None:
    path = file("a.txt", "\n" * 1_000_001)
    for number in (1, 10, 100, 1000, 10_000, 100_000, 999_999):
        assert _read(agent, path, offset=number - 1, limit=1).text == f"{number:6d}\t"
    assert _read(agent, path, offset=999_999, limit=1).text == "1000000\t"


def test_s0_7_without_arguments_the_first_100_lines_are_given(agent: Session, file: File) -> None:
    assert _read(agent, file("a.txt", _lines(100))).text == _numbered(1, 100)
    result = _read(agent, file("b.txt", _lines(101)))
    assert result.text == _numbered(1, 100) + "\n(more lines follow: go on with offset=100)"
    assert (result.status, [note.code for note in result.notes]) == ("partial", ["more_lines"])
    properties = _spec(agent, "read_file").schema["properties"]
    assert (properties["offset"]["default"], properties["limit"]["default"]) == (0, 100)


@pytest.mark.parametrize(
    ("offset", "limit", "first", "last"),
    [(0, 1, 1, 1), (0, 100, 1, 100), (1, 2, 2, 3), (249, 1, 250, 250), (249, 9, 250, 250), ("9", "2", 10, 11)],
)
def test_s0_7_offset_counts_from_0_and_limit_counts_rows(
    agent: Session, file: File, offset: int, limit: int, first: int, last: int
) -> None:
    result = _read(agent, file("a.txt", _lines(250)), offset=offset, limit=limit)
    assert (result.text, result.status) == (_numbered(first, last), "ok")


def test_s0_7_the_offset_that_an_answer_names_goes_on_right_behind_it(agent: Session, file: File) -> None:
    path, shown, offset = file("a.txt", _lines(250)), "", 0
    for expected in (100, 200, None):
        first, *note = _read(agent, path, offset=offset).text.split("\n(more lines follow: go on with offset=")
        shown += first + "\n"
        assert note == ([f"{expected})"] if expected else [])
        offset = expected or 0
    assert shown == _numbered(1, 250) + "\n"


@pytest.mark.parametrize("offset", [250, 251, 10**9])
def test_s0_7_an_offset_behind_the_end_is_named_as_it_was_given(agent: Session, file: File, offset: int) -> None:
    path = file("a.txt", _lines(250))
    result = _read(agent, path, offset=offset)
    assert (result.text, result.status) == (f"Error: offset {offset} is beyond the end of {path} (250 lines)", "error")


@pytest.mark.parametrize("offset", [-1, -7])
def test_s0_7_an_offset_before_the_start_reads_from_the_first_line_and_says_so(
    agent: Session, file: File, offset: int
) -> None:
    result = _read(agent, file("a.txt", _lines(3)), offset=offset)
    assert (result.text, result.status) == (_numbered(1, 3), "ok")
    notice = f"[Requested offset {offset} is before the start of the file; read from line 1 instead.]"
    assert [block["text"] for block in result.blocks] == [result.text, notice]


def test_s0_7_a_limit_of_0_reads_nothing_and_is_no_empty_file(agent: Session, file: File) -> None:
    path = file("a.txt", _lines(3))
    result = _read(agent, path, limit=0)
    assert result.text.startswith("System reminder: no lines were read because `limit` was 0.")
    assert _write(agent, path, "new\n").text == _unread(path)


def test_s0_8_a_log_of_a_million_lines_is_cut_by_the_tool(agent: Session, file: File) -> None:
    path = file("a.log", _lines(1_000_000))
    assert _read(agent, path).text == _numbered(1, 100) + "\n(more lines follow: go on with offset=100)"
    assert len(_read(agent, path, limit=1_000_000).text) == 80_000
    assert _read(agent, path, offset=999_998).text == _numbered(999_999, 1_000_000)


def test_s0_9_a_line_of_over_5000_characters_is_split_into_numbered_rows(agent: Session, file: File) -> None:
    text = "1\n2\n3\n4\n" + "a" * 5000 + "b" * 5000 + "c\n" + "d" * 5000 + "\n7\n"
    result = _read(agent, file("a.js", text))
    parts = ["     1\t1", "     2\t2", "     3\t3", "     4\t4"]
    parts += ["   5.1\t" + "a" * 5000, "   5.2\t" + "b" * 5000, "   5.3\tc", "     6\t" + "d" * 5000, "     7\t7"]
    assert (result.text, result.status) == ("\n".join(parts), "ok")


@pytest.mark.parametrize("length", [5001, 9999, 10_000])
def test_s0_9_the_rows_of_a_line_make_the_line(agent: Session, file: File, length: int) -> None:
    line = "".join(chr(0x4E00 + number % 5000) for number in range(length))
    first, second = _read(agent, file("a.txt", line)).text.split("\n")
    assert (first, second) == (f"   1.1\t{line[:5000]}", f"   1.2\t{line[5000:]}")


def test_s0_9_such_rows_count_against_the_limit(agent: Session, file: File) -> None:
    path = file("a.js", "one\n" + "a" * 5000 + "b" * 5000 + "\nthree\n")
    rows = ["     1\tone", "   2.1\t" + "a" * 5000, "   2.2\t" + "b" * 5000, "     3\tthree"]
    goes_on = "\n(line 2 goes on: read it with offset=1 and a larger limit)"
    assert _read(agent, path, limit=1).text == rows[0]
    result = _read(agent, path, limit=2)
    assert (result.text, result.status) == ("\n".join(rows[:2]) + goes_on, "partial")
    assert _read(agent, path, limit=3).text == "\n".join(rows[:3])
    assert _read(agent, path, limit=4).text == "\n".join(rows)
    assert _read(agent, path, offset=1, limit=2).text == "\n".join(rows[1:3])


def test_s0_9_without_a_limit_a_hundred_rows_are_given_whatever_they_are_parts_of(
    agent: Session, file: File, make_session: Make
) -> None:
    path = file("a.txt", "x\n" * 98 + "a" * 15_000 + "\nlast\n")
    result = _read(agent, path)
    rows = [*(f"{number:>6}\tx" for number in range(1, 99)), "  99.1\t" + "a" * 5000, "  99.2\t" + "a" * 5000]
    more = "\n(more lines follow: go on with offset=99)\n(line 99 goes on: read it with offset=98 and a larger limit)"
    assert result.text == "\n".join(rows) + more


@pytest.mark.parametrize("text", ["", "\ufeff"])
def test_s0_13_an_empty_file_is_said_to_be_empty(agent: Session, file: File, text: str) -> None:
    result = _read(agent, file("empty.txt", text))
    assert (result.text, result.status) == (EMPTY, "ok")
    assert _read(agent, file("blank.txt", "\n")).text == "     1\t"


def _cut(rows: str, following: int | None) -> str:
    """An answer of 80,000 characters that names the offset to go on with."""
    end = LONG.format(next=f" Go on with offset={following}." if following else "")
    return rows[: 80_000 - len(end)] + end


def test_s0_14_an_answer_of_4_characters_times_20000_tokens_is_cut_and_says_how_to_go_on(
    agent: Session, file: File
) -> None:
    path = file("a.jsonl", ("x" * 992 + "\n") * 100)
    rows = "\n".join(f"{number:>6}\t" + "x" * 992 for number in range(1, 101))
    result = _read(agent, path)
    assert result.text == _cut(rows, 79)
    assert (len(result.text), result.status) == (80_000, "partial")
    assert [note.code for note in result.notes] == ["answer_cut"]


@pytest.mark.parametrize(("length", "cut"), [(79_999, False), (80_000, True), (80_001, True)])
def test_s0_14_the_cut_begins_at_the_limit_itself(agent: Session, file: File, length: int, cut: bool) -> None:
    lines = ["x" * 992] * 79  # 79 rows of 999 characters and a line break
    lines.append("y" * (length - 79 * 1000 - 7))
    result = _read(agent, file("a.txt", "\n".join(lines)))
    rows = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, start=1))
    assert len(rows) == length
    assert result.text == (_cut(rows, 79) if cut else rows)
    assert result.status == ("partial" if cut else "ok")


@pytest.mark.parametrize("head", ["", "/* a licence */\n"])
@pytest.mark.parametrize("length", [100_000, 5_000_000])
def test_s0_14_one_endless_line_is_cut_there_too(agent: Session, file: File, head: str, length: int) -> None:
    result = _read(agent, file("a.min.js", head + "x" * length))
    number = head.count("\n") + 1
    rows = [f"     1\t{head[:-1]}"] if head else []
    rows += [f"{f'{number}.{part}':>6}\t" + "x" * 5000 for part in range(1, 21)]
    assert result.text == _cut("\n".join(rows), 1 if head else None)


def test_s0_15_write_takes_a_path_and_content_and_makes_directories(agent: Session, tmp_path: Path) -> None:
    assert set(_spec(agent, "write_file").schema["properties"]) == {"file_path", "content"}
    assert _spec(agent, "write_file").schema["required"] == ["file_path", "content"]
    path = tmp_path / "a" / "b" / "c.txt"
    assert _write(agent, str(path), "one\n").text == f"Updated file {path}"
    assert path.read_bytes() == b"one\n"
    assert _write(agent, str(path), "two").text == f"Updated file {path}"
    assert path.read_bytes() == b"two"
    assert agent.call("write_file", {"file_path": str(path), "content": "x", "mode": "a"}).status == "error"


def test_s0_16_the_words_for_a_model_say_that_a_file_is_read_first(agent: Session) -> None:
    assert BEFORE_EDIT in _spec(agent, "edit_file").description


def test_s0_16_a_file_that_was_not_read_is_not_changed(agent: Session, file: File) -> None:
    path = file("a.txt", "one\n")
    for result in (_write(agent, path, "two\n"), _edit(agent, path, "one", "two")):
        assert (result.text, result.status) == (_unread(path), "error")
    assert Path(path).read_bytes() == b"one\n"
    _read(agent, path)
    assert _edit(agent, path, "one", "two").text == f"Edited {path}"
    assert _write(agent, path, "three\n").text == f"Updated file {path}"


def test_s0_16_a_file_that_changed_since_it_was_read_is_not_overwritten(agent: Session, file: File) -> None:
    path = file("a.txt", "one\ntwo\n")
    _read(agent, path)
    file("a.txt", "one\n2\n")
    answer = f"Error: {path} was not changed. It is not what you read any more (lines 2 differ): call read_file again."
    assert _write(agent, path, "new\n").text == answer
    assert Path(path).read_bytes() == b"one\n2\n"


def test_s0_17_write_confirms_and_never_gives_the_content_back(agent: Session, tmp_path: Path) -> None:
    path = str(tmp_path / "big.txt")
    for content in ("secret " * 100_000, "secret " * 100_000, "other\n"):  # new, unchanged, replaced
        result = _write(agent, path, content)
        assert (result.text, result.status) == (f"Updated file {path}", "ok")


@pytest.mark.parametrize(
    "escape", ["{root}/../secret", "{root}/src/../../secret", "../secret", "/etc/passwd", "{link}"]
)
def test_s0_18_a_path_that_leaves_the_workspace_is_refused(make_session: Make, tmp_path: Path, escape: str) -> None:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret\n", encoding="utf-8")
    (root / "link").symlink_to(tmp_path / "secret")
    agent = make_session(root, "deepagents", durable=False)
    path = escape.format(root=root, link=root / "link")
    for result in (_read(agent, path), _write(agent, path, "x"), _edit(agent, path, "secret", "x")):
        assert (result.text, result.status) == (f"Path escapes workspace: {path}", "denied")
    assert (tmp_path / "secret").read_bytes() == b"secret\n"


def test_s0_18_a_path_inside_may_take_any_way(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    agent = make_session(dialect="deepagents")
    for path in (str(tmp_path / "a.txt"), f"{tmp_path}/src/../a.txt", f"{tmp_path}/../{tmp_path.name}/a.txt", "a.txt"):
        assert _read(agent, path).text == "     1\tone"


def test_s0_19_edit_takes_these_four_arguments(agent: Session) -> None:
    schema = _spec(agent, "edit_file").schema
    assert list(schema["properties"]) == ["file_path", "old_string", "new_string", "replace_all"]
    assert [value["type"] for value in schema["properties"].values()] == ["string", "string", "string", "boolean"]
    assert schema["properties"]["replace_all"]["default"] is False
    assert schema["required"] == ["file_path", "old_string", "new_string"]


def test_s0_19_edit_answers_with_one_string(agent: Session, file: File) -> None:
    path = file("a.txt", "one two one\n")
    _read(agent, path)
    assert _edit(agent, path, "two", "2").text == f"Edited {path}"
    assert _edit(agent, path, "one", "1", replace_all=True).text == f"Edited {path}"
    assert Path(path).read_bytes() == b"1 2 1\n"


def test_s0_20_no_match_and_more_than_one_match_are_errors(agent: Session, file: File) -> None:
    path = file("a.py", "x = 1\nx = 1\n    y = 2\n")
    _read(agent, path)
    many = f"Error: old_string occurs 2 times in {path}."
    many += " Add lines around it to make it unique, or set replace_all to true."
    for old, answer in {"x = 1": many, "z = 3": f"Error: Text not found in {path}"}.items():
        result = _edit(agent, path, old, "new")
        assert (result.text, result.status) == (answer, "error")
    assert Path(path).read_bytes() == b"x = 1\nx = 1\n    y = 2\n"
    assert _edit(agent, path, "absent", "new", replace_all=True).text == f"Error: Text not found in {path}"
    assert _edit(agent, path, "x = 1", "x = 2", replace_all=True).status == "ok"
    assert Path(path).read_bytes() == b"x = 2\nx = 2\n    y = 2\n"


@pytest.mark.parametrize("old", ["y  = 2", "Y = 2", "     1\tx = 1", "x = 1\n  y = 2", "x = 1  "])
def test_s0_20_the_match_is_exact_and_by_text(agent: Session, file: File, old: str) -> None:
    path = file("a.py", "x = 1\n    y = 2\n")
    _read(agent, path)
    assert _edit(agent, path, old, "new").text == f"Error: Text not found in {path}"
    assert Path(path).read_bytes() == b"x = 1\n    y = 2\n"


def test_s0_21_the_two_sentences_of_the_smallest_edit(agent: Session, file: File) -> None:
    path = file("a.txt", "one\n")
    _read(agent, path)
    assert _edit(agent, path, "two", "2").text == f"Error: Text not found in {path}"
    assert _edit(agent, path, "one", "1").text == f"Edited {path}"
    assert Path(path).read_bytes() == b"1\n"


def test_s0_22_the_words_for_a_model_prefer_edit_over_write(agent: Session) -> None:
    for name in ("write_file", "edit_file"):
        assert "prefer editing existing files over creating new ones" in _spec(agent, name).description


def test_s0_22_an_edit_needs_only_the_part_that_changes(agent: Session, file: File) -> None:
    text = _lines(10_000)
    path = file("a.txt", text)
    _read(agent, path)
    assert _edit(agent, path, "line 5000\n", "line five thousand\n").text == f"Edited {path}"
    assert os.path.getsize(path) == len(text) + len("five thousand") - len("5000")


def test_s0_53_a_slash_is_the_workspace_in_every_path(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "src" / "etc").mkdir(parents=True)
    (tmp_path / "src" / "a.py").write_text("one\n", encoding="utf-8")
    agent = make_session(dialect="deepagents", durable=False)
    assert agent.call("ls", {"path": "/"}).text == f"{tmp_path}/src/"
    for path in ("/src", "/src/", "/./src", "src", f"{tmp_path}/src"):
        assert agent.call("ls", {"path": path}).text == f"{tmp_path}/src/etc/\n{tmp_path}/src/a.py"
        assert agent.call("glob", {"pattern": "*.py", "path": path}).text == f"{tmp_path}/src/a.py"
        assert agent.call("grep", {"pattern": "one", "path": path}).text == f"{tmp_path}/src/a.py"
    assert _read(agent, "/src/a.py").text == "     1\tone"
    assert _edit(agent, "/src/a.py", "one", "two").text == "Edited /src/a.py"
    assert _write(agent, "/new/b.py", "b\n").text == "Updated file /new/b.py"
    assert (tmp_path / "src" / "a.py").read_bytes() == b"two\n"
    assert (tmp_path / "new" / "b.py").read_bytes() == b"b\n"


@pytest.mark.parametrize("path", ["/../secret", "/src/../../secret", "/etc/passwd", "/link", "/link/passwd", "/.."])
def test_s0_53_leaving_the_workspace_is_refused_by_the_name_that_was_given(
    make_session: Make, tmp_path: Path, path: str
) -> None:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "link").symlink_to("/etc")
    agent = make_session(root, "deepagents", durable=False)
    for result in (_read(agent, path), _write(agent, path, "x"), agent.call("ls", {"path": path})):
        assert (result.text, result.status) == (f"Path escapes workspace: {path}", "denied")


def test_s0_53_a_path_in_a_command_is_a_path_of_the_machine(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("mine\n", encoding="utf-8")
    agent = make_session(dialect="deepagents", durable=False)
    assert _read(agent, "/etc/passwd").text == "     1\tmine"
    prepared = agent.prepare("execute", {"command": "cat /etc/passwd"})
    assert "/etc/passwd" in [access.path for access in prepared.accesses if access.by_command]
