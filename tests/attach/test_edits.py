"""Edits of an attached agent's own tools: recorded with before and after, refused where Handrail's rules say so."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.attach.conftest import Agent, finish
from tests.attach.test_commands import list_calls, read_tree

Undo = Callable[[], list[str]]
OLD = b"one\r\n\xef\xbb\xbf\xff\x00two"


def edit(agent: Agent, tool: str, path: Path, after: bytes | None, call: str = "c") -> None:
    """An edit as the agent makes it: the hook before, the change, the hook after."""
    name = "notebook_path" if tool == "NotebookEdit" else "file_path"
    assert "permissionDecision" not in agent.before(tool, {name: str(path)}, call)
    if after is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(after)
    event = "PostToolUse" if after is not None else "PostToolUseFailure"
    agent.hook(event, tool_name=tool, tool_input={name: str(path)}, tool_use_id=call)


@pytest.mark.parametrize("tool", ["Edit", "Write", "MultiEdit", "NotebookEdit"])
@pytest.mark.parametrize("old", [OLD, b"", None])
def test_an_edit_is_undone_byte_for_byte(agent: Agent, undo: Undo, tool: str, old: bytes | None) -> None:
    path = agent.project / "dir" / "a file.txt"
    path.parent.mkdir()
    if old is not None:
        path.write_bytes(old)
    edit(agent, tool, path, b"new\n")
    assert list_calls(agent) == [(tool, "ok")]
    undo()
    assert (path.read_bytes() if path.exists() else None) == old


def test_edits_and_commands_are_undone_one_after_the_other(agent: Agent, undo: Undo) -> None:
    path = agent.project / "a.txt"
    path.write_bytes(OLD)
    edit(agent, "Edit", path, b"first\n", "c1")
    agent.run("sed -i s/first/second/ a.txt")
    edit(agent, "Edit", path, b"third\n", "c2")
    for contents in (b"second\n", b"first\n", OLD):
        undo()
        assert path.read_bytes() == contents


def test_tools_of_opencode_are_undone_too(codex: Agent, undo: Undo) -> None:
    agent = replace(codex, name="opencode")  # its plugin has bash read the same file
    path = agent.project / "a.txt"
    path.write_bytes(OLD)
    patch = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch\n"
    for tool, arguments, after in (
        ("edit", {"filePath": str(path)}, path),
        ("write", {"filePath": str(path)}, path),
        ("apply_patch", {"patchText": patch}, agent.project / "new.txt"),
    ):
        before = read_tree(agent.project)
        agent.before(tool, arguments, tool)
        after.write_bytes(b"new\n")
        agent.hook("PostToolUse", tool_name=tool, tool_input=arguments, tool_use_id=tool)
        undo()
        assert read_tree(agent.project) == before
    agent.before("bash", {"command": "rm a.txt"})
    assert finish(agent.start("rm a.txt")).returncode == 0 and not path.exists()
    undo()
    assert path.read_bytes() == OLD


def test_a_failed_edit_is_recorded_as_failed_and_nothing_is_undone(agent: Agent) -> None:
    path = agent.project / "a.txt"
    path.write_bytes(OLD)
    edit(agent, "Edit", path, None)
    assert list_calls(agent) == [("Edit", "error")]
    assert path.read_bytes() == OLD


def test_parallel_edits_keep_their_own_outcome(agent: Agent, undo: Undo) -> None:
    paths = [agent.project / f"{number}.txt" for number in range(3)]
    for number, path in enumerate(paths):
        agent.before("Write", {"file_path": str(path)}, f"c{number}")
    for number, path in reversed(list(enumerate(paths))):
        path.write_bytes(b"%d" % number)
        agent.hook("PostToolUse", tool_name="Write", tool_input={"file_path": str(path)}, tool_use_id=f"c{number}")
    for _ in paths:
        undo()
    assert read_tree(agent.project) == {}


def test_a_protected_file_is_a_question_and_a_secret_is_too(agent: Agent) -> None:
    (agent.project / ".git" / "hooks").mkdir(parents=True)
    for name in ("hooks/pre-commit", "config"):
        answer = agent.before("Write", {"file_path": str(agent.project / ".git" / name), "content": ""})
        assert answer["permissionDecision"] in ("ask", "deny"), answer
    (agent.project / ".env").write_text("KEY=value\n", encoding="utf-8")
    answer = agent.before("Edit", {"file_path": str(agent.project / ".env")})
    assert answer["permissionDecision"] in ("ask", "deny"), answer


def test_files_outside_of_the_project_are_left_to_the_agent(agent: Agent) -> None:
    assert agent.before("Write", {"file_path": str(agent.project.parent / "elsewhere.txt")}) == {}


def change_in_place(path: Path) -> None:
    path.write_bytes(b"theirs\n")


def replace_file(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"theirs\n")
    other.rename(path)


@pytest.mark.parametrize("change", [change_in_place, replace_file, Path.unlink])
@pytest.mark.parametrize("how", ["read", "edited"])
def test_a_file_that_changes_without_the_agent_is_in_the_log_once(
    agent: Agent, undo: Undo, how: str, change: Callable[[Path], None]
) -> None:
    path = agent.project / "a.txt"
    path.write_bytes(OLD)
    agent.hook("UserPromptSubmit", prompt="begin")
    if how == "edited":
        edit(agent, "Edit", path, b"mine\n")
    else:
        agent.before("Read", {"file_path": str(path)})
    agent.hook("Stop")
    before = list_calls(agent)
    change(path)
    agent.hook("UserPromptSubmit", prompt="go on")
    agent.hook("Stop")
    assert list_calls(agent)[len(before) :] == [("Changed outside", "ok"), ("Prompt", "ok")]


def test_what_calls_and_undo_change_is_not_outside(agent: Agent, undo: Undo) -> None:
    path = agent.project / "a.txt"
    path.write_bytes(OLD)
    other = replace(agent, session="s2")
    agent.before("Read", {"file_path": str(path)})
    agent.run("echo command > a.txt")
    edit(other, "Edit", path, b"other\n", "c2")
    agent.hook("Stop")
    undo()
    agent.hook("Stop")
    os.utime(path)
    agent.hook("Stop")
    assert [tool for tool, _ in list_calls(agent)] == ["Bash", "Edit", "Undo"]
