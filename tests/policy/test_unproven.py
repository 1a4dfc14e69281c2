"""A command whose words cannot be proven is never judged easier than the same command spelled out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import pytest

from handrail import Session, Settings
from handrail.errors import BadCommand, Dangerous
from handrail.policy.judge import Machine, RulePolicy
from handrail.policy.modes import Mode
from handrail.workspace import Root

STRICT = {"allow": 0, "ask": 1, "deny": 2}
PLACES: list[tuple[Mode, bool]] = [
    ("read-only", False),
    ("ask", False),
    ("accept-edits", False),
    ("accept-edits", True),
]
DELETES = (
    "rm {}",
    "rm -rf {}",
    "rm -f -- {}",
    "rmdir {}",
    "unlink {}",
    "mv {} b",
    "find {} -name a -delete",
    "find {} -name a -exec rm -r + {{}} +",
    "git rm -r {}",
    "env rm {}",
    "timeout 5 rm {}",
    "nice rm {}",
    "command rm {}",
    "bash -c 'rm {}'",
    "(rm {})",
    "true && rm {}",
    "echo {} | xargs rm",
    "rsync -a --delete a/ {}",
)
WRITES = (
    "cp a {}",
    "echo x > {}",
    "echo x >> {}",
    "tee {} < a",
    "sed -i s/a/b/ {}",
    "truncate -s 0 {}",
)
COMPUTED = ("$(echo {})", '"$(echo {})"', "`echo {}`", '"$x"', "$x", "${{x:-{}}}", '"${{y[0]}}"', "$1", "./$(echo {})")
WHOLE = (
    "cd $(echo src) && rm a",
    'eval "$(echo rm -rf src)"',
    'bash -c "$(echo rm -rf src)"',
    "echo rm -rf src | bash",
    "echo rm -rf src | sh -s",
    'sh <<< "$(echo rm -rf src)"',
    'trap "$(echo rm -rf src)" EXIT',
    "nice $(echo rm) -rf src",
    "xargs rm -rf < names",
    "find . $(echo -delete)",
    "while read -r x; do rm $x; done < names",
    "bash -c 'rm -rf \"$1\"' x src",
    "rsync -a $(echo --delete) a/ src",
)


@pytest.fixture(scope="module")
def say(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], list[int]]]:
    """How strict each mode is with a command, without and with a boundary."""
    top = tmp_path_factory.mktemp("unproven")
    root = top / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a").write_text("x", encoding="utf-8")
    settings = Settings(raise_bugs=True, sandbox="off", state=str(top / "state"))
    sessions = []
    for mode, held in PLACES:
        policy = RulePolicy([Root(str(root))], mode, (), Machine(namespaced=partial(bool, held)), str(top / "home"))
        sessions.append(Session(root, policy=policy, settings=settings))

    def strictness(command: str) -> list[int]:
        collected = []
        for session in sessions:
            try:
                collected.append(STRICT[session.prepare("Bash", {"command": command}).verdict.decision])
            except (Dangerous, BadCommand):
                collected.append(2)
        return collected

    yield strictness
    for session in sessions:
        session.close()


@pytest.mark.parametrize("command", [*DELETES, *WRITES])
def test_a_computed_name_is_never_easier_than_one_that_is_spelled_out(
    say: Callable[[str], list[int]], command: str
) -> None:
    spelled = say(command.format("src/a"))
    for computed in COMPUTED:
        actual = say(command.format(computed.format("src/a")))
        assert all(one >= other for one, other in zip(actual, spelled, strict=True)), computed


@pytest.mark.parametrize("command", WHOLE)
def test_a_command_that_is_computed_is_never_easier_than_a_delete(
    say: Callable[[str], list[int]], command: str
) -> None:
    actual = say(command)
    assert all(one >= other for one, other in zip(actual, say("rm -rf src"), strict=True))


@pytest.mark.parametrize(
    "command",
    ["cp a $(echo .claude/x)", "echo x > $(echo handrail.toml)", "tee $(echo .vscode/tasks.json) < a"],
)
def test_what_is_protected_cannot_be_changed_by_a_computed_name(say: Callable[[str], list[int]], command: str) -> None:
    assert min(say(command)) >= STRICT["ask"]


@pytest.mark.parametrize(
    ("words", "rest"),
    list(
        product(["git checkout", "git reset", "git clean", "git stash", "git push", "git"], ["$x", '"$x"', "$(cat f)"])
    ),
)
def test_words_that_may_make_a_command_destructive_are_asked_about(
    say: Callable[[str], list[int]], words: str, rest: str
) -> None:
    assert min(say(f"{words} {rest}")) >= STRICT["ask"]


def test_a_secret_is_not_read_by_a_computed_name(say: Callable[[str], list[int]]) -> None:
    assert min(say("cat $(echo .env)")) >= STRICT["ask"]


@pytest.mark.parametrize(
    "command",
    [
        "make",
        "python3 build.py",
        "bash build.sh",
    ],
)
def test_a_boundary_is_still_leave_enough_for_other_commands(say: Callable[[str], list[int]], command: str) -> None:
    assert say(command)[PLACES.index(("accept-edits", True))] == STRICT["allow"]
