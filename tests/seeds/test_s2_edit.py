"""S2-17 to S2-25: one replacement in one file, and everything that Edit answers."""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, ToolError
from handrail.model import Result
from handrail.tools.edit import execute, validate
from tests.seeds.golden import EXISTS, SAME, rows

FIVE_LINES = "这是第一行\n这是第二行\n这是第三行\n需要修改的行\n这是第五行\n"


def _edit(session: Session, path: str, old: str, new: str, **more: Any) -> Result:
    return session.call("Edit", {"file_path": path, "old_string": old, "new_string": new, **more})


def _text(path: str) -> str:
    return Path(path).read_bytes().decode("utf-8")


def _difflib(path: str, before: str, after: str) -> str:
    """The whole-text diff that the document asks for."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, fromfile=path, tofile=path, n=3))


def _updated(path: str, snippet: str) -> str:
    return (
        f"The file {path} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n"
        + snippet
    )


def _twenty(**changed: str) -> list[str]:
    return [changed.get(f"l{number}", f"line {number}") for number in range(1, 21)]


@pytest.mark.parametrize(
    ("old", "new", "replace_all", "code"),
    [
        ("absent", "x", False, "no_match"),
        ("absent", "x", True, "no_match"),
        ("twice", "x", False, "many_matches"),
        ("once", "once", False, "no_change"),
        ("", "x", False, "empty_old"),
        ("once", "x", False, None),
        ("once", "x", True, None),
        ("once\n", "", False, None),
        ("twice", "x", True, None),
    ],
)
def test_s2_17_valid_gives_the_error_or_none_and_execute_agrees(
    old: str, new: str, replace_all: bool, code: str | None
) -> None:
    content = "once\ntwice\ntwice\n"
    error = validate(content, old, new, replace_all)
    assert (error.code if error else None) == code
    if code:
        with pytest.raises(ToolError) as raised:
            execute(content, old, new, replace_all)
        assert raised.value.code == code
    else:
        assert execute(content, old, new, replace_all) == content.replace(old, new)


def test_s2_17_valid_takes_its_four_arguments_by_name() -> None:
    assert validate(content="one", old_string="one", new_string="two", replace_all=False) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("line 10\n", "line ten\n"),
        ("line 10", "line 10 and more"),
        ("line 1\n", "first\n"),
        ("line 20\n", "last\n"),
        ("line 9\n", "line 9\nnew a\nnew b\n"),
        ("line 9\nline 10\n", ""),
        ("5\nline 6\nline 7", "five\nsix\nseven"),
        ("line 1\nline 2\nline 3\n", "top\n"),
        ("line 19\nline 20\n", "end\nend 2\nend 3\n"),
    ],
)
def test_s2_18_the_result_carries_difflibs_unified_diff_with_three_lines_of_context(
    claude: Session, seen: Callable[..., str], old: str, new: str
) -> None:
    before = "".join(line + "\n" for line in _twenty())
    path = seen("a.txt", before)
    result = _edit(claude, path, old, new)
    assert _text(path) == before.replace(old, new)
    assert result.data["ui_extra"] == _difflib(path, before, before.replace(old, new))


@pytest.mark.parametrize("above", [1, 3, 7, 13])
@pytest.mark.parametrize("line", ["", "}", "    return"])
def test_s2_18_a_line_added_beside_an_equal_one_has_three_lines_of_context_on_both_sides(
    claude: Session, seen: Callable[..., str], above: int, line: str
) -> None:
    head, tail = "".join(f"a{n}\n" for n in range(above)), "".join(f"z{n}\n" for n in range(6))
    before, after = f"{head}{line}\n{tail}", f"{head}{line}\n{line}\n{tail}"
    path = seen("a.txt", before)
    result = _edit(claude, path, f"a{above - 1}\n{line}\n", f"a{above - 1}\n{line}\n{line}\n")
    expected = _difflib(path, before, after)
    assert _text(path) == after
    assert result.data["ui_extra"] == expected
    kept = [row[1:] for row in expected.split("\n")[3:-1] if not row.startswith("-")]
    assert [row.split("→", 1)[1] for row in result.text.split("\n")[1:]] == kept


def test_s2_18_places_far_apart_are_hunks_of_their_own(claude: Session, seen: Callable[..., str]) -> None:
    before = "".join(f"{'marker' if number % 9 == 0 else 'line'} {number}\n" for number in range(1, 100))
    path = seen("a.txt", before)
    result = _edit(claude, path, "marker", "flag", replace_all=True)
    assert result.data["ui_extra"] == _difflib(path, before, before.replace("marker", "flag"))
    assert result.data["ui_extra"].count("\n@@ ") == 11


def test_s2_18_the_local_diff_is_difflibs_for_three_hundred_random_edits(
    claude: Session, seen: Callable[..., str]
) -> None:
    choose = random.Random(2)
    text = "".join(f"{number} {choose.random()}\n" for number in range(150))
    path = seen("a.txt", text)
    for number in range(300):
        lines = text.splitlines(keepends=True)
        start = choose.randrange(len(lines))
        old = "".join(lines[start : start + choose.randint(1, 5)])
        new = "".join(f"new {number} {choose.random()}\n" for _ in range(choose.randint(1, 5)))
        result = _edit(claude, path, old, new)
        after = text.replace(old, new)
        assert result.data["ui_extra"] == _difflib(path, text, after)
        text = after
    assert _text(path) == text


def test_s2_19_a_single_edit_answers_with_a_snippet_of_context_and_added_lines(
    claude: Session, seen: Callable[..., str]
) -> None:
    path = seen("test_edit_file.txt", FIVE_LINES)
    old, new = "这是第二行\n这是第三行\n需要修改的行", "这是新的第二行\n这是新的第三行\n已经修改的行"
    result = _edit(claude, path, old, new)
    expected = rows(["这是第一行", "这是新的第二行", "这是新的第三行", "已经修改的行", "这是第五行"])
    assert result.text == _updated(path, expected)
    assert (result.status, result.notes, result.error) == ("ok", (), None)
    assert _text(path) == FIVE_LINES.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "first", "shown"),
    [
        ("line 10", "ten", 7, ["line 7", "line 8", "line 9", "ten", "line 11", "line 12", "line 13"]),
        ("line 1\n", "one\n", 1, ["one", "line 2", "line 3", "line 4"]),
        ("line 20", "twenty", 17, ["line 17", "line 18", "line 19", "twenty"]),
        ("line 10\n", "", 7, ["line 7", "line 8", "line 9", "line 11", "line 12", "line 13"]),
        ("line 10\n", "line 10\n\nx\n", 8, ["line 8", "line 9", "line 10", "", "x", "line 11", "line 12", "line 13"]),
        ("line 10", "{new} [[a]]", 7, ["line 7", "line 8", "line 9", "{new} [[a]]", "line 11", "line 12", "line 13"]),
    ],
)
@pytest.mark.parametrize("final", ["\n", ""])
def test_s2_19_the_snippet_has_the_numbers_of_the_new_file(
    claude: Session, seen: Callable[..., str], old: str, new: str, first: int, shown: list[str], final: str
) -> None:
    path = seen("a.txt", "\n".join(_twenty()) + final)
    assert _edit(claude, path, old, new).text == _updated(path, rows(shown, first))
    assert _text(path) == ("\n".join(_twenty()) + final).replace(old, new)


def test_s2_19_a_long_snippet_is_given_in_full(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "a\nmiddle\nz\n")
    new = [f"row {number}" for number in range(1, 501)]
    assert _edit(claude, path, "middle", "\n".join(new)).text == _updated(path, rows(["a", *new, "z"]))


@pytest.mark.parametrize("replace_all", [False, True])
@pytest.mark.parametrize("old", ["不存在的内容", "two\nlines", "  one", "ONE", "one\n\n"])
def test_s2_20_a_string_that_is_not_there_is_quoted(
    claude: Session, seen: Callable[..., str], old: str, replace_all: bool
) -> None:
    path = seen("a.txt", "one\n")
    result = _edit(claude, path, old, "x", replace_all=replace_all)
    assert result.text == f"<tool_use_error>String to replace not found in file.\nString: {old}</tool_use_error>"
    assert result.status == "error" and _text(path) == "one\n"


@pytest.mark.parametrize("both", ["one", "not in the file", "one\n"])
@pytest.mark.parametrize("replace_all", [False, True])
def test_s2_21_equal_strings_change_nothing(
    claude: Session, seen: Callable[..., str], both: str, replace_all: bool
) -> None:
    path = seen("a.txt", "one\none\n")
    result = _edit(claude, path, both, both, replace_all=replace_all)
    assert (result.text, result.status) == (SAME, "error")


@pytest.mark.parametrize("contents", ["one\n", ""])
@pytest.mark.parametrize("read", [True, False])
def test_s2_22_an_empty_old_string_never_overwrites_a_file(
    claude: Session, seen: Callable[..., str], file: Callable[..., str], contents: str, read: bool
) -> None:
    path = (seen if read else file)("a.txt", contents)
    result = _edit(claude, path, "", "new contents\n")
    assert (result.text, result.status) == (EXISTS, "error")
    assert _text(path) == contents


@pytest.mark.parametrize("contents", ["one\n", "没有换行", "a\r\nb\n", "\n\n"])
def test_s2_23_an_empty_old_string_creates_a_missing_file(claude: Session, tmp_path: Path, contents: str) -> None:
    path = str(tmp_path / "test.txt")
    result = _edit(claude, path, "", contents)
    assert (result.text, result.status) == (f"File created successfully at: {path}", "ok")
    assert _text(path) == contents


def test_s2_23_missing_directories_are_created_too(claude: Session, tmp_path: Path) -> None:
    path = str(tmp_path / "one" / "两" / "three" / "test.txt")
    assert _edit(claude, path, "", "x").text == f"File created successfully at: {path}"
    assert _text(path) == "x"


def test_s2_23_a_created_file_is_not_created_again(claude: Session, tmp_path: Path) -> None:
    path = str(tmp_path / "test.txt")
    _edit(claude, path, "", "x")
    assert _edit(claude, path, "", "y").text == EXISTS
    assert _edit(claude, path, "x", "y").text == _updated(path, "     1→y")


@pytest.mark.parametrize(
    ("contents", "old", "count"),
    [("重复行\n" * 3, "重复行", 3), ("aaaaa", "aa", 2), ("x y x\nx\n", "x", 3), ("a\nb\na\nb\n", "a\nb\n", 2)],
)
def test_s2_24_several_matches_are_counted_and_refused(
    claude: Session, seen: Callable[..., str], contents: str, old: str, count: int
) -> None:
    path = seen("duplicate_content.txt", contents)
    for more in ({}, {"replace_all": False}):
        result = _edit(claude, path, old, "修改后的行", **more)
        assert result.text == (
            f"<tool_use_error>Found {count} matches of the string to replace, but replace_all is false. To replace all"
            " occurrences, set replace_all to true. To replace only one occurrence, please provide more context to"
            f" uniquely identify the instance.\nString: {old}</tool_use_error>"
        )
        assert result.status == "error"
    assert _text(path) == contents


@pytest.mark.parametrize(
    ("contents", "old", "new"),
    [
        ("重复行\n重复行\n不同的行\n重复行\n", "重复行", "修改后的行"),
        ("only once\n", "once", "twice"),
        ("a{b}a", "a", "{path}'[[x]]"),
        ("x\nx\nx", "x\n", ""),
    ],
)
def test_s2_25_replace_all_says_so_and_replaces_all(
    claude: Session, seen: Callable[..., str], contents: str, old: str, new: str
) -> None:
    path = seen("duplicate_content.txt", contents)
    result = _edit(claude, path, old, new, replace_all=True)
    assert result.text == (
        f"The file {path} has been updated. All occurrences of '{old}' were successfully replaced with '{new}'."
    )
    assert result.status == "ok" and _text(path) == contents.replace(old, new)
