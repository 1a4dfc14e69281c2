"""Facts about a project for a model's first prompt: where it is, and its instructions for agents."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Mapping, Sequence

from handrail.frozen import frozen

MOST_CHARS = 40_000
"""Characters of one file of instructions that are used."""
_INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")
_NOT_OURS = ("node_modules", "vendor", "target", "build", "dist", "site-packages", "__pycache__")
_MOST_NESTED, _MOST_FOLDERS, _DEEPEST = 20, 2_000, 6


@frozen
class ProjectFacts:
    """A project as the machine with its files describes it."""

    home: str
    is_repository: bool
    system: str
    instructions: Mapping[str, str]
    """By file name, with at most one character more than `MOST_CHARS`."""
    nested: Sequence[str] = ()
    """The AGENTS.md files of directories below, by their paths in the project."""


def read_project(home: str) -> ProjectFacts:
    """Describe the project in a directory."""
    home = os.path.realpath(home)
    texts = {name: read_instructions(os.path.join(home, name)) for name in _INSTRUCTIONS}
    return ProjectFacts(home, os.path.isdir(os.path.join(home, ".git")), platform.system(), texts, find_nested(home))


def find_nested(home: str) -> list[str]:
    """The AGENTS.md files below the project's directory, by their paths in it; hidden directories are left out."""
    paths: list[str] = []
    for seen, (folder, names, files) in enumerate(os.walk(home), 1):
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in _NOT_OURS)
        if os.path.relpath(folder, home).count(os.sep) + 1 >= _DEEPEST:
            names.clear()
        if folder != home and "AGENTS.md" in files:
            paths.append(os.path.relpath(os.path.join(folder, "AGENTS.md"), home))
        if len(paths) >= _MOST_NESTED or seen >= _MOST_FOLDERS:
            break
    return paths


def read_instructions(path: str) -> str:
    """The beginning of a file, read like any file of the workspace: no link is followed; empty if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_CHARS + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""
