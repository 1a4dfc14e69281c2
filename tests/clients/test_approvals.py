"""Approvals where people are: Claude Code and Codex on a terminal, and clients that decline by themselves."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from handrail.approval.attached_terminal import ApprovalServer, IncomingQuestion
from handrail.model import Answer
from handrail_demo.scripted_server import Script
from tests.clients.bodies import answers
from tests.clients.cast import DECLINING, HEADLESS
from tests.clients.conftest import Stage
from tests.clients.terminal import SCREENS, Terminal, has_tmux
from tests.clients.test_real_clients import following

EDIT = {"file_path": "a.txt", "old_string": "alpha\n", "new_string": "gamma\n"}
COMMAND = "touch first.txt\ngit push || true\n" + "".join(f"echo line {number}\n" for number in range(29))
"""Asked about before it runs, also where commands run in drafts: it would use the network."""
DONE = "It is done."
NO_TOOLS = "A title"
"""What the model of these tests says to a request without our tools."""

on_terminal = pytest.mark.skipif(not has_tmux(), reason="needs tmux")
Stages = Callable[..., Stage]


@pytest.fixture
def scene(stage: Stages) -> Callable[[str], Stage]:
    """A client whose own questions about our tools are off, and ours are on."""

    def make(name: str) -> Stage:
        opened = stage(name, "--allow", "--mode", "ask")
        (opened.project / "a.txt").write_text("alpha\nbeta\n", encoding="utf-8")
        return opened

    return make


def edit_script(stage: Stage) -> Script:
    return following(stage.client, ("Read", {"file_path": "a.txt"}), ("Edit", EDIT))


def ask(terminal: Terminal, substance: str) -> list[str]:
    """Send a prompt; returns the lines of the screen from the one that says what would be done.

    A client does not wait for its servers: a prompt that comes before our tools are there is sent again.
    """
    for attempt in range(1, 21):

        def is_answered(screen: str, attempt: int = attempt) -> bool:
            return (substance in screen and "Allow it?" in screen) or screen.count(NO_TOOLS) == attempt

        terminal.type(f"Change it, take {attempt}.")
        terminal.press("Enter", is_answered)
        if substance in (screen := terminal.read_screen()):
            break
    lines = screen.splitlines()
    start = next(number for number, line in enumerate(lines) if substance in line)
    return lines[start:]


@on_terminal
@pytest.mark.parametrize("name", SCREENS)
def test_the_first_line_on_the_screen_says_what_changes_and_yes_is_two_keys_away(
    scene: Callable[[str], Stage], name: str
) -> None:
    stage = scene(name)
    with stage.open_on_terminal(edit_script(stage)) as (terminal, model):
        lines = ask(terminal, "Edit a.txt: -alpha +gamma")
        assert "a.txt would be changed" in lines[1]
        SCREENS[name].answer(terminal, "Yes")
        terminal.wait(DONE)
        assert (stage.project / "a.txt").read_text(encoding="utf-8") == "gamma\nbeta\n"
        assert "refused" not in answers(model.requests[-1].body)[-1][-1]


@on_terminal
@pytest.mark.parametrize("name", SCREENS)
def test_a_no_asks_for_a_reason_which_the_model_reads(scene: Callable[[str], Stage], name: str) -> None:
    stage = scene(name)
    with stage.open_on_terminal(edit_script(stage)) as (terminal, model):
        ask(terminal, "Edit a.txt: -alpha +gamma")
        SCREENS[name].answer(terminal, "No")
        SCREENS[name].give_reason(terminal, "not on a Monday")
        terminal.wait(DONE)
        assert answers(model.requests[-1].body)[-1][-1] == "Not allowed: the user refused: not on a Monday."
    assert (stage.project / "a.txt").read_text(encoding="utf-8") == "alpha\nbeta\n"


@on_terminal
@pytest.mark.parametrize("name", SCREENS)
def test_a_long_command_begins_with_its_first_line_and_names_where_all_of_it_is_shown(
    scene: Callable[[str], Stage], name: str
) -> None:
    stage = scene(name)
    with stage.open_on_terminal(following(stage.client, ("Bash", {"command": COMMAND}))) as (terminal, _):
        lines = ask(terminal, "Bash: touch first.txt (and 30 more lines)")
        assert any("handrail web" in line for line in lines[: SCREENS[name].shown_lines]), lines
        SCREENS[name].answer(terminal, "Yes")
        terminal.wait(DONE)
    assert (stage.project / "first.txt").exists()


@on_terminal
@pytest.mark.parametrize("name", SCREENS)
def test_the_first_answer_counts_also_if_it_is_not_given_in_the_client(
    scene: Callable[[str], Stage], name: str
) -> None:
    stage = scene(name)
    with (
        attach(stage, Answer(True)) as approver,
        stage.open_on_terminal(edit_script(stage)) as (terminal, _),
    ):
        ask(terminal, "Edit a.txt: -alpha +gamma")
        approver.answers.set()
        approver.asked[0].wait_until_over(60)
        # Where the protocol cannot take a form back, it is closed by hand, which is no answer any more. For a moment
        # after it has opened, Claude Code takes Escape for the whole turn and not for the form.
        time.sleep(3)
        terminal.press("Escape", lambda screen: "Allow it?" not in screen)
        terminal.wait(DONE)
        assert approver.asked[0].accepted
    assert approver.asked[0].question.client.startswith({"claude": "claude-code", "codex": "codex"}[name])
    assert (stage.project / "a.txt").read_text(encoding="utf-8") == "gamma\nbeta\n"


@pytest.mark.parametrize("name", HEADLESS)
def test_without_a_person_no_answer_of_a_client_is_taken_for_a_persons(
    scene: Callable[[str], Stage], name: str
) -> None:
    stage = scene(name)
    run = stage.run(edit_script(stage))
    assert run.code == 0, run.output
    refusal = answers(run.asked()[-1].body)[-1][-1]
    assert "needs the user's approval" in refusal and "the user refused" not in refusal
    assert ("the client declined without asking anybody" in refusal) == (name in DECLINING), refusal
    assert (stage.project / "a.txt").read_text(encoding="utf-8") == "alpha\nbeta\n"


@pytest.mark.parametrize("name", HEADLESS)
def test_a_person_at_another_terminal_answers_for_a_client_that_declines_by_itself(
    scene: Callable[[str], Stage], name: str
) -> None:
    stage = scene(name)
    with attach(stage, Answer(True)) as approver:
        approver.answers.set()
        run = stage.run(edit_script(stage))
    assert run.code == 0, run.output
    assert (stage.project / "a.txt").read_text(encoding="utf-8") == "gamma\nbeta\n", answers(run.asked()[-1].body)
    (incoming,) = approver.asked
    assert incoming.question.call.tool == "Edit" and incoming.question.client


@dataclass
class Approver:
    """Somebody at another terminal."""

    asked: list[IncomingQuestion] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)
    """Questions are answered once this is set."""


@contextlib.contextmanager
def attach(stage: Stage, answer: Answer) -> Iterator[Approver]:
    """Somebody who gives the same answer to every question."""
    approver = Approver()

    def serve(server: ApprovalServer) -> None:
        while True:
            approver.asked.append(incoming := server.questions.get())
            approver.answers.wait()
            incoming.answer(answer)

    with ApprovalServer(stage.state, None) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield approver
