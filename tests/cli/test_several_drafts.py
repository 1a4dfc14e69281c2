"""Drafts of several agents: who changed what, how drafts differ, and how one is brought up to date."""

from __future__ import annotations

import json
import subprocess
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


def test_the_list_says_which_program_changed_which_path(project: Path) -> None:
    draft(project, "start", "way", "--count", "2")
    run(project, "way-1", "echo x >> a.txt; touch 1 2 3 4 5")
    assert draft(project, "list") == (
        "way-1  5 created, 1 changed: 1, 2, 3, 4, 5 and 1 more by sh\nway-2  no changes\n"
    )
    call = ["call", "Write", "--draft", "way-2", "file_path=b.txt", "content=hello"]
    assert handrail(*call, cwd=project).returncode == 0
    assert json.loads(draft(project, "list", "--json"))[1]["by"] == {"handrail call": ["b.txt"]}
    draft(project, "run", "way-2", "--", "rm", "same.txt")
    draft(project, "run", "way-2", "--", "sed", "-i", "s/line 2/two/", "a.txt")
    changed = "a.txt by sed; b.txt by handrail call; same.txt by handrail call or rm or sed"
    assert changed in draft(project, "list")
    (project / "a.txt").write_text(LINES + "more\n", encoding="utf-8")


def test_two_drafts_are_compared(project: Path) -> None:
    draft(project, "start", "way", "--count", "2")
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
    draft(project, "start", "way")
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
    assert draft(project, "list") == "way  1 created: new.txt by my-shell\n"


def git(project: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    done = subprocess.run(["git", *identity, *words], cwd=project, capture_output=True, check=True)
    return done.stdout.decode()


def test_a_branch_has_the_changes_of_a_draft_and_nothing_else(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@b.c")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@b.c\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    draft(project, "start", "early")
    run(project, "early", "touch x")
    assert "not a git repository" in draft(project, "to-branch", "early", code=1)
    draft(project, "drop", "early")
    git(project, "init", "-q", "-b", "main")
    (project / ".gitignore").write_text("*.out\n", encoding="utf-8")
    (project / ".gitattributes").write_text("*.txt filter=own\n", encoding="utf-8")
    git(project, "config", "filter.own.clean", f"touch {tmp_path}/filter-ran; cat")
    git(project, "-c", "filter.own.clean=cat", "add", ".")
    git(project, "commit", "-qm", "first")
    (tmp_path / "filter-ran").unlink(missing_ok=True)
    (project / "uncommitted.txt").write_text("mine\n", encoding="utf-8")
    draft(project, "start", "way")
    run(
        project,
        "way",
        "echo x >> a.txt; rm same.txt; mkdir -p d; echo y > d/new.sh; chmod +x d/new.sh; ln -s d l; touch a.out",
    )
    before = git(project, "status", "--porcelain")
    (tmp_path / "filter-ran").unlink(missing_ok=True)
    assert "4 files in" in draft(project, "to-branch", "way")
    assert not (tmp_path / "filter-ran").exists(), "a program of the repository ran"
    assert git(project, "status", "--porcelain") == before
    changed = git(project, "diff", "--no-renames", "--name-status", "main", "way").split("\n")
    assert changed == ["M\ta.txt", "A\td/new.sh", "A\tl", "D\tsame.txt", ""]
    assert git(project, "show", "way:a.txt") == LINES + "x\n"
    assert [row.split()[0] for row in git(project, "ls-tree", "-r", "way", "d", "l").splitlines()] == [
        "100755",
        "120000",
    ]
    assert "no branch was made" in draft(project, "to-branch", "way", code=1)
    draft(project, "to-branch", "way", "other")
    assert git(project, "rev-parse", "way^{tree}") == git(project, "rev-parse", "other^{tree}")
