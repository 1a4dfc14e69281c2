"""`matching = "ladder"`: forgiving edits in dialects whose documents say exact, with extra words in a block apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from tests.command import handrail

CODE = "def f():\n    a = 1\n    b = 2\n"


@pytest.mark.parametrize("matching", ["dialect", "ladder"])
def test_claude_repairs_an_edit_only_with_the_ladder(
    make_session: Callable[..., Session], tmp_path: Path, matching: str
) -> None:
    path = tmp_path / "a.py"
    path.write_text(CODE, encoding="utf-8")
    session = make_session(tmp_path, dialect="claude", durable=False, matching=matching)
    session.call("Read", {"file_path": str(path)})
    texts = {"old_string": "a = 1\nb = 2", "new_string": "a = 1\nb = 3"}
    result = session.call("Edit", {"file_path": str(path), **texts})
    if matching == "dialect":
        assert result.error and result.error.code == "no_match"
        assert path.read_text(encoding="utf-8") == CODE
        return
    assert path.read_text(encoding="utf-8") == CODE.replace("2", "3")
    assert "matched by" not in result.text  # the document's words stay as they are
    assert [block["text"] for block in result.blocks] == [result.text, "matched by: indentation"]
    result = session.call("Edit", {"file_path": str(path), "old_string": "b = 3", "new_string": "b = 4"})
    assert len(result.blocks) == 1  # by the letter there is nothing to add
    edits = [{"old_string": "a = 1\nb = 4", "new_string": "a = 1\nb = 5"}]
    result = session.call("MultiEdit", {"file_path": str(path), "edits": edits})
    assert result.blocks[1]["text"] == "matched by: 1: indentation"


def test_the_command_line_chooses_the_ladder(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(CODE, encoding="utf-8")
    calls = [
        {"tool": "Read", "arguments": {"file_path": str(path)}},
        {"tool": "Edit", "arguments": {"file_path": str(path), "old_string": "a = 1\nb = 2", "new_string": "a = 3"}},
    ]
    lines = "".join(json.dumps(call) + "\n" for call in calls)
    words = ["batch", "-", "-w", str(tmp_path), "--dialect", "claude", "--matching", "ladder", "--mode", "full"]
    done = handrail(*words, cwd=tmp_path, stdin=lines.encode())
    assert done.returncode == 0, done.stderr
    assert path.read_text(encoding="utf-8") == "def f():\n    a = 3\n"
