"""The dialects `anthropic` and `anthropic-agent`: one tool with a command, and a shell that starts anew each time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session

EDITOR = "str_replace_based_edit_tool"
POEM = "roses\nviolets\nsugar\n"

Edit = Callable[..., Result]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    (directory / "src" / "deep" / "deeper").mkdir(parents=True)
    (directory / "poem.txt").write_bytes(POEM.encode())
    (directory / "src" / "main.py").write_bytes(b"print(1)\n")
    (directory / "src" / "deep" / "deeper" / "third.py").write_bytes(b"")
    (directory / ".hidden").write_bytes(b"")
    return directory


@pytest.fixture
def session(root: Path, make_session: Callable[..., Session]) -> Session:
    return make_session(root, "anthropic", durable=False)


@pytest.fixture
def edit(session: Session) -> Edit:
    """`edit("view", "a.txt", view_range=[1, 2])`."""
    return lambda command, path, **more: session.call(EDITOR, {"command": command, "path": path, **more})


def test_the_tools_are_called_and_asked_as_the_api_does(session: Session) -> None:
    asked = {spec.name: list(spec.schema["properties"]) for spec in session.specs()}
    assert asked == {
        EDITOR: ["command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line", "insert_text"],
        "bash": ["command", "restart"],
    }
    editor = session.dialect.spec(EDITOR).schema
    assert editor["required"] == ["command", "path"]
    assert editor["properties"]["command"]["enum"] == ["view", "create", "str_replace", "insert"]


# view


def test_a_file_is_viewed_with_line_numbers_and_a_colon(edit: Edit) -> None:
    assert edit("view", "poem.txt").text == "1: roses\n2: violets\n3: sugar"


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        ([2, 3], "2: violets\n3: sugar"),
        ([2, 2], "2: violets"),
        ([2, -1], "2: violets\n3: sugar"),
        ([1, 99], "1: roses\n2: violets\n3: sugar"),
    ],
)
def test_a_range_is_viewed_to_its_last_line_or_the_end(edit: Edit, lines: list[int], seen: str) -> None:
    result = edit("view", "poem.txt", view_range=lines)
    assert (result.status, result.text) == ("ok", seen)


@pytest.mark.parametrize("lines", [[0, 2], [3, 2], [1], [1, 2, 3], ["a", "b"], [-2, -1]])
def test_a_range_that_cannot_be_is_refused(edit: Edit, lines: list[Any]) -> None:
    result = edit("view", "poem.txt", view_range=lines)
    assert result.error and result.error.code == "bad_arguments" and "view_range" in result.text


def test_a_range_behind_the_end_is_refused_with_the_length(edit: Edit) -> None:
    result = edit("view", "poem.txt", view_range=[9, 12])
    assert result.status == "error" and "3 lines" in result.text


def test_a_directory_is_viewed_two_levels_deep_without_hidden_entries(edit: Edit) -> None:
    text = edit("view", ".").text
    assert "src/" in text and "main.py" in text and "deep/" in text and "poem.txt" in text
    assert "deeper" not in text and "third.py" not in text and ".hidden" not in text
    assert "1 hidden" in text


def test_a_range_of_a_directory_is_refused(edit: Edit) -> None:
    result = edit("view", "src", view_range=[1, 2])
    assert result.error and result.error.code == "bad_arguments" and "directory" in result.text


def test_a_long_file_is_viewed_in_whole_lines_up_to_the_limit_and_says_how_to_go_on(edit: Edit, root: Path) -> None:
    (root / "long.txt").write_text("".join(f"{n:09}\n" for n in range(1, 20_001)), encoding="utf-8")
    result = edit("view", "long.txt")
    rows = result.text.split("\n")
    assert result.status == "partial" and len(result.text) < 100_000
    last = int(rows[-2].split(": ")[0])
    assert rows[-2] == f"{last}: {last:09}" and f"view_range [{last + 1}, -1]" in rows[-1]
    assert edit("view", "long.txt", view_range=[last + 1, last + 1]).text == f"{last + 1}: {last + 1:09}"


def test_a_limit_of_characters_is_data_of_the_dialect(
    root: Path, tmp_path: Path, make_session: Callable[..., Session]
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "tools.toml").write_text(
        'words = "anthropic"\n[tools.edit]\nid = "text_editor"\nlimits = { max_characters = 10 }\n', encoding="utf-8"
    )
    (mine / "messages.toml").write_text("", encoding="utf-8")
    result = make_session(root, str(mine)).call("edit", {"command": "view", "path": "poem.txt"})
    assert result.status == "partial" and "roses" in result.text and "sugar" not in result.text


def test_a_missing_file_is_said_as_the_documentation_does(edit: Edit) -> None:
    result = edit("view", "peom.txt")
    assert result.status == "error"
    assert result.text.startswith("Error: File not found") and "poem.txt" in result.text


def test_viewing_is_a_read_and_changing_is_a_write(session: Session) -> None:
    def accessed(**arguments: Any) -> list[tuple[str, str]]:
        return [(t.action, t.target) for t in session.prepare(EDITOR, {"path": "poem.txt", **arguments}).accesses]

    assert accessed(command="view") == [("read", "poem.txt")]
    assert accessed(command="create", file_text="") == [("write", "poem.txt")]
    assert accessed(command="str_replace", old_str="a") == [("write", "poem.txt")]
    assert accessed(command="insert", insert_line=0, insert_text="a") == [("write", "poem.txt")]


# str_replace


def test_one_occurrence_is_replaced_and_said_as_the_documentation_does(edit: Edit, root: Path) -> None:
    edit("view", "poem.txt")
    result = edit("str_replace", "poem.txt", old_str="violets", new_str="lilies")
    assert (result.status, result.text) == ("ok", "Successfully replaced text at exactly one location.")
    assert (root / "poem.txt").read_bytes() == b"roses\nlilies\nsugar\n"


def test_without_new_str_the_text_is_taken_out(edit: Edit, root: Path) -> None:
    edit("view", "poem.txt")
    assert edit("str_replace", "poem.txt", old_str="violets\n").ok
    assert (root / "poem.txt").read_bytes() == b"roses\nsugar\n"


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ("s", "Error: Found 4 matches for replacement text. Please provide more context to make a unique match."),
        ("tulips", "Error: No match found for replacement. Please check your text and try again."),
        ("Violets", "Error: No match found for replacement. Please check your text and try again."),
        ("", "Error: old_str is empty"),
    ],
)
def test_what_cannot_be_replaced_changes_nothing(edit: Edit, root: Path, old: str, expected: str) -> None:
    edit("view", "poem.txt")
    result = edit("str_replace", "poem.txt", old_str=old, new_str="x")
    assert result.status == "error" and result.text.startswith(expected)
    assert (root / "poem.txt").read_bytes() == POEM.encode()


def test_a_file_that_was_not_viewed_is_not_changed(edit: Edit, root: Path) -> None:
    for result in (
        edit("str_replace", "poem.txt", old_str="rose", new_str="x"),
        edit("insert", "poem.txt", insert_line=0, insert_text="x"),
        edit("create", "poem.txt", file_text="x"),
    ):
        assert result.error and result.error.code == "not_seen" and "view it first" in result.text
    assert (root / "poem.txt").read_bytes() == POEM.encode()


# create


def test_a_new_file_is_created_with_its_directories(edit: Edit, root: Path) -> None:
    result = edit("create", "a/b/new.txt", file_text="one\ntwo")
    assert result.text.startswith("Successfully created a/b/new.txt")
    assert (root / "a" / "b" / "new.txt").read_bytes() == b"one\ntwo"


def test_a_file_that_was_viewed_can_be_written_anew(edit: Edit, root: Path) -> None:
    edit("view", "poem.txt")
    assert edit("create", "poem.txt", file_text="prose\n").ok
    assert (root / "poem.txt").read_bytes() == b"prose\n"


# insert


@pytest.mark.parametrize(
    ("before", "line", "text", "after"),
    [
        (b"a\nb\n", 0, "x", b"x\na\nb\n"),
        (b"a\nb\n", 1, "x", b"a\nx\nb\n"),
        (b"a\nb\n", 1, "x\n", b"a\nx\nb\n"),
        (b"a\nb\n", 1, "x\ny", b"a\nx\ny\nb\n"),
        (b"a\nb\n", 2, "x", b"a\nb\nx\n"),
        (b"a\nb", 2, "x", b"a\nb\nx"),
        (b"a\nb", 2, "x\n", b"a\nb\nx"),
        (b"a\nb", 0, "x", b"x\na\nb"),
        (b"a\r\nb\r\n", 1, "x\ny", b"a\r\nx\r\ny\r\nb\r\n"),
        (b"a\r\nb\r\n", 2, "x", b"a\r\nb\r\nx\r\n"),
        (b"a\r\nb", 2, "x", b"a\r\nb\r\nx"),
        (b"a\r\nb\r\n", 1, "x\r\n", b"a\r\nx\r\nb\r\n"),
        (b"a\nb\n", 1, "", b"a\n\nb\n"),
        (b"", 0, "x\n", b"x\n"),
        (b"", 0, "x", b"x"),
        (b"\xef\xbb\xbfa\n", 0, "x", b"\xef\xbb\xbfx\na\n"),
    ],
)
def test_lines_are_inserted_with_the_endings_that_the_file_has(
    edit: Edit, root: Path, before: bytes, line: int, text: str, after: bytes
) -> None:
    (root / "f.txt").write_bytes(before)
    edit("view", "f.txt")
    result = edit("insert", "f.txt", insert_line=line, insert_text=text)
    assert result.ok and result.text.startswith("Successfully inserted")
    assert (root / "f.txt").read_bytes() == after


@pytest.mark.parametrize("line", [4, 99, -1])
def test_a_line_that_does_not_exist_is_no_place_to_insert(edit: Edit, root: Path, line: int) -> None:
    edit("view", "poem.txt")
    assert edit("insert", "poem.txt", insert_line=line, insert_text="x").status == "error"
    assert (root / "poem.txt").read_bytes() == POEM.encode()


@pytest.mark.parametrize(
    ("command", "missing"),
    [("create", ["file_text"]), ("str_replace", ["old_str"]), ("insert", ["insert_line", "insert_text"])],
)
def test_what_a_command_needs_is_told_at_once(edit: Edit, command: str, missing: list[str]) -> None:
    result = edit(command, "poem.txt")
    assert result.error and result.error.code == "bad_arguments"
    assert [line.split(":")[0] for line in result.text.split("\n")[1:]] == [f"- {name}" for name in missing]


def test_a_command_that_does_not_exist_is_refused(edit: Edit) -> None:
    result = edit("undo_edit", "poem.txt")
    assert result.status == "error" and "'view', 'create', 'str_replace' or 'insert'" in result.text


def test_a_path_outside_is_refused_for_every_command(edit: Edit, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("s", encoding="utf-8")
    for command, more in (
        ("view", {}),
        ("create", {"file_text": "x"}),
        ("str_replace", {"old_str": "s"}),
        ("insert", {"insert_line": 0, "insert_text": "x"}),
    ):
        assert edit(command, "../secret.txt", **more).status == "denied"
    assert (tmp_path / "secret.txt").read_text(encoding="utf-8") == "s"


# bash


def test_a_command_runs_in_the_workspace(session: Session) -> None:
    assert session.call("bash", {"command": "cat poem.txt"}).text == POEM.rstrip("\n")


def test_what_does_not_last_is_told_and_does_not_last(session: Session) -> None:
    result = session.call("bash", {"command": "cd src && export A=1 && ls"})
    assert "main.py" in result.text and "new shell" in result.text and "cd, export" in result.text
    again = session.call("bash", {"command": "echo ${A:-gone}; ls"})
    assert again.text.startswith("gone\npoem.txt") and "new shell" not in again.text


def test_a_restart_says_that_there_is_nothing_to_restart(session: Session, root: Path) -> None:
    result = session.call("bash", {"restart": True})
    assert result.ok and "Nothing to restart" in result.text and result.accesses == ()
    both = session.call("bash", {"restart": True, "command": "touch made"})
    assert "was not run" in both.text and not (root / "made").exists()


def test_a_call_without_a_command_is_refused(session: Session) -> None:
    for arguments in ({}, {"restart": False}, {"command": ""}):
        result = session.call("bash", arguments)
        assert result.error and result.error.code == "bad_arguments" and "command" in result.text


def test_a_failing_command_says_its_exit_code(session: Session) -> None:
    assert "(exit code 3)" in session.call("bash", {"command": "exit 3"}).text


def test_a_command_is_judged_as_bash_is(session: Session) -> None:
    accesses = session.prepare("bash", {"command": "rm poem.txt"}).accesses
    assert ("run", "rm poem.txt") in [(access.action, access.target) for access in accesses]
    assert ("delete", "poem.txt") in [(access.action, access.target) for access in accesses]
    assert session.call("bash", {"command": "rm -rf /"}).status == "denied"


# anthropic-agent


@pytest.fixture
def agent(root: Path, make_session: Callable[..., Session]) -> Session:
    return make_session(root, "anthropic-agent", durable=False)


@pytest.mark.slow
def test_the_agent_tools_have_the_inputs_of_the_toolset(agent: Session) -> None:
    pytest.importorskip("anthropic", reason="the inputs are compared with those of the anthropic SDK")
    from anthropic.types import beta

    for spec in agent.specs():
        kind = getattr(beta, f"BetaManagedAgentsAgentToolset20260401{spec.name.title()}Input")
        assert set(spec.schema["properties"]) == set(kind.model_fields), spec.name
        needed = {name for name, field in kind.model_fields.items() if field.is_required()}
        assert set(spec.schema["required"]) == needed, spec.name


def test_the_agent_reads_edits_and_searches(agent: Session, root: Path) -> None:
    assert agent.call("read", {"file_path": "poem.txt", "view_range": [2, 0]}).text.split() == [
        "2",
        "violets",
        "3",
        "sugar",
    ]
    assert agent.call("edit", {"file_path": "poem.txt", "old_string": "sugar", "new_string": "salt"}).ok
    assert agent.call("write", {"file_path": "new.txt", "content": "x"}).ok
    assert "src/main.py" in agent.call("glob", {"pattern": "**/*.py"}).text
    assert "poem.txt:3:salt" in agent.call("grep", {"pattern": "s.lt"}).text
    assert (root / "poem.txt").read_bytes() == b"roses\nviolets\nsalt\n"


def test_reading_is_hinted_as_harmless_and_bash_is_not(agent: Session) -> None:
    hints = {spec.name: spec.hints.read_only for spec in agent.specs()}
    assert hints == {"bash": False, "read": True, "write": False, "edit": False, "glob": True, "grep": True}


def test_a_failing_command_of_the_agent_is_an_error_and_time_is_in_milliseconds(agent: Session) -> None:
    assert agent.call("bash", {"command": "exit 3"}).status == "error"
    assert agent.call("bash", {"command": "echo hi", "timeout_ms": 0}).text == "hi"
    slow = agent.call("bash", {"command": "sleep 30", "timeout_ms": 200})
    assert "0.2 s" in slow.text and "timeout_ms" in slow.text
