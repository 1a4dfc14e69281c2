"""Solution of step 2: no file ends the program, and no file fills the context."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path

MOST_LINES, MOST_CHARS = 200, 2000


def read_file(workspace: Path, name: str, start: int = 1) -> str:
    path = (workspace / name).resolve()
    if not path.is_relative_to(workspace):
        return f"Error: {name} is outside of the workspace."
    if not path.is_file():
        return f"Error: there is no file {name}."
    with path.open("rb") as file:
        if b"\0" in file.read(8192):
            return f"Error: {name} is binary ({path.stat().st_size:,} bytes)."
    with path.open(encoding="utf-8", errors="replace") as file:  # never the whole file
        lines = [line.rstrip("\n") for line in islice(file, start - 1, start + MOST_LINES)]
    page = []
    for number, line in enumerate(lines[:MOST_LINES], start):
        rest = f" [cut: {len(line) - MOST_CHARS:,} more characters]" if len(line) > MOST_CHARS else ""
        page.append(f"{number:6}\t{line[:MOST_CHARS]}{rest}")
    if len(lines) > MOST_LINES:
        page.append(f"(More lines follow: start={start + MOST_LINES})")
    return "\n".join(page) or f"({name} has no line {start}.)"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder).resolve()
        (workspace / "picture.png").write_bytes(b"\x89PNG\r\n\0\0\xff")
        (workspace / "server.log").write_text("all is well\n" * 1_000_000, encoding="utf-8")
        (workspace / "bundle.js").write_text("var a=1;" * 200_000, encoding="utf-8")
        (workspace / "empty.txt").touch()
        for name, start in (
            ("picture.png", 1),
            ("server.log", 1),
            ("server.log", 201),
            ("bundle.js", 1),
            ("empty.txt", 1),
        ):
            answer = read_file(workspace, name, start)
            print(f"{name}: {len(answer):,} characters; the end: {answer.splitlines()[-1].strip()[-45:]}")
