"""Commands that run in no draft: each answer says that they cannot be undone, and undo names them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, Settings, UnknownCall
from handrail.model import Result
from tests.drafts.machine import find_obstacle
from tests.sizes import spread

pytestmark = pytest.mark.slow  # starts many processes

SAYS = "cannot be undone"
OPAQUE = [
    f"""{sys.executable} -c 'open("made", "w").write("x")'""",
    f"""{sys.executable} -c 'import os; os.rename("a.txt", "moved")'""",
    "bash ./script.sh",
    "sh script.sh && bash ./script.sh",
    "make -f rules all || true",
]
WRITING = [*OPAQUE, "echo more >> a.txt", "rm a.txt", "mv a.txt b.txt", "cp a.txt b.txt"]
READING = ["cat a.txt", "ls", "grep -r one ."]
SETTINGS: dict[str, dict[str, Any]] = {"no drafts": {"drafts": False}, "no sandbox": {"sandbox": "off"}, "drafts": {}}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n", encoding="utf-8")
    (workspace / "script.sh").write_text("echo x > made\n", encoding="utf-8")
    (workspace / "rules").write_text("all:\n\techo x > made\n", encoding="utf-8")
    return workspace


@pytest.fixture(params=SETTINGS)
def session(workspace: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    chosen = SETTINGS[request.param]
    with Session(workspace, mode="full", settings=Settings(durable=False, **chosen)) as session:
        yield session


def has_drafts(session: Session) -> bool:
    return session.settings.drafts and session.settings.sandbox != "off" and not find_obstacle()


def run(session: Session, command: str, **more: object) -> Result:
    result = session.call("Bash", {"command": command, **more})
    assert result.status in ("ok", "partial"), result.text
    return result


def name_passed_over(session: Session) -> str:
    """What an undo says about commands that it cannot undo."""
    try:
        return "\n".join(session.undo(dry_run=True).unknown)
    except UnknownCall as error:
        return str(error)


@pytest.mark.parametrize("command", spread(WRITING, 6))
@pytest.mark.parametrize("before", ["nothing", "a job", "a job that ended", "keep"])
def test_an_answer_says_whether_a_command_can_be_undone(session: Session, before: str, command: str) -> None:
    if before.startswith("a job"):
        job = run(session, "sleep 1000", background=True).data["job"]
        if before == "a job that ended":
            session.call("BashKill", {"job": job})
    result = run(session, command, **({"keep": True} if before == "keep" else {}))
    undoable = has_drafts(session) or before == "keep"  # the changes of a job are recorded when it ends
    assert (SAYS not in result.text) == undoable, result.text
    assert ("irreversible" not in result.data) == undoable
    assert (command not in name_passed_over(session)) == (undoable and before != "keep")


@pytest.mark.parametrize("command", READING)
def test_a_command_that_only_reads_needs_no_undo(session: Session, command: str) -> None:
    assert SAYS not in run(session, command).text
    assert command not in name_passed_over(session)


@pytest.mark.parametrize(
    "command", [f"{sys.executable} -c 'import time; time.sleep(1000)'", "cp a.txt b.txt; sleep 1000"]
)
@pytest.mark.parametrize("more", [{"background": True}, {"keep": True, "timeout": 0.2}])
def test_undo_does_not_guess_what_a_running_job_will_change(
    session: Session, command: str, more: dict[str, object]
) -> None:
    result = run(session, command, **more)
    assert result.data["job"]
    assert command in name_passed_over(session)


def test_undo_restores_the_change_before_and_names_the_commands_after_it(session: Session, workspace: Path) -> None:
    session.call("Read", {"file_path": "a.txt"})
    session.call("Write", {"file_path": "a.txt", "content": "two\n"})
    run(session, "sleep 1000", background=True)
    run(session, OPAQUE[0], keep=True)
    report = session.undo()
    assert (workspace / "a.txt").read_text(encoding="utf-8") == "one\n"
    assert report.unknown == (OPAQUE[0],)
    assert OPAQUE[0] in name_passed_over(session)


def test_a_job_that_only_looks_can_be_undone(session: Session) -> None:
    assert SAYS not in run(session, "sleep 1000", background=True).text
    assert "sleep" not in name_passed_over(session)
