"""Who does the tasks: our agent with the tools of a dialect, or another agent by its command line."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from handrail.agent.evaluation.scripted import ScriptedModel
from handrail.agent.evaluation.tasks import EvalTask, Judgement, build_tree, judge, read_tree
from handrail.agent.history import History
from handrail.agent.loop import Agent, AgentLimits, estimate_tools
from handrail.agent.messages import Event, ModelReplied
from handrail.agent.prompt import system_prompt
from handrail.agent.providers import Api, open_model
from handrail.dialects import Dialect
from handrail.frozen import frozen
from handrail.pipeline.session import Session
from handrail.policy.modes import Mode
from handrail.programs import find_program
from handrail.settings import Settings
from handrail_demo.scripted_server import ScriptedServer, Seen

SCRIPTED = "scripted"
_SECONDS = 600
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class BadWorker(Exception):
    """An agent that cannot be run here, and why."""


@frozen
class TaskRun:
    """What doing a task took. None: unknown."""

    ending: str
    """Empty if it ended as it should."""
    turns: int | None = None
    tokens: int | None = None
    """In and out, of all requests."""


@frozen
class TaskResult:
    """A task, done by a worker."""

    worker: str
    task: str
    work: TaskRun
    judgement: Judgement
    seconds: float


class TaskWorker(Protocol):
    """Does tasks."""

    @property
    def name(self) -> str: ...

    def work(self, task: EvalTask, folder: Path) -> TaskRun:
        """Do the task in its tree."""


def do_task(worker: TaskWorker, task: EvalTask, keep: Path | None = None) -> TaskResult:
    """Build the tree of a task, have the worker do it, and judge the result. ``keep``: where trees stay."""
    with tempfile.TemporaryDirectory(prefix="handrail-eval-") as place:
        folder = Path(os.path.realpath(place), "project")
        folder.mkdir()
        build_tree(task, folder)
        before = read_tree(folder)
        started = time.monotonic()
        work = worker.work(task, folder)
        seconds = time.monotonic() - started
        if keep:
            shutil.copytree(folder, keep / worker.name / task.id, symlinks=True)
        judgement = judge(task, folder, before)
    return TaskResult(worker.name, task.id, work, judgement, seconds)


@frozen
class OurAgent:
    """Our agent: a model, a dialect and a mode."""

    model: str
    dialect: Dialect
    mode: Mode
    api: Api | None = None
    turns: int = 50

    @property
    def name(self) -> str:
        return self.dialect.name if self.model == SCRIPTED else f"{self.model} {self.dialect.name}"

    def work(self, task: EvalTask, folder: Path) -> TaskRun:
        settings = Settings(state=str(folder.parent / "state"))
        with (
            _serve_model(self.model, task, folder) as server,
            Session(folder, dialect=self.dialect, mode=self.mode, settings=settings) as session,
        ):
            environ = {"OPENAI_BASE_URL": f"{server.url}/v1"} if server else os.environ
            model = open_model(self.model, environ, "chat" if server else self.api)
            replies: list[ModelReplied] = []

            def notice(event: Event) -> None:
                if isinstance(event, ModelReplied):
                    replies.append(event)

            history = History(system_prompt(session), overhead=estimate_tools(session))
            ending = Agent(session, model, history, notice, AgentLimits(steps=self.turns)).run(task.prompt)
        tokens = sum(one.usage.input + one.usage.output for one in replies)
        return TaskRun("" if ending.how == "done" else ending.text, len(replies), tokens)


@frozen
class OtherAgent:
    """An agent that is run by its command line, with its own tools."""

    name: str
    words: Sequence[str]
    """With `{prompt}`, and for the scripted model `{model}`, its address."""
    scripted: bool
    options: Sequence[str] = ()
    """Words in the place of `{options}`, with the scripted model."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """With the scripted model."""

    def work(self, task: EvalTask, folder: Path) -> TaskRun:
        with _serve_model(SCRIPTED if self.scripted else "", task, folder) as server:
            url = server.url if server else ""
            environ = {**os.environ, "PWD": str(folder)}
            if server:  # a home of its own, and no way out: no account and no settings of the person are used
                # Codex puts no programs of its sandbox into a home below the directory for temporary files.
                home, temporary = folder.parent / "home", folder.parent / "tmp"
                for place in (home, temporary):
                    place.mkdir()
                offline = dict.fromkeys(_PROXIES, url) | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
                given = {key: value.replace("{model}", url) for key, value in self.environment.items()}
                environ |= {"HOME": str(home), "TMPDIR": str(temporary), **offline, **given}
            try:
                done = subprocess.run(  # noqa: S603 - the agent that the person names
                    list(self._fill_words(task.prompt, url)),
                    cwd=folder,
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    encoding="utf-8",
                    errors="replace",
                    timeout=_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return TaskRun(f"no end within {_SECONDS} seconds")
            except OSError as error:
                raise BadWorker(f"{self.words[0]} cannot be started: {error.strerror}") from None
            last = done.stdout.strip().rpartition("\n")[2]
            ending = f"exit code {done.returncode}: {last[-200:]}" if done.returncode else ""
            if server:
                asked = [seen for seen in server.requests if seen.body.get("tools")]
                return TaskRun(ending, len(asked), sum(map(_count_tokens, server.requests)))
            return TaskRun(ending, *_read_usage(done.stdout))

    def _fill_words(self, prompt: str, url: str) -> Iterator[str]:
        for word in self.words:
            if word == "{options}":
                yield from (one.replace("{model}", url) for one in self.options if self.scripted)
            else:
                yield word.replace("{prompt}", prompt).replace("{model}", url)


def open_agent(text: str, *, scripted: bool) -> OtherAgent:
    """An agent by its name in `agents.toml`, or by a command line with `{prompt}`; raises `BadWorker`."""
    with Path(__file__).with_name("agents.toml").open("rb") as file:
        known = tomllib.load(file)
    if text in known:
        program = find_program(text)
        if not program:
            raise BadWorker(f"{text} is not on the search path")
        words, how = known[text]["words"], known[text].get("scripted", {})
        return OtherAgent(text, [program, *words], scripted, how.get("options", ()), how.get("environment", {}))
    words = shlex.split(text)
    if "{prompt}" not in text:
        raise BadWorker(f"unknown agent {text}: give {', '.join(known)}, or a command line with {{prompt}}")
    if scripted and "{model}" not in text:
        raise BadWorker("the command line has no {model} for the address of the scripted model; or give --model")
    return OtherAgent(os.path.basename(words[0]), words, scripted)


@contextlib.contextmanager
def _serve_model(model: str, task: EvalTask, folder: Path) -> Iterator[ScriptedServer | None]:
    if model != SCRIPTED:
        yield None
        return
    with ScriptedServer(ScriptedModel(task, folder)) as server:
        yield server


def _count_tokens(seen: Seen) -> int:
    return len(json.dumps(seen.body)) // 4


def _read_usage(output: str) -> tuple[int | None, int | None]:
    """The turns and tokens that an agent reports in JSON lines, if it does."""
    turns = tokens = None
    for line in output.splitlines():
        with contextlib.suppress(ValueError, AttributeError):
            event: Any = json.loads(line)
            turns = event.get("num_turns", turns)
            if usage := event.get("usage"):
                tokens = sum(value for key, value in usage.items() if key in _TOKENS)
    return turns, tokens


_TOKENS = {"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"}
