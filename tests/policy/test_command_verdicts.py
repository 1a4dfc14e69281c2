"""What is said of whole command lines, through the pipeline: dangerous ones are never simply run, usual ones are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, Settings
from handrail.errors import BadCommand, Dangerous
from handrail.policy.judge import Machine, RulePolicy
from handrail.workspace import Root
from tests.policy.verdict_rows import DANGEROUS, EVERYDAY

COLUMNS: list[tuple[Any, bool]] = [
    ("read-only", False),
    ("ask", False),
    ("accept-edits", False),
    ("accept-edits", True),
]
LETTERS = {"allow": "a", "ask": "k", "deny": "d"}
FILES = {".env": "K=1\n", "a.py": "x\n", "b.py": "y\n", "a.json": "{}", "sub/c.py": "", "clean/d.py": "", "build/o": ""}


@pytest.fixture(scope="module")
def say(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The verdicts on a command, a letter a column."""
    top = tmp_path_factory.mktemp("verdicts")
    root = top / "project"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    settings = Settings(raise_bugs=True, sandbox="off", state=str(top / "state"))
    sessions = []
    for mode, held in COLUMNS:
        policy = RulePolicy([Root(str(root))], mode, (), Machine(namespaced=partial(bool, held)), str(top / "home"))
        sessions.append(Session(root, policy=policy, settings=settings))

    def verdicts(command: str) -> str:
        letters = ""
        for session in sessions:
            try:
                letters += LETTERS[session.prepare("Bash", {"command": command}).verdict.decision]
            except (Dangerous, BadCommand):
                letters += "x"
        return letters

    yield verdicts
    for session in sessions:
        session.close()


def test_the_tables_are_long_enough() -> None:
    assert len({command for _, command in DANGEROUS}) >= 150
    assert len(set(EVERYDAY)) >= 60


@pytest.mark.parametrize(("wanted", "command"), DANGEROUS, ids=lambda value: ascii(value))
def test_what_is_dangerous_is_never_simply_run(say: Callable[[str], str], wanted: str, command: str) -> None:
    assert "a" not in wanted[:3]
    assert say(command) == wanted


@pytest.mark.parametrize("command", EVERYDAY, ids=lambda value: ascii(value))
def test_what_only_looks_is_never_asked_about(say: Callable[[str], str], command: str) -> None:
    assert say(command) == "aaaa"


# What a command comes to without naming it.


def _policy(root: Path, mode: Any = "accept-edits", *, held: bool = False, masked: bool = False) -> RulePolicy:
    return RulePolicy([Root(str(root))], mode, (), Machine(lambda: held, lambda: masked), str(root.parent / "home"))


