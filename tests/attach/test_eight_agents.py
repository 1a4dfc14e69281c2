"""Eight agents on one repository: no line that was answered as kept is lost, and each can be undone by itself.

Two are attached as Claude Code is, two as Codex, two are MCP clients and two are programs with a session. The attached
ones are scripts that keep to the contract of the clients' hooks; `tests/clients` has the clients themselves. Each task
writes a line of its own behind a line that others use, too.
"""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path
from tests.attach.conftest import Agent
from tests.attach.programs import Client, Project
from tests.sizes import pick

_FILES = [f"f{number}.txt" for number in range(pick(4, 12))]
_ANCHORS = pick(60, 100)
_TASKS = pick(64, 300)
_HELD = "Another program has these files open for writing"
"""A keep of another agent is just moving the file into place."""


@dataclass(frozen=True, slots=True)
class Task:
    path: str
    anchor: str
    line: str
    """Unlike all others; begins with the name of its agent."""
    by_command: bool

    @property
    def command(self) -> str:
        """Slow enough for others to come in between: it reads, and writes later."""
        edit = f"sed 's/^{self.anchor}$/&\\n{self.line}/' {self.path} > /tmp/new; sleep 0.05"
        return f"{edit}; cat /tmp/new > {self.path}"

    @property
    def edit(self) -> dict[str, str]:
        old = f"{self.anchor}\n"
        return {"file_path": self.path, "old_string": old, "new_string": f"{old}{self.line}\n"}


@dataclass(frozen=True, slots=True)
class Answer:
    kept: bool
    text: str


def ask_attached(client: Client, task: Task) -> Answer:
    done = client.ask({"command": task.command})
    return Answer(done["code"] == 0, done["error"])


def ask_library(client: Client, task: Task) -> Answer:
    call = ["Bash", {"command": task.command}] if task.by_command else ["Edit", task.edit]
    answer = client.ask({"call": call})
    return Answer(answer["kept"] and "not kept" not in answer["text"], answer["text"])


def ask_mcp(client: Client, task: Task) -> Answer:
    name, arguments = ("Bash", {"command": task.command}) if task.by_command else ("Edit", task.edit)
    parameters = {"name": name, "arguments": arguments}
    answer = client.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters})
    text = answer["result"]["content"][0]["text"]
    return Answer(not answer["result"].get("isError") and "not kept" not in text, text)


@pytest.fixture
def project(agent: Agent) -> Project:
    for name in _FILES:
        lines = "".join(f"{name} line {number}\n" for number in range(_ANCHORS))
        (agent.project / name).write_text(lines, encoding="utf-8")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=agent.project, check=True)
    return Project(agent.project, agent.state)


def start_all(project: Project, stack: ExitStack) -> dict[str, Callable[[Task], Answer]]:
    """The eight agents by their names, each with the way to give it a task."""
    agents: dict[str, Callable[[Task], Answer]] = {}
    for number in (1, 2):
        for name in ("claude", "codex"):
            attached = stack.enter_context(project.start(project.list_words(name)))
            agents[f"{name}{number}"] = partial(ask_attached, attached)
        library = stack.enter_context(project.start(project.list_library_words()))
        agents[f"library{number}"] = partial(ask_library, library)
        mcp = stack.enter_context(project.start_handrail("mcp", "--mode", "full", "."))
        mcp.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}})
        agents[f"mcp{number}"] = partial(ask_mcp, mcp)
    return agents


def make_tasks(names: list[str]) -> dict[str, list[Task]]:
    rng = random.Random(8)
    tasks: dict[str, list[Task]] = {name: [] for name in names}
    for number in range(_TASKS):
        name, path = names[number % len(names)], rng.choice(_FILES)
        anchor = f"{path} line {rng.randrange(_ANCHORS)}"
        tasks[name].append(Task(path, anchor, f"{name} wrote {number}", rng.random() < 0.5))
    return tasks


def read(project: Project) -> dict[str, list[str]]:
    return {name: (project.path / name).read_text(encoding="utf-8").splitlines() for name in _FILES}


def without(tree: dict[str, list[str]], agent: str) -> dict[str, list[str]]:
    return {name: [line for line in lines if not line.startswith(f"{agent} ")] for name, lines in tree.items()}


def find_sessions(state: Path) -> dict[str, set[str]]:
    """The sessions of each agent, by what they wrote."""
    sessions: dict[str, set[str]] = {}
    with JournalReader(get_default_path(str(state))) as reader:
        for row in reader.iterate_calls():
            if " wrote " in (words := str(row.arguments)):
                sessions.setdefault(words.partition(" wrote ")[0].split("\\n")[-1].split("\n")[-1], set()).add(
                    row.session
                )
    return sessions


@pytest.mark.slow
def test_eight_agents_lose_no_line_and_each_is_undone_by_itself(project: Project) -> None:
    before = read(project)
    with ExitStack() as stack:
        agents = start_all(project, stack)
        tasks = make_tasks(list(agents))

        def work(name: str) -> list[tuple[Task, Answer]]:
            return [(task, agents[name](task)) for task in tasks[name]]

        with ThreadPoolExecutor(len(agents)) as pool:
            answered = [pair for pairs in pool.map(work, agents) for pair in pairs]
    assert len(answered) == _TASKS
    after = read(project)
    lines = Counter(line for each in after.values() for line in each)
    kept = [task.line for task, answer in answered if answer.kept]
    assert len(kept) > _TASKS // 2
    assert lines == Counter([*kept, *(line for each in before.values() for line in each)])
    for task, answer in answered:
        if not answer.kept and _HELD not in answer.text:
            assert all(sign in answer.text for sign in ("<<<<<<< draft", ">>>>>>> workspace", task.line)), answer.text
    sessions = find_sessions(project.state)
    assert sessions.keys() == agents.keys()
    for name in agents:
        (session,) = sessions[name]
        with Session(project.path, settings=Settings(state=str(project.state))) as person:
            report = person.undo(session=session)
            undone = read(project)
            assert report.restored
            assert without(undone, name) == without(after, name), f"undoing {name} has touched lines of others"
            assert undone == without(undone, name), report
            assert not report.conflicts
            assert person.redo().restored or not report.restored
        assert read(project) == after
