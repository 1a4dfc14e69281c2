"""Our own git on the user's tree: it changes nothing, and where it fails nothing goes on as if nothing were there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from handrail import Session
from handrail.shell.git.branches import NoBranch, make_branch
from handrail.shell.git.merging import find_rules
from handrail.shell.git.named_paths import list_named_by_git
from handrail.shell.sandbox import landlock, landlock_process
from handrail.shell.sandbox.landlock_process import start_helper
from tests.command import TIMEOUT

BROKEN = "[core\nhooksPath = hooks\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "file").write_text("text\n", encoding="utf-8")
    for words in (["add", "file"], ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    return tmp_path


@pytest.mark.parametrize("version", [landlock.get_version(), 0])
def test_a_helper_writes_only_where_it_may(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``version``: of Landlock; without it a namespace confines the helper."""
    monkeypatch.setattr(landlock_process, "get_version", lambda: version)
    (tmp_path / "own").mkdir()
    (tmp_path / "file").write_text("text\n", encoding="utf-8")
    script = "cat file; echo x > other; echo x > own/other; exec 3<>/dev/tcp/127.0.0.1/9"
    with start_helper(
        ["bash", "-c", script],
        writable=(str(tmp_path / "own"),),
        cwd=str(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        printed, _ = process.communicate(timeout=TIMEOUT)
    assert printed == b"text\n"
    assert not (tmp_path / "other").exists()
    assert (tmp_path / "own" / "other").exists()


def test_where_git_fails_nothing_is_merged(repository: Path) -> None:
    assert not find_rules(str(repository), ["file"])["file"].ignored
    (repository / ".git" / "config").write_text(BROKEN, encoding="utf-8")
    with pytest.raises(OSError, match="git cannot say"):
        find_rules(str(repository), ["file"])


def test_where_git_cannot_list_its_settings_every_change_is_asked_about(repository: Path) -> None:
    (repository / ".git" / "config").write_text(BROKEN, encoding="utf-8")
    assert list_named_by_git([str(repository)], str(repository)) == [str(repository)]
    with Session(repository) as session:
        result = session.call("Write", {"file_path": "new", "content": "x"})
    assert result.error
    assert result.error.code == "needs_approval"


def test_a_branch_is_made_without_a_change_of_the_work_tree(repository: Path) -> None:
    (repository / "fresh").write_text("new\n", encoding="utf-8")
    (repository / ".gitignore").write_text("ignored\n", encoding="utf-8")
    before = sorted(path.name for path in repository.iterdir())
    commit, count = make_branch(
        str(repository), "work", "message", {"file": str(repository / "fresh"), "ignored": str(repository / "fresh")}
    )
    shown = subprocess.run(["git", "-C", repository, "show", f"{commit}:file"], capture_output=True, check=True)
    assert (shown.stdout, count) == (b"new\n", 1)
    assert sorted(path.name for path in repository.iterdir()) == before
    with pytest.raises(NoBranch):
        make_branch(str(repository), "work", "message", {})
