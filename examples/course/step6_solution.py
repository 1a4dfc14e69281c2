"""Solution of step 6: a pattern becomes a regular expression, and the search has a bound and an honest end."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from step6_search import build

PIECES = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def compile_pattern(pattern: str) -> re.Pattern[str]:
    pieces = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", pattern)
    return re.compile("".join(PIECES.get(piece, re.escape(piece)) for piece in pieces))


def find(workspace: Path, pattern: str, most: int = 100) -> tuple[list[str], bool]:
    """The paths that match, and whether these are all."""
    compiled, looked = compile_pattern(pattern), 0
    found: list[str] = []
    for place, folders, names in os.walk(workspace):
        folders.sort()
        for name in sorted(names):
            looked += 1
            if looked > most:
                return found, False
            path = Path(place, name).relative_to(workspace).as_posix()
            if compiled.fullmatch(path):
                found.append(path)
    return found, True


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        for pattern, most in (("agents/*.py", 1000), ("agents/**/*.py", 1000), ("agents/*.py", 100)):
            found, complete = find(Path(folder), pattern, most)
            end = "complete" if complete else f"stopped after {most} files: use a narrower pattern"
            print(f"{pattern:15} {found} ({end})")
