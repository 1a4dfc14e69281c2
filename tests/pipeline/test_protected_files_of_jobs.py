"""Protected files and commands in the background: what a job does to them unasked never stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from handrail import Session, Settings
from handrail.model import Answer, Question, Result
from tests.command import TIMEOUT
from tests.drafts.trees import describe
from tests.sizes import spread

pytestmark = pytest.mark.slow  # starts many processes

Way = Literal["background", "keep"]
WRITES = [
    "mkdir -p .vscode && echo x > .vscode/tasks.json",
    "mkdir -p sub/.vscode && echo x > sub/.vscode/settings.json",
    "echo x > .envrc",
    "echo x > sub/.envrc",
    "mkdir .claude && echo x > .claude/settings.json",
    "mkdir -p .github/workflows && echo x > .github/workflows/new.yml",
    "echo x >> .pre-commit-config.yaml",
    "rm -f .pre-commit-config.yaml",
    "mv .pre-commit-config.yaml moved.yaml",
    "cp plain.txt .mcp.json",
    "ln -s plain.txt .cursorrules",
    "echo x > plain && mv plain .gitlab-ci.yml",
    "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
    "printf '[core]\\n\\tfsmonitor = ./x\\n' >> .git/config",
    "mkdir -p sub/.git && cp -r .git/. sub/.git && printf '[core]\\n\\tpager = ./x\\n' >> sub/.git/config",
    "{python} -c \"import pathlib; pathlib.Path('sitecustomize.py').write_text('x')\"",
    "chmod 777 .pre-commit-config.yaml",
    "truncate -s 0 .pre-commit-config.yaml",
]
CASES = [(way, write) for write in WRITES for way in ("background", "keep")]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    (workspace / "sub").mkdir(parents=True)
    (workspace / "plain.txt").write_text("plain\n", encoding="utf-8")
    (workspace / ".pre-commit-config.yaml").write_text("repos: []\n", encoding="utf-8")
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q", str(workspace)], check=True, timeout=TIMEOUT)
    return workspace


@pytest.fixture(params=["auto", "off"])
def session(workspace: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    settings = Settings(durable=False, sandbox=request.param)
    with Session(workspace, mode="full", settings=settings) as session:
        yield session


def start(session: Session, way: Way, command: str) -> Result:
    more = {"background": True} if way == "background" else {"keep": True, "timeout": 0.2}
    Path(session.workspace.home, "plain.sh").write_text(command, encoding="utf-8")  # its words tell nobody
    result = session.call("Bash", {"command": "bash plain.sh", **more})
    assert result.data.get("job"), result.text
    return result


def wait_for(path: Path) -> None:
    until = time.monotonic() + TIMEOUT
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert path.exists()


def find_protected(workspace: Path) -> dict[str, object]:
    """The protected files with their modes and contents."""
    tree = describe(str(workspace), times=False)
    return {
        path: entry[:3]
        for path, entry in tree.items()
        if not str(entry[0]).startswith("d") and path not in ("moved.yaml", "go", "wrote") and not _is_ordinary(path)
    }


def _is_ordinary(path: str) -> bool:
    """The files of these tests, and what git may have in a repository."""
    if path.startswith(("plain", "sub/.git")):
        return True
    return path.startswith(".git/") and not path.startswith((".git/hooks/pre-commit", ".git/config"))


@pytest.mark.parametrize(("way", "write"), spread(CASES, 16))
def test_what_a_job_does_to_protected_files_is_put_back_at_the_next_call(
    session: Session, workspace: Path, way: Way, write: str
) -> None:
    if ".git/" in write and not shutil.which("git"):
        pytest.skip("git is not installed")
    before = find_protected(workspace)
    write = write.format(python=sys.executable)
    command = f"while [ ! -e go ]; do sleep 0.02; done; {write}; touch wrote; while [ ! -e never ]; do sleep 0.02; done"
    start(session, way, command)
    (workspace / "go").touch()
    wait_for(workspace / "wrote")
    result = session.call("Read", {"file_path": str(workspace / "plain.txt")})
    assert result.status == "ok"
    assert find_protected(workspace) == before
    assert not os.path.exists(workspace / "sub" / ".git" / "config")


@pytest.mark.parametrize(("way", "write"), spread(CASES[1:], 16))
def test_what_a_job_does_to_protected_files_is_put_back_when_it_ends(
    session: Session, workspace: Path, way: Way, write: str
) -> None:
    if ".git/" in write and not shutil.which("git"):
        pytest.skip("git is not installed")
    before = find_protected(workspace)
    write = write.format(python=sys.executable)
    job = start(session, way, f"while [ ! -e go ]; do sleep 0.02; done; {write}; true").data["job"]
    (workspace / "go").touch()
    until = time.monotonic() + TIMEOUT
    while session.services.command_host().jobs.get(job).running and time.monotonic() < until:
        time.sleep(0.01)
    session.close()  # waits for the look at its end
    assert find_protected(workspace) == before
    assert not os.path.exists(workspace / "sub" / ".git" / "config")


def test_the_answer_says_what_a_job_did(session: Session, workspace: Path) -> None:
    # It waits until the call that started it has been answered: else that answer may say it.
    wait = "until [ -e go ]; do sleep 0.01; done"
    start(session, "background", f"{wait}; mkdir .vscode; echo x > .vscode/tasks.json; touch wrote; sleep 1000")
    (workspace / "go").touch()
    wait_for(workspace / "wrote")
    result = session.call("Read", {"file_path": str(workspace / "plain.txt")})
    assert "A background job or a hook created protected files without approval: .vscode/tasks.json" in str(
        result.blocks
    )
    again = session.call("Read", {"file_path": str(workspace / "plain.txt")})
    assert "protected" not in str(again.blocks)


def test_what_a_person_approves_while_a_job_runs_stays(workspace: Path) -> None:
    def approve(question: Question) -> Answer:
        return Answer(True)

    with Session(workspace, mode="accept-edits", approve=approve, settings=Settings(durable=False)) as session:
        session.call("Bash", {"command": "touch began; sleep 1000", "background": True})
        wait_for(workspace / "began")
        for number in range(2):
            written = session.call("Write", {"file_path": ".vscode/tasks.json", "content": f"{number}\n"})
            assert written.status != "error", written.text
        path = workspace / ".vscode" / "tasks.json"
        session.call("Read", {"file_path": "plain.txt"})
        assert path.read_text(encoding="utf-8") == "1\n"
        session.undo()
        session.call("Read", {"file_path": "plain.txt"})
        assert path.read_text(encoding="utf-8") == "0\n"
    assert path.read_text(encoding="utf-8") == "0\n"
