"""Files of rules: where they are found, what a mistake in one says, and trust in a project's own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from handrail.policy.files import PolicyError, load, trust
from handrail.text.toml_lines import find_lines
from tests.policy.tables import rules

TABLE = '[[rules]]\naction = "{action}"\ntier = "{tier}"\n{more}\n'
MISTAKES: dict[str, tuple[str, str]] = {
    "no TOML": ("rules = [\n", "not valid TOML"),
    "key": ("\nrule = []\n", "p.toml:2: rule: unknown key; did you mean rules?"),
    "locked": ("locked = true\n", "p.toml:1: locked: only the system file /etc/handrail/policy.toml can be locked"),
    "no list": ("rules = 3\n", "p.toml:1: rules: must be a list of rules"),
    "no rule": ("rules = [\n  3]\n", "p.toml:2: rules: must be tables, [[rules]], or texts such as"),
    "tier": ('[[rules]]\naction = "read"\ntier = "no"\n', 'p.toml:3: tier: must be "allow", "ask" or "deny"'),
    "no tier": ('#\n[[rules]]\naction = "read"\n', 'p.toml:2: tier: must be "allow", "ask" or "deny"'),
    "action": ('[[rules]]\naction = ["read", "see"]\ntier = "ask"\n', 'p.toml:2: action: must be "read", "write"'),
    "rule key": ('[[rules]]\npaths = "x"\n', "p.toml:2: paths: unknown key; did you mean path?"),
    "path of a run": (
        '[[rules]]\naction = "run"\ntier = "deny"\npath = "x"\n',
        "p.toml:4: path: path is for read, write and delete; use command for run",
    ),
    "command of a read": (
        '[[rules]]\naction = "read"\ntier = "deny"\ncommand = "x"\n',
        "p.toml:4: command: command is only for run",
    ),
    "second table": (
        '[[rules]]\naction = "read"\ntier = "deny"\n\n[[rules]]\naction = "read"\ntier = "deny"\npath = "../x"\n',
        "p.toml:8: path: ../x: `..` is not allowed; write the absolute path",
    ),
    "other home": ("rules = ['deny Read(~me/x)']", "p.toml:1: path: ~me/x: `~` means your own home"),
    "empty pattern": ("rules = ['deny Read()']", "the pattern is empty; write Read without parentheses"),
    "no verb": ("rules = [\n 'allow Read',\n 'Read(.env)']", "p.toml:3: rules: "),
    "no call": ("rules = ['deny Read .env']", "is not of the form Tool(pattern)"),
    "WebFetch": ("[permissions]\nallow = [\n'Read',\n'WebFetch(domain:x)',\n]", "allow: unknown tool WebFetch"),
    "mcp": ("[permissions]\nask = ['mcp__x__y']", "p.toml:2: ask: unknown tool mcp__x__y"),
    "list": ("[permissions]\ndefaultMode = 'plan'", "p.toml:2: defaultMode: unknown list; the lists are allow"),
    "star inside": ("rules = ['deny Bash(git * main)']", "p.toml:1: command: git * main: `*` must be the last word"),
    "star at a word": ("rules = ['deny Bash(ls*)']", "matches any further words: `ls *`"),
    "two commands": ("rules = ['allow Bash(a; b:*)']", "it must be one command of fixed words, such as `git diff *`"),
    "a variable": ("rules = ['allow Bash(echo $X)']", "it must be one command of fixed words"),
    "an assignment": ("rules = ['allow Bash(X=1 make)']", "it must be one command of fixed words"),
    "only a star": ("rules = ['allow Bash(:*)']", "the pattern has no command; leave it out"),
    "match": (
        '[[rules]]\naction = "read"\ntier = "deny"\npath = "*.csv"\nmatch = [\n "a.csv",\n "a.tsv"]\n',
        "p.toml:5: match: a.tsv is not matched; fix the rule or the example",
    ),
    "not_match": (
        '[[rules]]\naction = "run"\ntier = "deny"\ncommand = "git push *"\nnot_match = ["git -C x push"]\n',
        "p.toml:5: not_match: git -C x push is matched; fix the rule or the example",
    ),
    "examples of nothing": ('[[rules]]\naction = "run"\ntier = "deny"\nmatch = ["x"]\n', "examples need a path"),
    "checks": ("checks = 3\n", "p.toml:1: checks: must be a table, [checks]"),
    "check": ('[checks]\n"*.py" = 3\n', 'p.toml:2: *.py: *.py must be a command, or a list of commands'),
    "glob of a check": (
        f'[checks]\n"{"{a,b}" * 11}" = "true"\n',
        ": it expands to more than 1000 patterns",
    ),
    "hooks": ("hooks = 3\n", "p.toml:1: hooks: must be a list of hooks"),
    "hook": ("hooks = [3]\n", "p.toml:1: hooks: must be tables, [[hooks]], with before or after, and run"),
    "hook key": ('[[hooks]]\nwhen = "x"\n', "p.toml:2: when: unknown key; the keys are before, after, run, seconds"),
    "both": ('[[hooks]]\nbefore = "*"\nafter = "*"\n', "p.toml:1: hooks: a hook has either before or after"),
    "neither": ('[[hooks]]\nrun = "true"\n', "p.toml:1: hooks: a hook has either before or after"),
    "no run": ('[[hooks]]\nbefore = "*"\n', "p.toml:1: run: must be a command, run by the shell in the workspace"),
    "hook pattern": ('[[hooks]]\nafter = "Edt"\nrun = "true"\n', "p.toml:2: after: unknown tool Edt; did you"),
    "seconds": ('[[hooks]]\nafter = "*"\nrun = "x"\nseconds = 0\n', "p.toml:4: seconds: must be a number above 0"),
    "too many": ("rules = ['deny Read(" + "{a,b}" * 11 + ")']", "it expands to more than 1000 patterns"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_file_line_and_mend(name: str) -> None:
    text, wanted = MISTAKES[name]
    from handrail.policy.files import parse

    with pytest.raises(PolicyError) as caught:
        parse(text, "p.toml", "user")
    assert str(caught.value).startswith("p.toml:") and wanted in str(caught.value)


def test_a_path_from_the_file_is_refused_where_the_file_is_no_project() -> None:
    assert rules("rules = ['deny Read(/x)']", "project").rules
    with pytest.raises(PolicyError, match=r"/x: write //x for the absolute path, or \./x for a workspace's"):
        rules("rules = ['deny Read(/x)']", "user")


def test_lists_in_the_shape_of_claude_code_are_understood() -> None:
    text = '[permissions]\ndeny = ["Read(.env)", "Edit(src/**)"]\nallow = [\n  "Bash(git diff:*)",\n  "Read",\n]\n'
    actual = [(rule.text, sorted(rule.actions), rule.source) for rule in rules(text).rules]
    assert actual == [
        ("deny Read(.env)", ["read"], "user.toml:2"),
        ("deny Edit(src/**)", ["delete", "write"], "user.toml:2"),
        ("allow Bash(git diff:*)", ["run"], "user.toml:4"),
        ("allow Read", ["read"], "user.toml:5"),
    ]


def test_the_line_of_every_value_is_found_in_all_ways_to_write_it() -> None:
    text = """# [[rules]]
