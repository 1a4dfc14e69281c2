"""`handrail chat` in a real pseudo-terminal, with a scripted model on loopback: what a person sees and types."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pexpect
import pytest

from handrail.agent.providers import APIS
from handrail_demo.scripted_server import Line, Script, ScriptedServer, Seen
from tests.agent.test_run_cli import DONE, READ, TODO, Place
from tests.command import TIMEOUT
from tests.terminal import spawn_in_terminal


class Chat:
    """A chat at a terminal. What it writes is searched without colours and cursor movements."""

    def __init__(self, child: pexpect.spawn, server: ScriptedServer, place: Place) -> None:
        self.child, self.server, self.place = child, server, place
        self._raw = ""
        self._at = 0

    def ready(self) -> None:
        """Wait for the composer: the line of figures is below it."""
        self.sees("% of ")

    def type(self, text: str) -> None:
        self.child.send(text)

    def say(self, text: str) -> None:
        """Send a message: it waits until the agent is free, and until the composer is there."""
        self.child.send(f"{text}\r")

    @property
    def plain(self) -> str:
        """All that was written so far."""
        return _ESCAPE.sub("", self._raw)

    @property
    def raw(self) -> str:
        return self._raw

    def sees(self, *texts: str) -> None:
        """Wait for these texts, one after the other."""
        for text in texts:
            while (at := self.plain.find(text, self._at)) < 0:
                try:
                    self._raw += self.child.read_nonblocking(65536, TIMEOUT)
                except pexpect.EOF:
                    raise AssertionError(f"{text!r} is not in {self.plain[self._at :]!r}") from None
            self._at = at + len(text)

    def leave(self) -> str:
        self.say("/quit")
        return self.over()

    def over(self) -> str:
        """All that is written until the program ends."""
        self.child.expect(pexpect.EOF)
        self._raw += str(self.child.before)
        self.child.close()
        return self.plain

    def asked(self, number: int) -> list[tuple[str, str]]:
        """Who said what in a request."""
        messages = self.server.requests[number].body["messages"]
        return [(one["role"], one["content"]) for one in messages if one["role"] != "system"]

    @property
    def text(self) -> str:
        return self.place.readme.read_text(encoding="utf-8")


_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>])|\r(?!\n)")
Start = Callable[..., Chat]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:
        place = Place(tmp_path, stack)

        def run(script: Script | Sequence[Line] | ScriptedServer, *words: str, **more: str) -> Chat:
            server = script if isinstance(script, ScriptedServer) else place.serve(script)
            environ = place.environ(server, TERM="xterm-256color")
            kept = {name: value for name, value in environ.items() if name not in ("NO_COLOR", "COLORTERM")}
            command = [sys.executable, "-m", "handrail", "chat", "--model", "scripted", *words]
            child = spawn_in_terminal(command, cwd=place.project, env={**kept, **more})
            stack.callback(child.close, force=True)
            return Chat(child, server, place)

        yield run


def test_an_edit_is_shown_as_a_diff_and_made_after_yes(start: Start) -> None:
    chat = start(TODO)
    chat.say("finish the README")
    chat.sees("I look first.", "✓", "Read README.md", "Edit asks", "+DONE one", "[y]es")
    assert chat.text == "TODO one\nTODO two\n"
    chat.type("y")
    chat.sees("✓", "Edit README.md", "Both are", "done")
    chat.leave()
    assert chat.text == "DONE one\nDONE two\n" and chat.child.exitstatus == 0


@pytest.mark.parametrize("api", APIS)
def test_reasoning_is_dimmed_and_folded_in_every_protocol(start: Start, api: str) -> None:
    thought = "First I look at the file. " + "Then I decide what to do. " * 40 + "The last thought."
    chat = start([Line("Decided.", reasoning=thought), Line("Again.")], "--api", api)
    chat.say("think")
    chat.sees("Ctrl-O shows it · First I look", "Decided.")
    chat.say("more")
    chat.sees("Again.")
    chat.leave()
    assert re.search(r"\x1b\[2(?:;[0-9;]+)?m[^\n]{0,40}Ctrl-O shows it · First I look", chat.raw)


def test_a_refusal_with_a_reason_reaches_the_model(start: Start) -> None:
    chat = start(TODO)
    chat.say("finish the README")
    chat.sees("[y]es")
    chat.type("n")
    chat.sees("why not")
    chat.type("keep the list\r")
    chat.sees("⊘", "Both are")
    chat.leave()
    assert "keep the list" in chat.server.requests[2].results[0]
    assert chat.text == "TODO one\nTODO two\n"


def test_undo_restores_the_file_and_the_model_is_told(start: Start) -> None:
    chat = start([*TODO, Line("I see.")], "--mode", "accept-edits")
    chat.say("finish the README")
    chat.sees("+DONE one", "Both are")
    chat.say("/diff")
    chat.sees("-TODO one", "+DONE one")
    chat.say("/undo")
    chat.sees("reverted", "README.md")
    assert chat.text == "TODO one\nTODO two\n"
    chat.say("/diff")
    chat.sees("nothing has changed")
    chat.say("/undo")
    chat.sees("nothing to undo in this conversation")
    chat.say("well?")
    chat.sees("I see.")
    chat.leave()
    message = chat.asked(3)[-1][1]
    assert "undid the last change" in message and message.endswith("well?")


def test_ctrl_c_ends_a_command_and_the_conversation_goes_on(start: Start) -> None:
    lines = [Line("", [("Bash", {"command": "echo begun; sleep 60"})]), Line("I am here.")]
    chat = start(lines, "--mode", "full")
    chat.say("wait")
    chat.sees("│ begun")  # the end of what a running command prints
    chat.child.sendcontrol("c")
    chat.sees("stopped; you can continue")
    chat.say("still there?")
    chat.sees("I am here.")
    chat.leave()
    assert [role for role, _ in chat.asked(1)] == ["user", "assistant", "tool", "user"]


def test_ctrl_c_ends_an_answer_and_the_conversation_goes_on(start: Start) -> None:
    chat = start([Line("Slowly, very slowly. " * 40, delay=1.0), Line("I am here.")])
    chat.say("talk")
    chat.sees("Slowly")
    chat.child.sendcontrol("c")
    chat.sees("stopped; you can continue")
    chat.say("and now?")
    chat.sees("I am here.")
    chat.leave()


def test_ctrl_c_ends_a_question_too(start: Start) -> None:
    chat = start([*TODO[:2], Line("I am here.")])
    chat.say("finish")
    chat.sees("[y]es")
    chat.child.sendcontrol("c")
    chat.sees("stopped; you can continue")
    chat.say("and now?")
    chat.sees("I am here.")
    chat.leave()
    assert chat.text == "TODO one\nTODO two\n"


def test_ctrl_c_twice_leaves_and_what_was_answered_is_kept(start: Start) -> None:
    chat = start([Line("One."), Line("x " * 400, delay=1.0), Line("Two.")])
    chat.say("first")
    chat.sees("One.")
    chat.say("second")
    chat.sees("thinking")
    chat.child.sendcontrol("c")
    time.sleep(0.3)  # as a person does: two of the same moment are one to the kernel
    chat.child.sendcontrol("c")
    assert "--resume" in chat.over()
    again = start(chat.server, "--continue")
    again.say("third")
    again.sees("Two.")
    again.leave()
    assert again.asked(2) == [("user", "first"), ("assistant", "One."), ("user", "second"), ("user", "third")]


def test_a_hook_denies_an_edit_at_a_terminal_and_its_reason_is_shown(start: Start, tmp_path: Path) -> None:
    rules = tmp_path / "config" / "handrail" / "policy.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text('[[hooks]]\nbefore = "Edit(*.md)"\nrun = "echo not on Fridays; false"\n', encoding="utf-8")
    chat = start(TODO)
    chat.say("finish the README")
    chat.sees("Edit README.md", "not on Fridays", "Both are")
    chat.leave()
    assert "not on Fridays" in chat.server.requests[2].results[0] and chat.text == "TODO one\nTODO two\n"


def test_a_terminal_that_is_closed_ends_the_chat_in_order(start: Start) -> None:
    chat = start([Line("word " * 2000, delay=0.01)])
    chat.say("go on")
    chat.sees("word word")
    chat.child.ptyproc.fileobj.close()
    chat.child.ptyproc.closed = True
    assert chat.child.wait() in (0, 128 + signal.SIGHUP)


def test_ctrl_c_at_an_empty_prompt_leaves_and_first_clears_what_is_typed(start: Start) -> None:
    chat = start([Line("One.")])
    chat.ready()
    chat.type("half a thought")
    chat.sees("half a thought")
    chat.child.sendcontrol("c")
    chat.say("hello")
    chat.sees("One.")
    assert chat.asked(0) == [("user", "hello")]
    chat.say("/mode")
    chat.sees("mode ask")
    chat.child.sendcontrol("c")
    chat.over()
    assert chat.child.exitstatus == 0


def test_a_chat_that_was_killed_goes_on_with_all_that_was_answered(start: Start) -> None:
    chat = start([*TODO, Line("Of course.")], "--mode", "accept-edits")
    chat.say("finish the README")
    chat.sees("Both are")
    chat.say("/mode")
    chat.sees("mode accept-edits")
    chat.child.kill(9)
    chat.over()
    again = start(chat.server, "--continue")
    again.sees("6 turns", "finish the README", "I look first.", "Read README.md", "Both are")
    again.say("do you remember?")
    again.sees("Of course.")
    again.leave()
    roles = [role for role, _ in again.asked(3)]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]


def test_a_chat_that_was_killed_during_a_call_goes_on_and_says_so(start: Start) -> None:
    lines = [Line("", [("Bash", {"command": "echo begun; sleep 60"})]), Line("I look.")]
    chat = start(lines, "--mode", "full")
    chat.say("wait")
    chat.sees("│ begun")
    chat.child.kill(9)
    chat.over()
    again = start(chat.server, "--continue", "--mode", "full")
    again.say("what happened?")
    again.sees("I look.")
    again.leave()
    assert "The program ended during this call" in again.server.requests[1].body["messages"][-2]["content"]


def test_another_mode_holds_from_the_next_call_on(start: Start) -> None:
    chat = start(TODO)
    chat.say("/mode")
    chat.sees("mode ask; the modes are")
    chat.say("/mode wild")
    chat.sees("unknown mode wild")
    chat.say("/mode read-only")
    chat.sees("mode read-only")
    chat.say("finish the README")
    chat.sees("⊘", "Edit", "Both are")
    chat.leave()
    assert chat.text == "TODO one\nTODO two\n"


def test_another_model_takes_over_the_conversation(start: Start) -> None:
    chat = start([Line("One."), Line("Two.")])
    chat.say("first")
    chat.sees("One.")
    chat.say("/model another")
    chat.sees("model another")
    chat.say("second")
    chat.sees("Two.")
    chat.leave()
    assert [seen.body["model"] for seen in chat.server.requests] == ["scripted", "another"]
    assert chat.asked(1) == [("user", "first"), ("assistant", "One."), ("user", "second")]


def test_help_tools_log_clear_and_compact_answer(start: Start) -> None:
    def script(seen: Seen) -> Line:
        if seen.number == 0:
            return Line("", [READ, DONE])
        return Line("Notes." if "notes that you need" in str(seen.body["messages"][-1]) else "Said.")

    chat = start(script, "--mode", "accept-edits")
    chat.say("/help")
    chat.sees("/compact", "Alt-Enter")
    chat.say("/tools")
    chat.sees("dialect native", "Read", "Edit")
    chat.say("/compact")
    chat.sees("no conversation yet")
    chat.say("finish")
    chat.sees("Said.")
    chat.say("/log")
    chat.sees("Read", "read README.md", "Edit", "write README.md")
    chat.say("/compact")
    chat.sees("was compacted")
    chat.say("/clear")
    chat.sees("new conversation; no file was changed")
    chat.say("afresh")
    chat.sees("Said.")
    chat.say("/quit")
    chat.over()
    assert chat.asked(len(chat.server.requests) - 1) == [("user", "afresh")]


def test_a_resumed_conversation_shows_and_takes_back_what_it_changed_before(start: Start) -> None:
    chat = start([*TODO, Line("Again.")], "--mode", "accept-edits")
    chat.say("finish the README")
    chat.sees("+DONE one", "Both are")
    chat.leave()
    again = start(chat.server, "--continue")
    again.say("/diff")
    again.sees("-TODO one", "+DONE one")
    again.say("/rewind 1")
    again.sees("reverted", "README.md", "back to before: finish the README")
    assert again.text == "TODO one\nTODO two\n"
    again.type("!\r")
    again.sees("Again.")
    again.leave()
    assert again.asked(3) == [("user", "finish the README!")]


def test_rewind_and_own_commands_at_a_terminal(start: Start) -> None:
    chat = start([*TODO, Line("Again.")], "--mode", "accept-edits")
    chat.say("finish the README")
    chat.sees("+DONE one", "Both are")
    chat.say("!!echo $((40 + 2))")
    chat.sees("42", "the model will see it")
    chat.type("\x1b\x1b")
    chat.sees("1  finish the README", "/rewind ")
    chat.type("1\r")
    chat.sees("reverted", "README.md", "back to before: finish the README")
    assert chat.text == "TODO one\nTODO two\n"
    chat.type("!\r")
    chat.sees("finish the README!", "Again.")
    chat.leave()
    assert chat.asked(3) == [("user", "finish the README!")]
