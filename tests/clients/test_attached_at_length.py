"""Real Claude Code and Codex, attached: commands of twelve kinds and edits are undone byte for byte."""

from __future__ import annotations

import itertools
import random
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from handrail_demo.scripted_server import Line, Script, Seen
from tests import sizes
from tests.attach.test_undo_everything import KINDS, make_project, read_everything
from tests.clients.bodies import answers, offered, wait_for_command
from tests.clients.test_attached import AGENTS, CODEX, Agent, Attached, Use, attached

__all__ = ["attached"]
_BATCH = 10
"""Calls that follow one prompt."""
State = dict[str, tuple[int, bytes]]
_RULES = 'rules = ["allow Network(*)"]\n'
"""npm and pip may use the network; nobody is here to be asked."""


def list_commands(scene: Attached) -> list[Use]:
    """Commands of every kind, each in a project of its own below the agent's."""
    uses: list[Use] = []
    kinds = [name for name in KINDS if name != "server" or scene.agent is not CODEX]  # its sandbox allows no socket
    for name, seed in itertools.product(kinds, range(sizes.pick(1, 5))):
        root = scene.project / f"{name.replace(' ', '-')}-{seed}"
        root.mkdir()
        rng = random.Random(f"{name} {seed}")
        command = KINDS[name].build(root, make_project(root, rng), rng)
        if scene.agent.name == CODEX.name:
            command = command.replace("rm -rf ", "rm -r ")  # Codex itself refuses every `rm -f`
        uses.append(scene.agent.bash(f"(cd {shlex.quote(root.name)} && {command})"))  # a `cd` would last
    return uses


def list_edits(scene: Attached) -> list[Use]:
    """Edits with the agent's own tools: a new file, then changes of it."""
    edit = _patch if scene.agent.name == CODEX.name else _edit
    return [use for number in range(sizes.pick(2, 10)) for use in edit(scene.project, number)]


def _patch(_: Path, number: int) -> list[Use]:
    name = f"edited/{number}.txt"
    gone = f"*** Delete File: {name}\n"
    moved = f"*** Update File: {name}\n*** Move to: {name}.moved\n@@\n-two\n"
    changes = [
        f"*** Add File: {name}\n+one {number}\n+two\n",
        f"*** Update File: {name}\n@@\n-one {number}\n+\u00e9ins\t{number}\n",
        gone if number % 2 else moved,
    ]
    return [("apply_patch", f"*** Begin Patch\n{change}*** End Patch\n") for change in changes]


def _edit(project: Path, number: int) -> list[Use]:
    path = str(project / "edited" / f"{number}.txt")
    return [
        ("Write", {"file_path": path, "content": f"one {number}\ntwo"}),
        ("Edit", {"file_path": path, "old_string": "one", "new_string": "\u00e9ins\t"}),
        ("Edit", {"file_path": path, "old_string": "\ntwo", "new_string": ""}),
    ]


def read_projects(root: Path) -> State:
    """Everything in the agent's project but what its own sandbox mounts on while a command runs, such as `.aws`."""
    places = [place for place in root.iterdir() if not place.name.startswith(".")]
    return {f"{place.name}/{path}": kept for place in places for path, kept in read_everything(place).items()}


def observe(root: Path, uses: Sequence[Use], states: list[State]) -> Script:
    """A model that makes one call after the other, and looks at the project before each and after the last."""
    seen_so_far = 0

    def script(seen: Seen) -> Line:
        nonlocal seen_so_far
        if not offered(seen.body):
            return Line("A title")
        if wait := wait_for_command(seen.body):
            return Line("", [wait])
        done = len(answers(seen.body))
        if done == seen_so_far and done < len(uses):
            seen_so_far += 1
            states.append(read_projects(root))
        return Line("", [uses[done]]) if done < len(uses) else Line("It is done.")

    return script


@pytest.mark.parametrize("name", AGENTS)
def test_commands_of_twelve_kinds_and_edits_are_undone_one_after_the_other(
    attached: Callable[[Agent], Attached], name: str
) -> None:
    scene = attached(AGENTS[name])
    rules = scene.home / ".config" / "handrail" / "policy.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text(_RULES, encoding="utf-8")
    uses = [*list_commands(scene), *list_edits(scene)]
    states: list[State] = []
    texts: list[list[str]] = []
    for start in range(0, len(uses), _BATCH):
        batch = uses[start : start + _BATCH]
        seen = scene.prompt(scene.agent, script=observe(scene.project, batch, states))
        texts += answers([one for one in seen if one.body.get("tools")][-1].body)
    states.append(read_projects(scene.project))
    assert len(states) == len(uses) + 1, texts
    steps = [at for at in range(len(uses)) if states[at] != states[at + 1]]
    assert [(uses[at], texts[at]) for at in range(len(uses)) if at not in steps] == []
    for state in (states[at] for at in reversed(steps)):
        scene.handrail("undo")
        now = read_projects(scene.project)
        assert now == state, {path for path in now.keys() | state.keys() if now.get(path) != state.get(path)}
