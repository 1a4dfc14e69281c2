"""Real clients from npm, a scripted model on loopback, and no way out.

Only with HANDRAIL_CLIENTS=1, which `make test-clients` sets.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from handrail_demo.scripted_server import Script, ScriptedServer, Seen
from tests.clients.cast import HEADLESS, Client
from tests.clients.fence import Fence
from tests.clients.packages import NotHere, installed
from tests.clients.terminal import SCREENS, Terminal, open_terminal

_SECONDS = 150
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("HANDRAIL_CLIENTS"):
        return
    why = "real clients are large and come from npm; `make test-clients` installs and drives them"
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def program() -> Callable[[str], list[str]]:
    """The words that start a client; the test is skipped, and says why, if it cannot be had here."""

    def find(name: str) -> list[str]:
        try:
            return installed(name)
        except NotHere as error:
            pytest.skip(str(error))

    return find


@dataclass
class Run:
    """What one prompt came to."""

    code: int
    output: str
    seen: list[Seen] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    """Processes that were still there, in the project, after the client had gone."""
    wanted: list[str] = field(default_factory=list)
    """Hosts on the internet that the client asked for, in vain."""

    def asked(self) -> list[Seen]:
        """The requests of the agent itself; a title or a summary is asked for without tools."""
        return [seen for seen in self.seen if seen.body.get("tools")]


@dataclass
class Stage:
    """A user's home and a project, with Handrail installed into a client by its own command."""

    client: Client
    program: list[str]
    home: Path
    project: Path
    environment: dict[str, str]

    @property
    def state(self) -> str:
        """The state directory of this user."""
        return str(self.home / ".local" / "state" / "handrail")

    def run(self, script: Script, *, consent: bool = True) -> Run:
        """One prompt, with ``script`` in the model's place; with the words of consent, or with what is installed."""
        with Fence() as fence, ScriptedServer(script) as model:
            self.client.settings(self.home, model.url)
            environment = {**self.environment, **fence.environment, **self.client.environment(model.url)}
            process = subprocess.Popen(
                [*self.program, *self._words(model.url, consent)],
                cwd=self.project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            try:
                output, _ = process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                output += f"\n(ended after {_SECONDS} seconds)"
            left = _left_in(self.project)
            return Run(process.returncode, output, list(model.requests), left, list(fence.wanted))

    @contextlib.contextmanager
    def open_on_terminal(self, script: Script) -> Iterator[tuple[Terminal, ScriptedServer]]:
        """The client as a person starts it, ready for a prompt."""
        with Fence() as fence, ScriptedServer(script) as model, open_terminal() as terminal:
            self.client.settings(self.home, model.url)
            environment = {**self.environment, **fence.environment, **self.client.environment(model.url)}
            environment["TERM"] = "xterm-256color"
            terminal.start(
                [*self.program, *self.client.terminal_words(model.url, self.project)], self.project, environment
            )
            terminal.wait(SCREENS[self.client.name].ready)
            yield terminal, model

    def _words(self, url: str, consent: bool) -> list[str]:
        words, left_out = self.client.words(url), list(self.client.consent)
        for at in range(len(words)):
            if left_out and not consent and words[at : at + len(left_out)] == left_out:
                return words[:at] + words[at + len(left_out) :]
        return words


def _left_in(project: Path) -> list[int]:
    """Processes that work in the project and do not end; they are ended here, so that nothing stays behind."""
    until = time.monotonic() + 10
    while (actual := _working_in(project)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in actual:
        os.kill(pid, signal.SIGKILL)
    return actual


def _working_in(project: Path) -> list[int]:
    collected = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == project:
                collected.append(int(entry.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return collected


@pytest.fixture
def stage(tmp_path: Path, program: Callable[[str], list[str]]) -> Callable[..., Stage]:
    def make(name: str, *words: str) -> Stage:
        start = program(name)
        home, project = tmp_path / "home", tmp_path / "project"
        home.mkdir()
        project.mkdir()
        # Codex passes on few variables, and HANDRAIL_STATE is not one of them: all use the usual place below the home.
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        command = [str(Path(sys.executable).with_name("handrail")), "mcp", "install", name, *words]
        subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)
        return Stage(HEADLESS[name], start, home, project, environment)

    return make
