"""What every mode says where no rule of a file speaks: one table, a row a touch, a column a mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail.model import Action, FileAccess
from handrail.policy.modes import MODES
from tests.policy.tables import access, policy, rules

COLUMNS = ("read-only", "ask", "accept-edits", "accept-edits, held", "full", "deny-asks")
# Every letter is a verdict: (a)llow, as(k), (d)eny, in the order of the columns.
TABLE: list[tuple[str, str, str, dict[str, Any]]] = [
    ("aaaaaa", "read", "src/a.py", {}),
    ("aaaaaa", "read", "/usr/include/stdio.h", {"by_command": True}),
    ("dkaaad", "write", "src/a.py", {}),
    ("dkaaad", "write", "src/a.py", {"by_command": True}),
    ("dkaaad", "delete", "src/a.py", {}),
    ("dkkkad", "delete", "src/a.py", {"by_command": True}),
    ("dkkkkd", "write", "/usr/local/bin/x", {"by_command": True}),
    ("dkkkkd", "delete", "/usr/local/bin/x", {"by_command": True}),
    ("dkkakd", "write", "/tmp/x", {"by_command": True}),
    ("aaaaaa", "write", "/dev/null", {"by_command": True}),
    ("dkkkkd", "delete", "/dev/null", {"by_command": True}),
    ("dkkkkd", "delete", ".", {"by_command": True}),
    ("dkkkkd", "delete", "/", {"by_command": True}),
    ("aaaaaa", "run", "git diff", {"tier": "read_only"}),
    ("dkkaad", "run", "pytest -q", {"tier": "ordinary"}),
    ("dkkaad", "run", "pytest -q", {}),
    ("dkkkad", "run", "git reset --hard", {"tier": "ordinary", "undoable": True}),
    ("dkkkad", "run", "cat $FILE", {"tier": "read_only", "doubt": "a variable"}),
    ("dddddd", "run", "shred $FILE", {"tier": "destructive", "doubt": "a variable"}),
    ("dkkkad", "network", "https://example.org/x", {}),
    # secrets, whoever does it and however they are spelled
    *[
        ("dddddd", action, path, {"by_command": by_command})
        for action in ("read", "write")
        for by_command in (False, True)
        for path in (".env", "a/.env.local", ".ENV", "x/Server.PEM", "id_ed25519", ".ssh/known_hosts", "x/secrets.yaml")
    ],
    ("dkkkkd", "delete", ".env", {}),
    ("aaaaaa", "read", ".env.example", {}),
    ("dkaaad", "write", ".env.template", {}),
    ("aaaaaa", "read", "id_rsa.pub", {}),
    ("aaaaaa", "read", "src/secrets.py", {}),
    # protected paths
    ("aaaaaa", "read", ".git/config", {}),
    ("dkkkkd", "write", ".git/hooks/pre-commit", {}),
    ("dkkkkd", "write", "sub/.GIT/config", {}),
    ("dkkkkd", "delete", ".git", {"by_command": True}),
    ("dkkkkd", "write", "handrail.toml", {}),
    ("dkkkkd", "write", ".handrailignore", {}),
    ("dkkkkd", "write", ".claude/settings.json", {"by_command": True}),
    ("dkkkkd", "write", ".cursor/rules/x.md", {}),
    ("dkkkkd", "write", ".vscode/tasks.json", {}),
    ("dkaaad", "write", ".vscode/extensions.json", {}),
    ("dkkkkd", "write", ".github/workflows/ci.yml", {}),
    ("dkaaad", "write", "AGENTS.md", {}),
]  # fmt: skip


@pytest.mark.parametrize("row", TABLE, ids=lambda row: " ".join([row[1], row[2], *map(str, row[3].values())]))
def test_every_mode_says_what_the_table_says(tmp_path: Path, row: tuple[str, Any, str, dict[str, Any]]) -> None:
    letters, action, target, more = row
    verdicts = ""
    for column in COLUMNS:
        judge = policy(tmp_path, column.removesuffix(", held"), confined=column.endswith("held"))
        decision = judge.judge([access(tmp_path, action, target, **more)]).decision
        verdicts += {"allow": "a", "ask": "k", "deny": "d"}[decision]
    assert verdicts == letters, dict(zip(COLUMNS, verdicts, strict=True))


def test_the_strictest_of_several_touches_decides(tmp_path: Path) -> None:
    judge = policy(tmp_path)
    read, write = access(tmp_path, "read", "a"), access(tmp_path, "write", "a")
    secret = access(tmp_path, "read", ".env")
    assert judge.judge([]).decision == "allow"
    assert judge.judge([read]).decision == "allow"
    assert judge.judge([read, write, read]).decision == "ask"
    assert judge.judge([write, secret, read]).rule == "secrets"


def test_the_mode_without_questions_says_that_nobody_is_asked(tmp_path: Path) -> None:
    verdict = policy(tmp_path, "deny-asks").judge([access(tmp_path, "write", "a.py")])
    assert verdict.decision == "deny" and verdict.why.endswith("this mode does not ask")
    assert verdict.allow == f"allow Edit(/{tmp_path.resolve()}/a.py)"


def test_the_boundary_is_only_asked_for_when_it_decides(tmp_path: Path) -> None:
    from handrail.policy.judge import Machine, RulePolicy
    from handrail.workspace import Root

    asked: list[int] = []
    judge = RulePolicy([Root(str(tmp_path))], "accept-edits", machine=Machine(lambda: bool(asked.append(1)) or True))
    actions: tuple[Action, ...] = ("read", "write", "delete")
    for action in actions:
        judge.judge([access(tmp_path, action, "a")])
    assert asked == []
    assert judge.judge([access(tmp_path, "run", "make", tier="ordinary")]).decision == "allow" and asked == [1]


@pytest.mark.parametrize("mode", MODES)
def test_a_read_only_root_is_outside_for_commands(tmp_path: Path, mode: Any) -> None:
    from handrail.policy.judge import RulePolicy
    from handrail.workspace import Root

    home, notes = tmp_path / "home", Path("/usr/share")
    judge = RulePolicy([Root(str(home)), Root(str(notes), writable=False)], mode)
    assert judge.judge([access(notes, "write", "x", by_command=True)]).decision in ("ask", "deny")


def test_no_rule_loosens_the_read_only_mode(tmp_path: Path) -> None:
    loose = rules(
        'rules = ["allow Edit", "allow Bash", "ask Delete", "allow Network", "ask Edit(a)", "allow Bash(rm x)"]'
    )
    judge = policy(tmp_path, "read-only", loose)
    for one in (
        access(tmp_path, "write", "a"),
        access(tmp_path, "delete", "a"),
        access(tmp_path, "run", "make", tier="ordinary"),
        access(tmp_path, "run", "rm x", tier="destructive"),
        access(tmp_path, "network", "example.org"),
    ):
        verdict = judge.judge([one])
        assert (verdict.decision, verdict.allow) == ("deny", ""), one


def test_a_secret_behind_a_link_is_a_secret_by_either_name(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1\n", encoding="utf-8")
    (tmp_path / "notes.txt").symlink_to(".env")
    (tmp_path / "plain").write_text("KEY=2\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".env").symlink_to("../plain")
    (tmp_path / ".ssh").symlink_to("sub")
    judge = policy(tmp_path, "full")
    for named in ("notes.txt", "sub/.env", ".ssh/config"):
        assert judge.judge([access(tmp_path, "read", named)]).rule == "secrets", named
    for named in ("notes.txt", "sub/.env"):
        assert judge.judge([access(tmp_path, "read", named, by_command=True)]).rule == "secrets", named
    assert judge.judge([access(tmp_path, "read", "plain")]).decision == "allow"


def test_names_above_the_workspace_do_not_guard_what_is_in_it(tmp_path: Path) -> None:
    root = tmp_path / ".claude" / "worktrees" / "id_rsa"
    root.mkdir(parents=True)
    judge = policy(root, "full")
    for action, target, wanted in (
        ("read", ".", "allow"),
        ("read", "a/b.py", "allow"),
        ("write", "a/b.py", "allow"),
        ("write", ".claude/settings.json", "ask"),
        ("read", "id_rsa", "deny"),
    ):
        assert judge.judge([access(root, action, target)]).decision == wanted, target  # type: ignore[arg-type]
    assert judge.judge([access(root, "write", "../other.md", by_command=True)]).rule == "protected"


def test_a_path_of_any_depth_is_judged(tmp_path: Path) -> None:
    deep = "/".join("d" for _ in range(5000))
    judge = policy(tmp_path, "full")
    for name, wanted in (("x.py", "allow"), (".env", "deny")):
        path = f"{tmp_path.resolve()}/{deep}/{name}"
        assert judge.judge([FileAccess("read", path, path)]).decision == wanted
