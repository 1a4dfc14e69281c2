"""Step 2: one tool. `read_file`, first by hand, then from a session of Handrail, in the same loop."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from model import call, open_model, say
from step1_loop import run

from handrail import Session
from handrail.integrations.openai import chat_tools

READ_FILE = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Reads a text file of the workspace; each line has its number.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


def read_file(workspace: Path, name: str) -> str:
    """A tool has three jobs: check what it is given, do one thing, and answer so that the model can go on."""
    path = (workspace / name).resolve()  # follows `..` and links
    if not path.is_relative_to(workspace):
        return f"Error: {name} is outside of the workspace."
    if not path.is_file():
        return f"Error: there is no file {name}."
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder, "project").resolve()
        workspace.mkdir()
        (workspace / "menu.txt").write_text("tea 2.40\ncoffee 2.60\n", encoding="utf-8")
        (workspace.parent / "outside.txt").write_text("not yours\n", encoding="utf-8")

        print("-- by hand")
        model = open_model(
            call("read_file", path="menu.txt"), call("read_file", path="../outside.txt"), say("Coffee costs 2.60.")
        )
        run("What is coffee in menu.txt, and what is in ../outside.txt?", model, [READ_FILE],
            lambda _, arguments: read_file(workspace, json.loads(arguments)["path"]))  # fmt: skip

        print("-- from a session")
        model = open_model(
            call("Read", file_path="menu.txt"), call("Read", file_path="../outside.txt"), say("Coffee costs 2.60.")
        )
        with Session(workspace) as session:
            run("What is coffee in menu.txt, and what is in ../outside.txt?", model, list(chat_tools(session)),
                lambda name, arguments: session.call(name, arguments).text)  # fmt: skip

# Exercise: `read_file` ends the program on a picture (it is not UTF-8), and fills the context with a long log or
# a long line. Make each an answer that says how to go on. For pages, add `start`: to READ_FILE and the lambda too.
