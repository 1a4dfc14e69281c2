"""`handrail fleet run`: lists of calls in many workspaces, on Ray."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from handrail.cli.common import CommandParser, add_dialect, add_mode, parse_json
from handrail.cli.output import Stop, UsageError, as_line, on_terminal, warn, write
from handrail.errors.extras import MissingExtra

if TYPE_CHECKING:
    from handrail.fleet.cluster import Fleet
    from handrail.fleet.work import FleetResult
    from handrail.fleet.workspaces import FleetWorkspace
    from handrail.pipeline.session import Session

_ABOUT = """\
Run tasks in many workspaces, several at once. Each line of TASKS.jsonl is one task:

  {"workspace": {"name": "w1", "folder": "path/to/tree"},
   "calls": [{"tool": "Edit", "arguments": {...}}], "check": "make test"}

The files of a workspace come from "folder", from "git" with "commit" (a full hash), or from "tar". The calls are made
in order; then the check command runs in the workspace, and the task has passed if it exits with 0. Each task is one
JSON line of output when it is done: {"workspace", "ok", "passed", "results", "error", "built", "build_seconds"}. Needs
the extra `ray`."""

_EXAMPLES = """\
examples:
  handrail fleet run tasks.jsonl > results.jsonl
  handrail fleet run tasks.jsonl --concurrency 8 --mode full
  handrail fleet run tasks.jsonl --address ray://head:10001

exit codes: 0 all tasks passed, 1 some did not, 2 wrong usage, 130 interrupted"""

_KEYS = {"workspace", "calls", "check"}


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("fleet", _ABOUT, _EXAMPLES)
    parser.add_argument("action", choices=("run",), help="run the tasks of a file")
    parser.add_argument("tasks", metavar="TASKS.jsonl", help="one task a line")
    parser.add_argument("--address", metavar="A", default=None, help="a Ray cluster (default: Ray on this machine)")
    about = "the most workspaces at once (default: one for each processor)"
    parser.add_argument("--concurrency", metavar="N", type=_count, default=None, help=about)
    about = "how often a task whose worker dies is tried again (default: 3)"
    parser.add_argument("--retries", metavar="N", type=_count, default=3, help=about)
    parser.add_argument("--run", metavar="NAME", default="", help="go on with the workspaces of an earlier run")
    add_mode(parser)
    add_dialect(parser)
    return parser


def _count(word: str) -> int:
    if not word.isdecimal() or not 0 < int(word) < 1 << 20:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {word}")
    return int(word)


def run(options: argparse.Namespace) -> int:
    from handrail.fleet.cluster import Fleet

    tasks = _read_tasks(options.tasks)
    try:
        fleet = Fleet(options.address, run=options.run, dialect=options.dialect, mode=options.mode)
    except MissingExtra as error:
        raise UsageError(str(error)) from None
    except (OSError, ValueError, RuntimeError) as error:
        raise Stop(f"Ray cannot be started or reached: {error}") from None
    with fleet:
        return _run_tasks(fleet, tasks, options)


def _run_tasks(fleet: Fleet, workspaces: Sequence[FleetWorkspace], options: argparse.Namespace) -> int:
    passed = done = 0
    for result in fleet.map(do_task, workspaces, concurrency=options.concurrency, retries=options.retries):
        line = describe(result)
        done, passed = done + 1, passed + line["passed"]
        write(as_line(line) + "\n")
        if on_terminal(sys.stderr):
            sys.stderr.write(f"\r{done} of {len(workspaces)} done, {passed} passed")
            sys.stderr.flush()
    start = "\n" if on_terminal(sys.stderr) else ""
    warn(f"{start}{done} tasks, {passed} passed; run {fleet.run}")
    return 0 if passed == done else 1


def do_task(session: Session, workspace: FleetWorkspace) -> dict[str, Any]:
    """Make the calls of the task of a workspace, then its check."""
    from handrail.model import as_json

    task = workspace.data
    results = [as_json(session.call(one["tool"], one.get("arguments"))) for one in task.get("calls", ())]
    if not task.get("check"):
        return {"results": results, "passed": all(one["status"] in ("ok", "partial") for one in results)}
    command = next(name for name, entry in session.dialect.entries.items() if entry.id == "bash")
    check = session.call(command, {"command": task["check"]})
    return {"results": [*results, as_json(check)], "passed": check.data.get("exit_code") == 0}


def describe(result: FleetResult) -> dict[str, Any]:
    """The line of output for one task."""
    value = result.value or {"results": [], "passed": False}
    return {
        "workspace": result.workspace,
        "ok": result.ok,
        **value,
        "error": result.error or None,
        "built": result.built or None,
        "build_seconds": round(result.build_seconds, 3),
    }


def _read_tasks(path: str) -> list[FleetWorkspace]:
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
            workspace = _parse_task(parse_json(line))
            if workspace.name in tasks:
                raise ValueError(f"there is a workspace {workspace.name} already")
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}:{number}: {error}") from None
        tasks[workspace.name] = workspace
    return list(tasks.values())


def _parse_task(task: Any) -> FleetWorkspace:
    from handrail.fleet.workspaces import FleetWorkspace

    if not isinstance(task, dict) or not isinstance(task.get("workspace"), dict):
        raise ValueError('a task is an object with "workspace", an object')
    if unknown := task.keys() - _KEYS:
        raise ValueError(f"unknown key {min(unknown)}; the keys are {', '.join(sorted(_KEYS))}")
    calls: Sequence[Any] = task.get("calls", [])
    if not isinstance(calls, list) or not all(
        isinstance(one, dict) and isinstance(one.get("tool"), str) for one in calls
    ):
        raise ValueError('"calls" must be a list of objects with "tool" and "arguments"')
    if not isinstance(task.get("check", ""), str):
        raise ValueError('"check" must be a command')
    return FleetWorkspace(**task["workspace"], data={"calls": calls, "check": task.get("check", "")})
