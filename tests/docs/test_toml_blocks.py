"""Every block of TOML in README and docs is accepted by the code that reads such a file."""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from handrail import AgentSettings, Config, Root, Settings, load_config, parse_rules
from handrail.policy.files import load as load_rules
from tests.docs.pages import Block, blocks_of

CONFIG = {"settings.md", "agent.md", "fleet.md"}
POLICY = ("policy.md", "policy-reference.md")
RULES = {*POLICY, "checks-and-hooks.md"}
ELSEWHERE = {
    "mcp.md": "tests/mcp/test_http_start.py",  # started with these principals
    "dialects.md": "tests/test_dialect_docs.py",  # spoken
    "evaluation.md": "tests/agent/test_evaluation.py",  # done
}


def test_every_block_has_a_reader() -> None:
    assert {block.page for block in blocks_of("toml")} == CONFIG | RULES | set(ELSEWHERE)


def loaded(block: Block, folder: Path) -> Config:
    path = folder / "config.toml"
    path.write_text(block.text, encoding="utf-8")
    return replace(load_config({"HANDRAIL_CONFIG": str(path)}), path="")


def test_the_configurations_say_what_the_pages_say(tmp_path: Path) -> None:
    (page,) = blocks_of("toml", page="settings.md")
    assert loaded(page, tmp_path) == Config(Settings(hard_links="split"), (Root("/srv/shared", writable=False),))
    (fleet,) = blocks_of("toml", page="fleet.md")
    url = "postgresql://team_a_node@db.example/records?tenant=team_a"
    assert loaded(fleet, tmp_path) == Config(Settings(journal=url))
    (agent,) = blocks_of("toml", page="agent.md")
    assert loaded(agent, tmp_path) == Config(agent=AgentSettings("qwen3-coder", "chat", 262144, 0.2, 0.8))


def test_the_checks_and_hooks_say_what_the_page_says() -> None:
    (page,) = blocks_of("toml", page="checks-and-hooks.md")
    file = parse_rules(page.text)
    assert [check.glob for check in file.checks] == ["*.py", "*.{ts,tsx}", "*.go"]
    assert [(hook.event, len(hook.rules), hook.seconds) for hook in file.hooks] == [("before", 2, 60), ("after", 0, 10)]


@pytest.mark.parametrize("block", [block for page in POLICY for block in blocks_of("toml", page=page)], ids=str)
def test_rules_are_taken_from_every_file_that_may_hold_them(block: Block, tmp_path: Path) -> None:
    written = tomllib.loads(block.text)
    expected = len(written.get("rules", [])) + sum(map(len, written.get("permissions", {}).values()))
    assert len(parse_rules(block.text).rules) == expected > 0
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    own = home / ".config" / "handrail"
    own.mkdir(parents=True)
    for path in (own / "policy.toml", own / "approved.toml", project / "handrail.toml"):
        path.write_text(block.text, encoding="utf-8")
    environ = {"HOME": str(home)}
    files = load_rules(os.path.realpath(project), environ, str(tmp_path), system=str(tmp_path / "none.toml"))
    assert [len(file.rules) for file in files] == [expected] * 3
    assert [file.trusted for file in files] == [True, True, False]
