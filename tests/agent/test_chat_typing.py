"""`handrail chat` in a real pseudo-terminal: typing, completion, colours, figures, and how it ends."""

# ruff: noqa: F811 - the fixture is the one of the other half
from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pexpect
import pytest

from handrail_demo.scripted_server import Line
from tests.agent.test_chat import Start, start  # noqa: F401 - a fixture
from tests.agent.test_run_cli import TODO
from tests.command import TIMEOUT

PROMPT = "› "


def test_names_of_files_are_completed_after_an_at_sign(start: Start) -> None:
    chat = start([Line("Ok.")])
    (chat.place.project / "src").mkdir()
    (chat.place.project / "src" / "handlebar.py").write_text("", encoding="utf-8")
    chat.say("/tools")  # by then the session is open
    chat.sees("dialect native")
    chat.ready()
    chat.type("look at @handle")
    chat.sees("src/handlebar.py")  # in the menu
    chat.type("\t")
    chat.sees("bar.py")
    chat.type("\r please\r")
    chat.sees("Ok.")
    chat.leave()
    told = "[@src/handlebar.py is the name of a file or directory of the project: src/handlebar.py]"
    assert chat.asked(0) == [("user", f"look at @src/handlebar.py please\n{told}")]


def test_a_paste_keeps_its_lines_and_new_lines_can_be_typed(start: Start) -> None:
    chat = start([Line("One."), Line("Two.")])
    chat.ready()
    chat.type("\x1b[200~def f():\r\n    return 1\r\n\x1b[201~")
    chat.type("is that right?\r")
    chat.sees("One.")
    chat.ready()
    chat.type("a\x1b\rb\\\rc\r")
    chat.sees("Two.")
    chat.leave()
    assert chat.asked(0) == [("user", "def f():\n    return 1\nis that right?")]
    assert chat.asked(1)[-1] == ("user", "a\nb\nc")


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
    chat.leave()
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
    chat.ready()
    seen = str(chat.child.before)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert "\x1b]0;owned" not in seen and "\\u001b]0;owned" in plain
    assert "Some bold and" in plain and "x = 1" in plain and "• two" in plain
    chat.child.sendcontrol("d")
    chat.over()


def test_no_color_is_honoured(start: Start) -> None:
    chat = start(TODO, "--mode", "accept-edits", NO_COLOR="1")
    chat.say("finish the README")
    chat.sees("I look first.")
    chat.sees("Both are")
    seen = str(chat.child.before)
    assert "+DONE one" in seen and not re.search(r"\x1b\[[0-9;]*3[0-7]m", seen)
    chat.leave()


def test_the_figures_stand_below_the_prompt(start: Start) -> None:
    chat = start([Line("One.", tokens=64_000)], PROMPT_TOOLKIT_NO_CPR="0")
    chat.sees("\x1b[6n")  # a terminal that is asked where its cursor is, and answers
    chat.type("\x1b[5;1R")
    chat.sees("0 in, 0 out · 0% of 128,000")
    chat.type("hello\r")
    chat.sees("One.", "\x1b[6n")
    chat.type("\x1b[9;1R")
    chat.sees("64,000 in, 2 out · 50% of 128,000")
    chat.child.sendcontrol("d")
    chat.over()


def test_rules_that_cannot_be_used_end_the_chat_with_the_reason(start: Start, tmp_path: Path) -> None:
    (tmp_path / "config" / "handrail").mkdir(parents=True)
    (tmp_path / "config" / "handrail" / "policy.toml").write_text("allow = 3\n", encoding="utf-8")
    chat = start([Line("One.")])
    said = chat.over()
    assert chat.child.exitstatus == 2 and "policy.toml" in said and not chat.server.requests


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked for in /proc")
def test_a_terminal_that_is_closed_ends_what_runs(start: Start) -> None:
    chat = start([Line("", [("Bash", {"command": "echo begun; exec sleep 61.25"})])], "--mode", "full")
    chat.say("wait")
    chat.sees("│ begun")
    assert _running("61.25")
    chat.child.kill(signal.SIGHUP)
    chat.over()
    assert chat.child.exitstatus == 128 + signal.SIGHUP and not _running("61.25")


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
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(place.read_bytes().split(b"\0"))
        except OSError:  # it has ended meanwhile
            continue
    return any(word.encode() in words for words in found)
