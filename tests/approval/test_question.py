"""Questions and answers as plain JSON, and what a question shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Answer, Call, FileAccess, FileDiff, Question, Session, Verdict

QUESTION = Question(
    Call("Edit", {"file_path": "a.txt", "edits": [{"old": "x"}]}, "7"),
    (FileAccess("write", "a.txt", "/p/a.txt"), FileAccess("read", "b", by_command=True, sees="names")),
    Verdict("ask", "allow Edit(x)", "because", "handrail.toml:3", "allow Edit(a.txt)"),
    (
        FileDiff(
            "a.txt", "--- a.txt\n+++ a.txt\n", ("@@ -1 +1 @@\n-x\n+y\n",), before="x\n", after="y\n", editable=True
        ),
    ),
    workspace="/p",
    session="s",
    client="c",
    shortened=("2 of 3 files",),
)


@pytest.mark.parametrize("question", [QUESTION, Question(Call("Bash", {}), (), Verdict("ask"), command="ls")])
def test_a_question_is_the_same_after_a_trip_as_json(question: Question) -> None:
    assert Question.from_json(json.loads(json.dumps(question.as_json()))) == question


@pytest.mark.parametrize(
    "changed",
    [
        {"call": None},
        {"call": {"tool": "Edit", "arguments": [], "id": ""}},
        {"accesses": [{"action": "write"}]},
        {"accesses": [{**QUESTION.as_json()["accesses"][0], "action": "burn"}]},
        {"accesses": [{**QUESTION.as_json()["accesses"][0], "glob": 1}]},
        {"verdict": {**QUESTION.as_json()["verdict"], "decision": "maybe"}},
        {"files": [{**QUESTION.as_json()["files"][0], "hunks": [1]}]},
        {"files": [{**QUESTION.as_json()["files"][0], "after": b""}]},
        {"command": 3},
        {"shortened": None},
    ],
)
def test_a_value_of_another_shape_is_not_a_question(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not a question|decision must be"):
        Question.from_json({**QUESTION.as_json(), **changed})


@pytest.mark.parametrize("value", [None, 1, "", [], {}])
def test_a_value_that_is_no_object_is_neither_a_question_nor_an_answer(value: Any) -> None:
    with pytest.raises(ValueError, match="not a question"):
        Question.from_json(value)
    with pytest.raises(ValueError, match="not an answer"):
        Answer.from_json(value)


def test_a_question_names_its_workspace_and_session(opened: Callable[..., Session], project: Path) -> None:
    asked: list[Question] = []
    with opened(lambda question: bool(asked.append(question))) as session:
        session.call("Write", {"file_path": "new.txt", "content": "x\n"}, id="7")
        assert asked[0].workspace == str(project) and asked[0].session == session.origin.session
    assert asked[0].call.id == "7" and asked[0].files[0].created and asked[0].files[0].after == "x\n"


def test_a_directory_to_be_trashed_is_described(opened: Callable[..., Session], project: Path) -> None:
    (project / "docs").mkdir()
    (project / "docs/one.md").write_text("1\n", encoding="utf-8")
    asked: list[Question] = []
    with opened(lambda question: bool(asked.append(question))) as session:
        session.call("Trash", {"path": "docs"})
    assert "docs" in asked[0].preview() and asked[0].files[0].description


def test_a_command_can_be_rewritten_under_the_name_of_its_argument(opened: Callable[..., Session]) -> None:
    asked: list[Question] = []
    with opened(lambda question: bool(asked.append(question))) as session:
        session.call("Bash", {"command": "touch x"})
    assert (asked[0].command, asked[0].command_argument) == ("touch x", "command")
    assert asked[0].preview() == "$ touch x\n" and not asked[0].files
