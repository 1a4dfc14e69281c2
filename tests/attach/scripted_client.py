"""An attached agent as a process of its own: `python -m tests.attach.scripted_client NAME STATE PROJECT`.

It reads a task from each line, a command or an edit as JSON, does it as Claude Code or Codex do, and prints the answer.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from handrail.attach import launcher
from tests.attach.conftest import Agent


def open_agent(name: str, state: Path, project: Path) -> Agent:
    path = launcher.get_path(str(state))
    kept = ("PATH", "HOME", "HANDRAIL_DRAFT")
    environment = {key: os.environ[key] for key in kept if key in os.environ}
    if name == "claude":
        environment |= {"CLAUDE_PID": str(os.getpid()), "CLAUDE_PROJECT_DIR": str(project)}
    else:
        environment |= {"BASH_ENV": launcher.get_bash_path(str(state)), "SHLVL": "1"}
    return Agent(state, project, path, session=f"{name}-{os.getpid()}", name=name, environment=environment)


def do_task(agent: Agent, task: dict[str, str], number: int) -> dict[str, Any]:
    """Run a command, or write a file."""
    if "command" in task:
        done = agent.run(task["command"])
        return {"code": done.returncode, "out": done.stdout.decode(), "error": done.stderr.decode()}
    fields = {"file_path": str(agent.project / task["path"]), "content": task["content"]}
    call = f"{agent.session}-{number}"
    answer = agent.before("Write", fields, call)
    if answer.get("permissionDecision") != "deny":
        (agent.project / task["path"]).write_text(task["content"], encoding="utf-8")
        agent.hook("PostToolUse", tool_name="Write", tool_input=fields, tool_use_id=call)
    return answer


def main() -> None:
    name, state, project = sys.argv[1:]
    agent = open_agent(name, Path(state), Path(project))
    for number, line in enumerate(sys.stdin):
        print(json.dumps(do_task(agent, json.loads(line), number)), flush=True)
    agent.hook("Stop")


if __name__ == "__main__":
    main()
