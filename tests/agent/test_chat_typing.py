"""`handrail chat` in a real pseudo-terminal: typing, completion, colours, figures, and how it ends."""

# ruff: noqa: F811 - the fixture is the one of the other half
from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from handrail_demo.scripted_server import Line
from tests.agent.test_chat import Start, start  # noqa: F401 - a fixture
from tests.agent.test_run_cli import TODO
from tests.command import TIMEOUT
from tests.sizes import spread

PROMPT = "› "


def test_names_of_files_are_completed_after_an_at_sign(start: Start) -> None:
    chat = start([Line("Ok.")])
    (chat.place.project / "src").mkdir()
    (chat.place.project / "src" / "handlebar.py").write_text("", encoding="utf-8")
    chat.say("/tools")  # by then the session is open
    chat.sees("dialect native")
    chat.type("look at @handle")
    chat.sees("src/handlebar.py")  # in the menu
    chat.type("\t")
    chat.sees("bar.py")
    chat.type("\r")
    chat.type(" please")
    chat.sees("please")
    chat.type("\r")
    chat.sees("Ok.")
    chat.leave()
    note = "[@src/handlebar.py is the name of a file or directory of the project: src/handlebar.py]"
    assert chat.asked(0) == [("user", f"look at @src/handlebar.py please\n{note}")]


def test_a_paste_keeps_its_lines_and_new_lines_can_be_typed(start: Start) -> None:
    chat = start([Line("One."), Line("Two.")])
    chat.ready()
    chat.type("\x1b[200~def f():\r\n\treturn 1\r\n\x1b[201~")
    chat.type("is that right?\r")
    chat.sees("One.")
    chat.type("a\x1b\rb\r")
    chat.sees("Two.")
    chat.leave()
    assert chat.asked(0) == [("user", "def f():\n\treturn 1\nis that right?")]
    assert chat.asked(1)[-1] == ("user", "a\nb")


def test_input_lives_while_the_model_works_and_ctrl_c_holds_the_queue(start: Start) -> None:
    chat = start([Line("Slowly. " * 400, delay=0.2), Line("Next."), Line("Last.")])
    chat.say("first")
    chat.sees("Slowly")
    chat.say("second")
    chat.sees("⋯ second", "queued")
    chat.type("\x1b[200~third\r\n\tthird too\x1b[201~")
    chat.sees("third too")
    chat.type("\r")
    chat.sees("⋯ third third too")
    chat.type("half a thought")
    chat.sees("half a thought")
    chat.child.sendcontrol("c")
    chat.sees("stopped; you can continue", "held")
    assert len(chat.server.requests) == 1
    chat.child.sendcontrol("c")  # into the history
    chat.type("\x1b[A")  # the last of the queue comes back
    chat.type(" and more\r")  # goes first, because the others are held
    chat.sees("Next.")
    chat.type("\r")
    chat.sees("Last.")
    chat.leave()
    asked = [chat.asked(number)[-1] for number in range(3)]
    assert asked == [("user", "first"), ("user", "third\n\tthird too and more"), ("user", "second")]


def test_lines_pasted_at_the_start_are_one_message(start: Start) -> None:
    chat = start([Line("One.")])
    lines = [f"line {number} of a long paste" for number in range(400)]
    chat.sees(PROMPT)
    chat.type("\x1b[200~" + "\r".join(lines) + "\x1b[201~")
    chat.sees("line 399 of")
    chat.type("\r")
    chat.sees("One.")
    chat.leave()
    assert chat.asked(0) == [("user", "\n".join(lines))] and len(chat.server.requests) == 1


def test_what_is_typed_before_the_editor_is_there_is_not_lost(start: Start) -> None:
    chat = start([Line("Quick.")])
    chat.sees(PROMPT)
    chat.type("hurry\r")
    chat.sees("Quick.")
    chat.leave()
    assert chat.asked(0) == [("user", "hurry")]


def test_messages_typed_before_can_be_brought_back_in_the_next_chat(start: Start) -> None:
    chat = start([Line("One."), Line("Two.")])
    chat.say("remember this")
    chat.sees("One.")
    chat.child.sendcontrol("d")
    chat.over()
    again = start(chat.server)
    again.ready()
    again.type("\x1b[A")
    again.sees("remember this")
    again.type("\r")
    again.sees("Two.")
    again.leave()
    assert again.asked(1) == [("user", "remember this")]


def test_a_failure_of_the_server_leaves_the_chat_open(start: Start) -> None:
    chat = start([Line("no such key", status=401), Line("Back.")])
    chat.say("hello")
    chat.sees("check the key")
    chat.say("again")
    chat.sees("Back.")
    chat.leave()


def test_markdown_is_rendered_and_the_models_text_cannot_command_the_terminal(start: Start) -> None:
    text = "# Title\n\nSome **bold** and \x1b]0;owned\x07.\n\n```python\nx = 1\n```\n\n- one\n- two\n"
    chat = start([Line(text)])
    chat.say("hello")
    chat.sees("Title", "Some bold and", "\\u001b]0;owned", "x = 1", "• two")
    chat.leave()
    assert "\x1b]0;owned" not in chat.raw


