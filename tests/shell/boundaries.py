"""Boundaries for the tests of this folder: made for a confinement, closed at the end, or skipped with the reason."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import NoSandbox
from handrail.shell.sandbox import Mode
from handrail.shell.sandbox.choose import Boundary, choose
from handrail.shell.sandbox.confinement import Confinement, Protection
from tests.command import TIMEOUT

LAYERS = ("namespaces", "landlock")
MakeBoundary = Callable[..., Boundary]


class World:
    """A workspace, and beside it what must not be touched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.outside = folder / "outside"
        self.work.mkdir()
        self.outside.mkdir()
        self.file = self.outside / "file.txt"
        self.file.write_text("kept", encoding="utf-8")

    def confinement(self, **rest: Any) -> Confinement:
        # Named as readable, so that it is there in a namespace, which has a private directory over /tmp.
        return Confinement(writable=(str(self.work),), readable=("/", str(self.outside)), **rest)


def boundary_or_skip(mode: Mode, confinement: Confinement) -> Boundary:
    try:
        return choose(mode, True, confinement)
    except NoSandbox as error:
        pytest.skip(f"{mode} cannot be had on this machine: {error.facts['why']}")


def bash(
    boundary: Boundary,
    script: str,
    cwd: Path | str = "/",
    env: Mapping[str, str] | None = None,
    protection: Protection = "nothing",
) -> tuple[int, str]:
    """Run a script inside; its exit code, and all it said."""
    started = boundary.spawn(
        ["bash", "-c", script],
        cwd=str(cwd),
        env=env,
        protection=protection,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output, _ = started.communicate(timeout=TIMEOUT)
    return started.returncode, output.decode("utf-8", "replace")


def python(boundary: Boundary, code: str, cwd: Path) -> str:
    started = boundary.spawn(
        [sys.executable, "-I", "-S", "-c", code], cwd=str(cwd), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return started.communicate(timeout=TIMEOUT)[0].decode("utf-8")
