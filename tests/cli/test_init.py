"""`handrail init`: it proposes what the project names, writes nothing without a yes, and is undone."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from handrail import Session
from handrail.cli.project_commands import find_commands
from handrail.policy.files import load
from tests.command import handrail


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "Makefile").write_text(
        "VAR := x\ntest: build\n\tpytest\nbuild:\n\tcc a.c\ndeploy:\n\tscp\nclean:\n\trm -rf out\n", encoding="utf-8"
    )
    return project


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "HANDRAIL_STATE": str(tmp_path / "state"), "PATH": str(tmp_path / "bin")}


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def install(tmp_path: Path, name: str) -> None:
    program = tmp_path / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("words", [[], ["--dry-run"], ["--json"]])
def test_nothing_is_written_without_a_yes(
    tmp_path: Path, project: Path, variables: dict[str, str], words: list[str]
) -> None:
    install(tmp_path, "claude")
    before = snapshot(project), snapshot(tmp_path / "home")
    completed = handrail("init", *words, cwd=project, variables=variables)
    assert completed.returncode == 0
    text = completed.stdout.decode("utf-8")
    assert "make test" in text and "make build" in text and "Claude Code" in text
    assert "deploy" not in text and "clean" not in text
    assert (snapshot(project), snapshot(tmp_path / "home")) == before


def test_a_yes_writes_rules_that_hold_at_once_and_undo_removes_them(
    tmp_path: Path, project: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "claude")
    before = snapshot(project), snapshot(tmp_path / "home")
    completed = handrail("init", "--yes", cwd=project, variables=variables)
    assert (completed.returncode, completed.stderr) == (0, b"")
    assert "handrail detach claude\n    handrail init --undo\n" in completed.stdout.decode("utf-8")
    plugin = tmp_path / "home" / ".claude" / "skills" / "handrail" / "hooks" / "hooks.json"
    assert "PreToolUse" in json.loads(plugin.read_text(encoding="utf-8"))["hooks"]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with Session(project, mode="ask") as session:
        assert session.prepare("Bash", {"command": "make test"}).verdict.decision == "allow"
        assert session.prepare("Bash", {"command": "make deploy"}).verdict.decision == "ask"
    again = handrail("init", cwd=project, variables=variables)
    assert again.stdout.startswith(b"Nothing to propose")
    for words in (["init", "--undo"], ["detach", "claude"]):
        assert handrail(*words, cwd=project, variables=variables).returncode == 0
    assert (snapshot(project), snapshot(tmp_path / "home")) == before


def test_clients_without_hooks_and_those_that_use_our_tools_get_mcp(
    tmp_path: Path, project: Path, variables: dict[str, str]
) -> None:
    for name in ("claude", "codex", "crush"):
        install(tmp_path, name)
    assert handrail("mcp", "install", "codex", cwd=project, variables=variables).returncode == 0
    shown = json.loads(handrail("init", "--json", cwd=project, variables=variables).stdout)
    assert [one["name"] for one in shown["proposals"]] == ["attach claude", "rules", "client crush"]


@pytest.mark.parametrize("words", [["init", "--yes"], ["policy", "trust", "--sha256"]])
def test_rules_are_trusted_in_the_state_directory_of_the_configuration(
    tmp_path: Path, project: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Sessions look there, and nowhere else."""
    config = tmp_path / "config.toml"
    config.write_text(f'[settings]\nstate = "{tmp_path / "another"}"\n', encoding="utf-8")
    variables = {**variables, "HANDRAIL_CONFIG": str(config)}
    if words[0] == "policy":
        rules = b'rules = ["allow Bash(make test)"]\n'
        (project / "handrail.toml").write_bytes(rules)
        words = [*words, hashlib.sha256(rules).hexdigest()]
    assert handrail(*words, cwd=project, variables=variables).returncode == 0
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with Session(project, mode="ask") as session:
        assert session.prepare("Bash", {"command": "make test"}).verdict.decision == "allow"


def test_rules_that_somebody_has_changed_since_are_not_removed(project: Path, variables: dict[str, str]) -> None:
    assert handrail("init", "--yes", cwd=project, variables=variables).returncode == 0
    file = project / "handrail.toml"
    file.write_text(file.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    completed = handrail("init", "--undo", cwd=project, variables=variables)
    assert completed.returncode == 1 and b"has changed since" in completed.stderr
    assert file.exists()


def test_undo_without_an_init_says_so(project: Path, variables: dict[str, str]) -> None:
    completed = handrail("init", "--undo", cwd=project, variables=variables)
    assert completed.returncode == 1 and b"has written no rules" in completed.stderr


@pytest.mark.parametrize(
    ("files", "patterns"),
    [
        ({"package.json": '{"scripts": {"test": "x", "test:unit": "x", "deploy": "x", "build:deploy": "x"}}'}, 2),
        ({"package.json": '{"scripts": {"lint": "x"}}', "pnpm-lock.yaml": ""}, ["pnpm run lint"]),
        ({"package.json": '{"scripts": {"te st": "x", "lint)": "x", "lint\\n": "x"}}'}, []),
        ({"package.json": "[" * 100_000}, []),
        ({"package.json": '{"scripts": ["test"]}'}, []),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n[tool.mypy]\n"}, ["pytest *", "python -m pytest *", "mypy *"]),
        ({"pyproject.toml": "not toml"}, []),
        ({"go.mod": "module x\n"}, ["go build ./...", "go test ./...", "go vet ./..."]),
        ({"Cargo.toml": ""}, 5),
        ({"justfile": "test name='x':\n  echo\nlint := 'x'\n"}, ["just test"]),
        ({"Makefile": "TEST := x\n.PHONY: test\ncheck::\n\tx\nlint:=x\nfmt : a\n"}, ["make fmt"]),
    ],
)
def test_commands_are_those_that_the_files_name(
    tmp_path: Path, files: dict[str, str], patterns: list[str] | int
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    commands = [command.pattern for command in find_commands(os.fspath(tmp_path))]
    assert len(commands) == patterns if isinstance(patterns, int) else commands == patterns


def test_checks_are_proposed_beside_the_rules_and_both_hold(
    tmp_path: Path, project: Path, variables: dict[str, str]
) -> None:
    (project / "pyproject.toml").write_text("[tool.ruff]\n", encoding="utf-8")
    (project / "tsconfig.json").write_text("{}\n", encoding="utf-8")
    shown = handrail("init", "--dry-run", cwd=project, variables=variables).stdout.decode("utf-8")
    assert "*.py: ruff check --output-format concise {files}   (from pyproject.toml)" in shown
    assert handrail("init", "--yes", cwd=project, variables=variables).returncode == 0
    (file,) = load(str(project), variables, variables["HANDRAIL_STATE"], system=str(tmp_path / "none.toml"))
    assert file.trusted and len(file.checks) == 2 and len(file.rules) > 2
    assert handrail("init", "--undo", cwd=project, variables=variables).returncode == 0
    assert not (project / "handrail.toml").exists()
