"""Solution of step 2: no file ends the program, and no file fills the context."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path

MOST_LINES, MOST_CHARS = 200, 2000


def read_file(workspace: Path, name: str) -> str:
    path = (workspace / name).resolve()
    if not path.is_relative_to(workspace):
        return f"Error: {name} is outside of the workspace."
    if not path.is_file():
        return f"Error: there is no file {name}."
    with path.open("rb") as file:
        if b"\0" in file.read(8192):
            return f"Error: {name} is binary ({path.stat().st_size:,} bytes)."
    with path.open(encoding="utf-8", errors="replace") as file:  # never the whole file
        lines = [line.rstrip("\n")[:MOST_CHARS] for line in islice(file, MOST_LINES + 1)]
    shown = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines[:MOST_LINES], 1))
    return f"{shown}\n(There are more lines.)" if len(lines) > MOST_LINES else shown or "(The file is empty.)"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder).resolve()
        (workspace / "picture.png").write_bytes(b"\x89PNG\r\n\0\0\xff")
        (workspace / "server.log").write_text("all is well\n" * 1_000_000, encoding="utf-8")
        (workspace / "empty.txt").touch()
        for name in ("picture.png", "server.log", "empty.txt"):
            answer = read_file(workspace, name)
            print(f"{name}: {len(answer):,} characters; the end: {answer.splitlines()[-1].strip()}")
