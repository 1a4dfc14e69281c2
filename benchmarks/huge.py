"""Pages of a file of 2 GB: the first one against that of a small file, the middle against a scan, and the memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Line, Scale, contest, size, slower
from benchmarks.reading import BLOCK, PAGE
from handrail import Session, Settings

MEMORY_MB = 30
_LINE = 100


def length(scale: Scale) -> int:
    return scale.lines * 215


def generate(path: Path, total: int) -> None:
    """Real bytes, no holes: numbered lines of 100 bytes."""
    tail = b" the quick brown fox jumps over the lazy dog and then sleeps in the sun for a while or two, soundly.\n"
    with path.open("wb") as file:
        for start in range(0, total // _LINE, 50_000):
            rows = range(start + 1, min(start + 50_000, total // _LINE) + 1)
            file.write(b"".join(b"%012d" % row + tail[-(_LINE - 12) :] for row in rows))


def scan(path: Path, total: int) -> int:
    """The newlines of the first bytes."""
    collected = left = 0
    with path.open("rb", buffering=0) as file:
        left = total
        while left > 0 and (block := file.read(min(BLOCK, left))):
            collected += block.count(b"\n")
            left -= len(block)
    return collected


def read(session: Session, name: str, first: int = 1) -> str:
    result = session.call("Read", {"file_path": name, "offset": first, "limit": PAGE})
    assert result.error is None, result.text
    return result.text


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    total = length(scale)
    if shutil.disk_usage(folder).free < 2 * total:
        yield Line(f"Pages of {size(total)}: left out, the disk has no room for it", "-")
        return
    huge, small = folder / "vast.txt", folder / "few.txt"
    generate(huge, total)
    generate(small, 10 * PAGE * _LINE)
    settings = Settings(state=str(folder / "state"), read_seconds=60)
    middle = total // _LINE // 2

    def fresh(name: str, first: int = 1) -> str:
        with Session(folder, settings=settings) as session:
            return read(session, name, first)

    assert f"{middle:012d}" in fresh("vast.txt", middle)
    known = Session(folder, settings=settings)
    read(known, "vast.txt", middle)
    pages = contest(scale.rounds * 3, {"huge": lambda: fresh("vast.txt"), "small": lambda: fresh("few.txt")}, each=5)
    yield slower(f"Read page 1 of {size(total)}, against page 1 of a small file", pages["huge"], pages["small"], 1.5)
    contestants = {
        "middle": lambda: fresh("vast.txt", middle),
        "scan": lambda: scan(huge, middle * _LINE),
        "again": lambda: read(known, "vast.txt", middle),
    }
    times = contest(scale.few, contestants)
    yield slower(
        "Read the page in its middle, against scanning the bytes before it", times["middle"], times["scan"], 1.2
    )
    yield slower("that page again in the same session, against the small file", times["again"], pages["small"])
    for what, first in (("page 1", 1), ("the page in the middle", middle)):
        yield _memory(folder, what, first)
    known.close()
    huge.unlink()
    small.unlink()


_OURS = """
import sys
from benchmarks.huge import read
from benchmarks.memory import grown
from handrail import Session, Settings
session = Session(sys.argv[1], settings=Settings(state=sys.argv[1] + "/state", read_seconds=60))
read(session, "few.txt")
print(grown(lambda: read(session, "vast.txt", int(sys.argv[2]))))
"""


def _memory(folder: Path, what: str, first: int) -> Line:
    words = [sys.executable, "-c", _OURS, str(folder), str(first)]
    here = Path(__file__).parent.parent
    completed = subprocess.run(words, capture_output=True, check=True, text=True, encoding="utf-8", cwd=here)
    grown = float(json.loads(completed.stdout)) / (1 << 20)
    about = f"Peak memory of {what} over an idle session"
    return Line(about, f"{grown:.1f} MB", "", "", f"under {MEMORY_MB} MB", grown < MEMORY_MB)
