"""An agent without a model: it calls the hooks and starts its shell as Claude Code or Codex does."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, Settings
from handrail.attach import launcher
from tests.drafts.machine import find_obstacle

_SECONDS = 60


@dataclass
class Agent:
    """An agent at work in a project; its hooks and its shell are the launcher of `handrail attach`."""

    state: Path
    project: Path
    launcher: str
    session: str = "s1"
    name: str = "claude"
    environment: dict[str, str] = field(default_factory=dict)
    sandbox: list[str] = field(default_factory=list)
    """Words that start the shell in a sandbox of the agent's own."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def hook(self, event: str, **fields: Any) -> dict[str, Any]:
        """Call a hook; returns its answer."""
        given = {"session_id": self.session, "cwd": str(self.project), "hook_event_name": event, **fields}
        done = subprocess.run(
            [self.launcher, "hook", self.name],
            input=json.dumps(given).encode(),
            env=self.environment,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        answer: dict[str, Any] = json.loads(done.stdout or "{}")
        return answer

    def before(self, tool: str, arguments: Mapping[str, Any], call: str = "") -> dict[str, Any]:
        """Call the hook before a tool; returns its decision."""
        call = call or f"call-{next(self._numbers)}"
        answer = self.hook("PreToolUse", tool_name=tool, tool_input=dict(arguments), tool_use_id=call)
        return dict(answer.get("hookSpecificOutput", {}))

    def quote(self, command: str) -> str:
        """The words that Claude Code gives to its shell; the last directory goes to a file beside the project."""
        quoted = "'" + command.replace("'", "'\"'\"'") + "'"
        snapshot = self.state.parent / "shell-snapshots" / "snapshot-bash-1-a.sh"
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.touch()
        place = self.state.parent / "cwd"
        return f"source {snapshot} 2>/dev/null || true && eval {quoted} && pwd -P >| {place}"

    def start(self, command: str, cwd: Path | None = None, **how: Any) -> subprocess.Popen[bytes]:
        """Start a command as the agent's shell does, without asking its hook."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        words = [self.launcher, self.quote(command)] if self.name == "claude" else ["bash", "-c", command]
        return subprocess.Popen(
            [*self.sandbox, *words], cwd=cwd or self.project, env=self.environment, **{**streams, **how}
        )

    def run(self, command: str, **arguments: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a command: its hook first, then its shell."""
        answer = self.before("Bash", {"command": command, **arguments})
        assert answer.get("permissionDecision") != "deny", answer
        return finish(self.start(command))


def finish(process: subprocess.Popen[bytes]) -> subprocess.CompletedProcess[bytes]:
    out, err = process.communicate(timeout=_SECONDS)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@dataclass
class Helper:
    """The resident helper of a test."""

    state: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [sys.executable, "-P", "-m", "handrail", "service"]
        environment = {**os.environ, "HANDRAIL_STATE": str(self.state)}
        socket = self.state / "attach" / "socket"
        socket.unlink(missing_ok=True)  # of a helper that was killed
        self.process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL)
        while not socket.exists():
            assert self.process.poll() is None, "the helper did not start"
            os.sched_yield()

    def kill(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short path."""
    with tempfile.TemporaryDirectory(prefix="attach-") as directory:
        yield Path(os.path.realpath(directory))


@pytest.fixture
def helper(place: Path) -> Iterator[Helper]:
    if why := find_obstacle():
        pytest.skip(f"no command can run in a draft here: {why}")
    state = place / "state"
    state.mkdir()
    opened = Helper(state)
    opened.start()
    yield opened
    opened.stop()


@pytest.fixture
def agent(place: Path, helper: Helper) -> Agent:
    state, project = helper.state, place / "project"
    project.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "CLAUDE_PID": str(os.getpid()),
        "CLAUDE_PROJECT_DIR": str(project),
    }
    return Agent(state, project, launcher.write(str(state)), environment=environment)


@pytest.fixture
def codex(agent: Agent) -> Agent:
    """An agent that has bash read a file of ours before each command."""
    names = ("PATH", "HOME")
    kept = {name: value for name, value in agent.environment.items() if name in names}
    bash = {"BASH_ENV": launcher.get_bash_path(str(agent.state)), "SHLVL": "1"}
    return replace(agent, name="codex", environment=kept | bash)


@pytest.fixture
def undo(agent: Agent) -> Callable[[], list[str]]:
    """Undo the newest change in the project, as `handrail undo` in another terminal does."""

    def undo_last() -> list[str]:
        with Session(agent.project, settings=Settings(state=str(agent.state))) as session:
            return [one.path for one in session.undo(any_session=True).restored]

    return undo_last
