"""`handrail fleet run`: prompts and lists of calls in many workspaces, on Ray."""

from __future__ import annotations

import argparse
import os
import time

from handrail.agent.history import History
from handrail.agent.loop import Agent, AgentLimits, estimate_tools
from handrail.agent.prompt import system_prompt
from handrail.agent.providers import open_model
from handrail.cli.common import CommandParser, add_dialect, add_mode, parse_count
from handrail.cli.output import Stop, UsageError, as_line, warn, write
from handrail.fleet.cluster import Fleet
from handrail.fleet.workspaces import FleetWorkspace
from handrail.model import as_json
from handrail.text.json_values import parse_json

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from handrail.fleet.worker import FleetResult
    from handrail.json_types import JsonMapping, JsonObject
    from handrail.pipeline.any_session import AnySession

_ABOUT = """\
Run tasks in many workspaces, several at once. Each line of TASKS.jsonl is one task:

  {"workspace": {"name": "w1", "folder": "path/to/tree"}, "prompt": "fix the failing test", "check": "make test"}
  {"workspace": {"name": "w2", "folder": "path/to/tree"}, "calls": [{"tool": "Edit", "arguments": {...}}]}

The files of a workspace come from "folder", from "git" with "commit" (a full hash), or from "tar". The calls are made
in order, or a model works on the prompt (--model); then the check command runs in the workspace, and the task has
passed if it exits with 0. Without a check it has passed if no call failed, or the model came to an end. Each task is
one JSON line of output when it is done: {"workspace", "ok", "passed", "results", "text", "error", "built",
"build_seconds"}. A worker that dies is started again: calls go on in the same files, and none is made twice; a prompt
starts over with new files. Needs the extra `fleet`."""

_EXAMPLES = """\
examples:
  handrail fleet run tasks.jsonl > results.jsonl
  handrail fleet run tasks.jsonl --concurrency 8 --mode full --model gpt-5.2
  handrail fleet run tasks.jsonl --address ray://head:10001

exit codes: 0 all tasks passed, 1 some did not, 2 wrong usage, 130 interrupted"""

