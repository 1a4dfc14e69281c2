"""Pages of a file of ten million lines: the middle, the next page, the first, the last, and the memory they take."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks.measure import Line, Scale, contest, faster, size, slower
from handrail import Session, Settings

BLOCK = 1 << 18
PAGE = 100
MEMORY_MB = 60


def generate(path: Path, count: int) -> None:
    """Numbered lines of 9 to 80 characters."""
    tails = [" " + "abcdefghij klmnop qrstuv wxyz "[: 3 + number % 27] * (1 + number % 3) for number in range(97)]
    with path.open("wb") as file:
        for start in range(0, count, 100_000):
            rows = range(start + 1, min(start + 100_000, count) + 1)
            file.write("".join(f"{row:08d}{tails[row % 97]}\n" for row in rows).encode())


def raw_scan(path: Path, ends: int) -> int:
    """The simplest fast loop: read blocks and count newlines, until there were so many."""
    collected = 0
    with path.open("rb", buffering=0) as file:
        while collected < ends and (block := file.read(BLOCK)):
            collected += block.count(b"\n")
    return collected


def whole(path: Path, first: int) -> list[str]:
    """The file as a list of lines, and a slice of it."""
    return path.read_text(encoding="utf-8").split("\n")[first - 1 : first - 1 + PAGE]


def read(session: Session, first: int) -> str:
    result = session.call("Read", {"file_path": "huge.txt", "offset": first, "limit": PAGE})
    assert result.error is None, result.text
    return result.text


def fresh(folder: Path, first: int) -> str:
    """A page in a session that knows nothing yet."""
    with Session(folder, settings=Settings(state=str(folder / "state"))) as session:
        return read(session, first)


def command(*words: str) -> None:
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    path = folder / "huge.txt"
    generate(path, scale.lines)
    middle = scale.lines // 2
    assert f"{middle:08d} " in fresh(folder, middle)
    about = f"of {scale.lines:,} lines ({size(path.stat().st_size)})"
    yield from _middle(folder, path, middle, about, scale)
    yield from _edges(folder, path, scale)
    yield from _memory(folder, middle, scale.lines)
    path.unlink()


def _middle(folder: Path, path: Path, middle: int, about: str, scale: Scale) -> Iterator[Line]:
    known = Session(folder, settings=Settings(state=str(folder / "state")))
    read(known, middle)
    turn = iter(range(10**9))
    contestants = {
        "ours": lambda: fresh(folder, middle),
        "scan": lambda: raw_scan(path, middle - 1),
        "next": lambda: read(known, middle + PAGE * (1 + next(turn) % 50)),
    }
    if shutil.which("sed"):
        last = middle + PAGE - 1
        contestants["sed"] = lambda: command("sed", "-n", f"{middle},{last}p;{last}q", str(path))
    times = contest(scale.rounds, contestants)
    yield slower(f"Read line {middle:,} {about}, against a raw scan", times["ours"], times["scan"], 1.5)
    if "sed" in times:
        yield slower("the same, against `sed -n`", times["ours"], times["sed"])
    whole_times = contest(scale.few, {"ours": lambda: fresh(folder, middle), "whole": lambda: whole(path, middle)})
    yield slower("the same, against reading the whole file", whole_times["ours"], whole_times["whole"])
    yield faster("Read the next page, against scanning again", times["next"], times["scan"], 20)
    known.close()


def _edges(folder: Path, path: Path, scale: Scale) -> Iterator[Line]:
    def head() -> list[str]:
        with path.open(encoding="utf-8") as file:
            return list(islice(file, PAGE))

    def tail() -> list[bytes]:
        with path.open("rb", buffering=0) as file:
            file.seek(max(0, os.path.getsize(path) - (1 << 16)))
            return file.read().split(b"\n")[-PAGE - 1 :]

    times = contest(
        scale.rounds,
        {"head": head, "tail": tail, "first": lambda: fresh(folder, 1), "last": lambda: fresh(folder, -PAGE)},
    )
    yield slower("Read the first 100 lines of it, against a plain loop", times["first"], times["head"])
    yield slower("Read the last 100 lines of it, against a seek to the end", times["last"], times["tail"])


_OURS = """
import sys
from benchmarks.memory import grown
from benchmarks.reading import read
from handrail import Session, Settings
session = Session(sys.argv[1], settings=Settings(state=sys.argv[1] + "/state"))
session.call("Read", {"file_path": "tiny.txt"})
print(grown(lambda: [read(session, int(first)) for first in sys.argv[2:]]))
"""
_WHOLE = """
import sys
from pathlib import Path
from benchmarks.memory import grown
from benchmarks.reading import whole
print(grown(lambda: whole(Path(sys.argv[1], "huge.txt"), int(sys.argv[2]))))
"""


def _memory(folder: Path, middle: int, count: int) -> Iterator[Line]:
    (folder / "tiny.txt").write_text("tiny\n", encoding="utf-8")

    def megabytes(script: str, *words: object) -> float:
        completed = subprocess.run(
            [sys.executable, "-c", script, str(folder), *map(str, words)],
            capture_output=True,
            check=True,
            text=True,
            encoding="utf-8",
            cwd=Path(__file__).parent.parent,
        )
        return float(json.loads(completed.stdout)) / (1 << 20)

    ours = megabytes(_OURS, middle, middle + PAGE, -PAGE, 1, count)
    baseline = megabytes(_WHOLE, middle)
    what = "Peak memory of five such pages over an idle session, against reading the whole file"
    target, met = f"under {MEMORY_MB} MB", ours < MEMORY_MB
    yield Line(what, f"{ours:.1f} MB", f"{baseline:,.0f} MB", f"{ours / baseline:.4f}x", target, met)
