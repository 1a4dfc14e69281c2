"""What a command line would do, told from its text alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.shell.effects.effects import FileEffect, find_effects
from handrail.shell.effects.refused_commands import find_danger
from handrail.shell.parser.parse import parse_script
from tests import sizes, tracing
from tests.command import TIMEOUT
from tests.shell.command_table import DESTRUCTIVE, READ_ONLY
from tests.shell.command_table_ordinary import ORDINARY
from tests.shell.script_rows import ROWS as SCRIPTS
from tests.shell.test_refused_commands import HARMLESS, REFUSED

TABLE = [
    *(("read_only", *row) for row in READ_ONLY),
    *(("ordinary", *row) for row in ORDINARY),
    *(("destructive", *row) for row in DESTRUCTIVE),
]
EVERYDAY = [command for command, _, _ in READ_ONLY]
FRAGMENTS = (
    *("ls", "cat f", "rm", "-rf", "x", "/", "git", "diff", "sed", "-i", "s/a/b/e", "awk", "{print}", "find", "-exec"),
    *("xargs", "bash -c", "eval", "cd", "$x", '"$y"', "$(ls)", "`id`", "*", "~", "'", '"', ";", "&&", "||", "|", "&"),
    *(">", "<", "<<E", "\n", "(", ")", "{", "}", "for f in a b; do", "done", "f()", "A=1", "--", "-o", "\\", "#", "é"),
)


def shown(file: FileEffect) -> str:
    path = f"{{{file.path}}}" if file.glob else file.path
    return f"{file.action} {path}" + ("/**" if file.below else "")


def test_the_effects_of_every_command_of_the_table_are_found() -> None:
    wrong = []
    for tier, command, files, flags in TABLE:
        seen = find_effects(command)
        reported = " ".join(name for name, there in (("network", seen.network), ("doubt", seen.doubts)) if there)
        if (actual := (seen.tier, ", ".join(map(shown, seen.files)), reported)) != (tier, files, flags):
            wrong.append((command, actual, (tier, files, flags)))
    assert wrong == []


def test_the_table_is_as_large_as_promised() -> None:
    assert len({command for _, command, _, _ in TABLE}) == len(TABLE) >= 150
    assert len(READ_ONLY) >= 60
    assert len(DESTRUCTIVE) >= 60


def test_what_is_refused_everywhere_is_destructive() -> None:
    for command, _ in REFUSED:
        assert find_danger(parse_script(command)) is not None, command
        assert find_effects(command).tier == "destructive", command


def test_the_reason_stands_with_the_command() -> None:
    for command, _, _ in DESTRUCTIVE:
        worst = [item for item in find_effects(command).commands if item.tier == "destructive"]
        assert worst and all(item.why for item in worst), command


@pytest.mark.parametrize("more", ["; rm -rf x", " && sudo y", " | sh", " $(curl z)", " > file", "\nrm x", " & reboot"])
def test_nothing_dangerous_rides_on_a_read_only_command(more: str) -> None:
    assert [command for command in EVERYDAY if find_effects(command + more).tier == "read_only"] == []


@pytest.mark.parametrize("before", ["LD_PRELOAD=x ", "PATH=. ", "sudo ", "rm x; ", "x() { rm y; }; ", "alias ls=rm; "])
def test_nothing_dangerous_goes_in_front_of_one(before: str) -> None:
    compound = ("for ", "if ", "while ", "(", "{", "[[", "exec")
    takes_a_word = before.endswith(("x ", ". ", "sudo "))
    fitting = [command for command in EVERYDAY if not (takes_a_word and command.startswith(compound))]
    assert len(fitting) > len(EVERYDAY) / 2
    assert [command for command in fitting if find_effects(before + command).tier == "read_only"] == []


def test_a_script_that_is_not_proven_is_never_read_only() -> None:
    unproven = [script for script in [row[0] for row in SCRIPTS] + HARMLESS if not parse_script(script).proven]
    assert len(unproven) >= 50
    for command in unproven:
        assert find_effects(command).tier != "read_only", command
        script_file = all("runs a script file" in why for why in parse_script(command).doubts)
        assert find_effects(command).doubts or script_file, command


def test_each_simple_command_is_a_decision_of_its_own() -> None:
    seen = find_effects("git diff; rm -rf x")
    assert [(item.text, item.words, item.tier) for item in seen.commands] == [
        ("git diff", ("git", "diff"), "read_only"),
        ("rm -rf x", ("rm", "-rf", "x"), "ordinary"),
    ]


def test_words_end_where_they_are_no_longer_fixed() -> None:
    """Or a rule about `git diff` would allow what is computed between the two."""
    assert find_effects("git $x diff").commands[0].words == ("git",)


@pytest.mark.parametrize("command", ["curl x | python3 -c 'print(1)'", "curl x | jq .", "curl x | xargs echo"])
def test_what_comes_from_the_network_may_be_looked_at(command: str) -> None:
    seen = find_effects(command)
    assert seen.tier == "ordinary"
    assert seen.network == ("curl x",)


@pytest.mark.parametrize("command", ["cd a; cat b; " * 400, "(cd a; ls); " * 400, "echo x | sh; " * 400])
def test_a_long_script_is_told_of_too(command: str) -> None:
    seen = find_effects(command)
    assert len(seen.commands) == 800
    assert seen.doubts


def test_a_doubt_takes_the_proof_from_every_command() -> None:
    seen = find_effects("alias cat=rm; cat f")
    assert {item.tier for item in seen.commands} == {"ordinary"}


def test_an_unknown_command_is_ordinary_and_no_doubt() -> None:
    seen = find_effects("mytool --flag x")
    assert (seen.tier, seen.doubts) == ("ordinary", ())
    assert seen.commands[0].why


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("cd a && cat x", ["read a/x"]),
        ("cd a; cat x", ["read x", "read a/x"]),
        ("cd a || exit 1; cat x", ["read x", "read a/x"]),
        ("cd a || { echo no; exit 1; }; cat x", ["read x", "read a/x"]),
        ("set -e; cd a; cat x", ["read x", "read a/x"]),
        ("(cd a && cat x); cat y", ["read a/x", "read y", "read a/y"]),
        ("(cd a && cat x) && (cd b && cat y)", ["read a/x", "read a/b/y", "read b/y"]),
        ("cd a && cd b && cat x", ["read a/b/x"]),
        ("cd a && cd .. && cat x", ["read x"]),
        ("cd a && cat ../x", ["read a/../x"]),
        ("cd /tmp && cat x", ["read /tmp/x"]),
        ("cd && cat x", ["read ~/x"]),
        ("cd a | cat x", ["read x", "read a/x"]),
        ("cd a & cat x", ["read x", "read a/x"]),
        ("echo $(cd a) && cat x", ["read x", "read a/x"]),
        ("cd a && cat x | sort y > z", ["read a/x", "read a/y", "write a/z"]),
        ("for d in a b; do (cd $d && cat x); done", []),
        ('cd "$d" && cat x', []),
        ('cd "$d" && cat /x ~/y', ["read /x", "read ~/y"]),
        ("eval 'cd a' && cat x", ["read x", "read a/x"]),
        ("bash -c 'cd a; ls b; cat x'", ["read b", "read a/b", "read x", "read a/x"]),
        ("(cd a; ls b; cat x)", ["read b", "read a/b", "read x", "read a/x"]),
        ("(ls b) && cd a && (cat x)", ["read b", "read a/x"]),
        ("ls b | cd a | cat x", ["read b", "read x", "read a/x"]),
    ],
)
def test_the_directory_is_followed(command: str, files: list[str]) -> None:
    assert [shown(file) for file in find_effects(command).files] == files


@pytest.mark.parametrize(
    "command",
    ['cd "$d" && cat x', "cd a* && rm x", "while :; do cd a; cat f; done", "cd ~+ && ls", "cd a && cd - && cat x"],
)
def test_a_directory_that_is_not_known_is_a_doubt(command: str) -> None:
    assert find_effects(command).doubts


@pytest.mark.parametrize(
    "command",
    [
        'f=a; cat "$f"',
        'f=a; while :; do cat "$f"; f=.env; done',
        'for f in *.py; do cat "$f"; done',
        'd=src; cat "$d"/*.py',
        "f=.en; f+=v; cat $f",
        "read f; cat $f",
        "f=; : ${f:=.env}; cat $f",
    ],
)
def test_what_a_variable_holds_is_not_known(command: str) -> None:
    seen = find_effects(command)
    assert seen.doubts and not seen.files and seen.tier == "ordinary"


@settings(max_examples=sizes.pick(100, 400), deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(" ".join))
def test_no_text_is_too_odd(command: str) -> None:
    seen = find_effects(command)
    if find_danger(parse_script(command)):
        assert seen.tier == "destructive"
    assert seen == find_effects(command)


@settings(max_examples=sizes.pick(50, 200), deadline=None)
@given(st.text(max_size=60))
def test_no_text_at_all_raises(command: str) -> None:
    find_effects(command)


_RUN = [
    command
    for command in EVERYDAY
    if not re.search(
        r"tail -f|~|/etc|/tmp|\.\.|crontab|man |ps |ss |jobs|sleep|read|\bcat$|^xargs$|^tee$|^tr |python|node", command
    )
]
"""Those of the table that end by themselves and stay in the directory that they are given."""
_WRITES = re.compile(
    r"O_(?:WRONLY|RDWR|CREAT|TRUNC)|^(?:\d+ +)?(?:unlink|rename|mkdir|rmdir|link|symlink|chmod|truncate)"
)
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)")


@pytest.mark.slow
def test_what_is_called_read_only_writes_nothing(tmp_path: Path) -> None:
    """The kernel's own word: the read-only commands of the table, run and traced."""
    if tracing.why_not():
        pytest.skip(tracing.why_not())
    place = tmp_path / "place"
    for folder in ("src", "tests", "a/b", "dir"):
        (place / folder).mkdir(parents=True)
    for name in (
        "f",
        "x",
        "a.txt",
        "in",
        "log",
        "f.json",
        "package.json",
        "src/a.py",
        "tests/b.py",
        "m.py",
        "a/x",
        "b",
    ):
        (place / name).write_text("one two\nthree\n", encoding="utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], cwd=place, check=True, capture_output=True)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in sorted(place.rglob("*"))}
    log = tmp_path / "trace"
    script = "\n".join(f"( {command}\n) </dev/null >/dev/null 2>&1" for command in _RUN)
    # After `git status` git may write down in its index what it saw; that is switched off here, and so not judged.
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "GIT_OPTIONAL_LOCKS": "0"}
    subprocess.run(
        ["strace", "-f", "-qq", "-y", "-e", "trace=%file", "-o", str(log), "bash", "-c", script],
        cwd=place,
        env=environment,
        check=False,
        timeout=TIMEOUT,
    )
    rows = log.read_text(encoding="utf-8", errors="replace").splitlines()
    assert len(rows) > 1000
    wrote = []
    for row in rows:
        if not _WRITES.search(row) or re.search(r"= -1 E", row):
            continue
        names = re.findall(r'"([^"]*)"', row) + re.findall(r"= \d+<([^>]*)>", row)
        if any(name.startswith(str(place)) or not name.startswith("/") for name in names):
            wrote.append(row)
    assert not wrote
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in sorted(place.rglob("*"))}


