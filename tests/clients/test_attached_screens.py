"""Attached agents on a terminal: their questions show the person's command, and their keys work as before."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from handrail_demo.scripted_server import ScriptedServer, Seen
from tests.clients.bodies import answers
from tests.clients.cast import codex_options, codex_settings
from tests.clients.fence import Fence
from tests.clients.terminal import Terminal, has_tmux, open_terminal
from tests.clients.test_attached import (
    CLAUDE,
    CODEX,
    PROMPT,
    Agent,
    Attached,
    Use,
    attached,
    following,
    is_running,
    wait_until,
)

pytestmark = pytest.mark.skipif(not has_tmux(), reason="needs tmux")
Scenes = Callable[[Agent], Attached]
__all__ = ["attached"]


@dataclass(frozen=True, slots=True)
class Screen:
    """How an agent is started on a terminal, and what it shows there."""

    agent: Agent
    words: Callable[[str, Attached], list[str]]
    """What follows the program; given the address of the model."""
    ready: str
    question: str
    interrupted: str
    """What it shows after the key that ends a command."""
    unasked: Sequence[str] = ()
    """Further words, with which it runs commands without a question."""


def _start_codex(*more: str) -> Callable[[str, Attached], list[str]]:
    def list_words(url: str, scene: Attached) -> list[str]:
        settings = {name: value for name, value in codex_settings(url).items() if not name.startswith("mcp_servers")}
        trusted = {f'projects."{scene.project}".trust_level': "trusted"}
        return [*more, *codex_options(settings | trusted)]

    return list_words


SCREENS = {
    "claude": Screen(
        CLAUDE,
        lambda url, scene: ["--permission-mode", "default"],
        "❯",
        "Do you want to proceed?",
        "Interrupted",
        ("--allowedTools", "Bash,Edit,Write"),
    ),
    "codex workspace-write": Screen(
        CODEX,
        _start_codex("--sandbox", "workspace-write", "--ask-for-approval", "on-request"),
        "Ask Codex to do anything",
        "Would you like to run the following command?",
        "interrupted",
    ),
    "codex danger-full-access": Screen(
        CODEX,
        _start_codex("--sandbox", "danger-full-access", "--ask-for-approval", "on-request"),
        "Ask Codex to do anything",
        "Would you like to run the following command?",
        "interrupted",
    ),
}


@contextlib.contextmanager
def open_screen(
    scene: Attached, screen: Screen, *uses: Use, more: Sequence[str] = ()
) -> Iterator[tuple[Terminal, ScriptedServer]]:
    """The agent on a terminal, after its prompt."""
    if screen.agent is CLAUDE:  # the answers to the questions of its first start
        known = {"hasCompletedOnboarding": True, "theme": "dark", "bypassPermissionsModeAccepted": True}
        known["projects"] = {str(scene.project): {"hasTrustDialogAccepted": True}}
        (scene.home / ".claude.json").write_text(json.dumps(known), encoding="utf-8")
    with Fence() as fence, ScriptedServer(following(*uses)) as model, open_terminal() as terminal:
        environment = {**scene.environment, **fence.environment, **screen.agent.environment(model.url)}
        environment["TERM"] = "xterm-256color"
        terminal.start([*scene.program, *screen.words(model.url, scene), *more], scene.project, environment)
        terminal.wait(screen.ready)
        terminal.type(PROMPT)
        terminal.press("Enter", lambda text: asked(model))
        yield terminal, model


def asked(model: ScriptedServer) -> list[Seen]:
    return [seen for seen in model.requests if seen.body.get("tools")]


@pytest.mark.parametrize("name", SCREENS)
def test_the_question_shows_the_persons_command_and_the_answer_counts(attached: Scenes, name: str) -> None:
    screen = SCREENS[name]
    scene = attached(screen.agent)
    if screen.agent is CODEX:
        (scene.home / ".codex" / "rules").mkdir()
        rule = 'prefix_rule(pattern=["touch"], decision="prompt")\n'
        (scene.home / ".codex" / "rules" / "default.rules").write_text(rule, encoding="utf-8")
    uses = [screen.agent.bash(f"touch {file}.txt again.txt") for file in ("yes", "no")]
    with open_screen(scene, screen, *uses) as (terminal, model):
        shown = terminal.wait(screen.question)
        assert "touch yes.txt again.txt" in shown, shown
        assert "handrail" not in shown.partition(screen.question)[2], shown
        terminal.press("Enter", lambda text: len(asked(model)) > 1)
        terminal.wait(lambda text: screen.question in text and "no.txt" in text)
        terminal.press("Escape", lambda text: screen.question not in text)
        assert scene.read() == {"yes.txt": b"", "again.txt": b""}
    scene.handrail("undo")
    assert scene.read() == {}


@pytest.mark.parametrize("name", SCREENS)
def test_a_key_ends_a_command_and_what_it_has_done_can_be_undone(attached: Scenes, name: str) -> None:
    screen = SCREENS[name]
    scene = attached(screen.agent)
    (scene.project / "a.txt").write_bytes(b"one\r\n\xff")
    before = scene.read()
    seconds = f"{600 + random.random()}"
    command = f"echo two > a.txt; tail -s {seconds} -f a.txt"
    with open_screen(scene, screen, screen.agent.bash(command), more=screen.unasked) as (terminal, _):
        wait_until(lambda: is_running("tail", "-s", seconds, "-f", "a.txt"))
        terminal.press("Escape", screen.interrupted)
        if screen.agent is CODEX:  # it lets a command go on until it ends itself
            terminal.press("C-c", lambda _: terminal.has_ended())
        wait_until(lambda: "Bash" in scene.list_tools())
        assert scene.read() == {"a.txt": b"two\n"}
        scene.handrail("undo")
    assert scene.read() == before


def test_our_own_question_appears_in_claude_code_with_its_reason_and_a_yes_runs_the_command(attached: Scenes) -> None:
    screen = SCREENS["claude"]
    scene = attached(CLAUDE)
    with open_screen(scene, screen, CLAUDE.bash("git push origin main; touch ran.txt")) as (terminal, model):
        shown = terminal.wait(screen.question)
        assert "git push origin main; touch ran.txt" in shown and "would use the network" in shown, shown
        terminal.press("Enter", lambda text: len(asked(model)) > 1)
    assert scene.read() == {"ran.txt": b""}
    assert "needs approval" not in "".join(answers(asked(model)[-1].body)[-1])
