"""Uncommitted work that a git command overwrites or deletes is asked about, or can be brought back byte for byte."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.journal.store import SqliteJournal
from handrail.policy.modes import Mode
from handrail.shell.sandbox import Mode as Sandbox
from tests import sizes
from tests.shell.git_trees import shell

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")

REPOSITORY = r"""
git init -q -b main . && mkdir d && printf 'one\n' >f && printf 'one\r\n' >d/g && printf 'one' >h
echo one >k && echo one >s && ln -s f link && echo ignored >.gitignore && git add . && git commit -qm first
git checkout -qb other && echo theirs >ignored && git add -f ignored
echo other >o && git add o && git commit -qm other
git checkout -q main && echo main >m && git add m && git commit -qm main
"""
DIRTY = r"""
printf 'two\n\377\0\n' >f; printf 'two\r\n' >d/g; printf 'two' >h; git add h; printf 'three' >h; chmod +x h
git update-index --assume-unchanged k; echo two >k; git update-index --skip-worktree s; echo two >s
echo untracked >u; echo untracked >d/u; echo mine >ignored; rm link; ln -s d link
"""
CONFLICT = (
    "git checkout -q -b left HEAD~1; echo left >m; git add m; git commit -qm left; git merge -q main; echo work >m"
)

LOSING = [
    *("git checkout -- .", "git checkout .", "git checkout HEAD -- .", "git checkout HEAD f", "git checkout f d/g"),
    *("git checkout -- f", "git checkout HEAD~1 -- f d", "git checkout -q -- ':/'", "git checkout -- ':(top)*'"),
    *(
        "git checkout -f",
        "git checkout -qf main",
        "git checkout --forc other",
        "git checkout other",
        "git switch other",
    ),
    *("git switch -f other", "git switch --discard-changes other", "git switch --disc other", "git checkout -m other"),
    *(
        "git restore .",
        "git restore f",
        "git restore -s HEAD~1 -- d",
        "git restore -SW :/",
        "git restore --worktree '*'",
    ),
    *(
        "git reset --hard",
        "git reset --har",
        "git reset --hard HEAD~1",
        "git reset --merge",
        "git clean -fd",
        "git clean -fdx",
    ),
    *("git stash", "git stash -u", "git stash push -- f", "git stash drop", "git stash clear"),
    *(
        "git read-tree -u --reset HEAD",
        "git read-tree --reset -u other",
        "git checkout-index -f -a",
        "git checkout-index -fa",
    ),
    *("git checkout-index -f -- f", "git rm -f f", "git rm -rfq .", "git rm -rf --ignore-unmatch d", "git rm -qrf :/"),
    *(
        "git -C d checkout .",
        "git -C d restore ..",
        "cd d && git checkout -- .",
        "(cd d; git restore .)",
        "git -C . restore .",
    ),
    *("bash -c 'git checkout .'", "true && git restore f", "git diff | git apply -R", "git diff >p; git apply -R p"),
    *(
        "git checkout $(echo .)",
        "git checkout $(echo -f)",
        "x=.; git checkout $x",
        "git restore $(echo f)",
        "git restore *",
    ),
    *(
        "git reset $(echo --hard)",
        "git $(echo checkout) .",
        "git $(echo reset) --hard",
        "git clean $(echo -fd)",
        "git checkout *",
    ),
    *("git --work-tree=. checkout .", "git --git-dir=.git checkout .", "git -c core.worktree=. checkout .", "git undo"),
    *(
        "echo . | xargs git checkout",
        "find . -name f -exec git checkout {} +",
        "for p in f d; do git checkout $p; done",
    ),
    *("git checkout --pathspec-from-file=list", "git restore --pathspec-from-file=list", "git filter-branch -f --all"),
]
AFTER_CONFLICT = [
    "git merge --abort",
    "git merge --ab",
    "git reset --merge",
    "git checkout --ours m",
    "git checkout -m m",
]

Held = dict[str, tuple[str, bytes, bool]]


def held(place: Path) -> Held:
    """Everything in the working tree: kind, contents, and whether it can be run."""
    out: Held = {}
    for directory, folders, files in os.walk(place):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*files, *(name for name in folders if os.path.islink(os.path.join(directory, name)))):
            path = Path(directory, name)
            if path.is_symlink():
                out[str(path)] = ("link", os.fsencode(os.readlink(path)), False)
            else:
                out[str(path)] = ("file", path.read_bytes(), os.access(path, os.X_OK))
    return out


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("git")
    (top / "home").mkdir()
    (top / "work").mkdir()
    shell(REPOSITORY, top / "work", top / "home")
    return top / "work"


@pytest.fixture
def work(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HANDRAIL_STATE", str(tmp_path / "state"))
    (tmp_path / ".gitconfig").write_text(
        "[user]\nname=a\nemail=a@b\n[alias]\nundo=checkout -- .\n[advice]\ndetachedHead=false\n", encoding="utf-8"
    )
    return Path(shutil.copytree(template, tmp_path / "work", symlinks=True))


def check(work: Path, committed: Held, command: str, mode: Mode, sandbox: Sandbox) -> tuple[bool, bool]:
    """Run a command that nobody answers for, and undo it. Whether it ran, and whether it changed uncommitted work."""
    before = {path: actual for path, actual in held(work).items() if committed.get(path) != actual}
    journal = SqliteJournal(str(work.parent / "journal.db"))
    with Session(work, mode=mode, settings=Settings(sandbox=sandbox), journal=journal) as session:
        result = session.call("Bash", {"command": command})
        after = held(work)
        lost = {path for path in before if after.get(path) != before[path]}
        if result.status == "denied":
            assert not lost
        elif lost:
            session.undo()
            now = held(work)
            assert {path: now.get(path) for path in before} == before, (mode, command)
    return result.status != "denied", bool(lost)


@pytest.mark.parametrize("command", sizes.spread(LOSING, 36))
def test_uncommitted_work_is_asked_about_or_comes_back(command: str, work: Path) -> None:
    committed = held(work)
    shell(DIRTY + "printf 'f\\n' >list", work, work.parent)
    check(work, committed, command, "ask", "off")
    check(work, committed, command, "accept-edits", "auto")
    check(work, committed, command, "full", "off")


@pytest.mark.parametrize("command", AFTER_CONFLICT)
def test_a_resolution_of_a_conflict_comes_back(command: str, work: Path) -> None:
    committed = held(work)
    shell(CONFLICT, work, work.parent, check=False)
    assert (work / "m").read_text(encoding="utf-8") == "work\n"
    check(work, committed, command, "accept-edits", "auto")
    check(work, committed, command, "full", "off")


@pytest.mark.parametrize(
    "command", ["git checkout .", "git restore f", "git checkout-index -f -a", "git read-tree -u --reset HEAD"]
)
def test_what_can_be_kept_is_not_asked_about(command: str, work: Path) -> None:
    committed = held(work)
    shell(DIRTY, work, work.parent)
    assert check(work, committed, command, "full", "off") == (True, True)


@pytest.mark.parametrize("command", ["git checkout $(echo .)", "git reset $(echo --hard)", "git $(echo checkout) ."])
def test_what_is_computed_is_judged_as_deleting_work(command: str, work: Path) -> None:
    with Session(work, mode="accept-edits", settings=Settings(drafts=False)) as session:
        clean = session.prepare("Bash", {"command": command})
        shell(DIRTY, work, work.parent)
        dirty = session.prepare("Bash", {"command": command})
    assert not [access for access in clean.accesses if access.action == "delete"]
    assert {"f", "d/g", "u"} <= {access.target for access in dirty.accesses if access.action == "delete"}
    assert dirty.verdict.decision == "ask"


def test_more_than_can_be_kept_is_asked_about(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(DIRTY, work, work.parent)
    monkeypatch.setattr("handrail.tools.shared.git_call.MOST_SAVED_BYTES", 5)
    with Session(work, mode="accept-edits", settings=Settings(drafts=False)) as session:
        assert session.prepare("Bash", {"command": "git checkout ."}).verdict.decision == "ask"


def test_a_branch_whose_commits_nothing_else_holds_is_asked_about(work: Path) -> None:
    shell("git branch same main", work, work.parent)
    with Session(work, mode="full", settings=Settings(sandbox="off")) as session:
        assert session.prepare("Bash", {"command": "git branch -D same"}).verdict.decision == "allow"
        assert session.prepare("Bash", {"command": "git branch -D other"}).verdict.decision == "ask"
        assert session.prepare("Bash", {"command": "git branch -d --force other"}).verdict.decision == "ask"