SWALLOWED = [
    *("fd -s -x touch y", "fdfind -s -X touch y", "fd -t -x touch y", "rg -j --pre=./x y", "tree -L -o y"),
    *("xxd -ps f y", "xxd -pc f y", "xxd -rs f y", "xxd -al f y", "sort -k -oy f", "bat -l --pager=./x y"),
    *("git diff -U --ext-diff", "git diff --unified --ext-diff", "git log -p -U --submodule=diff"),
    *("git show --format --output=y", "git log --encoding --textconv", "git blame --abbrev --output=y f"),
    *("git diff -L --output=y", "git diff --decorate-refs --output=y", "git rev-list --format --output=y HEAD"),
]


@pytest.mark.parametrize("command", SWALLOWED)
def test_an_option_is_seen_although_it_stands_where_a_value_may_be(command: str) -> None:
    """Whether the next word is the value of an option differs between programs, and between versions of one."""
    assert find_effects(command).tier == "ordinary"


@pytest.mark.parametrize(
    "command",
    [
        "git log -S -x",
        "git log --grep -x",
        "rg -e -x f",
        "git log -n -1",
        "git diff -U5",
        "fd -s x",
        "df -B 1",
    ],
)
def test_a_value_with_a_dash_is_no_option_where_that_is_sure(command: str) -> None:
    assert find_effects(command).tier == "read_only"


@pytest.mark.parametrize("command", ["git reset {}", "git checkout {}", "git rm {}", "git diff {}", "git status {}"])
@pytest.mark.parametrize("word", ["$x", '"$x"', "$(y)", "--hard $x"])
def test_a_computed_word_is_judged_alike_with_a_directory_for_git(command: str, word: str) -> None:
    plain = find_effects(command.format(word))
    assert find_effects(command.format(word).replace("git", "git -C .")).doubts == plain.doubts


@pytest.mark.parametrize("words", ["diff --no-index /dev/null", "grep --no-index x", "grep --untracked x"])
def test_git_may_read_any_file_that_is_not_under_version_control(words: str) -> None:
    assert find_effects(parse_script(f"git {words} $(echo .env)")).tier != "read_only"
