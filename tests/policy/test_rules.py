"""Rules as people write them: what they speak of, which one wins, and what they never let ride along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail.policy.rules import BadRule, from_line
from tests.policy.tables import access, decisions, policy, rules

# A rule, what it must match, what it must not. Paths are below the workspace.
PATHS: list[tuple[str, list[str], list[str]]] = [
    (
        "deny Read(notes.txt)",
        ["notes.txt", "a/b/notes.txt", "notes.txt/below", "/elsewhere/notes.txt"],
        ["notes.txt.old"],
    ),
    ("deny Read(src/**)", ["src/a", "src/a/b/.c"], ["src", "lib/src/a"]),
    ("deny Read(src)", ["src", "src/a/b", "lib/src/x"], ["srcs"]),
    ("deny Read(src/)", ["src", "src/a/b", "lib/src/x"], ["srcs"]),
    ("deny Read(./src)", ["src", "src/a"], ["lib/src/x"]),
    ("deny Read(/src)", ["src", "src/a"], ["lib/src/x", "/src"]),
    ("deny Read(**/keys/*.txt)", ["keys/a.txt", "x/y/keys/a.txt", "/other/keys/a.txt"], ["keys/a/b.py"]),
    ("deny Read(//opt/data/**)", ["/opt/data/x"], ["opt/data/x"]),
    ("deny Read(~/notes/**)", ["~/notes/a"], ["notes/a"]),
    ("deny Read(*.{csv,tsv})", ["a.csv", "b/c.tsv"], ["a.txt"]),
    ("deny Read([ab].txt)", ["a.txt"], ["c.txt"]),
    ("deny Read(what (1).txt)", ["what (1).txt"], ["what 1.txt"]),
    ("deny Read", ["anything", "/at/all"], []),
]


@pytest.mark.parametrize(("line", "yes", "no"), PATHS, ids=[row[0] for row in PATHS])
def test_a_pattern_matches_what_it_says(tmp_path: Path, line: str, yes: list[str], no: list[str]) -> None:
    home = tmp_path / "home"
    root = tmp_path / "root"
    judge = policy(root, "full", rules(f"rules = ['{line}']", "project"), home=home)
    for names, wanted in ((yes, "deny"), (no, "allow")):
        for name in names:
            path = str(home / name[2:]) if name.startswith("~/") else name
            assert judge.judge([access(root, "read", path)]).decision == wanted, name


def test_an_allowance_is_narrow_and_a_refusal_wide(tmp_path: Path) -> None:
    judge = policy(tmp_path, "ask", rules("rules = ['allow Edit(src/*)', 'allow Edit(docs/)', 'allow Write(*.md)']"))
    for path, wanted in {
        "src/a.py": "allow",
        "src/a/b.py": "ask",  # not what `*` names
        "docs/a/b.txt": "allow",
        "docs": "allow",
        "x/y.md": "allow",
        "x/y.md/z": "ask",
    }.items():
        assert judge.judge([access(tmp_path, "write", path)]).decision == wanted, path
    assert judge.judge([access(tmp_path, "write", "/elsewhere/y.md", by_command=True)]).decision == "ask"
    assert judge.judge([access(tmp_path, "delete", "src/a.py")]).decision == "ask", (
        "leave to edit is not leave to delete"
    )
    judge = policy(tmp_path, "full", rules("rules = ['deny Edit(src/*)']"))
    for action in ("write", "delete"):
        assert judge.judge([access(tmp_path, action, "src/a/b.py")]).decision == "deny"


def test_what_may_not_be_read_may_not_be_changed_either(tmp_path: Path) -> None:
    judge = policy(tmp_path, "full", rules("rules = ['deny Read(private/**)']"))
    assert decisions(judge, [access(tmp_path, a, "private/x") for a in ("read", "write", "delete")]) == [
        "deny",
        "deny",
        "allow",
    ]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_deny_beats_ask_beats_allow_whatever_file_they_stand_in(tmp_path: Path, order: tuple[int, ...]) -> None:
    lines = ["allow Edit(src/**)", "ask Edit(src/api/**)", "deny Edit(src/api/gen/**)"]
    origins: list[Any] = ["system", "user", "project"]
    files = [rules(f"rules = ['{lines[at]}']", origin) for at, origin in zip(order, origins, strict=True)]
    judge = policy(tmp_path, "full", *files)
    wanted = {"src/a.py": "allow", "src/api/a.py": "ask", "src/api/gen/a.py": "deny"}
    assert {path: judge.judge([access(tmp_path, "write", path)]).decision for path in wanted} == wanted


def test_a_project_that_nobody_trusts_tightens_but_loosens_nothing(tmp_path: Path) -> None:
    text = (
        "rules = ['allow Edit(src/**)', 'deny Edit(gen/**)', 'allow Bash(make:*)', 'ask Bash(rm x)', 'ask Read(.env)']"
    )
    wanted = {
        ("write", "src/a.py", ""): ("ask", "allow"),
        ("write", "gen/a.py", ""): ("deny", "deny"),
        ("run", "make all", "ordinary"): ("ask", "allow"),
        ("run", "rm x", "destructive"): ("deny", "ask"),
        ("read", ".env", ""): ("deny", "ask"),
    }
    strange = policy(tmp_path, "ask", rules(text, "project", trusted=False))
    known = policy(tmp_path, "ask", rules(text, "project", trusted=True))
    for (action, target, tier), both in wanted.items():
        one: Any = access(tmp_path, action, target, **({"tier": tier} if action == "run" else {}))  # type: ignore[arg-type]
        assert (strange.judge([one]).decision, known.judge([one]).decision) == both, target
    verdict = strange.judge([access(tmp_path, "write", "src/a.py")])
    assert verdict.why == "src/a.py would be changed"
    assert verdict.advice == "project.toml:1 would allow it, but is not in effect: run `handrail policy trust`"


def test_under_a_locked_system_file_only_its_own_rules_loosen(tmp_path: Path) -> None:
    system = rules("locked = true\nrules = ['allow Edit(docs/**)', 'deny Bash(curl:*)']", "system")
    user = rules("rules = ['allow Edit(src/**)', 'allow Read(.env)', 'deny Edit(docs/old/**)', 'allow Bash(rm x)']")
    judge = policy(tmp_path, "ask", system, user)
    for path, wanted in {"docs/a": "allow", "docs/old/a": "deny", "src/a": "ask"}.items():
        assert judge.judge([access(tmp_path, "write", path)]).decision == wanted, path
    verdict = judge.judge([access(tmp_path, "read", ".env")])
    assert (verdict.decision, verdict.allow) == ("deny", "")
    assert judge.judge([access(tmp_path, "run", "rm x", tier="destructive")]).decision == "deny"
    assert judge.judge([access(tmp_path, "run", "curl x", tier="read_only")]).source == "system.toml:2"


def test_a_secret_is_opened_only_by_a_rule_that_spells_out_its_name(tmp_path: Path) -> None:
    env, other = access(tmp_path, "read", "test/.env"), access(tmp_path, "read", ".env")
    for line in ("allow Read", "allow Read(**)", "allow Read(test/**)", "allow Read(.env*)", "allow Read(test/)"):
        assert policy(tmp_path, "full", rules(f"rules = ['{line}']")).judge([env]).decision == "deny", line
    judge = policy(tmp_path, "ask", rules("rules = ['allow Read(test/.env)']"))
    assert decisions(judge, [env, other]) == ["allow", "deny"]
    assert judge.judge([access(tmp_path, "write", "test/.env")]).decision == "deny", "reading is not writing"
    judge = policy(tmp_path, "full", rules("rules = ['ask Read(.env)', 'deny Read(test/**)']"))
    assert decisions(judge, [env, other]) == ["deny", "ask"]


def test_no_rule_opens_what_is_protected(tmp_path: Path) -> None:
    judge = policy(tmp_path, "full", rules("rules = ['allow Edit(.git/config)', 'allow Edit', 'allow Delete']"))
    verdict = judge.judge([access(tmp_path, "write", ".git/config")])
    assert (verdict.decision, verdict.rule, verdict.allow) == ("ask", "protected", "")


def test_exceptions_take_back_what_the_same_rule_says(tmp_path: Path) -> None:
    text = '[[rules]]\naction = "read"\npath = ["data/**", "!data/*.md"]\ntier = "deny"\n'
    judge = policy(tmp_path, "ask", rules(text))
    for path, wanted in {"data/a.csv": "deny", "data/a.md": "allow", "data/x/a.md": "deny"}.items():
        assert judge.judge([access(tmp_path, "read", path)]).decision == wanted, path


COMMANDS: list[tuple[str, str, list[str], list[str]]] = [
    ("allow", "git diff:*", ["git diff", "git diff --stat x", "git  diff 'a b'", "git diff > out.txt"], [
        "git difftool", "git", "git -C x diff", "/usr/bin/git diff", "LD_PRELOAD=x git diff", "GIT_PAGER=x git diff",
        "git diff $X", "git diff $(rm x)", "git diff; rm x", "git diff && rm x", "git diff | sh", "git diff &",
        "env git diff", "git diff\nrm x", "g\\it diff; x", "(git diff)", "if git diff; then rm x; fi", "git diff `x`",
    ]),
    ("allow", "npm run test", ["npm run test", "npm 'run' test"], ["npm run test -- x", "npm run tests", "npm run"]),
    ("allow", "xargs:*", [], ["xargs rm", "xargs"]),
    ("allow", "timeout 5 pytest", ["timeout 5 pytest"], ["timeout 5 pytest -q", "timeout 5 rm x"]),
    ("deny", "git push:*", [
        "git push", "git push origin main", "git -C x push", "git -c a=b --no-pager push -f", "/usr/bin/git push",
        "env X=1 git push", "X=1 git push", "a; git push", "bash -c 'git push'", "git \"push\"", "timeout 5 git push",
    ], ["git log push", "git pushy", "echo git push"]),
    ("deny", "rm -rf:*", ["rm -rf x", "sudo rm -rf /x"], ["rm x"]),
]  # fmt: skip


@pytest.mark.parametrize(("tier", "pattern", "yes", "no"), COMMANDS, ids=[f"{row[0]} {row[1]}" for row in COMMANDS])
def test_a_command_pattern_matches_word_by_word(
    tmp_path: Path, tier: str, pattern: str, yes: list[str], no: list[str]
) -> None:
    judge = policy(tmp_path, "ask" if tier == "allow" else "full", rules(f"rules = ['{tier} Bash({pattern})']"))
    for commands, matches in ((yes, True), (no, False)):
        for command in commands:
            verdict = judge.judge([access(tmp_path, "run", command, tier="ordinary")])
            assert (verdict.rule == f"{tier} Bash({pattern})") is matches, (command, verdict)


@pytest.mark.parametrize("line", ["allow Bash", "allow Bash(git:*)", "allow Bash(git status)"])
def test_what_cannot_be_proven_rides_on_no_allowance(tmp_path: Path, line: str) -> None:
    judge = policy(tmp_path, "ask", rules(f"rules = ['{line}']"))
    sure = access(tmp_path, "run", "git status", tier="ordinary")
    unsure = access(tmp_path, "run", "git status", tier="ordinary", doubt="GIT_PAGER is set")
    assert decisions(judge, [sure, unsure]) == ["allow", "ask"]
    assert judge.judge([unsure]).allow == ""


def test_what_destroys_is_allowed_only_word_by_word(tmp_path: Path) -> None:
    one = access(tmp_path, "run", "git reset --hard", tier="destructive")
    for line, wanted in {
        "allow Bash": "deny",
        "allow Bash(git:*)": "deny",
        "allow Bash(git reset --hard:*)": "deny",
        "allow Bash(git reset --hard)": "allow",
        "ask Bash(git reset:*)": "ask",
    }.items():
        assert policy(tmp_path, "ask", rules(f"rules = ['{line}']")).judge([one]).decision == wanted, line


def test_network_rules_speak_of_hosts(tmp_path: Path) -> None:
    judge = policy(tmp_path, "ask", rules("rules = ['allow Network(*.example.org)', 'deny Network(bad.example.org)']"))
    hosts = [
        "https://a.example.org:8443/x?y",
        "A.EXAMPLE.ORG",
        "bad.example.org",
        "example.com",
        "example.org/a.example.org",
    ]
    assert decisions(judge, [access(tmp_path, "network", host) for host in hosts]) == [
        "allow",
        "allow",
        "deny",
        "ask",
        "ask",
    ]


def test_the_verdict_carries_rule_place_and_reason(tmp_path: Path) -> None:
    text = '# rules\n\n[[rules]]\naction = "write"\npath = "gen/**"\ntier = "deny"\nwhy = "run `make gen` instead"\n'
    verdict = policy(tmp_path, "full", rules(text, "project")).judge([access(tmp_path, "write", "gen/a")])
    assert verdict.rule == "deny write gen/**"
    assert verdict.source == "project.toml:3"
    assert verdict.why == "run `make gen` instead"
    assert verdict.allow == ""


ALLOWABLE: list[tuple[str, str, dict[str, Any]]] = [
    ("write", "a.py", {}),
    ("delete", "odd [name] {x}*?.py", {}),
    ("read", "conf/.env.local", {}),
    ("write", ".env", {"by_command": True}),
    ("write", "/var/other/x", {"by_command": True}),
    ("run", "npm run 'a b'", {"tier": "ordinary"}),
    ("run", "rm -r build", {"tier": "destructive"}),
    ("network", "https://example.org", {}),
]


@pytest.mark.parametrize(("action", "target", "more"), ALLOWABLE, ids=[row[1] for row in ALLOWABLE])
def test_the_rule_that_would_allow_it_does_and_allows_nothing_else(
    tmp_path: Path, action: Any, target: str, more: dict[str, Any]
) -> None:
    one = access(tmp_path, action, target, **more)
    line = policy(tmp_path).judge([one]).allow
    judge = policy(tmp_path, "ask", rules(f"rules = ['''{line}''']"))
    assert judge.judge([one]).decision == "allow", line
    others = [access(tmp_path, action, target + "x", **more), access(tmp_path, action, "odd nx.py", **more)]
    assert "allow" not in decisions(judge, [other for other in others if action != "read"])


def test_a_call_of_several_touches_names_a_rule_for_each_that_needs_one(tmp_path: Path) -> None:
    accesses = [
        access(tmp_path, "run", "rm a", tier="ordinary"),
        access(tmp_path, "read", "."),
        access(tmp_path, "delete", "a", by_command=True),
    ]
    lines = policy(tmp_path).judge(accesses).allow.split("\n")
    assert lines == ["allow Bash(rm a)", f"allow Delete(/{tmp_path.resolve()}/a)"]
    judge = policy(tmp_path, "ask", rules(f"rules = {lines!r}"))
    assert judge.judge(accesses).decision == "allow"
    assert policy(tmp_path).judge([*accesses, access(tmp_path, "write", ".git/config")]).allow == ""


@pytest.mark.parametrize(
    "line", ["allow Read(.env) for Bash()", "allow Read(.env) for Bash( )", "deny Read(.env) for Bash(a)"]
)
def test_a_file_is_lent_to_a_command_that_is_named(line: str) -> None:
    """Without a command, the rule would let everything read the file."""
    with pytest.raises(BadRule):
        from_line(line)
