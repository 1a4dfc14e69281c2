"""Solution of step 2: no file ends the program, and no file fills the context."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

from model import call, open_model, say
from step1_loop import run

READ_FILE = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Reads a page of a text file, from line `start` on; each line has its number.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "start": {"type": "integer", "minimum": 1}},
            "required": ["path"],
        },
    },
}
MOST_LINES, MOST_CHARS = 3, 40  # small, to show a page here; in practice rather 200 and 500
NEXT_STEP = "Work without them, or ask the user."


def read_lines(file: TextIO) -> Iterator[tuple[str, int]]:
    """The start of each line, and how many characters are cut; never more than MOST_CHARS of a line in memory."""
    while part := file.readline(MOST_CHARS):
        shown, cut = part.rstrip("\n"), 0
        while not part.endswith("\n") and (part := file.readline(MOST_CHARS)):
            cut += len(part.rstrip("\n"))
        yield shown, cut


def read_file(workspace: Path, name: str, start: int = 1) -> str:
    path = (workspace / name).resolve()
    if not path.is_relative_to(workspace):
        return f"Error: {name} is outside of the workspace."
    if not path.is_file():
        return f"Error: there is no file {name}."
    if start < 1:
        return "Error: the first line is start=1."
    try:
        with path.open(encoding="utf-8") as file:
            lines = list(islice(read_lines(file), start - 1, start + MOST_LINES))
    except UnicodeDecodeError:
        return f"Error: the {path.stat().st_size:,} bytes of {name} are not UTF-8 text. {NEXT_STEP}"
    page = []
    for number, (shown, cut) in enumerate(lines[:MOST_LINES], start):
        page.append(f"{number:6}\t{shown}" + (f" [cut: {cut:,} more characters. {NEXT_STEP}]" if cut else ""))
    if len(lines) > MOST_LINES:
        page.append(f"(More lines follow: start={start + MOST_LINES})")
    return "\n".join(page) or f"({name} ends before line {start}.)"


def answer(workspace: Path, text: str) -> str:
    arguments = json.loads(text)
    return read_file(workspace, arguments["path"], arguments.get("start", 1))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder).resolve()
        (workspace / "a.png").write_bytes(b"\x89PNG\0\xff")
        (workspace / "a.log").write_text("all is well\n" * 1_000_000, encoding="utf-8")
        (workspace / "a.js").write_text("var a=1;" * 200_000, encoding="utf-8")
        model = open_model(
            call("read_file", path="a.png"),
            call("read_file", path="a.log"),
            call("read_file", path="a.log", start=4),
            call("read_file", path="a.js"),
            say("The log says that all is well."),
        )
        run("What is in a.png, a.log and a.js?", model, [READ_FILE], lambda _, text: answer(workspace, text))
