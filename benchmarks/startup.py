"""How long it takes until the tools are there, and which imports that is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Line, Scale, contest, slower

SESSION = "from handrail import Session; Session('.')"


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    def python(*words: str) -> None:
        subprocess.run([sys.executable, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    contestants = {
        "pass": lambda: python("-c", "pass"),
        "import": lambda: python("-c", "import handrail"),
        "session": lambda: python("-c", SESSION),
        "pydantic": lambda: python("-c", "import pydantic; pydantic.BaseModel"),
        "help": lambda: python("-m", "handrail", "--help"),
    }
    times = contest(scale.rounds, contestants)
    yield slower("`import handrail`, against `python -c pass`", times["import"], times["pass"])
    yield slower("`Session('.')`, against `python -c pass`", times["session"], times["pass"])
    yield slower("`Session('.')`, against `import pydantic`", times["session"], times["pydantic"])
    yield slower("`handrail --help`, against `python -c pass`", times["help"], times["pass"])
    heaviest = ", ".join(f"{name} {share:.0%}" for name, share in imports(folder)[:8])
    yield Line("Which packages the imports of `Session('.')` spend their time in", heaviest)


def imports(folder: Path) -> list[tuple[str, float]]:
    """The share of each top-level package in the time of all imports."""
    words = [sys.executable, "-X", "importtime", "-c", SESSION]
    found = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, encoding="utf-8")
    spent: dict[str, float] = {}
    for row in found.stderr.splitlines():
        own, _, name = row.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            package = name.strip().split(".")[0]
            spent[package] = spent.get(package, 0.0) + int(own)
    total = sum(spent.values())
    return sorted(((name, part / total) for name, part in spent.items()), key=lambda item: -item[1])
