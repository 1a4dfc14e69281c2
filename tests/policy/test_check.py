"""Rules that can never decide anything are found, and those that can are not complained of."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.policy.check import find_ineffective_rules
from handrail.policy.guards import BuiltInPaths, load_built_in_rules
from handrail.shell.git.tracked_files import TrackedFiles
from tests.policy.tables import rules

ROOT, HOME = "/the {a,b} [root]*", "/the/home"


def _idle(*lines: str, trusted: bool = True) -> list[str]:
    file = rules(f"rules = {list(lines)!r}", "project", trusted=trusted)
    return [why for _, why in find_ineffective_rules([file], ROOT, HOME)]


NEVER = [
    (["deny Read(src/**)", "allow Read(src/a.py)"], "project.toml:1 decides first: deny Read(src/**)"),
    (["allow Read(src/a.py)", "deny Read(src/**)"], "project.toml:1 decides first: deny Read(src/**)"),
    (["deny Edit(*.sql)", "ask Edit(db/*.sql)"], "project.toml:1 decides first: deny Edit(*.sql)"),
    (["ask Read(docs/**)", "allow Read(docs/*/x/**)"], "project.toml:1 decides first: ask Read(docs/**)"),
    (["deny Read", "ask Read(x)"], "project.toml:1 decides first: deny Read"),
    (["ask Bash(git:*)", "allow Bash(git diff:*)"], "project.toml:1 decides first: ask Bash(git:*)"),
    (["deny Bash", "allow Bash(make)"], "project.toml:1 decides first: deny Bash"),
    (["allow Bash(make)", "allow Bash(make)"], "project.toml:1 decides first: allow Bash(make)"),
    (["deny Network", "allow Network(x.org)"], "project.toml:1 decides first: deny Network"),
]


@pytest.mark.parametrize(("lines", "why"), NEVER, ids=[" | ".join(row[0]) for row in NEVER])
def test_a_rule_that_never_decides_is_found(lines: list[str], why: str) -> None:
    assert _idle(*lines) == [why]


@pytest.mark.parametrize(
    "lines",
    [
        ["deny Read(src/a*)", "allow Read(src/*.py)"],
        ["deny Read(src/*.py)", "allow Read(src/**)"],
        ["deny Read(?.txt)", "allow Read(*.txt)"],
        ["deny Read(./x)", "allow Read(x)"],
        ["deny Edit(x)", "allow Read(x)"],
        ["deny Bash(git push:*)", "allow Bash(git:*)"],
        ["deny Bash(git push)", "allow Bash(git push:*)"],
        [
            "allow Read(.env)",
            "allow Read(certs/test.pem)",
            "deny Read([!a]b)",
            "ask Read(~/x/*)",
            "deny Read(//etc/**)",
        ],
        ["allow Network(x.org)", "deny Network(y.org)"],
    ],
    ids=" | ".join,
)
def test_a_rule_that_may_decide_is_not_complained_of(lines: list[str]) -> None:
    assert _idle(*lines) == []


def test_rules_that_do_not_count_are_named() -> None:
    assert _idle("allow Edit(src/**)", trusted=False) == ["the file is not trusted; run `handrail policy trust`"]
    system = rules("locked = true", "system")
    user = rules("rules = ['allow Edit(src/**)', 'deny Read(x)']", "user")
    assert [why for _, why in find_ineffective_rules([system, user], ROOT, HOME)] == [
        "the system file is locked: other files cannot allow more"
    ]


def test_the_examples_of_the_built_in_rules_hold() -> None:
    asked = BuiltInPaths([ROOT], HOME, TrackedFiles())
    seen = 0
    for guard in load_built_in_rules():
        for examples, wanted in ((guard.match, True), (guard.not_match, False)):
            for example in examples:
                seen += 1
                path = str(Path(HOME, example[2:]) if example.startswith("~/") else Path(ROOT, example))
                for action in guard.actions:
                    assert (guard in asked.all(action, path)) is wanted, (guard.text, example)
    assert seen > 20
