"""`handrail config`: every setting with its origin and meaning, and changes that never leave an invalid file."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from handrail.cli import main
from handrail.settings import AgentSettings, Settings, describe_fields
from handrail.settings.config_file import load


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "below" / "config.toml"
    monkeypatch.setenv("HANDRAIL_CONFIG", str(path))
    monkeypatch.setenv("HANDRAIL_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("HANDRAIL_MODEL", raising=False)
    return path


def run(capfd: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["config", *words]) == code
    out, err = capfd.readouterr()
    return out if code == 0 else err


def test_every_setting_is_listed_with_value_origin_and_meaning(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(capfd, "set", "hard_links", "split")
    listed = json.loads(run(capfd, "--json"))
    keys = [f"settings.{field.name}" for field in fields(Settings)]
    keys += [f"agent.{field.name}" for field in fields(AgentSettings)]
    assert list(listed) == keys
    assert listed["settings.hard_links"]["value"] == "split"
    assert listed["settings.hard_links"]["origin"] == f"{path}:2"
    assert listed["settings.durable"]["origin"] == "default"
    assert listed["settings.state"]["origin"] == "$HANDRAIL_STATE"
    text = run(capfd)
    for kind in (Settings, AgentSettings):
        for name, meaning in describe_fields(kind).items():
            assert f"\n{name} = " in text
            assert meaning in text


def test_values_are_given_as_a_person_types_them(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for key, word, value in (
        ("durable", "false", False),
        ("settings.read_seconds", "2.5", 2.5),
        ("keep_env", "A, B_*", ("A", "B_*")),
        ("redact_patterns", '["a,b"]', ("a,b",)),
        ("most_processes", "7", 7),
        ("legacy_encoding", "cp1252", "cp1252"),
    ):
        run(capfd, "set", key, word)
        assert getattr(load({"HANDRAIL_CONFIG": str(path)}).settings, key.rpartition(".")[2]) == value
    run(capfd, "set", "agent.model", "true")
    assert load({"HANDRAIL_CONFIG": str(path)}).agent.model == "true"
    assert run(capfd, "get", "model") == '"true"\n'
    run(capfd, "unset", "durable")
    assert load({"HANDRAIL_CONFIG": str(path)}).settings.durable
    assert run(capfd, "check") == f"{path} is valid\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("set", "sandbox", "docker"), 'settings.sandbox: must be one of "auto"'),
        (("set", "durable", "maybe"), "settings.durable: must be true or false"),
        (("set", "redact_patterns", "("), "is not a regular expression"),
        (("set", "durabel", "true"), "did you mean durable?"),
        (("get", "roots"), "[[roots]]"),
        (("set", "durable"), "set takes a KEY and a VALUE"),
        (("put", "durable"), "the actions are list, get, set, unset, check, path"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(
    path: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert message in run(capfd, *words, code=2)
    assert not path.exists()


def test_a_broken_file_is_reported_and_left_alone(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path.parent.mkdir()
    path.write_text("[settings]\ndurable = maybe\n", encoding="utf-8")
    for words in (("check",), ("set", "durable", "true"), ()):
        assert "not valid TOML" in run(capfd, *words, code=2)
    assert path.read_text(encoding="utf-8") == "[settings]\ndurable = maybe\n"
