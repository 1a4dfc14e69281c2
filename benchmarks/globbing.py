"""Glob `**/*.py`, newest first, on a tree of 50,000 files: against ripgrep's list of files, and against pathlib."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Line, Scale, contest, slower
from handrail import Session, Settings

RG = shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))
PATTERN = "**/*.py"
MEMORY_MB = 100
_IN_ONE = 40


def files(scale: Scale) -> int:
    return max(200, min(50_000, scale.lines // 200))


def grow(top: Path, count: int) -> None:
    """A tree of ``count`` files, half of them Python, with a few directories that ignore rules leave out."""
    for number in range(-(-count // _IN_ONE)):
        here = top / f"part{number % 25:02}" / f"group{number % 7}" / f"package{number}"
        here.mkdir(parents=True)
        for at in range(min(_IN_ONE, count - number * _IN_ONE)):
            (here / f"module{at}.{'py' if at % 2 else 'txt'}").write_bytes(b"x = 1\n")
    (top / ".gitignore").write_text("*.log\nbuild/\n/part00/group0/package0/\n", encoding="utf-8")


def by_ripgrep(top: Path) -> list[str]:
    """The least that gives the same answer with ripgrep: its list, the times, a sort."""
    words = [RG or "rg", "--no-config", "--files", "--null", "--no-require-git", "-g", PATTERN]
    completed = subprocess.run(words, cwd=top, stdout=subprocess.PIPE, check=True).stdout.split(b"\0")[:-1]
    base = os.fsencode(top)
    return sorted(
        map(os.fsdecode, completed),
        key=lambda path: (-os.stat(os.path.join(base, os.fsencode(path))).st_mtime_ns, path),
    )


def by_pathlib(top: Path) -> list[Path]:
    return sorted(top.rglob("*.py"), key=lambda path: (-path.stat().st_mtime_ns, path))


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    top = folder / "tree"
    count = files(scale)
    grow(top, count)
    time.sleep(0.1)  # a listing of this very moment would not be kept
    settings = Settings(state=str(folder / "state"))

    def glob(session: Session) -> list[str]:
        result = session.call("Glob", {"pattern": PATTERN, "limit": 1000})
        assert result.error is None, result.text
        paths: list[str] = result.data["paths"]
        return paths

    def first() -> list[str]:
        with Session(top, settings=settings) as session:
            return glob(session)

    known = Session(top, settings=settings)
    contestants = {"first": first, "again": lambda: glob(known), "pathlib": lambda: by_pathlib(top)}
    if RG:
        assert first() == by_ripgrep(top)[:1000]
        contestants["rg"] = lambda: by_ripgrep(top)
    times = contest(scale.rounds, contestants)
    known.close()
    about = f"Glob {PATTERN} in {count:,} files, newest first"
    if RG:
        yield slower(f"{about}, against `rg --files -g`, stat and sort", times["first"], times["rg"], 1.2)
        yield slower("the same again in that session, against `rg` again", times["again"], times["rg"])
    yield slower(
        "the same for the first time, against `pathlib.rglob`, stat and sort", times["first"], times["pathlib"], 0.5
    )
    yield slower("the same again in that session, against the first time", times["again"], times["first"], 1)
    yield _memory(top, folder)
    shutil.rmtree(top)


_OURS = """
import sys
from benchmarks.memory import grown
from handrail import Session, Settings
session = Session(sys.argv[1], settings=Settings(state=sys.argv[2]))
session.call("Glob", {"pattern": "no/such/*"})
print(grown(lambda: [session.call("Glob", {"pattern": "**/*.py"}) for _ in range(2)]))
"""


def _memory(top: Path, folder: Path) -> Line:
    """In a process of its own, whose peak is its own."""
    words = [sys.executable, "-c", _OURS, str(top), str(folder / "state")]
    here = Path(__file__).parent.parent
    completed = subprocess.run(words, capture_output=True, check=True, text=True, encoding="utf-8", cwd=here)
    grown = float(json.loads(completed.stdout)) / (1 << 20)
    return Line(
        "Peak memory of two such calls over an idle session",
        f"{grown:.1f} MB",
        "",
        "",
        f"under {MEMORY_MB} MB",
        grown < MEMORY_MB,
    )
