"""Step 5: editing without guessing. Six edits as models send them, through three tools."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from handrail import Session

Tool = Callable[[Path, str, str], str]

# The file, the old and the new text as a model sends them, and the only right result; None: it must be refused.
CASES: dict[str, tuple[str, str, str, str | None]] = {
    "exact": ("a = 1\nb = 2\n", "a = 1", "a = 3", "a = 3\nb = 2\n"),
    "indentation lost": (
        "if x:\n        if y:\n            stop()\n",
        "if y:\n    stop()",
        "if y:\n    go()\n    stop()",
        "if x:\n        if y:\n            go()\n            stop()\n",
    ),
    "fits two places": ("x = 1\ny = 2\nx = 1\n", "x = 1", "x = 3", None),
    "other line endings": ("a = 1\r\nb = 2\r\n", "a = 1\nb = 2", "a = 1\nb = 3", "a = 1\r\nb = 3\r\n"),
    "typographic quotes": ("say(“hi”)  # once\n", 'say("hi")  # once', 'say("hi")  # twice', "say(“hi”)  # twice\n"),
    "not in the file": ("a = 1\n", "a = 7", "a = 8", None),
}


def replace_first(path: Path, old: str, new: str) -> str:
    """The shortest tool there is. It takes the first place, and what is nowhere counts as done."""
    path.write_bytes(path.read_bytes().replace(old.encode(), new.encode(), 1))
    return "done"


def ignore_spaces(path: Path, old: str, new: str) -> str:
    """Compares stripped lines, takes the first place, and puts the new text in as it was sent."""
    lines, wanted = path.read_text(encoding="utf-8").splitlines(), [line.strip() for line in old.splitlines()]
    for start in range(len(lines) - len(wanted) + 1):
        if [line.strip() for line in lines[start : start + len(wanted)]] == wanted:
            lines[start : start + len(wanted)] = new.splitlines()
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            return "done"
    return "Error: not found"


def handrail_edit(path: Path, old: str, new: str) -> str:
    with Session(path.parent) as session:
        session.call("Read", {"file_path": path.name})
        return session.call("Edit", {"file_path": path.name, "old_string": old, "new_string": new}).text


def judge(tool: Tool, content: str, old: str, new: str, right: str | None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.py")
        path.write_bytes(content.encode())
        answer = tool(path, old, new)
        after = path.read_bytes().decode()
    if after == content:
        return "no word" if answer == "done" else "refused"
    return "right" if after == right else "WRONG"


if __name__ == "__main__":
    tools: list[Tool] = [replace_first, ignore_spaces, handrail_edit]
    print(f"{'':20}" + "".join(f"{tool.__name__:15}" for tool in tools).rstrip())
    for name, case in CASES.items():
        print(f"{name:20}" + "".join(f"{judge(tool, *case):15}" for tool in tools).rstrip())

# Exercise: make `ignore_spaces` safe. It must refuse what fits two places, keep the line endings of the file, and shift
# the new lines by the indentation that the model left out.
