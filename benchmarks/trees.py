"""Trees shaped like real projects (few files a directory, deep), and one of a million files: walks and name filters.

Sessions are opened as the interfaces open them, with rules. The baselines do the whole job: list, stat, sort. Processor
time decides, because ripgrep's threads hide it in the time on the clock.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Line, Scale, contest, slower
from handrail import Session, Settings
from handrail.search.ripgrep import find_program


class Shape(NamedTuple):
    """A kind of project."""

    name: str
    files: int
    in_one: float
    """Files a directory."""
    suffixes: tuple[str, ...]


KUBERNETES = Shape("like kubernetes", 31_000, 5, ("go", "go", "go", "md", "yaml"))
DJANGO = Shape("like django", 7_000, 2, ("py", "py", "po", "html", "txt"))
MILLION = Shape("of a million files", 1_000_000, 20, ("py", "txt"))


def generate(root: Path, shape: Shape, files: int, rows: int = 90) -> None:
    """A tree of that shape, some of it ignored; the same each time."""
    chance = random.Random(7)
    words = [f"word{number}" for number in range(3000)]
    lines = [f"    def {' '.join(chance.choices(words, k=7))}\n" for _ in range(4000)]
    root.mkdir()
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("build/\n*.log\n", encoding="utf-8")
    for number, place in enumerate(make_directories(root, files, shape.in_one, chance)):
        suffix = "log" if number % 250 == 0 else shape.suffixes[number % len(shape.suffixes)]
        start = chance.randrange(3800)
        text = "".join(lines[start : start + chance.randrange(rows // 4, 2 * rows)]) if rows else ""
        write_file(place / f"file{number}.{suffix}", text, chance)


def make_directories(root: Path, files: int, in_one: float, chance: random.Random) -> Iterator[Path]:
    """Make directories for so many files, or a few more; yields the place of each file."""
    places, number = [root], 0
    while number < files:
        above = chance.choice(places[-400:])
        place = (above if len(above.parts) - len(root.parts) < 8 else root) / f"package{len(places)}"
        place.mkdir()
        places.append(place)
        for _ in range(max(1, round(chance.gauss(in_one, in_one / 3)))):
            yield place
            number += 1


def write_file(path: Path, text: str, chance: random.Random) -> None:
    """A file of any age."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(10**18 + chance.randrange(10**15),) * 2)


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    program = find_program()
    if program is None:
        return
    full = scale.lines >= 10_000_000
    for shape in (KUBERNETES, DJANGO):
        yield from _search_lines(folder, scale, program, shape, shape.files if full else max(50, scale.lines // 2000))
    yield from _huge_lines(folder, scale, program, MILLION.files if full else max(100, scale.lines // 100))


def _search_lines(folder: Path, scale: Scale, program: str, shape: Shape, files: int) -> Iterator[Line]:
    root = folder / "shaped"
    generate(root, shape, files)
    time.sleep(0.1)  # a listing of this very moment would not be kept
    suffix = shape.suffixes[0]
    names = f"*.{suffix}"
    tree = f"a tree {shape.name} ({files:,} files)"

    def bare(*words: str) -> None:
        command = [program, "--no-config", *words, "."]
        subprocess.run(command, stdout=subprocess.PIPE, check=False, cwd=root)

    settings = Settings(state=str(folder / "state"))
    with Session(root, settings=settings) as session:
        for what, arguments, words in (
            (f"Grep for an absent word in {names} of {tree}, against `rg -g`", {"pattern": "absent"}, ("-l", "absent")),
            ("the same for a common text, newest first, against `rg -l -g`", {"pattern": "def"}, ("-l", "def")),
            (
                "the same, counts, against `rg -c -g`",
                {"pattern": "def", "output_mode": "count"},
                ("-c", "def"),
            ),
        ):
            contestants: dict[str, Callable[[], object]] = {
                "ours": partial(_call, session, "Grep", {**arguments, "glob": names}),
                "rg": partial(bare, *words, "-g", names),
            }
            times = contest(scale.rounds, contestants)
            yield slower(what, times["ours"], times["rg"], 1.25, by_cpu=True)

        def first() -> None:
            with Session(root, settings=settings) as other:
                _call(other, "Glob", {"pattern": f"**/{names}"})

        contestants = {
            "first": first,
            "again": lambda: _call(session, "Glob", {"pattern": f"**/{names}"}),
            "rg": lambda: list_newest(program, root, names),
        }
        times = contest(scale.rounds, contestants)
        about = f"Glob **/{names} in {tree}"
        yield slower(
            f"{about}, first, against `rg --files -g`, stat, sort", times["first"], times["rg"], 4, by_cpu=True
        )
        yield slower("the same again in that session", times["again"], times["rg"], 0.8, by_cpu=True)
    shutil.rmtree(root)


def _huge_lines(folder: Path, scale: Scale, program: str, files: int) -> Iterator[Line]:
    root, patient = folder / "huge", folder / "patient"
    generate(root, MILLION, files, rows=0)
    patient.mkdir()  # a dialect in which a walk is not stopped after ten seconds, which a busy machine needs
    limits = "limits = { seconds = 900 }"
    tools = f'[tools.Glob]\nid = "glob"\n{limits}\n[tools.LS]\nid = "ls"\n{limits}\n'
    (patient / "tools.toml").write_text(tools, encoding="utf-8")

    def walk(tool: str, arguments: dict[str, object]) -> Callable[[], None]:
        def run() -> None:
            with Session(root, dialect=str(patient), settings=Settings(state=str(folder / "state"))) as session:
                _call(session, tool, arguments)

        return run

    contestants: dict[str, Callable[[], object]] = {
        "glob": walk("Glob", {"pattern": "**/*.py"}),
        "ls": walk("LS", {"path": ".", "depth": 10}),
        "rg": lambda: list_newest(program, root, "*.py"),
    }
    times = contest(scale.few, contestants)
    about = f"Glob **/*.py in {files:,} files, against `rg --files -g`, stat, sort"
    yield slower(about, times["glob"], times["rg"], 3, by_cpu=True)
    yield slower("LS of it with depth 10, against the same", times["ls"], times["rg"], 3, by_cpu=True)
    shutil.rmtree(root)


def _call(session: Session, tool: str, arguments: dict[str, object]) -> None:
    result = session.call(tool, arguments)
    assert result.error is None, result.text
    assert result.data["aborted_reason"] != "time_limit", result.text


def list_newest(program: str, root: Path, names: str) -> list[bytes]:
    words = [program, "--no-config", "--files", "--null", "-g", names]
    listed = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, check=False).stdout.split(b"\0")[:-1]
    base = os.fsencode(root)
    return sorted(listed, key=lambda path: (-os.stat(os.path.join(base, path)).st_mtime_ns, path))