def test_no_color_is_honoured(start: Start) -> None:
    chat = start(TODO, "--mode", "accept-edits", NO_COLOR="1")
    chat.say("finish the README")
    chat.sees("I look first.", "+DONE one", "Both are")
    chat.leave()
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", chat.raw)


def test_the_figures_stand_below_the_prompt(start: Start) -> None:
    chat = start([Line("One.", tokens=64_000)])
    chat.sees("0 in, 0 out · 0% of 128,000")
    chat.say("hello")
    chat.sees("One.", "64,000 in, 2 out · 50% of 128,000")
    chat.child.sendcontrol("d")
    chat.over()
    assert chat.child.exitstatus == 0


def test_rules_that_cannot_be_used_end_the_chat_with_the_reason(start: Start, tmp_path: Path) -> None:
    (tmp_path / "config" / "handrail").mkdir(parents=True)
    (tmp_path / "config" / "handrail" / "policy.toml").write_text("allow = 3\n", encoding="utf-8")
    chat = start([Line("One.")])
    output = chat.over()
    assert chat.child.exitstatus == 2 and "policy.toml" in output and not chat.server.requests


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked for in /proc")
def test_a_terminal_that_is_closed_ends_what_runs(start: Start) -> None:
    chat = start([Line("", [("Bash", {"command": "echo begun; exec sleep 61.25"})])], "--mode", "full")
    chat.say("wait")
    chat.sees("│ begun")
    assert _running("61.25")
    chat.child.kill(signal.SIGHUP)
    chat.over()
    assert chat.child.exitstatus == 128 + signal.SIGHUP and not _running("61.25")


STATES: dict[str, tuple[list[Line], str, str]] = {
    "idle": ([], "", "% of "),
    "half a message": ([], "half", "half"),
    "an answer": ([Line("Slowly. " * 4000, delay=0.2)], "go\r", "Slowly"),
    "a question": (TODO, "go\r", "[y]es"),
    "a command": ([Line("", [("Bash", {"command": "echo begun; exec sleep 61.75"})])], "go\r", "begun"),
}


@pytest.mark.parametrize("state", spread(list(STATES), 2))
def test_a_chat_whose_terminal_goes_away_ends(start: Start, state: str) -> None:
    script, text, seen = STATES[state]
    chat = start(script, "--mode", "full" if state == "a command" else "ask")
    chat.ready()
    chat.type(text)
    chat.sees(*([seen] if text else []))
    chat.child.ptyproc.fileobj.close()
    _wait_until(lambda: not chat.child.isalive())
    assert not _running("61.75")


@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
def test_a_chat_whose_parent_is_killed_ends_also_if_the_terminal_stays(start: Start, state: str) -> None:
    script, text, seen = STATES[state]
    chat = start(script, "--list")  # makes the project; the chat below is what is looked at
    chat.over()
    mode = "full" if state == "a command" else "ask"
    inner = f'echo pid $$ end; exec "{sys.executable}" -m handrail chat --model m --mode {mode}'
    middle = f"echo parent $$ end; sh -c '{inner}'; :"
    words = ["-c", 'sh -c "$0"; exec sleep 600', middle]
    environ = chat.place.environ(chat.place.serve(script), TERM="xterm-256color")
    child = pexpect.spawn(
        "sh", words, cwd=str(chat.place.project), env=environ, encoding="utf-8", timeout=TIMEOUT, dimensions=(40, 120)
    )
    try:
        child.expect(r"parent (\d+) end")
        parent = int(child.match.group(1))
        child.expect(r"pid (\d+) end")
        pid = int(child.match.group(1))
        child.expect_exact("% of ")
        child.send(text)
        child.expect_exact(seen if text else "")
        os.kill(parent, signal.SIGKILL)
        _wait_until(lambda: not _lives(pid))
        assert not _running("61.75")
    finally:
        child.close(force=True)


def _wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_run_at_a_terminal_asks_there_also_when_its_output_is_json(start: Start, tmp_path: Path) -> None:
    chat = start(TODO, "--list")  # makes the project; the run below is what is looked at
    chat.over()
    out = tmp_path / "events.jsonl"
    script = f'exec "{sys.executable}" -m handrail run go --model m --json > "{out}"'
    server = chat.place.serve(TODO)
    child = pexpect.spawn(
        "bash",
        ["-c", script],
        cwd=str(chat.place.project),
        env=chat.place.environ(server),
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    child.expect_exact("Edit asks")
    child.expect_exact("[?]")
    child.send("y")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0 and chat.text == "DONE one\nDONE two\n"
    assert json.loads(out.read_text(encoding="utf-8").splitlines()[-1])["how"] == "done"


def _running(word: str) -> bool:
    """Whether a process with this word in its command line is there; the dead that nobody has fetched have none."""
    collected = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            collected.append(place.read_bytes().split(b"\0"))
        except OSError:  # it has ended meanwhile
            continue
    return any(word.encode() in words for words in collected)
