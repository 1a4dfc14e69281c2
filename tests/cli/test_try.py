"""`handrail try`: the command runs in a draft, its changes are shown, and kept, dropped or taken back."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from handrail.drafts.store import OpenDraft
from handrail.pipeline.draft_changes import DraftChanges
from tests.command import handrail
from tests.drafts.machine import require_drafts
from tests.drafts.trees import describe


@pytest.fixture
def project(tmp_path: Path) -> Path:
    require_drafts()
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    (project / "docs" / "guide.md").write_text("one\ntwo\n", encoding="utf-8")
    (project / "app.py").write_text("print(1)\n", encoding="utf-8")
    os.symlink("app.py", project / "link")
    return project


CHANGE = "rm -r docs; echo 'print(2)' >> app.py; mkdir new; echo new > new/file; chmod 755 app.py"


def test_kept_changes_are_in_the_workspace_and_undo_takes_them_back(project: Path) -> None:
    before = describe(str(project), times=True)
    done = handrail("try", "--keep", CHANGE, cwd=project)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert "changed app.py (+1)" in text
    assert "deleted docs/guide.md (-2)" in text
    assert "created new/file (+1)" in text
    assert "+print(2)" in text
    assert (project / "app.py").read_text(encoding="utf-8") == "print(1)\nprint(2)\n"
    assert os.stat(project / "app.py").st_mode & 0o777 == 0o755
    assert not (project / "docs").exists()
    undone = handrail("undo", cwd=project)
    assert undone.returncode == 0, undone.stderr
    assert describe(str(project), times=True) == before


def test_dropped_changes_never_were(project: Path) -> None:
    before = describe(str(project), times=True)
    done = handrail("try", "--drop", "--json", "--", "bash", "-c", f"{CHANGE}; exit 7", cwd=project)
    assert done.returncode == 7, done.stderr
    report = json.loads(done.stdout)
    assert (report["exit_code"], report["kept"]) == (7, False)
    assert {(one["path"], one["how"]) for one in report["changes"]} == {
        ("app.py", "changed"),
        ("docs", "deleted"),
        ("docs/guide.md", "deleted"),
        ("new", "created"),
        ("new/file", "created"),
    }
    assert describe(str(project), times=True) == before
    assert handrail("undo", cwd=project).returncode != 0


def test_without_a_terminal_the_changes_are_dropped(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.approval.tty.Tty.open", lambda: None)
    done = handrail("try", CHANGE, cwd=project)
    assert b"dropped" in done.stdout
    assert (project / "docs").exists()


@pytest.mark.parametrize(("key", "kept"), [("k", True), ("d", False), ("x", False)])
def test_a_person_is_asked(project: Path, monkeypatch: pytest.MonkeyPatch, key: str, kept: bool) -> None:
    keys = [key, "d"]

    class Keyboard:
        def key(self, _prompt: str) -> str:
            return keys.pop(0)

        def close(self) -> None:
            pass

    monkeypatch.setattr("handrail.approval.tty.Tty.open", Keyboard)
    assert handrail("try", CHANGE, cwd=project).returncode == 0
    assert (project / "docs").exists() != kept


def test_a_command_that_changes_nothing(project: Path) -> None:
    done = handrail("try", "--", "cat", "app.py", cwd=project)
    assert done.stdout == b"print(1)\nnothing was changed\n"


def test_a_program_that_is_not_there(project: Path) -> None:
    done = handrail("try", "--", "no-such-program", "x", cwd=project)
    assert done.returncode == 125
    assert b"cannot be run" in done.stderr


def test_the_command_reaches_neither_the_rest_of_the_machine_nor_the_draft_itself(project: Path) -> None:
    outside = project.parent / "outside"
    outside.write_text("safe", encoding="utf-8")
    command = (
        f"echo x > {outside}; mv app.py /usr/handrail-test; ls -A /.handrail/drafts; umount {project}; unshare -m true"
    )
    done = handrail("try", "--drop", "--json", command, cwd=project)
    assert outside.read_text(encoding="utf-8") == "safe"
    assert "app.py" not in {one["path"] for one in json.loads(done.stdout)["changes"]}
    assert done.returncode != 0


def test_git_works_in_a_draft_and_is_taken_back_whole(project: Path) -> None:
    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *identity, *words], cwd=project, capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    first = git("log", "--oneline")
    command = "git mv docs manual && git -c user.name=a -c user.email=a@b commit -qm second"
    assert handrail("try", "--keep", command, cwd=project).returncode == 0
    assert "second" in git("log", "--oneline")
    assert git("status", "--short") == ""
    assert handrail("undo", cwd=project).returncode == 0
    assert git("log", "--oneline") == first
    assert git("status", "--short") == ""
    git("fsck", "--strict")


def test_foreign_changes_keep_a_draft_from_being_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observe = DraftChanges.observe

    def write_first(draft: OpenDraft) -> DraftChanges:
        (project / "app.py").write_text("foreign\n", encoding="utf-8")
        return observe(draft)

    monkeypatch.setattr(DraftChanges, "observe", write_first)
    done = handrail("try", "--keep", "echo 2 >> app.py; echo x > new", cwd=project)
    assert done.returncode == 125
    assert b"app.py" in done.stderr
    assert (project / "app.py").read_text(encoding="utf-8") == "foreign\n"
    assert not (project / "new").exists()
