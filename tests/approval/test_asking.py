"""Asking at a real terminal: what a person sees, and what each key does. Driven through a pseudo-terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from tests.terminal import spawn_in_terminal

Start = Callable[..., pexpect.spawn]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """`handrail` in a terminal of its own, with a home of its own; commands are asked about before they run."""
    (tmp_path / "config" / "handrail").mkdir(parents=True)
    (tmp_path / "config" / "handrail" / "config.toml").write_text("[settings]\ndrafts = false\n", encoding="utf-8")
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 41)), encoding="utf-8")
    environ = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TERM": "xterm-256color",
    }

    def run(*words: str, **more: str) -> pexpect.spawn:
        command, env = [sys.executable, "-m", "handrail", *words], {**environ, **more}
        return spawn_in_terminal(command, cwd=project, env=env)

    return run


def edit(*more: str) -> list[str]:
    pairs = (("line 3\n", "THREE\n"), ("line 30\n", "THIRTY\n"))
    edits = [{"old_string": old, "new_string": new} for old, new in pairs]
    words = ["file_path=a.txt", f"edits={json.dumps(edits)}"]
    return ["call", "MultiEdit", "--mode", "ask", "--read-first", *more, *words]


def text(tmp_path: Path) -> str:
    return (tmp_path / "project/a.txt").read_text(encoding="utf-8")


def ended(child: pexpect.spawn) -> tuple[str, int]:
    child.expect(pexpect.EOF)
    child.close()
    return child.before, child.exitstatus


def test_yes_makes_the_change_that_was_shown_in_colours(start: Start, tmp_path: Path) -> None:
    child = start(*edit())
    child.expect("asks")
    child.expect("THREE")
    child.expect(r"\[y\]es")
    assert "\x1b[" in child.before
    child.send("y")
    _, code = ended(child)
    assert code == 0 and "THREE" in text(tmp_path) and "THIRTY" in text(tmp_path)


def test_no_with_a_reason_changes_nothing_and_the_reason_is_in_the_answer(start: Start, tmp_path: Path) -> None:
    before = text(tmp_path)
    child = start(*edit())
    child.expect(r"\[y\]es")
    child.send("n")
    child.expect("why not")
    child.sendline("keep the numbers")
    output, code = ended(child)
    assert code == 3 and "keep the numbers" in output and text(tmp_path) == before


def test_hunks_are_chosen_one_by_one(start: Start, tmp_path: Path) -> None:
    child = start(*edit())
    child.expect(r"\[h\]unks")
    child.expect(r"\[\?\]")
    child.send("h")
    child.expect("hunk 1 of 2")
    child.send("n")
    child.expect("hunk 2 of 2")
    child.send("y")
    output, code = ended(child)
    assert code == 0 and "THREE" not in text(tmp_path) and "THIRTY" in text(tmp_path)
    assert "approved 1 of 2" in output


def test_always_writes_the_rule_that_was_shown(start: Start, tmp_path: Path) -> None:
    child = start("call", "Bash", "--mode", "ask", "command=touch made.txt")
    child.expect("A would save: allow Bash")
    child.expect(r"\[\?\]")
    child.send("A")
    assert ended(child)[1] == 0
    assert "touch made.txt" in (tmp_path / "config/handrail/approved.toml").read_text(encoding="utf-8")
    child = start("call", "Bash", "--mode", "ask", "command=touch made.txt")
    output, code = ended(child)
    assert code == 0 and "asks" not in output


def test_a_command_can_be_changed_in_the_editor(start: Start, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/first/second/ "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    child = start("call", "Bash", "--mode", "ask", "command=echo first > out.txt", EDITOR=str(editor))
    child.expect(r"\[\?\]")
    child.send("e")
    output, code = ended(child)
    assert code == 0, output
    assert (tmp_path / "project/out.txt").read_text(encoding="utf-8") == "second\n"


def test_the_file_that_would_be_written_can_be_changed_in_the_editor(start: Start, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/THREE/drei/ "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    child = start(*edit(), VISUAL=str(editor))
    child.expect(r"\[\?\]")
    child.send("e")
    output, code = ended(child)
    assert code == 0 and "drei" in text(tmp_path) and "THREE" not in text(tmp_path)
    assert "edited the content" in output


def test_any_other_key_explains_the_keys_and_asks_again(start: Start, tmp_path: Path) -> None:
    child = start(*edit())
    child.expect(r"\[\?\]")
    child.send("?")
    child.expect("choose hunk by hunk")
    child.expect(r"\[\?\]")
    child.sendcontrol("c")
    ended(child)
    assert child.exitstatus == 130 and "THREE" not in text(tmp_path)


def test_the_risks_of_each_part_of_a_command_are_shown(start: Start, tmp_path: Path) -> None:
    child = start("call", "Bash", "--mode", "ask", "command=ls && rm a.txt")
    child.expect("deletes a.txt")
    child.expect(r"\[\?\]")
    child.send("n")
    child.expect("why not")
    child.sendline("")
    assert ended(child)[1] == 3 and (tmp_path / "project/a.txt").exists()
