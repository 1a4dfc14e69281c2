"""The start-up specs of each dialect are built: into a wheel, and beside the sources of an editable install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from handrail import dialects
from handrail.mcp import build_specs, tool_list

MOST_TOKENS = 1500
ROOT = Path(__file__).parents[2]


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of dialects to build into, with files of its own that count as sources."""
    for name in dialects.names():
        (tmp_path / name).mkdir()
        (tmp_path / name / "tools.toml").touch()
    monkeypatch.setattr(tool_list, "_DIALECTS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", dialects.names())
def test_specs_hold_every_tool_with_its_schema_hints_and_place(name: str) -> None:
    dialect = dialects.load(name)
    tools = dialect.plain_specs()
    assert [tool["name"] for tool in tools] == list(dialect.entries)
    for tool in tools:
        spec = dialect.spec(tool["name"])
        assert tool["id"] == dialect.entries[tool["name"]].id
        assert (tool["description"], tool["inputSchema"]) == (spec.description, spec.schema)
        assert set(tool["hints"]) == {"read_only", "destructive", "idempotent", "open_world"}
        assert tool["hints"]["read_only"] == spec.hints.read_only
        assert tool["core"] == (tool["name"] in dialect.core)
    assert any(tool["core"] for tool in tools)


def test_a_built_file_is_read_until_one_of_its_sources_changes(sources: Path) -> None:
    build_specs.build(sources, trusted=False)
    path = sources / "native" / "specs.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"Read"', '"Built"'), encoding="utf-8")
    assert "Built" in [spec["name"] for spec in tool_list.list_specs("native")]
    os.utime(sources / "native" / "tools.toml", ns=(2**62, 2**62))
    assert "Read" in [spec["name"] for spec in tool_list.list_specs("native")]


def test_a_file_of_a_wheel_is_read_whatever_the_times_are(sources: Path) -> None:
    build_specs.build(sources, trusted=True)
    path = sources / "native" / "specs.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"Read"', '"Built"'), encoding="utf-8")
    os.utime(sources / "native" / "tools.toml", ns=(2**62, 2**62))
    assert "Built" in [spec["name"] for spec in tool_list.list_specs("native")]


@pytest.mark.parametrize("content", [None, "", "{", "{}", "[]"])
def test_without_a_usable_file_the_dialect_is_loaded(sources: Path, content: str | None) -> None:
    if content is not None:
        (sources / "native" / "specs.json").write_text(content, encoding="utf-8")
    assert "Read" in [spec["name"] for spec in tool_list.list_specs("native")]


def test_a_dialect_of_ones_own_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "tools.toml").write_text('[tools.Look]\nid = "read"\n', encoding="utf-8")
    (tmp_path / "specs.json").write_text('{"tools": [{"name": "Old", "core": true}]}', encoding="utf-8")
    assert [spec["name"] for spec in tool_list.list_specs(str(tmp_path))] == ["Look"]


def test_building_takes_no_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build_specs.main(["--check"], tmp_path) == 2
    assert "usage" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_a_wheel_holds_the_specs_of_every_dialect(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in dialects.names():
            built = json.loads(archive.read(f"handrail/dialects/{name}/specs.json"))
            tools = json.loads(json.dumps(dialects.load(name).plain_specs()))
            assert built == {"dialect": name, "tools": tools}


def test_the_default_set_of_native_has_what_every_coding_agent_needs() -> None:
    core = dialects.load("native").core
    assert {"Read", "Write", "Edit", "Glob", "Grep", "LS", "Bash", "BashOutput", "BashKill"} <= set(core)


def test_the_default_set_of_native_fits_in_its_budget() -> None:
    shown = [
        {key: tool[key] for key in ("name", "description", "inputSchema")}
        for tool in dialects.load("native").plain_specs()
        if tool["core"]
    ]
    chars = sum(len(json.dumps(tool, ensure_ascii=False, separators=(",", ":"))) for tool in shown)
    assert chars / 4 <= MOST_TOKENS
