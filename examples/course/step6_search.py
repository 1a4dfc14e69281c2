"""Step 6: search you can trust. From the structure to names, to contents, to lines; and an honest end."""

from __future__ import annotations

import fnmatch
import os
import tempfile
from pathlib import Path

from model import call, open_model, say
from step1_loop import run

from handrail import Session
from handrail.integrations.openai import chat_tools

FILES = {
    "main.py": "from agents import base\n",
    "agents/base.py": "TIMEOUT = 30\n",
    "agents/deep/inner.py": "TIMEOUT = 5\n",
    ".gitignore": "build/\n",
    "build/agents/base.py": "TIMEOUT = 30  # a copy\n",
}


def build(workspace: Path) -> None:
    for day, (name, text) in enumerate(FILES.items()):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text, encoding="utf-8")
        os.utime(workspace / name, (day * 86_400, day * 86_400))  # newest files come first
    for n in range(300):
        (workspace / f"data{n:03}.txt").write_text("needle\n", encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        build(workspace)
        print("agents/*.py by fnmatch:", [name for name in FILES if fnmatch.fnmatch(name, "agents/*.py")])
        with Session(workspace) as session:
            for pattern in ("agents/*.py", "agents/**/*.py"):
                found = session.call("Glob", {"pattern": pattern}).data["paths"]
                print(f"{pattern} by Glob:", sorted(found))
            many = session.call("Grep", {"pattern": "needle"})
            print(f"300 files match; Grep is {many.status}: {many.text.splitlines()[-1]}\n")
            model = open_model(
                call("LS", path="agents"),  # 1. the structure
                call("Glob", pattern="**/*.py"),  # 2. names
                call("Grep", pattern="TIMEOUT", output_mode="content"),  # 3. contents
                call("Read", file_path="agents/base.py"),  # 4. lines
                say("The timeout is 30, in agents/base.py; build/ is generated and was not searched."),
            )
            run("Where is the timeout of 30 seconds set?", model, list(chat_tools(session)),
                lambda name, arguments: session.call(name, arguments).text)  # fmt: skip

# Exercise: write `find(workspace, pattern)` with `*` inside one directory and `**` across directories. It stops after a
# number of files and says so. `fnmatch` does not do: its `*` crosses directories.
