"""The fenced blocks of README and docs, and a throwaway place to run them in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.forked import run_python

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
TIMEOUT = 120


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: str
    heading: str
    line: int
    """The line of the page on which its text begins."""
    info: str
    """What stands behind the fence: the language, and perhaps a name."""
    text: str

    @property
    def kind(self) -> str:
        return self.info.partition(" ")[0]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def blocks() -> tuple[Block, ...]:
    """Every fenced block of every page, in order."""
    return read_blocks(PAGES)


def read_blocks(pages: Iterable[Path]) -> tuple[Block, ...]:
    """The fenced blocks of these pages, in order."""
    collected: list[Block] = []
    for path in pages:
        heading, fence, start = "", "", 0
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if fence and line == "```":
                text = "\n".join(lines[start : number - 1]) + "\n"
                collected.append(Block(path.name, heading, start + 1, fence[3:], text))
                fence = ""
            elif not fence and line.startswith("```"):
                fence, start = line, number
            elif not fence and line.startswith("#"):
                heading = line.lstrip("# ")
        assert not fence, f"{path.name}: the block that begins in line {start} has no end"
    return tuple(collected)


def blocks_of(*kinds: str, page: str | None = None) -> list[Block]:
    return [block for block in blocks() if block.kind in kinds and page in (None, block.page)]


class Place:
    """A home directory and a project that belong to one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "path" / "to" / "project"
        for path in (self.home, self.project, self.project.parent / "library"):
            path.mkdir(parents=True)

    def write(self, name: str, text: str) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def environ(self, **more: str) -> dict[str, str]:
        """The environment without what the person who runs the tests has set for Handrail and for models."""
        ours = ("HANDRAIL_", "OPENAI_", "ANTHROPIC_", "XDG_", "CLAUDE_", "GIT_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        state = str(self.folder / "state")
        return {**kept, "HOME": str(self.home), "PATH": path, "HANDRAIL_STATE": state, **more}

    def run(
        self, *words: str, cwd: Path | None = None, stdin: str = "", more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the project, in a session of its own: there is no terminal to ask anybody at."""
        return subprocess.run(
            words,
            cwd=cwd or self.project,
            env=self.environ(**(more or {})),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT,
            check=False,
            start_new_session=True,
        )

    def handrail(
        self, *words: str, stdin: str = "", more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run our command, as `run` does, in a child that has its modules already."""
        return run_python("-m", "handrail", *words, cwd=self.project, env=self.environ(**(more or {})), stdin=stdin)

    def python(self, code: str, cwd: Path | None = None, stdin: str = "", **more: str) -> str:
        """What a program prints."""
        words = ["-P", "-W", "error", "-c", code]
        done = run_python(*words, cwd=cwd or self.project, env=self.environ(**more), stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout
