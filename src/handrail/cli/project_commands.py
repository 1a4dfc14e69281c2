"""The test, build and lint commands of a project, as its own files name them, and checks of edited files.

Only commands that somebody runs many times a day are returned, never ones that install, publish, deploy or delete.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence

from handrail.frozen import frozen

_MOST_BYTES = 1 << 20
_MOST_COMMANDS = 20
_ORDINARY = re.compile(
    r"(?:test|tests|check|checks|lint|build|compile|format|fmt|typecheck|type-check|types|vet|unit|coverage)"
    r"(?:[:_-][\w:.-]+)?"
)
_UNSAFE = re.compile(
    r"(?:^|[:_-])(?:install|publish|deploy|release|push|upload|clean|reset|prod|production|update|upgrade)"
)


@frozen
class ProjectCommand:
    """A command and the file that names it."""

    pattern: str
    """The command as a rule writes it: fixed words, and a star for any further ones."""
    source: str


def find_commands(root: str) -> list[ProjectCommand]:
    """The commands of the project, those of a Makefile first; at most 20."""
    commands: dict[str, ProjectCommand] = {}
    for find in (_make, _find_just, _find_node, _find_python, _find_others):
        for command in find(root):
            commands.setdefault(command.pattern, command)
    return list(commands.values())[:_MOST_COMMANDS]


@frozen
class ProjectCheck:
    """A command that reports the problems of edited files, and the file of the project that names it."""

    glob: str
    command: str
    source: str


def find_checks(root: str) -> list[ProjectCheck]:
    """The fast checks of the project whose output has a file in each line."""
    tools = _parse(_read(root, "pyproject.toml"), tomllib.loads).get("tool")
    checks = []
    if isinstance(tools, dict) and "ruff" in tools:
        checks.append(ProjectCheck("*.py", "ruff check --output-format concise {files}", "pyproject.toml"))
    if os.path.isfile(os.path.join(root, "tsconfig.json")):
        command = "npx --no-install tsc --noEmit --pretty false"
        checks.append(ProjectCheck("*.{ts,tsx}", command, "tsconfig.json"))
    if os.path.isfile(os.path.join(root, "go.mod")):
        checks.append(ProjectCheck("*.go", "go vet ./...", "go.mod"))
    return checks


def _make(root: str) -> Iterator[ProjectCommand]:
    return _find_targets(root, "make", ("GNUmakefile", "makefile", "Makefile"), r"^([\w.-]+)[ \t]*:(?![:=])")


def _find_just(root: str) -> Iterator[ProjectCommand]:
    names = ("justfile", "Justfile", ".justfile")
    return _find_targets(root, "just", names, r"^@?([\w-]+)(?:[ \t][^:\n]*)?:(?!=)")


def _find_targets(root: str, program: str, files: Sequence[str], pattern: str) -> Iterator[ProjectCommand]:
    """The ordinary targets in the first of these files that there is."""
    for file in files:
        text = _read(root, file)
        if text is not None:
            for name in re.findall(pattern, text, re.MULTILINE):
                if _is_ordinary(name):
                    yield ProjectCommand(f"{program} {name}", file)
            return


def _find_node(root: str) -> Iterator[ProjectCommand]:
    package = _parse(_read(root, "package.json"), json.loads)
    scripts = package.get("scripts")
    if not isinstance(scripts, dict):
        return
    locks = {"pnpm-lock.yaml": "pnpm run", "yarn.lock": "yarn run", "bun.lock": "bun run", "bun.lockb": "bun run"}
    runner = next((how for lock, how in locks.items() if os.path.lexists(os.path.join(root, lock))), "npm run")
    for name in scripts:
        if isinstance(name, str) and _is_ordinary(name):
            yield ProjectCommand(f"{runner} {name}", "package.json")


def _find_python(root: str) -> Iterator[ProjectCommand]:
    project = _parse(_read(root, "pyproject.toml"), tomllib.loads)
    tools = project.get("tool")
    names = set(tools) if isinstance(tools, dict) else set()
    if "pytest" in names or os.path.isfile(os.path.join(root, "pytest.ini")):
        source = "pyproject.toml" if "pytest" in names else "pytest.ini"
        yield from (ProjectCommand(command, source) for command in ("pytest *", "python -m pytest *"))
    for tool, command in (
        ("ruff", "ruff check *"),
        ("ruff", "ruff format *"),
        ("mypy", "mypy *"),
        ("pyright", "pyright *"),
    ):
        if tool in names:
            yield ProjectCommand(command, "pyproject.toml")
    if os.path.isfile(os.path.join(root, "tox.ini")):
        yield ProjectCommand("tox *", "tox.ini")


def _find_others(root: str) -> Iterator[ProjectCommand]:
    for file, program, verbs, rest in (
        ("Cargo.toml", "cargo", ("build", "check", "test", "clippy", "fmt"), "*"),
        ("go.mod", "go", ("build", "test", "vet"), "./..."),
    ):
        if os.path.isfile(os.path.join(root, file)):
            yield from (ProjectCommand(f"{program} {verb} {rest}", file) for verb in verbs)


def _is_ordinary(name: str) -> bool:
    return bool(_ORDINARY.fullmatch(name)) and not _UNSAFE.search(name)


def _read(root: str, name: str) -> str | None:
    """The text of a file of the project; None if there is none, or none that can be read."""
    path = os.path.join(root, name)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if os.path.isfile(path) and os.path.getsize(path) <= _MOST_BYTES:
            with open(path, encoding="utf-8") as file:
                return file.read()
    return None


def _parse(text: str | None, parse: Callable[[str], object]) -> dict[str, object]:
    """The table in a file; empty if there is no file, or no table in it."""
    with contextlib.suppress(ValueError, RecursionError):
        value = parse(text or "")
        if isinstance(value, dict):
            return value
    return {}
