"""Solution of step 3: from words you can only guess; from accesses you can decide."""

from __future__ import annotations

import tempfile
from pathlib import Path

from handrail import Session


def guess(command: str) -> str:
    """A judge of words. It stops what is harmless, and lets through what is not."""
    if any(word in command for word in ("rm ", "rmdir", "unlink")):
        return "refuse"
    return "ask" if any(word in command for word in ("sed -i", ">", "mv ", "cp ")) else "allow"


VERDICTS = {"read": "allow", "write": "ask", "delete": "refuse"}


def judge(session: Session, tool: str, arguments: dict[str, str]) -> None:
    """Decides from what the call declares; nothing runs."""
    for access in session.prepare(tool, arguments).accesses:
        print(f"{VERDICTS[access.action]:7} {tool}: {access.action} {access.target}")


if __name__ == "__main__":
    for command in (
        "cat a.txt && sed -i s/a/b/ b.txt && rm c.txt",  # three intents, one answer
        "python3 tidy.py",  # may delete everything
        "grep -n 'rm -rf' notes.md",  # harmless
        "find . -name '*.pyc' -delete",
    ):
        print(f"{guess(command):7} {command}")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.txt", "b.txt", "c.txt"):
            Path(folder, name).write_text("a\n", encoding="utf-8")
        with Session(folder) as session:
            judge(session, "Read", {"file_path": "a.txt"})
            judge(session, "Edit", {"file_path": "b.txt", "old_string": "a", "new_string": "b"})
            judge(session, "Trash", {"path": "c.txt"})
