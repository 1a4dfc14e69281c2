"""Grep in a tree of 50,000 files, against the bare `rg` process doing the same search in the same run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Line, Scale, contest, size, slower
from handrail import Session, Settings
from handrail.search.ripgrep import find_program

FILES = 50_000
MEMORY_MB = 100


def generate(root: Path, files: int) -> int:
    """A tree of so many files, some of them ignored or hidden; how many bytes they hold."""
    chance = random.Random(4)
    words = [f"word{number}" for number in range(3000)]
    rows = [f"    def {' '.join(chance.choices(words, k=7))}\n" for _ in range(4000)]
    total, place = 0, root
    root.mkdir()
    (root / ".gitignore").write_text("build/\n*.log\n", encoding="utf-8")
    for number in range(files):
        if number % 25 == 0:
            place = root / f"d{chance.randrange(40)}" / f"d{chance.randrange(12)}" / f"d{number // 25}"
            place.mkdir(parents=True, exist_ok=True)
        start = chance.randrange(3800)
        text = "".join(rows[start : start + chance.randrange(20, 160)])
        if number % 5000 == 7:
            text += f"a rare needle, number {number}\n"
        name = f"f{number}.{'log' if number % 250 == 0 else ('py', 'ts', 'md', 'txt')[number % 4]}"
        (place / name).write_text(text, encoding="utf-8")
        os.utime(place / name, ns=(10**18 + chance.randrange(10**15),) * 2)
        total += len(text)
    return total


def call(session: Session, pattern: str, **arguments: object) -> str:
    result = session.call("Grep", {"pattern": pattern, **arguments})
    assert result.error is None, result.text
    assert not result.data["fallback_used"]
    return result.text


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    program = find_program()
    if program is None:
        return
    root, files = folder / "tree", FILES if scale.lines >= 10_000_000 else FILES // 10
    about = f"in {files:,} files ({size(generate(root, files))})"

    def bare(*words: str) -> None:
        subprocess.run(
            [program, "--no-config", "--no-require-git", *words, "."], stdout=subprocess.PIPE, check=False, cwd=root
        )

    with Session(root, settings=Settings(state=str(folder / "state"))) as session:
        for what, ours, words, most in (
            (f"Grep for an absent word {about}, against `rg`", {"pattern": "absentword"}, ("-l", "absentword"), 1.15),
            (
                "Grep for a rare text, with its lines",
                {"pattern": "rare needle", "output_mode": "content"},
                ("-n", "rare needle"),
                1.15,
            ),
            (
                "Grep for a common text, 100 lines in the order of paths, against all of `rg`",
                {"pattern": "def", "output_mode": "content", "sort": "path"},
                ("-n", "def"),
                0.3,
            ),
            (
                "the same, newest files first",
                {"pattern": "def", "output_mode": "content", "sort": "newest"},
                ("-n", "def"),
                1.25,
            ),
            (
                "Grep for a common text, 100 files, newest first, against `rg -l`",
                {"pattern": "def"},
                ("-l", "def"),
                1.25,
            ),
        ):
            times = contest(
                scale.rounds,
                {"ours": lambda ours=ours: call(session, **ours), "rg": lambda words=words: bare(*words)},  # type: ignore[misc]
            )
            yield slower(what, times["ours"], times["rg"], most)
    yield _memory(folder)


_OURS = """
import sys
from benchmarks.grep import call
from benchmarks.memory import grown
from handrail import Session, Settings
session = Session(sys.argv[1] + "/tree", settings=Settings(state=sys.argv[1] + "/state"))
session.call("Grep", {"pattern": "x", "path": ".gitignore"})
modes = ("files_with_matches", "content", "count")
searches = [(mode, sort) for mode in modes for sort in ("newest", "path")]
print(grown(lambda: [call(session, "def", output_mode=mode, sort=sort) for mode, sort in searches]))
"""


def _memory(folder: Path) -> Line:
    completed = subprocess.run(
        [sys.executable, "-c", _OURS, str(folder)],
        capture_output=True,
        check=True,
        text=True,
        encoding="utf-8",
        cwd=Path(__file__).parent.parent,
    )
    ours = int(completed.stdout) / (1 << 20)
    what = "Peak memory of six searches for a common text over an idle session"
    return Line(what, f"{ours:.1f} MB", target=f"under {MEMORY_MB} MB", met=ours < MEMORY_MB)
