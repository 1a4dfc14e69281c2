"""A task of the evaluation: its tree, and the judgement of what became of it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from fnmatch import fnmatchcase
from pathlib import Path

from handrail.frozen import frozen
from handrail.json_types import JsonMapping

TASKS = Path(__file__).with_name("tasks")
_SECONDS = 60
_IGNORED = {".git", "__pycache__", ".pytest_cache"}


class BadTask(Exception):
    """A task file that cannot be used, and why."""


@frozen
class EvalTask:
    """One task, as its file has it."""

    id: str
    prompt: str
    steps: Sequence[JsonMapping]
    """What the scripted model does."""
    files: Mapping[str, str] = field(default_factory=dict)
    encoding: Mapping[str, str] = field(default_factory=dict)
    """Of files that are not UTF-8."""
    setup: str = ""
    """A Python program that makes the rest of the tree."""
    expect: Mapping[str, str] = field(default_factory=dict)
    """Files with the only right content."""
    gone: Sequence[str] = ()
    """Files that must be deleted."""
    may_change: Sequence[str] = ()
    """Patterns of further files that may change; every other change is a wrong file."""
    check: str = ""
    """A Python program that ends with an error if the tree is not right."""


@frozen
class Judgement:
    """What became of a tree."""

    passed: bool
    wrong: Sequence[str]
    """Files that changed and should not have, or not so."""
    why: str = ""


def load_tasks(folder: Path = TASKS, ids: Sequence[str] = ()) -> list[EvalTask]:
    """The tasks of a folder, or those with these ids, in order; raises `BadTask`."""
    tasks = [_load(path) for path in sorted(folder.glob("*.toml"))]
    if unknown := set(ids) - {task.id for task in tasks}:
        raise BadTask(f"there is no task {min(unknown)} in {folder}")
    if not tasks:
        raise BadTask(f"there are no tasks (*.toml) in {folder}")
    return [task for task in tasks if not ids or task.id in ids]


def _load(path: Path) -> EvalTask:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        if unknown := values.keys() - {one.name for one in fields(EvalTask)}:
            raise BadTask(f"{path}: unknown key {min(unknown)}")
        return EvalTask(id=path.stem, **values)
    except (OSError, ValueError, TypeError) as error:
        raise BadTask(f"{path}: {error}") from None


def build_tree(task: EvalTask, folder: Path) -> None:
    """Make the files of a task in an empty folder; raises `BadTask` if its program fails."""
    for name, text in task.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(task.encoding.get(name, "utf-8")))
    if task.setup and (problem := _run_program(task.setup, folder)):
        raise BadTask(f"{task.id}: its setup failed: {problem}")


def read_tree(folder: Path) -> dict[str, bytes]:
    """A digest of each file; what tools and git leave for themselves is left out."""
    digests = {}
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _IGNORED)
        for name in names:
            path = Path(place, name)
            content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
            digests[path.relative_to(folder).as_posix()] = hashlib.sha256(content).digest()
    return digests


def judge(task: EvalTask, folder: Path, before: Mapping[str, bytes]) -> Judgement:
    """Compare the tree with what the task asks for."""
    after = read_tree(folder)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    right = {
        name: hashlib.sha256(text.encode(task.encoding.get(name, "utf-8"))).digest()
        for name, text in task.expect.items()
    }
    wrong = [name for name in changed if not _is_right(task, name, after, right)]
    missing = [name for name, digest in right.items() if after.get(name) != digest and name not in wrong]
    missing += [name for name in task.gone if name in after and name not in wrong]
    if wrong:
        return Judgement(False, wrong, f"wrong: {', '.join(wrong)}")
    if missing:
        return Judgement(False, (), f"not done: {', '.join(missing)}")
    problem = _run_program(task.check, folder) if task.check else ""
    return Judgement(not problem, (), problem)


def _is_right(task: EvalTask, name: str, after: Mapping[str, bytes], right: Mapping[str, bytes]) -> bool:
    if name in right:
        return after.get(name) == right[name]
    if name in task.gone:
        return name not in after
    return any(fnmatchcase(name, pattern) for pattern in task.may_change)


def _run_program(program: str, folder: Path) -> str:
    """Run a Python program in the folder; returns the last line of its error, or nothing."""
    try:
        done = subprocess.run(  # noqa: S603 - the task's own program
            [sys.executable, "-B", "-c", program],
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {_SECONDS} seconds"
    return (done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}") if done.returncode else ""
