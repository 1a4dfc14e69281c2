"""A read-only reviewer: an agent that looks at a project and writes a review, and cannot change a byte.

`python reviewer.py [DIRECTORY]` with HANDRAIL_MODEL and a key reviews that project; without a model a scripted one
reviews a small one, and tries to fix what it finds.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from handrail import Agent, Event, History, Model, Session, open_model, system_prompt
from handrail.agent.messages import CallFinished
from handrail_demo.scripted_server import Line, ScriptedServer, in_order

TASK = "Review this project: bugs first, each with file and line. Change nothing."
SCRIPT = [
    Line("", [("Glob", {"pattern": "**/*.py"})]),
    Line("", [("Read", {"file_path": "stats.py"})]),
    Line("", [("Edit", {"file_path": "stats.py", "old_string": "/ 2", "new_string": "/ len(values)"})]),
    Line("", [("Bash", {"command": "rm stats.py"})]),
    Line("stats.py:2: mean divides by 2, whatever the number of values."),
]


def show(event: Event) -> None:
    if isinstance(event, CallFinished):
        print(f"{event.status:7} {event.call.name}")


def review(root: Path, model: Model) -> str:
    with Session(root, mode="read-only") as session:
        return Agent(session, model, History(system_prompt(session)), show).run(TASK).text


if __name__ == "__main__":
    if name := os.environ.get("HANDRAIL_MODEL"):
        print(review(Path(sys.argv[1] if sys.argv[1:] else "."), open_model(name, os.environ)))
    else:
        with tempfile.TemporaryDirectory() as folder, ScriptedServer(in_order(SCRIPT)) as server:
            Path(folder, "stats.py").write_text("def mean(values):\n    return sum(values) / 2\n", encoding="utf-8")
            print(review(Path(folder), open_model("scripted", {"OPENAI_BASE_URL": server.url}, "chat")))
            print("unchanged:", Path(folder, "stats.py").read_text(encoding="utf-8").endswith("/ 2\n"))
