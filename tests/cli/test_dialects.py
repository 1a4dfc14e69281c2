"""`handrail dialects` and `handrail tools --tokens`: what there is, what it weighs, and whether one's own is sound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handrail import dialects
from tests.command import handrail, in_terminal


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "tools.toml").write_text('[tools.cat]\nid = "read"\n', encoding="utf-8")
    (folder / "messages.toml").write_text("", encoding="utf-8")
    return folder


def test_every_dialect_is_listed_with_its_tools_and_weight(tmp_path: Path) -> None:
    listed = {one["name"]: one for one in json.loads(handrail("dialects", "--json", cwd=tmp_path).stdout)}
    made_for_a_document = {"claw", "envelope", "hello"}
    assert list(listed) == [name for name in dialects.names() if name not in made_for_a_document]
    for name in made_for_a_document:
        assert handrail("tools", "--dialect", name, cwd=tmp_path).returncode == 0
    shown = handrail("dialects", cwd=tmp_path).stdout.decode("utf-8")
    for name, one in listed.items():
        dialect = dialects.load(name)
        assert list(one["tools"]) == list(dialect.entries) and one["core"] == list(dialect.core)
        assert one["tokens"] == sum(one["tools"][tool] for tool in dialect.core) > 0
        assert f"{name}: {len(dialect.core)} tools, about {one['tokens']} tokens" in shown
        assert dialect.about in shown and all(tool in shown for tool in dialect.entries)
    assert " +MultiEdit " in shown and " Read " in shown


def test_the_list_on_a_terminal_has_colours(tmp_path: Path) -> None:
    code, seen = in_terminal("dialects", cwd=tmp_path)
    assert code == 0 and "\x1b[1mnative" in seen


def test_a_sound_folder_is_praised(mine: Path, tmp_path: Path) -> None:
    done = handrail("dialects", "check", str(mine), cwd=tmp_path)
    assert done.returncode == 0 and b"is valid: 1 tools" in done.stdout and done.stderr == b""
    assert handrail("dialects", "check", str(mine), "--json", cwd=tmp_path).stdout == b"[]\n"


def test_one_that_comes_along_can_be_checked_by_name(tmp_path: Path) -> None:
    assert b"claude is valid" in handrail("dialects", "check", "claude", cwd=tmp_path).stdout


def test_mistakes_are_told_with_file_and_line_and_exit_code_1(mine: Path, tmp_path: Path) -> None:
    (mine / "tools.toml").write_text('[tools.cat]\nid = "reed"\n', encoding="utf-8")
    (mine / "messages.toml").write_text('[errors]\nnot_fond = "x"\n', encoding="utf-8")
    done = handrail("dialects", "check", str(mine), cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == b""
    first, second, count = done.stderr.decode("utf-8").splitlines()
    assert first.startswith(f"{mine / 'messages.toml'}:2: ") and "did you mean errors.not_found?" in first
    assert second.startswith(f"{mine / 'tools.toml'}:2: ") and "did you mean read?" in second
    assert count == "2 to fix"
    problems = json.loads(handrail("dialects", "check", str(mine), "--json", cwd=tmp_path).stdout)
    assert [(Path(one["file"]).name, one["line"]) for one in problems] == [("messages.toml", 2), ("tools.toml", 2)]


@pytest.mark.parametrize("words", [["check"], ["check", "no-such-folder"], ["list", "more"], ["chek", "x"]])
def test_wrong_usage_is_told_with_exit_code_2(words: list[str], tmp_path: Path) -> None:
    done = handrail("dialects", *words, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == b"" and done.stderr.count(b"\n") == 1


def test_tokens_are_told_for_each_dialect(tmp_path: Path) -> None:
    rows = handrail("tools", "--tokens", cwd=tmp_path).stdout.decode("utf-8").splitlines()
    listed = {one["name"]: one["tokens"] for one in json.loads(handrail("dialects", "--json", cwd=tmp_path).stdout)}
    assert {row.split()[0]: int(row.split()[1]) for row in rows} == listed


def test_tokens_are_told_for_each_tool_of_one_dialect(tmp_path: Path) -> None:
    rows = handrail("tools", "--tokens", "--dialect", "native", cwd=tmp_path).stdout.decode("utf-8").splitlines()
    dialect = dialects.load("native")
    assert [row.split()[0] for row in rows] == [*dialect.entries, "native"]
    asked_for = [row.split()[0] for row in rows if row.endswith("on request")]
    assert asked_for == [name for name in dialect.entries if name not in dialect.core]
    core = sum(int(row.split()[1]) for row in rows if row.split()[0] in dialect.core)
    assert int(rows[-1].split()[1]) == core


def test_tokens_and_a_format_do_not_go_together(tmp_path: Path) -> None:
    assert handrail("tools", "--tokens", "--format", "json", cwd=tmp_path).returncode == 2


def test_without_a_dialect_the_tools_are_the_native_ones(tmp_path: Path) -> None:
    listed = json.loads(handrail("tools", "--format", "json", cwd=tmp_path).stdout)
    assert [tool["name"] for tool in listed] == list(dialects.load("native").entries)