_KEYS = {"workspace", "calls", "prompt", "check"}


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("fleet", _ABOUT, _EXAMPLES)
    parser.add_argument("action", choices=("run",), help="run the tasks of a file")
    parser.add_argument("tasks", metavar="TASKS.jsonl", help="one task a line")
    parser.add_argument("--address", metavar="A", default=None, help="a Ray cluster (default: Ray on this machine)")
    about = "the most workspaces at once (default: one for each processor)"
    parser.add_argument("--concurrency", metavar="N", type=parse_count, default=None, help=about)
    about = "how often a task whose worker dies is tried again (default: 3)"
    parser.add_argument("--retries", metavar="N", type=parse_count, default=3, help=about)
    parser.add_argument("--run", metavar="NAME", default="", help="go on with the workspaces of an earlier run")
    parser.add_argument("--model", metavar="M", help="the model for prompts (default: $HANDRAIL_MODEL)")
    parser.add_argument("--api", metavar="A", help="chat, responses or anthropic (default: by the model's name)")
    about = "most replies of the model per prompt (default: 100)"
    parser.add_argument("--max-turns", metavar="N", type=parse_count, default=100, help=about)
    add_mode(parser)
    add_dialect(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    model = {"model": options.model or os.environ.get("HANDRAIL_MODEL"), "api": options.api, "turns": options.max_turns}
    tasks = _read_tasks(options.tasks, model)
    try:
        fleet = Fleet(options.address, run=options.run, dialect=options.dialect, mode=options.mode)
    except (OSError, ValueError, RuntimeError) as error:
        raise Stop(f"Ray cannot be started or reached: {error}") from None
    with fleet:
        return _run_tasks(fleet, tasks, options)


def _run_tasks(fleet: Fleet, workspaces: Sequence[FleetWorkspace], options: argparse.Namespace) -> int:
    started = time.monotonic()
    passed, costs = 0, dict[str, list[float]]()
    limits = {"concurrency": options.concurrency, "retries": options.retries}
    for result in fleet.map(do_task, workspaces, **limits, progress=True):
        line = describe(result)
        passed += line["passed"]
        costs.setdefault(result.built or "not built", []).append(result.build_seconds)
        write(as_line(line) + "\n")
    warn(f"{len(workspaces)} tasks, {passed} passed, in {time.monotonic() - started:.1f} s; run {fleet.run}")
    for kind, seconds in sorted(costs.items()):
        warn(
            f"{len(seconds)} workspaces {kind}: {sum(seconds) / len(seconds):.3f} s each, at most {max(seconds):.3f} s"
        )
    return 0 if passed == len(workspaces) else 1


def do_task(session: AnySession, workspace: FleetWorkspace) -> dict[str, object]:
    """Make the calls of the task of a workspace, or have a model work on its prompt; then its check."""
    task = workspace.data
    value: JsonObject = {"results": [], "passed": True, "text": None}
    if task["prompt"]:
        value |= _work_on_prompt(session, task)
    for one in task["calls"]:
        result = session.call(one["tool"], one.get("arguments"))
        value["results"].append(as_json(result))
        value["passed"] &= result.ok
    if task["check"]:
        command = next(name for name, entry in session.dialect.entries.items() if entry.id == "bash")
        check = session.call(command, {"command": task["check"]})
        value["results"].append(as_json(check))
        value["passed"] = check.data.get("exit_code") == 0
    return value


def _work_on_prompt(session: AnySession, task: JsonMapping) -> dict[str, object]:
    """Have a model work on a prompt; raises `ModelError`, which is the error of the task."""
    history = History(system_prompt(session), overhead=estimate_tools(session))
    model = open_model(task["model"], os.environ, task["api"])
    session.name_source("handrail fleet", task["model"])
    ending = Agent(session, model, history, limits=AgentLimits(steps=task["turns"])).run(task["prompt"])
    return {"text": ending.text, "how": ending.how, "passed": ending.how == "done"}


def describe(result: FleetResult) -> JsonObject:
    """The line of output for one task."""
    value = result.value or {"results": [], "passed": False, "text": None}
    return {
        "workspace": result.workspace,
        "ok": result.ok,
        **value,
        "error": result.error or None,
        "built": result.built or None,
        "build_seconds": round(result.build_seconds, 3),
    }


def _read_tasks(path: str, model: Mapping[str, object]) -> list[FleetWorkspace]:
    """The workspaces of a file, with their tasks as data; raises `UsageError` with the line of a mistake."""
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    tasks: dict[str, FleetWorkspace] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            workspace = _parse_task(parse_json(line), model)
            if workspace.name in tasks:
                raise ValueError(f"there is a workspace {workspace.name} already")
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}:{number}: {error}") from None
        tasks[workspace.name] = workspace
    return list(tasks.values())


def _parse_task(task: object, model: Mapping[str, object]) -> FleetWorkspace:
    if not isinstance(task, dict) or not isinstance(task.get("workspace"), dict):
        raise ValueError('a task is an object with "workspace", an object')
    if unknown := task.keys() - _KEYS:
        raise ValueError(f"unknown key {min(unknown)}; the keys are {', '.join(sorted(_KEYS))}")
    calls: Sequence[Any] = task.get("calls", [])
    if not isinstance(calls, list) or not all(
        isinstance(one, dict) and isinstance(one.get("tool"), str) for one in calls
    ):
        raise ValueError('"calls" must be a list of objects with "tool" and "arguments"')
    for key in ("check", "prompt"):
        if not isinstance(task.get(key, ""), str):
            raise ValueError(f'"{key}" must be a text')
    prompt = task.get("prompt", "")
    if prompt and calls:
        raise ValueError('give "prompt" or "calls"')
    if prompt and not model["model"]:
        raise ValueError("a prompt needs a model: give --model M, or set HANDRAIL_MODEL")
    data = {"calls": calls, "prompt": prompt, "check": task.get("check", ""), **model}
    # A model makes other calls the second time: it starts over with new files, unless the task says otherwise.
    again = {"after_restart": "rebuild"} if prompt else {}
    return FleetWorkspace(**{**again, **task["workspace"]}, data=data)
