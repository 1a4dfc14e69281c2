"""`handrail attach` and `detach`: settings in the agents' own files, made and taken back byte for byte."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import programs
from handrail.cli import main
from handrail.cli.attached_clients import list_attachable, list_attached
from tests.drafts.machine import find_obstacle

FILES = {name: [one["user"][0] for one in kind.attach] for name, kind in list_attachable().items()}
SKILLS = {name: kind.skill["user"][0].removeprefix("~/") for name, kind in list_attachable().items()}
TEXTS = {
    ".json": ["{}\n", '{ "hooks": {"PreToolUse": [ {"matcher": "x"} ]},\n\t"other": [1, 2] }'],
    ".toml": ["# mine\n", '[shell_environment_policy.set]\nA = "b"  # kept\n\n[features]\nx = true\n'],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HANDRAIL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def locate(home: Path, name: str) -> list[Path]:
    return [home / path.removeprefix("~/") for path in FILES[name]]


def read_all(home: Path) -> dict[Path, bytes | None]:
    """The files and directories of the home directory, without Handrail's own."""
    paths = (path for path in home.rglob("*") if home / "state" not in (path, *path.parents))
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("number", [None, 0, 1])
def test_detach_restores_every_file_byte_for_byte(home: Path, name: str, number: int | None) -> None:
    places = locate(home, name)
    for path in places if number is not None else ():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEXTS[path.suffix][number or 0], encoding="utf-8")
    before = read_all(home)
    assert main(["attach", name]) == 0
    assert list(list_attached()) == [name]
    attached = read_all(home)
    assert all(attached[path] != before.get(path) for path in places)
    assert [path for path in attached if path.name == "SKILL.md"] == [home / SKILLS[name]]
    assert main(["attach", name]) == 0  # once more changes nothing
    assert read_all(home) == attached
    assert main(["detach", name]) == 0
    assert read_all(home) == before
    assert not list_attached()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_skill_of_the_persons_own_is_left_alone(home: Path, when: str) -> None:
    skill = home / SKILLS["claude"]
    if when == "after":
        assert main(["attach", "claude"]) == 0
    skill.parent.mkdir(parents=True, exist_ok=True)
    skill.write_text("mine\n", encoding="utf-8")
    assert main(["attach", "claude"]) == 0
    assert main(["detach", "claude"]) == 0
    assert skill.read_text(encoding="utf-8") == "mine\n"


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
    assert "not run" in (shown := capsys.readouterr().out) and "answer its question about new hooks" in shown
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
    path = locate(home, "claude")[0]
    path.parent.mkdir()
    group = {"matcher": matcher, "hooks": [{"type": "command", "command": "/their/hook"}]}
    path.write_text(json.dumps({"hooks": {"PreToolUse": [group]}}), encoding="utf-8")
    assert main(["attach", "claude"]) == 0
    assert ("Another hook sees its commands: /their/hook." in capsys.readouterr().out) is is_named


_AGENT = """\
    #!{python}
    # An agent that asks the model once, and runs the command that it gets.
    import json, os, re, subprocess, sys, urllib.request
    wraps, runs = {facts!r}
    body = json.dumps({{"tools": [{{"name": "Bash"}}], "messages": []}}).encode()
    post = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body)
    stream = urllib.request.urlopen(post).read().decode()
    parts = [json.loads(part) for part in re.findall('"partial_json": (".*?[^\\\\\\\\]")', stream)]
    command = json.loads("".join(parts))["command"]
    settings = json.load(open(os.path.expanduser("~/.claude/settings.json")))
    event = {{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": os.getcwd(), "tool_name": "Bash",
             "tool_input": {{"command": command}}, "tool_use_id": "1"}}
    words = ["bash", "-c", command]
    if wraps:
        plugin = json.load(open(os.path.expanduser("~/.claude/skills/handrail/hooks/hooks.json")))
        hook = plugin["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
        subprocess.run(hook, shell=True, input=json.dumps(event).encode(), check=True)
        snapshot = "/x/shell-snapshots/snapshot-bash-1.sh"
        text = f"source {{snapshot}} 2>/dev/null || true && eval '{{command}}' && pwd -P >| cwd"
        words = [settings["env"]["CLAUDE_CODE_SHELL_PREFIX"], text]
    if runs:
        sys.exit(subprocess.run(words).returncode)
    print("I may not")
"""


@pytest.fixture
def helper_ends(home: Path) -> Iterator[None]:
    """End the helper that a probe has started."""
    yield
    with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
        os.kill(int((home / "state" / "attach" / "lock").read_text(encoding="utf-8")), signal.SIGTERM)


@pytest.mark.usefixtures("helper_ends")
@pytest.mark.parametrize(
    ("wraps", "runs", "outcome"),
    [
        (True, True, "its commands run in drafts, and can be undone"),
        (False, True, "its command ran without Handrail: this version does not use the hooks"),
        (True, False, "it did not run the command: I may not"),
    ],
)
def test_attach_and_doctor_try_the_installed_agent(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wraps: bool,
    runs: bool,
    outcome: str,
) -> None:
    if wraps and (why := find_obstacle()):
        pytest.skip(f"no command can run in a draft here: {why}")
    monkeypatch.setattr(programs, "_distrusted", {})
    program = home / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(textwrap.dedent(_AGENT).format(python=sys.executable, facts=(wraps, runs)), encoding="utf-8")
    program.chmod(0o755)
    assert main(["attach", "claude"]) == 0
    assert f"Test of Claude Code: {outcome}." in capsys.readouterr().out
    project = home / "project"
    project.mkdir()
    monkeypatch.setattr(programs, "_distrusted", {})  # as in a new process
    main(["doctor", "-w", str(project), "--json"])
    checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert {name: checks["attached Claude Code"][name] for name in ("ok", "detail")} == {
        "ok": wraps and runs,
        "detail": outcome,
    }
