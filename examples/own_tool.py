"""A tool of your own: a function becomes a tool with a schema, rules, a record and undo.

`python own_tool.py [DIRECTORY]` puts a licence line above every Python file of a project, as a model would ask for it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from handrail import ReadFile, Session, WriteFile, tool

LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"


@tool(read_only=True)
def has_licence(file: ReadFile) -> bool:
    """Say whether a file begins with the licence line."""
    return file.read_text().startswith(LICENCE)


@tool
def add_licence(files: list[WriteFile], year: int) -> str:
    """Put the licence line above these files; all of them, or none.

    Args:
        files: Python files without the line
        year: The year of the copyright
    """
    for file in files:
        file.write_text(f"{LICENCE}# Copyright {year} The Authors\n{file.read_text()}")
    return f"{len(files)} files have a licence now."


def main(root: Path) -> None:
    with Session(root, tools=[has_licence, add_licence]) as session:
        names = sorted(session.call("Glob", {"pattern": "**/*.py"}).data["paths"])
        missing = [name for name in names if session.call("has_licence", {"file": name}).text != "true"]
        print("without a licence:", *missing)
        print(session.call("add_licence", {"files": missing, "year": 2026}).text)
        print("outside:", session.call("add_licence", {"files": ["../outside.py"], "year": 2026}).status)
        session.undo()
        print("after undo:", [name for name in names if session.call("has_licence", {"file": name}).text == "true"])


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "new.py").write_text("print('new')\n", encoding="utf-8")
            Path(folder, "old.py").write_text(f"{LICENCE}print('old')\n", encoding="utf-8")
            main(Path(folder))
