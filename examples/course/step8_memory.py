"""Step 8: memory. A large result goes to a file, a long conversation is cut, and every change can be undone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from handrail import Agent, Event, History, Model, Session, open_model, system_prompt
from handrail.agent.messages import CallFinished, Compacted
from handrail_demo.scripted_server import Line, ScriptedServer, in_order

WINDOW = 22_000  # tokens: three long results fill it
TASK = "Run report.py. One of its lines is BAD: write the number of that line into answer.txt."
REPORT = 'for n in range(20_000):\n    print("line", n, "BAD" if n == 12_345 else "ok")\n'
SAVED = "/large_tool_results/call_0_0"
SCRIPT = [
    Line("", [("Bash", {"command": "python3 report.py"})]),
    Line("", [("Read", {"file_path": SAVED, "offset": 2001})]),  # clumsy: page by page
    Line("", [("Read", {"file_path": SAVED, "offset": 4001})]),
    Line("", [("Grep", {"path": SAVED, "pattern": "BAD", "output_mode": "content"})]),
    Line("", [("Write", {"file_path": "answer.txt", "content": "12345\n"})]),
    Line("Line 12345 is bad; its number is in answer.txt."),
]


@contextmanager
def open_any_model() -> Iterator[Model]:
    if name := os.environ.get("COURSE_MODEL"):
        yield open_model(name, os.environ)
        return
    with ScriptedServer(in_order(SCRIPT)) as server:
        yield open_model("scripted", {"OPENAI_BASE_URL": server.url}, "chat", WINDOW)


def show(event: Event) -> None:
    if isinstance(event, CallFinished):
        print(f"{event.call.name}: the model gets {len(event.text):,} characters")
        print("".join(f"       {line}\n" for line in event.text.splitlines() if "omitted" in line), end="")
    elif isinstance(event, Compacted):
        print(f"the conversation was cut: {event.how}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, open_any_model() as model:
        workspace = Path(folder)
        (workspace / "report.py").write_text(REPORT, encoding="utf-8")
        with Session(workspace) as session:
            agent = Agent(session, model, History(system_prompt(session)), show)
            ending = agent.run(TASK)
            print(f"{ending.how}: {ending.text}")
            print("answer.txt:", (workspace / "answer.txt").read_text(encoding="utf-8").strip())
            session.undo()
            print("after undo:", sorted(path.name for path in workspace.iterdir()))

# Exercise: write the first step of compaction, which needs no model: replace the results of all but the latest calls by
# one line each. A call and its result must stay together, or the API refuses the conversation.
