"""Searches and listings count what rules keep from the model, and do not claim that all was looked at."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from handrail import Session, Setup
from handrail.policy.files import parse
from handrail.search import ripgrep
from tests import sizes

Make = Callable[..., Session]

SECRETS = (
    *(".env", ".env.local", "prod.env", "server.pem", "a.key", "id_rsa", ".npmrc", "token.json", ".aws/config"),
    *(".env~", ".bash_history", "main.tfstate"),
)
DENIED = ("private/a.txt", "notes.secretly", "deep/private/b.txt")
IGNORED = ("drafts/c.txt", "plan.draft")
PLACES = ("", "sub/", "sub/deep/")
RULES = 'rules = ["deny Read(private)", "deny Read(*.secretly)"]'
TOOLS = ("Grep", "Grep without ripgrep", "Glob", "LS")


def cases() -> list[tuple[str, str, str]]:
    return list(product(TOOLS, PLACES, (*SECRETS, *DENIED, *IGNORED)))


def test_there_are_enough_cases() -> None:
    assert len(set(cases())) >= 200


@pytest.mark.parametrize(("tool", "place", "name"), sizes.spread(cases(), 60))
def test_what_rules_withhold_is_counted(
    make_session: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, place: str, name: str
) -> None:
    for path in ("plain.txt", "sub/deep/plain.txt", place + name):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("needle\n", encoding="utf-8")
    (tmp_path / ".handrailignore").write_text("drafts\n*.draft\n", encoding="utf-8")
    if tool == "Grep" and ripgrep.find_program() is None:
        pytest.skip("no ripgrep here")
    if tool.endswith("without ripgrep"):
        monkeypatch.setenv("HANDRAIL_RG", "")
    rules = [parse(RULES, "policy.toml", "user", str(tmp_path))]
    session = make_session(mode="accept-edits", setup=Setup(rules=rules))
    arguments = {
        "Grep": {"pattern": "needle", "include_hidden": True},
        "Glob": {"pattern": "**/*.nothing", "include_hidden": True},
        "LS": {"path": ".", "depth": 5, "include_hidden": True},
    }[tool.split()[0]]
    result = session.call(tool.split()[0], arguments)
    assert result.data["receipt"]["skipped"]["withheld"] == 1, result.text
    assert "1 hidden by policy" in result.text
    assert "searched all" not in result.text
    assert place + name not in result.text


def test_nothing_withheld_is_not_mentioned(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("needle\n", encoding="utf-8")
    session = make_session(mode="accept-edits")
    for tool, arguments in (("Grep", {"pattern": "nothing"}), ("Glob", {"pattern": "*.nothing"}), ("LS", {})):
        assert "withheld" not in session.call(tool, arguments).text
    assert "searched all" in session.call("Glob", {"pattern": "*.nothing"}).text


@pytest.mark.parametrize("contents", ["needle\n", "other\n"])
def test_the_count_says_nothing_about_contents(make_session: Make, tmp_path: Path, contents: str) -> None:
    """Of a file that only an ignore file further down names: the answer is the same, whatever is in the file."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.aiignore").write_text("x.txt\n!y.txt\n", encoding="utf-8")
    (tmp_path / "sub/x.txt").write_text(contents, encoding="utf-8")
    result = make_session(mode="accept-edits").call("Grep", {"pattern": "needle"})
    assert result.data["receipt"]["skipped"].get("withheld", 0) == 0 and "x.txt" not in result.text
