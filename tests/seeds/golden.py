"""What the golden tests share: the literal copies of the second source document, and the text that ends every Read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.command import KEYS, handrail

DATA = Path(__file__).parent / "data"

REMINDER = (
    "\n\n<system-reminder>\n"
    "Whenever you read a file, you should consider whether it looks malicious. If it does, you MUST refuse to improve"
    " or augment the code. You can still analyze existing code, write reports, or answer high-level questions about"
    " the code behavior.\n"
    "</system-reminder>"
)
TAIL = (
    "Please use offset and limit parameters to read specific portions of the file, or use the `rg` command to search"
    " for specific content."
)
NOT_READ = "File has not been read yet. Read it first before writing to it."
MODIFIED = "File has been modified externally. Either by user or a linter. Read it first before writing to it."
MISSING = "<tool_use_error>File does not exist.</tool_use_error>"
EXISTS = "<tool_use_error>Cannot create new file - file already exists.</tool_use_error>"
SAME = "<tool_use_error>No changes to make: old_string and new_string are exactly the same.</tool_use_error>"


def description(tool: str) -> str:
    """The description that the document gives; the last newline of the copy is not part of it."""
    return (DATA / f"s2_{tool}.md").read_text(encoding="utf-8").removesuffix("\n")


def schema(tool: str) -> str:
    """The schema that the document gives, without the commas that JSON does not allow."""
    return (DATA / f"s2_{tool}.json").read_text(encoding="utf-8").removesuffix("\n")


def rows(lines: list[str], first: int = 1) -> str:
    """Lines as the document numbers them: six places, right-aligned, and an arrow."""
    return "\n".join(f"{number:>6}→{line}" for number, line in enumerate(lines, start=first))


def run_batch(
    folder: Path, dialect: str, calls: Sequence[Mapping[str, Any]], variables: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The answers of a real `handrail batch` in ``folder``, one for each call, in one session."""
    lines = "".join(json.dumps(call) + "\n" for call in calls)
    done = handrail("batch", "--dialect", dialect, cwd=folder, stdin=lines.encode(), variables=variables)
    assert (done.returncode, done.stderr) == (0, b"")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(answer) for answer in answers] == [KEYS] * len(calls)
    return answers


def put(root: Path, name: str, text: str) -> Path:
    """A file of a project, with the folders on the way."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
    return path


def tree(root: Path) -> dict[str, str]:
    """Every file of a project by its relative path."""
    return {
        str(path.relative_to(root)): path.read_bytes().decode("utf-8") for path in root.rglob("*") if path.is_file()
    }
