"""What an attached agent pays: a hook, a wrapped command, and the helper's memory."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Line, Scale, Times, cpu_time, slower, within
from handrail.attach import launcher

_TICKS = os.sysconf("SC_CLK_TCK")
_HOOK, _WRAPPED = 0.030, 0.040
_WORKSPACES = (1, 10, 50)


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    agent = _Agent(folder)
    try:
        yield from _measure_calls(agent, max(2, scale.calls // 5))
        yield from _measure_memory(agent, _WORKSPACES if scale.calls > 3 else _WORKSPACES[:1])
    finally:
        agent.close()


def _measure_calls(agent: _Agent, rounds: int) -> Iterator[Line]:
    """Contestants take turns; a round's processor time includes what the helper has used for it."""
    bare = [sys.executable, "-I", "-S", "-c", "pass"]
    edit = {"tool_name": "Edit", "tool_input": {"file_path": str(agent.project / "a.txt")}}
    contestants: dict[str, Callable[[], object]] = {
        "pass": lambda: agent.start(bare),
        "hook": lambda: agent.register("true"),
        "edit": lambda: (agent.hook("PreToolUse", **edit), agent.hook("PostToolUse", **edit)),
        "bash true": lambda: agent.start(["bash", "-c", "true"]),
        "true": lambda: agent.run("true"),
        "bash touch": lambda: agent.start(["bash", "-c", "touch bare"]),
        "touch": lambda: agent.run("touch made"),
    }
    agent.prepare()
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    used: dict[str, list[float]] = {name: [] for name in contestants}
    for number, (name, run) in itertools.product(range(rounds + 1), contestants.items()):
        if name in ("true", "touch"):
            agent.register("true" if name == "true" else "touch made")  # its hook has a row of its own
        helpers, mine, started = agent.read_time(), cpu_time(), time.perf_counter()
        run()
        if number:
            taken[name].append(time.perf_counter() - started)
            used[name].append(cpu_time() - mine + agent.read_time() - helpers)
        agent.hook("Stop")
    times = {
        # The helper's time is known in ticks, so the mean says more than the median.
        name: Times(statistics.median(taken[name]), min(taken[name]), statistics.mean(used[name]))
        for name in contestants
    }
    pass_ = "`python3 -I -S -c pass`"
    yield within(_HOOK, f"a hook before a command, against {pass_}", times["hook"], times["pass"])
    yield slower(f"both hooks of an edit, against {pass_}", times["edit"], times["pass"])
    yield within(_WRAPPED, f"a wrapped `true`, without its hook, against {pass_}", times["true"], times["pass"])
    yield slower("a wrapped `true`, without its hook, against `bash -c true`", times["true"], times["bash true"])
    yield slower("a wrapped `touch` in a draft, against `bash -c touch`", times["touch"], times["bash touch"])


def _measure_memory(agent: _Agent, workspaces: tuple[int, ...]) -> Iterator[Line]:
    for count in workspaces:
        for number in range(count):
            agent.run_in(agent.project.with_name(f"project-{number}"), f"s{number}")
        memory, children, processes = agent.read_memory()
        what = f"memory of the helper with {count} workspace{'s' if count > 1 else ''}"
        yield Line(what, f"{memory >> 20} MB, and {children >> 20} MB in {processes} processes that wait for commands")


def _read_tree(pid: int) -> list[int]:
    """A process and all below it."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(one for task in tasks for child in task.read_text().split() for one in _read_tree(int(child)))]


def _read_fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _read_share(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return int(text.partition("Pss:")[2].split()[0]) << 10


class _Agent:
    """An agent without a model: it calls the hooks and starts its shell as Claude Code does."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self._state = folder / "state"
        self._snapshot = folder / "shell-snapshots" / "snapshot-bash-1-a.sh"
        for path in (self.project, self._state, self._snapshot.parent):
            path.mkdir()
        self._snapshot.touch()
        (self.project / "a.txt").write_text("one\n", encoding="utf-8")
        self._launcher = launcher.write(str(self._state))
        self._session = "s"
        words = [sys.executable, "-P", "-m", "handrail", "service"]
        self._helper = subprocess.Popen(words, env={**os.environ, "HANDRAIL_STATE": str(self._state)})
        while not (self._state / "attach" / "socket").exists():
            time.sleep(0.01)

    def close(self) -> None:
        self._helper.terminate()
        self._helper.wait()

    def read_memory(self) -> tuple[int, int, int]:
        """The memory of the helper and of its children, shared pages divided by those who share them; their number."""
        helper, *below = _read_tree(self._helper.pid)
        return _read_share(helper), sum(map(_read_share, below)), len(below)

    def read_time(self) -> float:
        """Processor seconds of the helper, of the processes that wait for commands, and of the commands."""
        fields = (_read_fields(one) for one in _read_tree(self._helper.pid))
        return sum(int(ticks) for one in fields for ticks in one[11:15]) / _TICKS

    def prepare(self) -> None:
        for command in ("true", "touch made"):
            self.register(command)
            self.run(command)

    def start(self, words: list[str], given: bytes = b"") -> None:
        environment = {
            **os.environ,
            "CLAUDE_PID": str(os.getpid()),
            "CLAUDE_PROJECT_DIR": str(self.project),
        }
        subprocess.run(words, cwd=self.project, input=given, env=environment, check=True, stdout=subprocess.DEVNULL)

    def hook(self, event: str, **fields: object) -> None:
        common = {"session_id": self._session, "cwd": str(self.project), "hook_event_name": event, "tool_use_id": "c"}
        self.start([self._launcher, "hook", "claude"], json.dumps({**common, **fields}).encode())

    def register(self, command: str) -> None:
        self.hook("PreToolUse", tool_name="Bash", tool_input={"command": command})

    def run(self, command: str) -> None:
        """Start the wrapped shell of a registered command."""
        place = self._state / "cwd"
        self.start(
            [self._launcher, f"source {self._snapshot} 2>/dev/null || true && eval '{command}' && pwd -P >| {place}"]
        )

    def run_in(self, project: Path, session: str) -> None:
        """A command of another conversation in another project."""
        project.mkdir(exist_ok=True)
        mine = self.project, self._session
        self.project, self._session = project, session
        try:
            self.register("touch made")
            self.run("touch made")
        finally:
            self.project, self._session = mine
