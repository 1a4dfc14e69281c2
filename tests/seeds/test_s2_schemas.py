"""S2-1, S2-2, S2-29, S2-30: what the model is told of Read, Edit and MultiEdit, and every error text."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from handrail import Root, Session, Setup
from handrail.model import Result
from tests.seeds.golden import EXISTS, MISSING, MODIFIED, NOT_READ, REMINDER, SAME, TAIL, description, rows, schema

TOOLS = ["Read", "Edit", "MultiEdit"]


@pytest.mark.parametrize("tool", TOOLS)
def test_s2_1_the_description_is_the_documents_to_the_byte(claude: Session, tool: str) -> None:
    actual = {spec.name: spec.description for spec in claude.specs()}
    assert actual[tool] == description(tool)


@pytest.mark.parametrize("tool", TOOLS)
def test_s2_1_the_schema_is_the_documents_key_by_key_in_its_order(claude: Session, tool: str) -> None:
    actual = {spec.name: spec.schema for spec in claude.specs()}
    assert json.dumps(actual[tool], indent=2, ensure_ascii=False) == schema(tool)


def test_s2_1_the_oddities_of_the_document_are_kept(claude: Session) -> None:
    specs = {spec.name: spec for spec in claude.specs()}
    assert specs["Edit"].description.startswith(
        "Performs exact string replacements in files.\n\nPerforms exact string replacements in files. \n\nUsage:\n"
    )
    assert "without reading the file. \n" in specs["Edit"].description
    assert "every instance of `old_string`. \n" in specs["Edit"].description
    assert "that are potentially useful. \n" in specs["Read"].description
    assert "Replace all occurences of old_string. This" in specs["MultiEdit"].description
    edit, multi = specs["Edit"].schema["properties"], specs["MultiEdit"].schema["properties"]
    assert edit["replace_all"]["description"] == "Replace all occurences of old_string (default false)"
    item = multi["edits"]["items"]
    assert item["properties"]["replace_all"]["description"] == "Replace all occurences of old_string (default false)."
    assert item["additionalProperties"] is False and multi["edits"]["minItems"] == 1
    assert {specs["Read"].schema["properties"][name]["type"] for name in ("offset", "limit")} == {"number"}
    assert all(specs[tool].schema["additionalProperties"] is False for tool in TOOLS)


@pytest.mark.parametrize("arguments", [{"offset": 2, "limit": 1}, {"offset": 2.0, "limit": 1.0}])
def test_s2_1_offset_and_limit_are_numbers(claude: Session, file: Callable[..., str], arguments: Any) -> None:
    path = file("three.txt", "one\ntwo\nthree\n")
    result = claude.call("Read", {"file_path": path, **arguments})
    assert result.text == "     2→two" + REMINDER


def test_s2_1_arguments_that_the_schema_does_not_name_are_refused(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\n")
    edit = {"old_string": "one", "new_string": "two"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"file_path": path, "column": 1}),
        ("Edit", {"file_path": path, **edit, "count": 1}),
        ("MultiEdit", {"file_path": path, "edits": [{**edit, "count": 1}]}),
    ]
    for tool, arguments in calls:
        result = claude.call(tool, arguments)
        assert (result.status, result.error and result.error.code) == ("error", "bad_arguments"), tool
        assert ("column" if tool == "Read" else "count") in result.text
    assert Path(path).read_text(encoding="utf-8") == "one\n"


def test_s2_1_multi_edit_needs_at_least_one_edit(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\n")
    result = claude.call("MultiEdit", {"file_path": path, "edits": []})
    assert (result.status, result.error and result.error.code) == ("error", "bad_arguments")
    assert "edits" in result.text


def _edit(path: str, old: str, new: str = "other", **more: Any) -> dict[str, Any]:
    return {"file_path": path, "old_string": old, "new_string": new, **more}


def _provoked(claude: Session, tmp_path: Path, file: Callable[..., str], seen: Callable[..., str]) -> dict[str, Result]:
    """Every error of the document, each from a real call; the key is the text that it must have."""
    call, folder, gone = claude.call, str(tmp_path), str(tmp_path / "gone.txt")
    stale = seen("stale.txt", "one\n")
    Path(stale).write_text("changed by a linter\n", encoding="utf-8")
    known = seen("known.txt", "重复行\n重复行\n重复行\n")
    big, wide = file("big.txt", "x" * 99 + "\n"), file("wide.txt", "\n".join(["y" * 999] * 61))
    Path(big).write_bytes(b"x" * 300_000)
    many = (
        "<tool_use_error>Found 3 matches of the string to replace, but replace_all is false. To replace all"
        " occurrences, set replace_all to true. To replace only one occurrence, please provide more context to uniquely"
        " identify the instance.\nString: 重复行</tool_use_error>"
    )
    return {
        NOT_READ: call("Edit", _edit(file("unread.txt", "one\n"), "one")),
        MODIFIED: call("Edit", _edit(stale, "one")),
        MISSING: call("Read", {"file_path": gone}),
        "<tool_use_error>Illegal operation on a directory. read</tool_use_error>": call("Read", {"file_path": folder}),
        "<tool_use_error>Illegal operation on a directory. edit</tool_use_error>": call("Edit", _edit(folder, "a")),
        f"File content (293.0KB) exceeds maximum allowed size (256KB). {TAIL}": call("Read", {"file_path": big}),
        f"File content (60999 chars) exceeds maximum allowed tokens (60000). {TAIL}": call("Read", {"file_path": wide}),
        "<system-reminder>Warning: the file exists but is shorter than the provided offset (1000). The file has 3"
        " lines.</system-reminder>": call("Read", {"file_path": known, "offset": 1000}),
        "<tool_use_error>String to replace not found in file.\nString: 不存在的内容</tool_use_error>": call(
            "Edit", _edit(known, "不存在的内容")
        ),
        SAME: call("Edit", _edit(known, "重复行", "重复行")),
        EXISTS: call("Edit", _edit(known, "")),
        many: call("Edit", _edit(known, "重复行")),
    }


def test_s2_2_every_error_text_is_the_documents_to_the_byte(
    claude: Session, tmp_path: Path, file: Callable[..., str], seen: Callable[..., str]
) -> None:
    for expected, result in _provoked(claude, tmp_path, file, seen).items():
        assert result.text == expected
        assert result.status == "error"
        assert result.error and result.error.message == expected


def test_s2_2_text_with_braces_and_brackets_is_said_as_it_is(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\n")
    old = "{path} {0} [[x]] %s \\n {{y}}"
    result = claude.call("Edit", _edit(path, old))
    assert result.text == f"<tool_use_error>String to replace not found in file.\nString: {old}</tool_use_error>"


def test_s2_29_an_absolute_path_is_taken_as_it_stands(
    claude: Session, file: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    path = file("a.txt", "one\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert claude.call("Read", {"file_path": path}).text == "     1→one" + REMINDER
    assert path in claude.call("Edit", _edit(path, "one", "two")).text


def test_s2_29_a_file_outside_is_read_where_the_host_allows_it_and_never_written(
    make_session: Callable[..., Session], tmp_path: Path
) -> None:
    inside, outside = tmp_path / "project", tmp_path / "machine"
    inside.mkdir(), outside.mkdir()
    path = outside / "hosts"
    path.write_text("127.0.0.1 localhost\n", encoding="utf-8")
    session = make_session(inside, dialect="claude", setup=Setup(roots=[Root(str(outside), writable=False)]))
    assert session.call("Read", {"file_path": str(path)}).text == "     1→127.0.0.1 localhost" + REMINDER
    assert session.call("Edit", _edit(str(path), "localhost")).status == "denied"
    assert path.read_text(encoding="utf-8") == "127.0.0.1 localhost\n"
    closed = make_session(inside, dialect="claude")
    assert closed.call("Read", {"file_path": str(path)}).status == "denied"


def test_s2_29_read_does_not_list_directories(claude: Session, file: Callable[..., str], tmp_path: Path) -> None:
    file("secret-name.txt", "one\n")
    result = claude.call("Read", {"file_path": str(tmp_path)})
    assert result.text == "<tool_use_error>Illegal operation on a directory. read</tool_use_error>"


def test_s2_29_several_calls_of_one_response_may_run_at_the_same_time(
    claude: Session, file: Callable[..., str]
) -> None:
    lines = {file(f"{name}.txt", f"{name}\n" * 100): [f"{name}"] * 100 for name in "abcdefgh"}
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda path: claude.call("Read", {"file_path": path}, id=path), lines))
    assert {result.id: result.text for result in results} == {p: rows(one) + REMINDER for p, one in lines.items()}
    with ThreadPoolExecutor(8) as pool:
        edits = pool.map(lambda path: claude.call("MultiEdit", _all(path, lines[path][0])), lines)
        assert [result.status for result in edits] == ["ok"] * 8
    assert {Path(path).read_text(encoding="utf-8") for path in lines} == {f"{n}{n}\n" * 100 for n in "abcdefgh"}


def _all(path: str, name: str) -> dict[str, Any]:
    return {"file_path": path, "edits": [{"old_string": name, "new_string": name * 2, "replace_all": True}]}


def test_s2_30_the_tool_that_multi_edit_names_for_notebooks_exists(claude: Session) -> None:
    specs = {spec.name: spec for spec in claude.specs()}
    assert "For Jupyter notebooks (.ipynb files), use the NotebookEdit instead" in specs["MultiEdit"].description
    assert "NotebookEdit" in specs
    assert specs["NotebookEdit"].schema["type"] == "object" and specs["NotebookEdit"].description.strip()


def test_s2_30_notebook_edit_changes_a_cell_of_a_notebook_that_was_read(
    claude: Session, file: Callable[..., str]
) -> None:
    cells = [_cell("first", "print('一')"), _cell("second", "print(2)")]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path = file("a.ipynb", json.dumps(book, indent=1, ensure_ascii=False) + "\n")
    change = {"notebook_path": path, "cell_id": "second", "new_source": "print('二')"}
    assert claude.call("NotebookEdit", change).text == NOT_READ
    claude.call("Read", {"file_path": path})
    assert claude.call("NotebookEdit", change).status == "ok"
    expected = {**book, "cells": [cells[0], _cell("second", "print('二')")]}
    assert json.loads(Path(path).read_text(encoding="utf-8")) == expected


def _cell(id: str, line: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": id,
        "metadata": {},
        "outputs": [],
        "source": [line],
    }
