"""Drafts of several agents: who changed what, how drafts differ, and how one is brought up to date."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import handrail
from tests.drafts.machine import require_drafts

LINES = "".join(f"line {number}\n" for number in range(1, 11))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    require_drafts()
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text(LINES, encoding="utf-8")
    (project / "same.txt").write_text(LINES, encoding="utf-8")
    return project


def draft(project: Path, *words: str, code: int = 0) -> str:
    done = handrail("draft", *words, cwd=project)
    assert done.returncode == code, done.stderr
    return (done.stdout + done.stderr).decode()


def run(project: Path, name: str, command: str) -> None:
    draft(project, "run", name, "--", "sh", "-c", command)


def test_the_list_names_paths_and_the_last_program(project: Path) -> None:
    draft(project, "new", "way", "--count", "2")
    run(project, "way-1", "echo x >> a.txt; touch 1 2 3 4 5")
    assert draft(project, "list") == (
        "way-1  5 created, 1 changed by sh: 1, 2, 3, 4, 5 and 1 more\nway-2  no changes\n"
    )
    call = ["call", "Write", "--draft", "way-2", "file_path=b.txt", "content=hello"]
    assert handrail(*call, cwd=project).returncode == 0
    row = json.loads(draft(project, "list", "--json"))[1]
    assert (row["worker"], row["paths"]) == ("handrail call", ["b.txt"])


def test_two_drafts_are_compared(project: Path) -> None:
    draft(project, "new", "way", "--count", "2")
    run(project, "way-1", "sed -i 's/^line 2$/first/' a.txt; rm same.txt; echo same > new; echo 1 > only")
    run(project, "way-2", "sed -i 's/^line 2$/second/' a.txt; echo same > new")
    diff = draft(project, "diff", "way-1", "way-2")
    assert "-first\n+second\n" in diff
    assert "--- /dev/null\n+++ same.txt\n" in diff
    assert "--- only\n+++ /dev/null\n" in diff
    assert "new" not in diff
    back = draft(project, "diff", "way-2", "way-1")
    assert "-second\n+first\n" in back
    assert draft(project, "diff", "way-1", "way-1", code=2)


def test_a_draft_is_brought_up_to_date_or_stays_as_it_is(project: Path) -> None:
    draft(project, "new", "way")
    run(project, "way", "sed -i 's/^line 2$/ours/' a.txt same.txt")
    (project / "a.txt").write_text(LINES.replace("line 9\n", "theirs\n"), encoding="utf-8")
    assert draft(project, "rebase", "way") == "a.txt: merged\n"
    assert draft(project, "rebase", "way") == "way is up to date\n"
    (project / "a.txt").write_text(LINES.replace("line 9\n", "later\n"), encoding="utf-8")
    assert draft(project, "rebase", "way") == "a.txt: merged\n"
    (project / "same.txt").write_text(LINES.replace("line 2\n", "theirs\n"), encoding="utf-8")
    (project / "a.txt").write_text(LINES.replace("line 9\n", "latest\n"), encoding="utf-8")
    assert "both changed these lines" in draft(project, "rebase", "way", code=1)
    draft(project, "resolve", "way", "--theirs", "same.txt")
    draft(project, "keep", "way")
    both = LINES.replace("line 2\n", "ours\n").replace("line 9\n", "latest\n")
    assert (project / "a.txt").read_text(encoding="utf-8") == both


def test_a_shell_sees_the_draft(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = project.parent / "my-shell"
    shell.write_text("#!/bin/sh\necho from the shell > new.txt\n", encoding="utf-8")
    shell.chmod(0o755)
    monkeypatch.setenv("SHELL", str(shell))
    draft(project, "shell", "way")
    assert not (project / "new.txt").exists()
    assert draft(project, "list") == "way  1 created by my-shell: new.txt\n"
