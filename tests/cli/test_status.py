"""`handrail` alone: what changed in this project today, and the next useful command."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    assert [text.count(part) for part in ("1 file changed\n", "1 refused\n", "1 command\n")] == [1, 1, 1], text
    assert "2 files changed, 1 command" in text
    assert text.count("\n") <= 20 and "handrail undo" in text


def test_another_project_is_not_counted(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    call(other, "Write", "file_path=a.txt", "content=one")
    assert b"Nothing is recorded here yet." in handrail(cwd=project).stdout


def test_many_sessions_and_drafts_stay_within_twenty_lines(project: Path) -> None:
    for number in range(10):
        call(project, "Write", f"file_path={number}.txt", "content=one")
    created = handrail("draft", "new", "try", "--count", "7", cwd=project)
    completed = handrail(cwd=project)
    text = completed.stdout.decode("utf-8")
    assert "and 2 earlier sessions" in text and text.count("\n") <= 20
    if created.returncode == 0:  # the machine can have drafts
        assert "try-1, try-2, try-3, try-4, try-5 and 2 more" in text
