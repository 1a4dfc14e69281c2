"""Uncommitted work that a git command overwrites or deletes comes back byte for byte, or is asked about."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.journal.store import SqliteJournal
from handrail.policy.modes import Mode
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


def check(work: Path, committed: Held, command: str, mode: Mode, settings: Settings) -> None:
    """Run a command that nobody answers for, and undo it: no uncommitted work is lost."""
    before = {path: actual for path, actual in held(work).items() if committed.get(path) != actual}
    journal = SqliteJournal(str(work.parent / "journal.db"))
    with Session(work, mode=mode, settings=settings, journal=journal) as session:
        result = session.call("Bash", {"command": command})
        after = held(work)
        lost = {path for path in before if after.get(path) != before[path]}
        if result.status == "denied":
            assert not lost
        elif lost:
            session.undo()
            now = held(work)
            assert {path: now.get(path) for path in before} == before, (mode, command)


@pytest.mark.parametrize("command", sizes.spread(LOSING, 36))
def test_uncommitted_work_comes_back_or_is_asked_about(command: str, work: Path) -> None:
    committed = held(work)
    shell(DIRTY + "printf 'f\\n' >list", work, work.parent)
    check(work, committed, command, "ask", Settings(sandbox="off"))
    check(work, committed, command, "accept-edits", Settings())


@pytest.mark.parametrize("command", AFTER_CONFLICT)
def test_a_resolution_of_a_conflict_comes_back_or_is_asked_about(command: str, work: Path) -> None:
    committed = held(work)
    shell(CONFLICT, work, work.parent, check=False)
    assert (work / "m").read_text(encoding="utf-8") == "work\n"
    check(work, committed, command, "accept-edits", Settings())


WITHOUT_DRAFTS = {
    "ask": [
        *("git checkout .", "git checkout f", "git checkout -- f", "git checkout -f other", "git restore f"),
        *("git checkout-index -f -a", "git read-tree -u --reset HEAD", "git merge --ab", "git rm -rf d"),
        *("git reset --hard", "git clean -fd", "git stash drop", "git branch -D other", "git branch -d --force other"),
        *("git switch --disc other", "git checkout --pathspec-from-file=list", "rm -rf *", "find . -delete"),
    ],
    "allow": ["git checkout -b new", "git switch other", "git stash", "git clean -n", "git commit -m x", "git add ."],
}


@pytest.mark.parametrize("decision", WITHOUT_DRAFTS)
def test_without_drafts_a_command_that_may_discard_work_is_asked_about(work: Path, decision: str) -> None:
    with Session(work, mode="accept-edits", settings=Settings(drafts=False)) as session:
        if not session.services.command_host().sandbox.confined:
            pytest.skip("nothing confines commands here, so every command that writes is asked about")
        verdicts = {
            command: session.prepare("Bash", {"command": command}).verdict.decision
            for command in WITHOUT_DRAFTS[decision]
        }
    assert set(verdicts.values()) == {decision}, verdicts
