"""`handrail` alone: what changed in this project today, and the next useful command."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail import Session
from tests.command import handrail


def call(project: Path, tool: str, *arguments: str) -> None:
    completed = handrail("call", "--mode", "accept-edits", tool, *arguments, cwd=project)
    assert completed.returncode in (0, 3), completed.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_a_new_project_is_told_how_to_start(project: Path) -> None:
    completed = handrail(cwd=project)
    assert (completed.returncode, completed.stderr) == (0, b"")
    assert completed.stdout.startswith(b"Nothing is recorded here yet.")
    assert b"handrail demo" in completed.stdout


def test_attached_agents_are_named(project: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert b"Attached" not in handrail(cwd=project, variables=home).stdout
    assert handrail("attach", "claude", cwd=project, variables=home).returncode == 0
    assert handrail(cwd=project, variables=home).stdout.startswith(b"Attached: Claude Code\n\nNothing is recorded")
    assert handrail("detach", "claude", cwd=project, variables=home).returncode == 0
    assert b"Attached" not in handrail(cwd=project, variables=home).stdout


def test_the_changes_of_today_are_counted_for_each_session(project: Path) -> None:
    call(project, "Write", "file_path=a.txt", "content=one")
    call(project, "Write", "file_path=../outside.txt", "content=one")
    call(project, "Bash", "command=echo two > b.txt; rm a.txt")
    completed = handrail(cwd=project)
    assert completed.returncode == 0
    text = completed.stdout.decode("utf-8")
    assert [
        text.count(part) for part in ("changed 1 file, +1\n", "1 refused\n", "changed 2 files, +1 -1, ran 1 command\n")
    ] == [1, 1, 1], text
    assert text.count("\n") <= 20 and "handrail undo" in text


def test_another_project_is_not_counted(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    call(other, "Write", "file_path=a.txt", "content=one")
    assert b"Nothing is recorded here yet." in handrail(cwd=project).stdout


def test_many_sessions_and_drafts_stay_within_twenty_lines(project: Path) -> None:
    for number in range(10):
        call(project, "Write", f"file_path={number}.txt", "content=one")
    created = handrail("draft", "start", "try", "--count", "7", cwd=project)
    completed = handrail(cwd=project)
    text = completed.stdout.decode("utf-8")
    assert "and 2 earlier turns" in text and text.count("\n") <= 20
    if created.returncode == 0:  # the machine can have drafts
        assert "try-1, try-2, try-3, try-4, try-5 and 2 more" in text


def test_each_turn_has_its_prompt(project: Path) -> None:
    with Session(project, mode="accept-edits") as session:
        session.name_source("claude-code", "a-model")
        for text, name in (("Add a file", "a.txt"), ("Add another\nwith much detail" * 9, "b.txt")):
            session.record_prompt(text)
            session.call("Write", {"file_path": name, "content": "one\n"})
        session.call("Write", {"file_path": ".bashrc", "content": "one\n"})
    text = handrail(cwd=project, variables={"COLUMNS": "80"}).stdout.decode("utf-8")
    assert (
        text.count("Claude Code     changed 1 file, +1") == 2 and "1 refused" in text and "    Add a file\n" in text
    ), text
    assert "Not done, because nobody could be asked: call 5" in text
    assert max(len(line) for line in text.split("\n") if "Add" in line) < 80