@pytest.fixture
def judge(tmp_path: Path, make_session: Callable[..., Session]) -> Callable[..., Any]:
    root = tmp_path / "project"
    for name in (".env", "a.py", "sub/deep/id_rsa", "clean/b.py", "keys/server.pem", "pkg/node_modules/x/cert.pem"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n", encoding="utf-8")

    def verdict(command: str, **options: Any) -> Any:
        session = make_session(root=root, policy=_policy(root, **options), sandbox="off")
        return session.prepare("Bash", {"command": command}).verdict

    return verdict


@pytest.mark.parametrize(
    ("command", "decision", "named"),
    [
        ("cat .e*", "deny", ".env"),
        ("cat .[e]nv", "deny", ".env"),
        ("cat .??v", "deny", ".env"),
        ("cat .[[:alpha:]]nv", "deny", ".env"),
        ("cat keys/*", "deny", "keys/server.pem"),
        ("cat */*.pem", "deny", ".pem"),
        ("cd keys && head *", "deny", "keys/server.pem"),
        ("for f in keys/*; do cat $f; done", "ask", ""),
        ("cat ~/.ssh/*", "deny", ".ssh"),
        ("grep -r x .", "ask", ".env"),
        ("grep -r x", "ask", ".env"),
        ("grep -rn x sub", "ask", "sub/deep/id_rsa"),
        ("rg x", "ask", "keys/server.pem"),
        ("rg -uu x", "ask", ".env"),
        ("rg --hidden x", "ask", ".env"),
        ("diff -r . clean", "ask", ""),
        ("find . -type f | xargs cat", "ask", ""),
        ("tar cf - .", "ask", ""),
        ("cp -r . /tmp/x", "ask", ""),
        ("cat *", "allow", ""),
        ("cat *.py", "allow", ""),
        ("cat [.]env", "allow", ""),
        ("cat clean/*", "allow", ""),
        ("grep -r x clean", "allow", ""),
        ("grep -r x pkg", "allow", ""),
        ("rg x clean a.py", "allow", ""),
        ("ls", "allow", ""),
        ("ls keys/*", "allow", ""),
        ("ls -R", "allow", ""),
        ("git status", "allow", ""),
        ("git diff", "allow", ""),
        ("find . -name '*.pem'", "allow", ""),
        ("tree", "allow", ""),
        ("du -sh .", "allow", ""),
        ("wc -l keys/*", "allow", ""),
    ],
)
def test_a_secret_that_is_not_named_counts(judge: Callable[..., Any], command: str, decision: str, named: str) -> None:
    verdict = judge(command)
    assert (verdict.decision, named in verdict.why) == (decision, True), verdict


def test_a_boundary_that_holds_but_hides_nothing_is_not_enough(judge: Callable[..., Any]) -> None:
    for command in ("grep -r x .", "cp -r . clean/copy"):
        verdict = judge(command, held=True)
        assert verdict.decision == "ask" and ".env" in verdict.why, command


def test_a_boundary_that_hides_is_the_answer(judge: Callable[..., Any]) -> None:
    for command in ("tar cf - .", "grep -r x .", "cat keys/*", "cat .e*"):
        assert judge(command, held=True, masked=True).decision == "allow", command
    assert judge("cat .env", held=True, masked=True).decision == "deny"


def test_every_mode_minds_what_a_directory_holds(judge: Callable[..., Any]) -> None:
    for mode, wanted in (("read-only", "ask"), ("ask", "ask"), ("full", "ask"), ("deny-asks", "deny")):
        assert judge("grep -r x .", mode=mode).decision == wanted, mode


def test_a_pattern_that_deletes_minds_what_it_matches(judge: Callable[..., Any]) -> None:
    assert judge("rm clean/*", mode="full").decision == "allow"
    verdict = judge("rm keys/*", mode="full")
    assert verdict.decision == "ask" and "keys/server.pem" in verdict.why


def test_a_path_outside_that_leads_nowhere_needs_no_answer(tmp_path: Path, judge: Callable[..., Any]) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_text("", encoding="utf-8")
    for name, wanted in (("file", "ask"), ("missing", "allow"), ("f*", "ask")):
        assert judge(f"cat {tmp_path}/elsewhere/{name}").decision == wanted, name


def test_a_link_to_a_secret_is_one(tmp_path: Path, judge: Callable[..., Any]) -> None:
    (tmp_path / "project" / "clean" / "notes.txt").symlink_to("../.env")
    assert judge("cat clean/*").decision == "deny"
    assert judge("grep -R x clean").decision == "ask"


def test_a_file_that_came_later_is_seen(tmp_path: Path, judge: Callable[..., Any]) -> None:
    for number in range(20):
        assert judge("grep -r x clean").decision == "allow"
        (tmp_path / "project/clean" / f"{number}.key").write_text("", encoding="utf-8")
        assert judge("grep -r x clean").decision == "ask"
        (tmp_path / "project/clean" / f"{number}.key").unlink()


def test_more_than_can_be_looked_at_is_asked_about(
    tmp_path: Path, make_session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    (root / "d").mkdir(parents=True)
    for number in range(30):
        (root / "d" / f"{number}.py").write_text("", encoding="utf-8")
    monkeypatch.setattr("handrail.policy.shell_patterns.expand.__defaults__", (20,))
    session = make_session(root=root, policy=_policy(root), sandbox="off")
    verdict = session.prepare("Bash", {"command": "cat d/*"}).verdict
    assert verdict.decision == "ask" and "too many files" in verdict.why
    assert session.prepare("Bash", {"command": "ls -R"}).verdict.decision == "allow"


def test_what_a_boundary_is_to_hide_is_listed(tmp_path: Path) -> None:
    for name in (".env", "sub/id_rsa", "sub/a.py", ".ssh/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    assert _policy(tmp_path).unreadable() == [str(tmp_path / n) for n in (".env", ".ssh", "sub/id_rsa")]


@pytest.mark.parametrize(
    "inner", [".git/hooks/x", ".git/info/exclude", ".vscode/tasks.json", ".github/workflows/a.yml"]
)
def test_a_private_directory_for_temporary_files_has_nothing_to_protect(judge: Callable[..., Any], inner: str) -> None:
    command = f"mkdir -p /tmp/scratch && echo x > /tmp/scratch/{inner}"
    assert judge(command, held=True, masked=True).decision == "allow"
    assert judge(command).decision == "ask"


def test_the_directory_around_the_workspace_is_not_private(tmp_path: Path, judge: Callable[..., Any]) -> None:
    assert judge(f"rm -rf {tmp_path.parent}", held=True, masked=True).decision != "allow"
