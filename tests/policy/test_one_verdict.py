"""One verdict for one effect, whichever tool causes it: each tool against the same change by a command in a draft."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from handrail.model import Question
from tests.sizes import spread

Make = Callable[..., Session]
Calls = dict[str, dict[str, Any]]
PLACES = {
    "plain": "a.txt",
    "directory": "sub/b.txt",
    "protected": ".github/workflows/ci.yml",
    "hook": ".git/hooks/pre-commit",
    "settings of an agent": ".claude/settings.json",
    "settings of an editor": ".vscode/tasks.json",
    "dependency": "node_modules/x/index.js",
    "ignored": "build/out.txt",
    "rules": "handrail.toml",
}
MODES = ("read-only", "ask", "accept-edits", "full")


def _patch(*lines: str) -> dict[str, Any]:
    return {"patch": "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))}


def _change(path: str) -> Calls:
    texts = {"old_string": "one", "new_string": "two"}
    return {
        "Write": {"file_path": path, "content": "# two\n"},
        "Edit": {"file_path": path, **texts},
        "MultiEdit": {"file_path": path, "edits": [texts]},
        "ApplyPatch": _patch(f"*** Update File: {path}", "@@", "-# one", "+# two"),
        "Bash": {"command": f"sed -i s/one/two/ {path}"},
    }


def _create(path: str) -> Calls:
    new = f"{path}.new.yml"
    return {
        "Write": {"file_path": new, "content": "# one\n"},
        "ApplyPatch": _patch(f"*** Add File: {new}", "+# one"),
        "Bash": {"command": f"echo '# one' > {new}"},
    }


def _delete(path: str) -> Calls:
    return {
        "Trash": {"path": path},
        "ApplyPatch": _patch(f"*** Delete File: {path}"),
        "Bash": {"command": f"rm {path}"},
    }


def _move(path: str) -> Calls:
    return {
        "Move": {"source_path": path, "target_path": "moved.txt"},
        "ApplyPatch": _patch(f"*** Update File: {path}", "*** Move to: moved.txt"),
        "Bash": {"command": f"mv {path} moved.txt"},
    }


def _delete_directory(path: str) -> Calls:
    above = path.rpartition("/")[0] or "empty"
    return {"Trash": {"path": above}, "Bash": {"command": f"rm -r {above}"}}


def _move_directory(path: str) -> Calls:
    above = path.rpartition("/")[0] or "empty"
    return {"Move": {"source_path": above, "target_path": "there"}, "Bash": {"command": f"mv {above} there"}}


EFFECTS = (_change, _create, _delete, _move, _delete_directory, _move_directory)


def _judge(make: Make, top: Path, mode: str, tool: str, arguments: dict[str, Any]) -> str:
    """What becomes of a call: allowed, asked about or denied."""
    top.mkdir()
    (top / "empty").mkdir()
    subprocess.run(["git", "init", "-q", top], check=True)
    (top / ".gitignore").write_text("build/\n", encoding="utf-8")
    for path in PLACES.values():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text("# one\n", encoding="utf-8")
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    session = make(top, mode=mode, approve=approve, durable=False)
    for path in PLACES.values():
        session.call("Read", {"file_path": path})
    if tool == "Bash" and mode != "read-only" and not session.command_host().drafts.workspace:
        pytest.skip("no drafts here: a command is judged by its words")
    result = session.call(tool, arguments)
    assert result.ok or result.status == "denied", result.text
    return "deny" if not result.ok else "ask" if asked else "allow"


@pytest.mark.parametrize(("effect", "place", "mode"), spread([*product(EFFECTS, PLACES, MODES)], 80))
def test_every_tool_gets_the_verdict_of_the_same_change_by_a_command(
    make_session: Make, tmp_path: Path, effect: Callable[[str], Calls], place: str, mode: str
) -> None:
    calls = effect(PLACES[place])
    verdicts = {name: _judge(make_session, tmp_path / name, mode, name, calls[name]) for name in calls}
    assert verdicts == dict.fromkeys(verdicts, verdicts["Bash"])
