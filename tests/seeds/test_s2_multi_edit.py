"""S2-26 to S2-28: several replacements in one file, all or none, and files that MultiEdit creates."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.model import Result
from tests.seeds.golden import EXISTS, MISSING, SAME

LINES = "第一行：需要修改\n第二行：也要修改\n第三行：不变\n第四行：同样需要修改\n"
Edit = tuple[str, str] | tuple[str, str, bool]


def _multi(session: Session, path: str, *edits: Edit) -> Result:
    named = [dict(zip(("old_string", "new_string", "replace_all"), edit, strict=False)) for edit in edits]
    return session.call("MultiEdit", {"file_path": path, "edits": named})


def _text(path: str) -> str:
    return Path(path).read_bytes().decode("utf-8")


def _not_found(old: str) -> str:
    return f"<tool_use_error>String to replace not found in file.\nString: {old}</tool_use_error>"


def _many(count: int, old: str) -> str:
    return (
        f"<tool_use_error>Found {count} matches of the string to replace, but replace_all is false. To replace all"
        " occurrences, set replace_all to true. To replace only one occurrence, please provide more context to uniquely"
        f" identify the instance.\nString: {old}</tool_use_error>"
    )


def test_s2_26_each_edit_works_on_the_result_of_the_one_before(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\nkeep\n")
    result = _multi(claude, path, ("one", "two two"), ("two", "three", True), ("three three\nkeep", "four"))
    assert result.status == "ok" and _text(path) == "four\n"


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([("one", "1"), ("absent", "x"), ("alike", "y")], _not_found("absent")),
        ([("one", "1"), ("one", "x")], _not_found("one")),
        ([("one", "1"), ("alike", "x"), ("absent", "x")], _many(2, "alike")),
        ([("two", "alike"), ("alike", "x")], _many(3, "alike")),
        ([("one", "1"), ("two", "two")], SAME),
        ([("one", "1"), ("", "x")], EXISTS),
        ([("", "x"), ("one", "1")], EXISTS),
        ([("absent", "x")], _not_found("absent")),
        ([("alike", "x", True), ("alike", "y", True)], _not_found("alike")),
    ],
)
def test_s2_26_the_first_failing_edit_is_answered_as_it_is_and_nothing_changes(
    claude: Session, seen: Callable[..., str], edits: list[Edit], expected: str
) -> None:
    path = seen("a.txt", "one\ntwo\nalike\nalike\n")
    before = os.stat(path)
    result = _multi(claude, path, *edits)
    assert (result.text, result.status) == (expected, "error")
    after = os.stat(path)
    assert _text(path) == "one\ntwo\nalike\nalike\n"
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert os.listdir(os.path.dirname(path)) == ["a.txt"]


def test_s2_26_a_failed_call_does_not_stand_in_the_way_of_the_next(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\n")
    assert _multi(claude, path, ("one", "two"), ("absent", "x")).status == "error"
    assert _multi(claude, path, ("one", "two"), ("two", "three")).status == "ok"
    assert _text(path) == "three\n"


def test_s2_26_the_result_carries_one_diff_of_all_edits(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("multiedit_test.txt", LINES)
    result = _multi(claude, path, ("第一行：需要修改", "第一行：改"), ("第一行：改", "第一行：已修改"))
    old, new = LINES.splitlines(keepends=True), _text(path).splitlines(keepends=True)
    assert new[0] == "第一行：已修改\n"
    assert result.data["ui_extra"] == "".join(difflib.unified_diff(old, new, fromfile=path, tofile=path, n=3))


def test_s2_27_the_answer_lists_every_edit(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("multiedit_test.txt", LINES)
    result = _multi(
        claude,
        path,
        ("第一行：需要修改", "第一行：已修改"),
        ("第二行：也要修改", "第二行：已修改"),
        ("第四行：同样需要修改", "第四行：已修改"),
    )
    assert result.text == (
        f"Applied 3 edits to {path}:\n"
        '1. Replaced "第一行：需要修改" with "第一行：已修改"\n'
        '2. Replaced "第二行：也要修改" with "第二行：已修改"\n'
        '3. Replaced "第四行：同样需要修改" with "第四行：已修改"'
    )
    assert (result.status, result.notes) == ("ok", ())
    assert _text(path) == "第一行：已修改\n第二行：已修改\n第三行：不变\n第四行：已修改\n"


def test_s2_27_strings_are_listed_as_they_were_given(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", 'say "hi"\n{x}\nz z\n')
    result = _multi(claude, path, ('say "hi"\n', ""), ("{x}", "[[y]]\n{path}"), ("z", "q", True))
    assert result.text == (
        f'Applied 3 edits to {path}:\n1. Replaced "say "hi"\n" with ""\n2. Replaced "{{x}}" with "[[y]]\n{{path}}"\n'
        '3. Replaced "z" with "q"'
    )
    assert _text(path) == "[[y]]\n{path}\nq q\n"


def test_s2_27_one_edit_is_counted_in_the_documents_words(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\n")
    assert _multi(claude, path, ("one", "two")).text == f'Applied 1 edits to {path}:\n1. Replaced "one" with "two"'


def test_s2_28_a_first_edit_with_an_empty_old_string_creates_the_file(claude: Session, tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "dir" / "a.py")
    result = _multi(claude, path, ("", "def 名():\n    pass\n"), ("pass", "return 1"), ("名", "name"))
    assert result.text == (
        f"Applied 3 edits to {path}:\n"
        '1. Replaced "" with "def 名():\n    pass\n"\n'
        '2. Replaced "pass" with "return 1"\n'
        '3. Replaced "名" with "name"'
    )
    assert _text(path) == "def name():\n    return 1\n"


def test_s2_28_a_file_may_be_created_by_one_edit_alone(claude: Session, tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    assert _multi(claude, path, ("", "one\n")).status == "ok"
    assert _text(path) == "one\n"


@pytest.mark.parametrize(
    ("later", "expected"), [(("absent", "x"), _not_found("absent")), (("", "x"), EXISTS), (("one", "one"), SAME)]
)
def test_s2_28_when_a_later_edit_fails_nothing_is_created(
    claude: Session, tmp_path: Path, later: tuple[str, str], expected: str
) -> None:
    path = str(tmp_path / "new" / "a.txt")
    assert _multi(claude, path, ("", "one\n"), later).text == expected
    assert list(tmp_path.iterdir()) == []


def test_s2_28_only_the_first_edit_may_create(claude: Session, tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    assert _multi(claude, path, ("one", "two"), ("", "one\n")).text == MISSING
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("contents", ["one\n", ""])
def test_s2_28_an_existing_file_is_not_created_over(claude: Session, file: Callable[..., str], contents: str) -> None:
    path = file("a.txt", contents)
    assert _multi(claude, path, ("", "new\n"), ("new", "newer")).text == EXISTS
    assert _text(path) == contents
