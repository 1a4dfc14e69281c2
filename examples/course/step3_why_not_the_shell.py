"""Step 3: why not the shell? The same work through one command and through a tool, measured."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from handrail import Session

APP = "timeout = 30\nretries = 30\nlimit = 30\n"


def build(workspace: Path) -> None:
    (workspace / "app.py").write_text(APP, encoding="utf-8")
    (workspace.parent / "outside.txt").write_text("not yours\n", encoding="utf-8")
    log = "".join(f"2026-01-01 12:00:00 INFO request {n} done\n" for n in range(50_000))
    (workspace / "server.log").write_text(log, encoding="utf-8")
    for n in range(200):
        module = workspace / "node_modules" / f"m{n}"
        module.mkdir(parents=True)
        (module / "index.js").write_text("var timeout = 1;\n" * 20, encoding="utf-8")
    (workspace / ".gitignore").write_text("node_modules/\n", encoding="utf-8")


WORK: list[tuple[str, str, str, dict[str, Any]]] = [
    ("look at a long file", "cat server.log", "Read", {"file_path": "server.log", "limit": 50}),
    ("find a word", "grep -rn timeout .", "Grep", {"pattern": "timeout", "output_mode": "content"}),
    ("replace what is not there", "sed -i s/40/50/ app.py",
     "Edit", {"file_path": "app.py", "old_string": "40", "new_string": "50"}),
    ("replace what fits three places", "sed -i s/30/45/ app.py",
     "Edit", {"file_path": "app.py", "old_string": "30", "new_string": "45"}),
    ("read outside of the project", "cat ../outside.txt", "Read", {"file_path": "../outside.txt"}),
]  # fmt: skip


def measure(workspace: Path, session: Session) -> list[tuple[str, ...]]:
    """For each piece of work: what the model reads, what it is told, and how many lines changed, both ways."""
    rows: list[tuple[str, ...]] = []
    app = workspace / "app.py"
    for title, command, tool, arguments in WORK:
        app.write_text(APP, encoding="utf-8")
        done = subprocess.run(["bash", "-c", command], cwd=workspace, capture_output=True, text=True)
        rows.append((title, "shell", f"{len(done.stdout):,}", f"exit {done.returncode}", f"{changed(app)}"))
        app.write_text(APP, encoding="utf-8")
        session.call("Read", {"file_path": "app.py"})
        result = session.call(tool, arguments)
        told = result.error.code if result.error else result.status
        rows.append(("", tool, f"{len(result.text):,}", told, f"{changed(app)}"))
    return rows


def changed(path: Path) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return sum(new != old for new, old in zip(lines, APP.splitlines(), strict=True))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder, "project")
        workspace.mkdir()
        build(workspace)
        with Session(workspace) as session:
            for row in [("", "by", "characters", "the model is told", "lines changed"), *measure(workspace, session)]:
                print("{:32}{:7}{:>11}  {:19}{:>13}".format(*row).rstrip())
            accesses = session.prepare(
                "Edit", {"file_path": "app.py", "old_string": "timeout", "new_string": "wait"}
            ).accesses
            print("\nBefore it runs, an Edit says:", *(f"{one.action} {one.target}" for one in accesses))

# Exercise: an auditor wants to allow reads, ask about writes, and refuse deletions. Try to decide that from the text of
# a command, for `cat a.txt && sed -i s/a/b/ b.txt && rm c.txt` and for `python3 tidy.py`. Then do it from accesses.
