"""Facts about a project for a model's first prompt: where it is, and its instructions for agents."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Mapping

from handrail.frozen import frozen

MOST_CHARS = 40_000
"""Characters of one file of instructions that are used."""
_INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")


@frozen
class ProjectFacts:
    """A project as the machine with its files describes it."""

    home: str
    is_repository: bool
    system: str
    instructions: Mapping[str, str]
    """By file name, with at most one character more than `MOST_CHARS`."""


def read_project(home: str) -> ProjectFacts:
    """Describe the project in a directory."""
    home = os.path.realpath(home)
    texts = {name: _read_start(os.path.join(home, name)) for name in _INSTRUCTIONS}
    return ProjectFacts(home, os.path.isdir(os.path.join(home, ".git")), platform.system(), texts)


def _read_start(path: str) -> str:
    """The beginning of a file, read like any file of the workspace: no link is followed; empty if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_CHARS + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""
