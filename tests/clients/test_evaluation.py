"""Real Claude Code and Codex do the tasks of `handrail eval` with their own tools."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import handrail

WRONG_OF_CODEX = {"lost-indentation", "one-of-three-alike", "typographic-quotes"}
"""Its tools change other lines, or other characters, than were meant."""


@pytest.mark.parametrize(("name", "failures"), [("claude", set()), ("codex", WRONG_OF_CODEX)])
def test_another_agent_does_the_same_tasks(
    name: str,
    failures: set[str],
    program: Callable[[str], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs, here = tmp_path / "programs", tmp_path / "here"  # programs below the current directory are not trusted
    programs.mkdir()
    here.mkdir()
    (programs / name).symlink_to(program(name)[0])
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("IS_SANDBOX", "1")  # as root, too
    done = handrail("eval", "--agent", name, "--json", cwd=here)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 20, done.stderr
    assert {line["task"] for line in lines if not line["passed"]} == failures
    assert {line["task"] for line in lines if line["wrong"]} == failures
    assert all(line["turns"] >= 3 and line["tokens"] > 1000 for line in lines)
