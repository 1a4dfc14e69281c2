"""A script that changes while its command waits for an answer is asked about again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Answer, Question, Session, Settings
from tests.sizes import spread

OLD, NEW = "echo old > made\n", "echo new > made\n"
COMMANDS = [
    "bash script.sh",
    "sh ./script.sh",
    "./script.sh",
    "./script.sh one two",
    "bash < script.sh",
    "source script.sh",
    ". ./script.sh",
    "env A=1 bash script.sh",
    "timeout 60 ./script.sh",
    "bash -c 'sh script.sh'",
    "cd sub && ../script.sh && mv made ..",
    "bash link.sh",
    "true && bash sub/../script.sh",
    "nice ./script.sh",
]


def rewrite(path: Path) -> None:
    path.write_text(NEW, encoding="utf-8")


def rewrite_keeping_times(path: Path) -> None:
    status = path.stat()
    path.write_text(NEW, encoding="utf-8")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_file(path: Path) -> None:
    fresh = path.with_name("fresh")
    fresh.write_text(NEW, encoding="utf-8")
    fresh.chmod(0o755)
    fresh.rename(path)


def replace_by_link(path: Path) -> None:
    other = path.with_name("other.txt")
    other.write_text(NEW, encoding="utf-8")
    other.chmod(0o755)
    path.unlink()
    path.symlink_to(other.name)


CHANGES: list[Callable[[Path], None]] = [rewrite, rewrite_keeping_times, replace_file, replace_by_link]
CASES = [(command, change) for change in CHANGES for command in COMMANDS]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    (workspace / "sub").mkdir(parents=True)
    (workspace / "script.sh").write_text(OLD, encoding="utf-8")
    (workspace / "script.sh").chmod(0o755)
    (workspace / "link.sh").symlink_to("script.sh")
    return workspace


@pytest.mark.parametrize(("command", "change"), spread(CASES, 20))
def test_a_script_that_changes_before_the_answer_is_asked_about_again(
    workspace: Path, command: str, change: Callable[[Path], None]
) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        if len(asked) > 1:
            return Answer(False)
        change(workspace / "script.sh")
        return Answer(True)

    settings = Settings(durable=False, drafts=False)
    with Session(workspace, mode="ask", approve=approve, settings=settings) as session:
        result = session.call("Bash", {"command": command})
    assert len(asked) == 2
    assert result.status == "denied"
    assert not (workspace / "made").exists()


@pytest.mark.parametrize("command", spread(COMMANDS, 4))
def test_a_script_that_stays_is_asked_about_once(workspace: Path, command: str) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        (workspace / "unrelated").write_text("x", encoding="utf-8")
        os.utime(workspace / "script.sh")
        return Answer(True)

    with Session(workspace, mode="ask", approve=approve, settings=Settings(durable=False, drafts=False)) as session:
        session.call("Bash", {"command": command})
    assert len(asked) == 1
    assert (workspace / "made").read_text(encoding="utf-8") == "old\n"


def test_a_program_of_another_language_counts_too(workspace: Path) -> None:
    script = workspace / "script.py"
    script.write_text("open('made', 'w').write('old')", encoding="utf-8")
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        if len(asked) > 1:
            return Answer(False)
        script.write_text("open('made', 'w').write('new')", encoding="utf-8")
        return Answer(True)

    with Session(workspace, mode="ask", approve=approve, settings=Settings(durable=False, drafts=False)) as session:
        session.call("Bash", {"command": f"{sys.executable} script.py"})
    assert len(asked) == 2
    assert not (workspace / "made").exists()
