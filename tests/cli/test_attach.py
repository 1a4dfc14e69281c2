"""`handrail attach` and `detach`: settings in the agents' own files, made and taken back byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handrail.cli import main
from handrail.cli.attached_clients import list_attachable, list_attached

FILES = {name: [one["user"][0] for one in kind.attach] for name, kind in list_attachable().items()}
TEXTS = {
    ".json": ["{}\n", '{ "hooks": {"PreToolUse": [ {"matcher": "x"} ]},\n\t"other": [1, 2] }'],
    ".toml": ["# mine\n", '[shell_environment_policy.set]\nA = "b"  # kept\n\n[features]\nx = true\n'],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HANDRAIL_STATE", str(tmp_path / "state"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def locate(home: Path, name: str) -> list[Path]:
    return [home / path.removeprefix("~/") for path in FILES[name]]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("number", [None, 0, 1])
def test_detach_restores_every_file_byte_for_byte(home: Path, name: str, number: int | None) -> None:
    before: dict[Path, str | None] = {}
    for path in locate(home, name):
        before[path] = None if number is None else TEXTS[path.suffix][number]
        if number is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(TEXTS[path.suffix][number], encoding="utf-8")
    assert main(["attach", name]) == 0
    assert list_attached() == [list_attachable()[name].name]
    assert all(path.read_text(encoding="utf-8") != text for path, text in before.items())
    assert main(["attach", name]) == 0  # once more changes nothing
    assert main(["detach", name]) == 0
    assert {path: path.read_text(encoding="utf-8") if path.exists() else None for path in before} == before
    assert list_attached() == []


@pytest.mark.parametrize(
    "text",
    [
        '[shell_environment_policy.set]\nBASH_ENV = "/mine"\n',
        '[shell_environment_policy]\nset = { A = "b" }\n',
        "[broken",
    ],
)
def test_what_stands_in_the_way_leaves_every_file_as_it_is(
    home: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    hooks, config = locate(home, "codex")
    config.parent.mkdir()
    config.write_text(text, encoding="utf-8")
    assert main(["attach", "codex"]) == 1
    assert str(config) in capsys.readouterr().err
    assert (config.read_text(encoding="utf-8"), hooks.exists()) == (text, False)


def test_the_hooks_of_codex_need_its_persons_trust(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attach", "codex"]) == 0
    assert "once you trust them" in capsys.readouterr().out
    hooks = json.loads(locate(home, "codex")[0].read_text(encoding="utf-8"))["hooks"]
    assert hooks["PreToolUse"][0]["matcher"] == "Bash|apply_patch"


def test_an_agent_that_has_no_hooks_cannot_be_attached(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attach", "zed"]) == 2
    assert "these can: claude, codex" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("matcher", "is_named"), [("Bash", True), ("", True), ("*", True), ("Ba.*|x", True), ("Edit", False)]
)
def test_another_hook_that_may_rewrite_commands_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], matcher: str, is_named: bool
) -> None:
    (path,) = locate(home, "claude")
    path.parent.mkdir()
    group = {"matcher": matcher, "hooks": [{"type": "command", "command": "/their/hook"}]}
    path.write_text(json.dumps({"hooks": {"PreToolUse": [group]}}), encoding="utf-8")
    assert main(["attach", "claude"]) == 0
    assert ("Another hook sees its commands: /their/hook." in capsys.readouterr().out) is is_named
