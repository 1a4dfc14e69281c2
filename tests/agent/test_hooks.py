"""Hooks: commands of the person before and after calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handrail import Session
from handrail.cli.chat.hooks import Hooks, parse_hook
from handrail.cli.output import UsageError
from tests.agent.test_run_cli import TODO, Place, place  # noqa: F401 - a fixture


def test_a_hook_denies_a_call_with_its_reason_and_others_run(tmp_path: Path) -> None:
    hooks = Hooks(["Write|Edit: cat > seen.json; echo not today; exit 3"], ["*: cat >> ended.jsonl"], str(tmp_path))
    with Session(tmp_path, journal=None, before_call=hooks.before_call, after_call=hooks.after_call) as session:
        denied = session.call("Write", {"file_path": "a.txt", "content": "x"}, id="1")
        assert session.call("LS", {"path": "."}).ok
    assert denied.status == "denied" and "not today" in denied.text and not (tmp_path / "a.txt").exists()
    seen = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    assert seen == {"id": "1", "tool": "Write", "arguments": {"file_path": "a.txt", "content": "x"}}
    ended = (tmp_path / "ended.jsonl").read_text(encoding="utf-8")
    assert '"status": "denied"' in ended and '"tool": "LS"' in ended


@pytest.mark.parametrize("text", ["", "Edit", "Edit:", ": true", "Edit||Write: true"])
def test_a_hook_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="TOOLS: COMMAND"):
        parse_hook(text)


def test_hooks_of_the_configuration_hold_for_a_run(place: Place) -> None:  # noqa: F811
    config = place.folder / "config" / "handrail" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[agent]\nbefore_call = ["Edit: echo ask me first; false"]\n', encoding="utf-8")
    server = place.serve(TODO)
    code, _, err = place.run(server, "run", "go", "--model", "scripted", "--mode", "accept-edits")
    assert code == 0 and "ask me first" in server.requests[2].results[0], err
    assert place.readme.read_text(encoding="utf-8") == "TODO one\nTODO two\n"
