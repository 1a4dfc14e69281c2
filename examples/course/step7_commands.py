"""Step 7: running commands safely. Words lie; look at what a command did, and keep a way back."""

from __future__ import annotations

import tempfile
from pathlib import Path

from model import call, open_model, say
from step1_loop import run

from handrail import Session
from handrail.integrations.openai import chat_tools

DANGEROUS = ["rm -rf /", "sudo", "shutdown", "reboot", "> /dev/"]


def looks_dangerous(command: str) -> bool:
    """A list of words, as many first agents have it."""
    return any(word in command for word in DANGEROUS)


COMMANDS = [
    "rm -rf /",  # found
    "rm -r -f /",  # the same with a space
    "python3 -c 'import shutil; shutil.rmtree(\"/\")'",  # the same in Python
    "grep sudo notes.md",  # harmless
]

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder, "project")
        workspace.mkdir()
        (workspace / "notes.md").write_text("keep me\n", encoding="utf-8")
        (workspace / ".env").write_text("KEY=hunter2\n", encoding="utf-8")
        print("list of words    command")
        for command in COMMANDS:
            print(f"{'refused' if looks_dangerous(command) else 'runs':17}{command}")

        with Session(workspace) as session:
            model = open_model(
                call("Bash", command="printf '%s\\n' one two > list.txt; rm notes.md"),  # one command too many
                call("Bash", command="cat .env"),  # not the model's business
                say("list.txt is written."),
            )
            print()
            run("Write list.txt with the lines one and two.", model, list(chat_tools(session)),
                lambda name, arguments: session.call(name, arguments).text)  # fmt: skip
            print("files:", sorted(path.name for path in workspace.iterdir()))
            session.undo()
            print("after undo:", sorted(path.name for path in workspace.iterdir()))

# Exercise: build the smallest draft. Copy the workspace, run the command in the copy, compare, and copy the changes
# back only if a function agrees to each of them.