a = "[[rules]]"
b = '''
[[rules]]
'''
rules.first = [1, [2,
  3], { x = 1, "y z" = [
4] }]
[[list]]
k = 1.5
[[list.inner]]
[[list.inner]]
k = 2024-01-01T00:00:00Z
[[list]]
  "k" = "#"   # a comment
[x . y]
z = true
"""
    lines = find_lines(text)
    assert {key: lines[key] for key in lines if key[0] in ("rules", "list", "x")} == {
        ("rules", "first"): 6, ("rules", "first", 0): 6, ("rules", "first", 1): 6, ("rules", "first", 1, 0): 6,
        ("rules", "first", 1, 1): 7, ("rules", "first", 2): 7, ("rules", "first", 2, "x"): 7,
        ("rules", "first", 2, "y z"): 7, ("rules", "first", 2, "y z", 0): 8,
        ("list", 0): 9, ("list", 0, "k"): 10, ("list", 0, "inner", 0): 11, ("list", 0, "inner", 1): 12,
        ("list", 0, "inner", 1, "k"): 13, ("list", 1): 14, ("list", 1, "k"): 15, ("x", "y"): 16, ("x", "y", "z"): 17,
    }  # fmt: skip


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """A project, a home and a system, each with room for a file of rules."""
    actual = {
        "root": tmp_path / "project",
        "config": tmp_path / "config" / "handrail",
        "system": tmp_path / "system.toml",
        "state": tmp_path / "state",
    }
    for name in ("root", "config", "state"):
        actual[name].mkdir(parents=True)
    return actual


def _load(places: dict[str, Path]) -> list[tuple[str, bool]]:
    environ = {"XDG_CONFIG_HOME": str(places["config"].parent)}
    files = load(str(places["root"]), environ, str(places["state"]), system=str(places["system"]), owner=os.getuid())
    return [(file.origin, file.trusted) for file in files]


def test_missing_files_are_fine_and_found_ones_come_in_order(places: dict[str, Path]) -> None:
    assert _load(places) == []
    places["system"].write_text("rules = ['deny Read(x)']", encoding="utf-8")
    places["system"].chmod(0o644)
    (places["config"] / "policy.toml").write_text("rules = []", encoding="utf-8")
    (places["root"] / "handrail.toml").write_text("rules = []", encoding="utf-8")
    assert _load(places) == [("system", True), ("user", True), ("project", False)]


def test_a_system_file_that_others_could_change_stops_everything(places: dict[str, Path]) -> None:
    places["system"].write_text("rules = []", encoding="utf-8")
    places["system"].chmod(0o664)
    with pytest.raises(PolicyError, match="users other than root can change it"):
        _load(places)
    places["system"].chmod(0o644)
    with pytest.raises(PolicyError, match="users other than root can change it"):
        load(str(places["root"]), {}, str(places["state"]), system=str(places["system"]), owner=os.getuid() + 1)


def test_a_file_that_is_no_file_stops_everything(places: dict[str, Path]) -> None:
    path = places["root"] / "handrail.toml"
    os.mkfifo(path)
    with pytest.raises(PolicyError, match="not a file"):
        _load(places)
    path.unlink()
    path.write_bytes(b"rules = ['\xff']")
    with pytest.raises(PolicyError, match="byte 11 is not UTF-8"):
        _load(places)
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(PolicyError, match="more than 1 MB"):
        _load(places)
    path.unlink()
    path.symlink_to("handrail.toml")
    with pytest.raises(PolicyError, match="cannot be read"):
        _load(places)


def test_trust_is_of_exactly_these_bytes_at_this_place(places: dict[str, Path]) -> None:
    import hashlib

    path, state = places["root"] / "handrail.toml", str(places["state"])
    text = b"rules = ['allow Edit(src/**)']\n"
    path.write_bytes(text)
    assert _load(places) == [("project", False)]
    with pytest.raises(PolicyError, match="it is not the reviewed version"):
        trust(str(places["root"]), state, "0" * 64)
    assert _load(places) == [("project", False)]
    trust(str(places["root"]), state, hashlib.sha256(text).hexdigest())
    assert _load(places) == [("project", True)]
    path.write_bytes(text + b"# changed\n")
    assert _load(places) == [("project", False)]
    path.write_bytes(text)
    assert _load(places) == [("project", True)]
    other = places["root"].parent / "other"
    other.mkdir()
    (other / "handrail.toml").write_bytes(text)
    assert _load({**places, "root": other}) == [("project", False)]


def test_the_rules_of_the_handbook_are_accepted() -> None:
    pages = [Path(__file__).parents[2] / "docs" / name for name in ("policy.md", "policy-reference.md")]
    actual = re.findall(r"```toml\n(.*?)```", "".join(page.read_text(encoding="utf-8") for page in pages), re.DOTALL)
    assert [len(rules(text, "project").rules) for text in actual] == [6, 3, 2]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ('{ rule = "allow Bash(make)", in = "srv" }', "absolute"),
        ('{ rule = "allow Read(//srv/x)", in = "/srv" }', "only for run"),
        ('{ rule = "allow Bash(make)", tier = "deny" }', "only `in` and `why`"),
        ('{ rule = "Bash(make)", in = "/srv" }', "must start with"),
        ('{ action = "read", path = "x", tier = "deny", in = "/srv" }', "only for run"),
    ],
)
def test_a_mistake_about_where_a_rule_holds_is_named(rule: str, wanted: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(wanted)):
        rules(f"rules = [{rule}]\n", "user")
