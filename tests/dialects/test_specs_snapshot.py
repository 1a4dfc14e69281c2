"""What models are told is written down in each dialect's folder, is current, and costs no more than it may."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from handrail import dialects
from handrail.dialects import snapshot

MOST_TOKENS = 1500


@pytest.mark.parametrize("name", dialects.names())
def test_the_file_of_every_dialect_says_what_its_tools_say_now(name: str) -> None:
    path = dialects.HERE / name / snapshot.FILE
    assert path.is_file(), f"run `{snapshot.RENEW}` (or `make specs`)"
    written = path.read_text(encoding="utf-8")
    assert written == snapshot.text(dialects.load(name)), f"run `{snapshot.RENEW}` (or `make specs`), and read the diff"


@pytest.mark.parametrize("name", dialects.names())
def test_the_file_holds_every_tool_with_its_schema_hints_and_place(name: str) -> None:
    found = json.loads((dialects.HERE / name / snapshot.FILE).read_text(encoding="utf-8"))
    dialect = dialects.load(name)
    assert found["dialect"] == name
    assert [tool["name"] for tool in found["tools"]] == list(dialect.entries)
    for tool in found["tools"]:
        spec = dialect.spec(tool["name"])
        assert tool["id"] == dialect.entries[tool["name"]].id
        assert (tool["description"], tool["inputSchema"]) == (spec.description, spec.schema)
        assert set(tool["hints"]) == {"read_only", "destructive", "idempotent", "open_world"}
        assert tool["hints"]["read_only"] == spec.hints.read_only
        assert tool["core"] == (tool["name"] in dialect.core)
    assert any(tool["core"] for tool in found["tools"])


def test_a_changed_file_is_named_and_then_renewed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in dialects.names():
        (tmp_path / name).mkdir()
        shutil.copy(dialects.HERE / name / snapshot.FILE, tmp_path / name / snapshot.FILE)
    assert snapshot.main(["--check"], tmp_path) == 0
    changed = tmp_path / "native" / snapshot.FILE
    changed.write_text(changed.read_text(encoding="utf-8").replace("Reads", "Reeds"), encoding="utf-8")
    (tmp_path / "claude" / snapshot.FILE).unlink()
    assert snapshot.main(["--check"], tmp_path) == 1
    told = capsys.readouterr().err
    assert "native" in told and "claude" in told and "codex" not in told and snapshot.RENEW in told
    assert snapshot.main([], tmp_path) == 0
    assert snapshot.main(["--check"], tmp_path) == 0
    assert changed.read_bytes() == (dialects.HERE / "native" / snapshot.FILE).read_bytes()


def test_another_word_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert snapshot.main(["--chekc"], tmp_path) == 2
    assert "usage" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_the_default_set_of_native_has_what_every_coding_agent_needs() -> None:
    core = dialects.load("native").core
    assert {"Read", "Write", "Edit", "Glob", "Grep", "LS", "Bash", "BashOutput", "BashKill"} <= set(core)


def test_the_default_set_of_native_fits_in_its_budget() -> None:
    found = json.loads((dialects.HERE / "native" / snapshot.FILE).read_text(encoding="utf-8"))
    shown = [
        {key: tool[key] for key in ("name", "description", "inputSchema")} for tool in found["tools"] if tool["core"]
    ]
    chars = sum(len(json.dumps(tool, ensure_ascii=False, separators=(",", ":"))) for tool in shown)
    assert chars / 4 <= MOST_TOKENS


def test_a_core_that_names_no_tool_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tools.toml").write_text('core = ["cta"]\n[tools.cat]\nid = "read"\n', encoding="utf-8")
    (tmp_path / "messages.toml").write_text("", encoding="utf-8")
    with pytest.raises(dialects.DialectError, match="cta"):
        dialects.load(str(tmp_path))
