"""Generated attacks by the names and links of a hostile repository.

Files are called like options, `xargs` splits their names, links lead elsewhere. Commands that seem to only look are run
for real, with nobody to ask, and must show no secret and nothing from outside of the workspace.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from handrail import Session, Settings
from handrail.errors import NoSandbox
from handrail.policy.modes import Mode
from handrail.shell.effects.interpret import LOOKING
from handrail.shell.sandbox import Mode as Sandbox
from tests.sizes import spread

pytestmark = pytest.mark.slow  # starts many processes

SECRET, OUTSIDE = "canary-4711-canary", "outside-4711-outside"
SANDBOXES: tuple[Sandbox, ...] = ("off", "namespaces", "landlock")
MODES: tuple[Mode, ...] = ("read-only", "ask", "accept-edits")


class Attack(NamedTuple):
    """A path in the workspace, the place that it links to if it is a link, and a command that comes upon it."""

    path: str
    target: str
    command: str


class Held(NamedTuple):
    """A session on a workspace, and its mode."""

    session: Session
    work: Path
    mode: Mode


# Files with the names of options

OPTION_NAMES = (
    *("-r", "-R", "-rh", "-rf", "-drecurse", "--directories=recurse", "--recursive", "--dereference-recursive"),
    *("--files0-from=.npmrc", "--from-file=.npmrc", "--to-file=.npmrc", "-f.npmrc", "--file=.npmrc", "@.npmrc"),
)
LOOKERS = (
    *("grep K {}", "grep -h K {}", "grep -c K {} && grep K {}", "egrep K {}", "fgrep -s K {}"),
    *("wc {}", "wc -l {}", "du {}", "du -sh {}"),
    *("diff {}", "diff -u {}", "cat {}", "head {}", "sort {}", "sha256sum {}"),
)
PATTERNS = ("*", "?*", "[!x]*", "-*", "{} a", "a {}", "[-@]*")
FORMS = ("{}", "({})", "timeout 5 {}", "{} | cat", "cd . && {}", "bash -c '{}'")
LOOPS = ("for f in {pattern}; do {looker}; done", "f={pattern}; {looker}")


def option_attacks() -> list[Attack]:
    commands = []
    for looker, pattern in itertools.product(LOOKERS, PATTERNS):
        whole = pattern.replace("{}", "*")
        commands += [form.replace("{}", looker.replace("{}", whole)) for form in FORMS]
        commands += [
            loop.format(pattern=whole.split()[0], looker=looker.replace("{}", "$f"))
            for loop in LOOPS
            if " " not in whole
        ]
    names = itertools.cycle(OPTION_NAMES)
    # Each command with a few names: all of them would be the same again and again.
    return [Attack(next(names), "", command) for command in dict.fromkeys(commands) for _ in range(3)]


# Names that are several words

SPLIT_NAMES = (
    *("x /{out}/note.txt", "a ../out/note.txt", "sub/b ../out/note.txt", "x\n/{out}/note.txt", "a\n../out/note.txt"),
    *("'x' ../out/note.txt", ".\\./out/note.txt", '"../out"/note.txt', "x\t/{out}/note.txt", "a\t../out/note.txt"),
)
LISTERS = (
    *("find .", "find . -type f", "find . -name '*.txt'", "find . -type f | sort", "git ls-files -o", "ls -R"),
    *("find . -print0 | tr '\\0' '\\n'", "find . | head -50", "grep -rl . ."),
)
PASSED = (
    "cat",
    "head -n 5",
    "grep -h K",
    "tail",
    "-n1 cat",
    "-r cat",
    "-I{} cat {}",
    "-d '\\n' cat",
    "sed -n p",
    "sort",
)


def split_attacks() -> list[Attack]:
    return [
        Attack(name, "", f"{lister} | xargs {passed}")
        for name, lister, passed in itertools.product(SPLIT_NAMES, LISTERS, PASSED)
    ]


# Links on the way down

LINKS = (
    *(
        ("way", "{out}"),
        ("sub/way", "{out}"),
        ("sub/way", "../../out"),
        ("sub/way", "../keys"),
        ("deep/er/way", "../.."),
    ),
    *(
        ("way.txt", "{out}/note.txt"),
        ("sub/way.txt", "../../out/note.txt"),
        ("sub/way", "../sub/up"),
        ("k.txt", ".npmrc"),
    ),
)
WALKERS = (
    *("grep -R K {}", "grep -Rh K {}", "grep --dereference-recursive K {}", "diff -rN {} empty", "diff -rN empty {}"),
    *(
        "find {} -follow -type f -exec cat {{}} +",
        "find {} -name '*.txt' -exec cat {{}} \\;",
        "find {} -exec cat {{}} +",
    ),
    *("find {} -type l -exec grep -r K {{}} +", "find {} | xargs cat", "find {} -type l | xargs grep -r K"),
    *("find {} -print0 | xargs -0 cat", "git ls-files -o {} | xargs head", "ls {} | xargs -I% cat {}/%", "rg -L K {}"),
    *("grep -rl . {} | xargs grep -h K", "find -L {} -type f -exec head {{}} +", "cat {}/*", "grep -r K {}/*"),
)
STARTS = (".", "sub", "./sub", "deep", "$PWD")


def link_attacks() -> list[Attack]:
    return [
        Attack(path, target, walker.format(*[start] * walker.count("{}")))
        for (path, target), walker, start in itertools.product(LINKS, WALKERS, STARTS)
    ]


ATTACKS: dict[str, Callable[[], list[Attack]]] = {
    "options": option_attacks,
    "words": split_attacks,
    "links": link_attacks,
}


@pytest.mark.parametrize("kind", ATTACKS)
def test_each_kind_has_at_least_200_different_attacks(kind: str) -> None:
    assert len(set(ATTACKS[kind]())) >= 200


def make_workspace(top: Path) -> Path:
    work = top / "work"
    for folder in (work / "sub", work / "keys", work / "empty", work / "deep/er", top / "out"):
        folder.mkdir(parents=True)
    for path in (work / ".npmrc", work / "keys/.env", work / "sub/id_rsa"):
        path.write_text(f"K={SECRET}\n", encoding="utf-8")
    (top / "out/note.txt").write_text(f"K={OUTSIDE}\n", encoding="utf-8")
    (work / "sub/up").symlink_to("../../out")
    for name in ("a", "b", "sub/plain.txt", "deep/er/plain.txt"):
        (work / name).write_text("plain\n", encoding="utf-8")
    return work


def place(attack: Attack, work: Path) -> bool:
    """Put the hostile file there; False if the file system has no such name."""
    out = str(work.parent / "out")
    path = work / attack.path.replace("{out}", out.lstrip("/"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if attack.target:
            path.unlink(missing_ok=True)
            path.symlink_to(attack.target.replace("{out}", out))
        else:
            path.write_text("plain\n", encoding="utf-8")
    except OSError:
        return False
    return True


@pytest.fixture(params=[(sandbox, mode) for sandbox in SANDBOXES for mode in MODES], ids="-".join)
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Held]:
    sandbox, mode = request.param
    settings = Settings(
        state=str(tmp_path / "state"),
        sandbox=sandbox,
        sandbox_required=sandbox != "off",
        raise_bugs=True,
    )
    # Not in /tmp: a boundary gives commands a directory of their own there.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as folder:
        work = make_workspace(Path(folder))
        with Session(work, mode=mode, settings=settings, journal=None) as session:
            try:
                assert session.services.command_host().boundary
            except NoSandbox as error:
                pytest.skip(f"{sandbox} cannot be used on this machine: {error}")
            yield Held(session, work, mode)


@pytest.mark.parametrize("kind", ATTACKS)
def test_nothing_is_shown_that_the_words_of_a_command_do_not_name(held: Held, kind: str) -> None:
    session, work, mode = held
    kept = (SECRET,) if mode == "accept-edits" else (SECRET, OUTSIDE)  # there reads outside need no approval
    leaks = []
    for attack in spread(ATTACKS[kind](), 10):
        if not place(attack, work):
            continue
        text = session.call("Bash", {"command": attack.command, "timeout": 10}).text
        leaks += [attack] if any(canary in text for canary in kept) else []
        top = work / attack.path.partition("/")[0]
        if top.is_symlink() or top.is_file():
            top.unlink()
        elif top.name not in ("sub", "deep"):
            shutil.rmtree(top)
        else:
            os.unlink(work / attack.path.replace("{out}", str(work.parent / "out").lstrip("/")))
    assert leaks == []


def test_plain_names_and_links_cause_no_question(tmp_path: Path) -> None:
    (tmp_path / "work/src").mkdir(parents=True)
    (tmp_path / "work/src/my file.txt").write_text("K\n", encoding="utf-8")
    (tmp_path / "work/src/link.txt").symlink_to("my file.txt")
    (tmp_path / "work/to-src").symlink_to("src")
    (tmp_path / "work/to-system").symlink_to("/usr/bin/env")
    settings = Settings(state=str(tmp_path / "state"), sandbox="off")
    with Session(tmp_path / "work", mode="read-only", settings=settings) as session:
        for command in (
            *("grep K *", "wc -l src/*", "grep -r K .", "diff src/link.txt to-src/link.txt", "find . -type f"),
        ):
            assert session.prepare("Bash", {"command": command}).verdict.decision == "allow", command


# Programs of the workspace

PROGRAM_FORMS = (
    *("{}", "timeout 5 {}", "true && {}", "bash -c '{}'", "find . -maxdepth 0 -exec {} ;", "echo a | xargs {}"),
    *("env {}", "( {} )", "if {}; then true; fi", "echo $({})"),
)
OWN = [
    (name, form.format(name).replace(" ;", " \\;") if "find" in form else form.format(name))
    for name, form in itertools.product(sorted(name for name in LOOKING if name.isalnum()), PROGRAM_FORMS)
]


def test_there_are_enough_programs() -> None:
    assert len(set(OWN)) >= 200


@pytest.mark.parametrize("entry", [".venv/bin", "{}/.venv/bin", "{}/node_modules/.bin"])
@pytest.mark.parametrize("mode", MODES)
def test_no_program_of_the_workspace_runs_by_the_name_of_one_that_only_looks(
    mode: Mode, entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an activated virtual environment of a hostile repository."""
    work = tmp_path / "work"
    folder = work / entry.replace("{}/", "")
    folder.mkdir(parents=True)
    canary = tmp_path / "canary"
    monkeypatch.setenv("PATH", f"{entry.replace('{}', str(work))}:{os.environ['PATH']}")
    settings = Settings(state=str(tmp_path / "state"), sandbox="off", raise_bugs=True)
    ran = []
    with Session(work, mode=mode, settings=settings, journal=None) as session:
        for name, command in spread(OWN, 12):
            (folder / name).write_text(f"#!/bin/sh\ntouch {canary}\n", encoding="utf-8")
            (folder / name).chmod(0o755)
            session.call("Bash", {"command": command, "timeout": 10})
            ran += [command] if canary.exists() else []
            canary.unlink(missing_ok=True)
            (folder / name).unlink()
        assert session.call("Bash", {"command": "ls"}).ok
    assert ran == []
