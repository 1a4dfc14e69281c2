"""Commands where user namespaces are forbidden, as plain Docker does it: a filter refuses `unshare` and `mount`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handrail.shell.sandbox import seccomp
from tests.command import TIMEOUT, surroundings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not seccomp.is_supported(), reason="no filter on system calls for this kind of machine"),
]

FORBID = """
import json, sys
from handrail.shell.sandbox import seccomp
from handrail.shell.sandbox.landlock import forgo_privileges
forgo_privileges()
seccomp.install(seccomp.build_program("on"))
"""
RUN = """
from handrail import Session, Settings
workspace, mode, sandbox, commands = json.loads(sys.argv[1])
with Session(workspace, mode=mode, settings=Settings(durable=False, sandbox=sandbox)) as session:
    results = [session.call("Bash", {"command": command}) for command in commands]
print(json.dumps([[one.status, one.text, one.data.get("boundary"), "irreversible" in one.data] for one in results]))
"""
DOCTOR = """
from handrail.cli import main
sys.exit(main(["doctor"]))
"""


def run_forbidden(code: str, cwd: Path, *arguments: str) -> str:
    """Run Python code in a process that cannot create namespaces."""
    completed = subprocess.run(
        [sys.executable, "-c", FORBID + code, *arguments],
        cwd=cwd,
        env=surroundings(),
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    assert completed.stdout, completed.stderr
    return completed.stdout


def call(workspace: Path, mode: str, sandbox: str, *commands: str) -> list[tuple[str, str, str | None, bool]]:
    given = json.dumps([str(workspace), mode, sandbox, commands])
    rows: list[Any] = json.loads(run_forbidden(RUN, workspace, given))
    return [tuple(row) for row in rows]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n", encoding="utf-8")
    return workspace


@pytest.mark.parametrize("sandbox", ["auto", "off"])
@pytest.mark.parametrize("mode", ["read-only", "ask"])
def test_only_programs_known_to_read_run_unasked(workspace: Path, mode: str, sandbox: str) -> None:
    reading, writing = ["cat a.txt", "ls -la | head -3", "grep -n one a.txt"], ["python3 -c 1", "touch made", "./run"]
    rows = call(workspace, mode, sandbox, *reading, *writing)
    assert [status for status, *_ in rows] == ["ok"] * len(reading) + ["denied"] * len(writing), rows
    assert not (workspace / "made").exists()


def test_the_answer_says_that_undo_is_not_promised(workspace: Path) -> None:
    rows = call(workspace, "full", "auto", "rm a.txt", "cat /dev/null")
    (removed, text, boundary, irreversible), (_, looked, _, looks) = rows
    assert removed == "ok" and irreversible and "cannot be undone" in text
    assert boundary is not None and not boundary.startswith("namespaces")
    assert not looks and "undone" not in looked


def test_doctor_says_that_undo_is_not_promised(workspace: Path) -> None:
    line = next(line for line in run_forbidden(DOCTOR, workspace).splitlines() if line[9:].startswith("drafts"))
    assert line.startswith("missing") and "changes of commands cannot be undone" in line
