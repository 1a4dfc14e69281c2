"""Agents that live in a named draft at the same time: attached agents, an MCP client, a library and a shell."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager, ExitStack

import pytest

from handrail import Session, Settings, Setup
from tests.attach.conftest import Agent
from tests.attach.programs import Client, Project

_NAME = "ours"


def attach(project: Project, name: str) -> AbstractContextManager[Client]:
    """An attached agent in the draft."""
    return project.start_handrail("draft", "run", _NAME, "--", *project.list_words(name))


@pytest.fixture
def project(agent: Agent) -> Project:
    (agent.project / "a.txt").write_text("one\n", encoding="utf-8")
    opened = Project(agent.project, agent.state)
    opened.handrail("draft", "start", _NAME)
    return opened


def test_an_attached_agent_is_told_of_lines_that_another_draft_has_changed(project: Project, agent: Agent) -> None:
    with attach(project, "claude") as claude:
        claude.ask({"command": "sed -i s/one/eins/ a.txt"})
        fields = {"file_path": str(project.path / "a.txt")}
        agent.before("Write", fields, "c")
        (project.path / "a.txt").write_text("uno\n", encoding="utf-8")
        answer = agent.hook("PostToolUse", tool_name="Write", tool_input=fields, tool_use_id="c")
        assert "in the draft ours" in answer["hookSpecificOutput"]["additionalContext"]
        done = agent.run("echo due >> a.txt; echo tre > a.txt")
        assert b"in the draft ours" in done.stderr


def test_agents_of_all_kinds_work_in_one_draft_at_the_same_time(project: Project) -> None:
    with ExitStack() as stack:
        claude, codex = (stack.enter_context(attach(project, name)) for name in ("claude", "codex"))
        mcp = [
            stack.enter_context(project.start_handrail("mcp", "--draft", _NAME, "--mode", "full", "."))
            for _ in range(2)
        ]
        for client in mcp:
            client.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}})
        settings = Settings(state=str(project.state))
        library = stack.enter_context(Session(project.path, mode="full", setup=Setup(draft=_NAME), settings=settings))
        done = claude.ask({"command": "echo claude >> a.txt"})
        assert (done["code"], done["error"]) == (0, "")
        assert codex.ask({"command": "cat a.txt; echo codex >> a.txt"})["out"] == "one\nclaude\n"
        assert "codex" in mcp[0].call("Bash", command="cat a.txt; echo mcp >> a.txt")
        assert "mcp" in mcp[1].call("Read", file_path="a.txt")
        assert "mcp" in library.call("Bash", {"command": "cat a.txt; echo library >> a.txt"}).text
        claude.ask({"path": "c.txt", "content": "written by its own tool\n"})
        shell = [sys.executable, "-P", "-m", "handrail", "draft", "shell", _NAME]
        environment = {**project.environment, "SHELL": "/bin/sh"}
        read = subprocess.run(
            shell, cwd=project.path, env=environment, input=b"cat c.txt\n", capture_output=True, check=True
        )
        assert read.stdout == b"written by its own tool\n"
        job = "while [ ! -e stop ]; do sleep 0.05; done; echo job > job.txt"
        mcp[0].call("Bash", command=job, background=True)
        claude.ask({"command": "touch stop; while [ ! -e job.txt ]; do sleep 0.05; done"})
        assert "library" in codex.ask({"command": "cat a.txt"})["out"]
        assert (project.path / "a.txt").read_text(encoding="utf-8") == "one\n"
        assert sorted(path.name for path in project.path.iterdir()) == ["a.txt"]
    listed = project.handrail("draft", "list")
    assert "c.txt" in listed and all(name in listed for name in ("handrail mcp", "python")), listed
    project.handrail("draft", "keep", _NAME)
    assert (project.path / "a.txt").read_text(encoding="utf-8") == "one\nclaude\ncodex\nmcp\nlibrary\n"
    assert (project.path / "c.txt").exists() and (project.path / "job.txt").exists()
