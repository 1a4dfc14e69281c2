"""Every path that a command changed is judged before it is kept, by the table that the file tools use."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail.model import Answer, Question
from handrail.pipeline.session import Session
from handrail.settings import Settings
from tests import sizes
from tests.drafts.machine import require_drafts
from tests.pipeline.later_names import CACHES, NEW_AT_THE_TOP, RUN_LATER

PERSON = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, env={**os.environ, **PERSON}, check=True, capture_output=True, timeout=60)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    require_drafts()
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "a")
    git(root, "config", "user.email", "a@b")
    (root / "a.txt").write_text("a\n", encoding="utf-8")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    git(root, "checkout", "-qb", "side")
    (root / "side.txt").write_text("side\n", encoding="utf-8")
    git(root, "add", ".")
    git(root, "commit", "-qm", "side")
    git(root, "checkout", "-q", "main")
    return root


@pytest.fixture
def asked() -> list[Question]:
    return []


@pytest.fixture
def session(work: Path, asked: list[Question]) -> Iterator[Session]:
    def refuse(question: Question) -> Answer:
        asked.append(question)
        return Answer(False)

    settings = Settings(durable=False, state=str(work.parent / "state"), raise_bugs=True)
    with Session(work, settings=settings, mode="accept-edits", approve=refuse, journal=None) as session:
        yield session


def run(session: Session, script: str) -> None:
    """Run a script whose words tell nothing about its files."""
    place = Path(session.workspace.home) / "script.sh"
    place.write_text(f"set -e\n{script}\n", encoding="utf-8")
    try:
        result = session.call("Bash", {"command": "bash script.sh"})
    finally:
        place.unlink(missing_ok=True)
    assert result.data["exit_code"] == 0, result.text


def creating(name: str) -> str:
    return f"mkdir -p './{os.path.dirname(name)}'; echo x >'./{name}'"


def list_names() -> list[str]:
    deep = [f"packages/app/{name}" for name in RUN_LATER]
    return [*RUN_LATER, *deep, *NEW_AT_THE_TOP]


def test_the_names_are_many() -> None:
    assert len(set(RUN_LATER)) >= 150
    assert len(set(CACHES)) >= 40


def test_no_name_that_runs_later_is_written_unasked(session: Session, work: Path, asked: list[Question]) -> None:
    for name in list_names():
        before = len(asked)
        result = session.call("Write", {"file_path": name, "content": "x\n"})
        assert len(asked) == before + 1 or (result.error and result.error.code == "denied"), name
        assert not (work / name).exists(), name


def test_a_command_is_asked_about_every_such_name(session: Session, work: Path, asked: list[Question]) -> None:
    names = [name for name in list_names() if not name.endswith((".clinerules", ".unheard-of-tool"))]
    for at in range(0, len(names), 20):
        asked.clear()
        run(session, "\n".join(map(creating, names[at : at + 20])))
        (question,) = asked
        assert set(names[at : at + 20]) <= {access.target for access in question.accesses}
    assert sorted(os.listdir(work)) == [".git", "a.txt"]


@pytest.mark.parametrize("name", sizes.spread(list_names(), 8))
def test_a_command_leaves_none_of_them_unasked(session: Session, work: Path, asked: list[Question], name: str) -> None:
    run(session, creating(name))
    assert len(asked) == 1
    assert "+x" in asked[0].preview()
    assert not (work / name).exists()


def test_caches_outputs_and_plain_data_are_no_question(session: Session, work: Path, asked: list[Question]) -> None:
    run(session, "\n".join(map(creating, CACHES)))
    assert not asked, asked[0].verdict
    assert all((work / name).exists() for name in CACHES)
    run(session, "rm -rf node_modules .venv vendor target")
    assert asked == []


def test_what_git_ignored_before_the_session_is_no_question(work: Path) -> None:
    (work / ".gitignore").write_text(".mine/\n", encoding="utf-8")
    settings = Settings(durable=False, state=str(work.parent / "state"))
    asked: list[Question] = []

    def refuse(question: Question) -> bool:
        asked.append(question)
        return False

    with Session(work, settings=settings, mode="accept-edits", approve=refuse) as session:
        run(session, "mkdir .mine; echo x >.mine/x; echo .other >>.gitignore")
        assert asked == []
        session.set_mode("accept-edits")
        run(session, "echo x >.other")
        assert len(asked) == 1


ATTACKS = {
    "hook": "echo x >.git/hooks/post-checkout",
    "monitor": "git config core.fsmonitor ./evil",
    "hooks path": "git config core.hooksPath tools",
    "alias": "git config alias.st '!evil'",
    "include": "git config include.path ../evil",
    "filter": "git config filter.x.smudge evil",
    "helper": "git config remote.x.url ext::sh",
    "worktree settings": "printf '[core]\\nfsmonitor = evil\\n' >.git/config.worktree",
    "attributes": "mkdir -p .git/info; echo '* filter=x' >.git/info/attributes",
    "commondir": "echo ../elsewhere >.git/commondir",
    "linked hooks": "rm -r .git/hooks; mkdir tools; ln -s ../tools .git/hooks",
    "linked info": "rm -rf .git/info; mkdir tools; ln -s ../tools .git/info",
    "todo with a command": "mkdir .git/rebase-merge; echo 'exec evil' >.git/rebase-merge/git-rebase-todo",
    "own strategy": "mkdir .git/rebase-merge; echo evil >.git/rebase-merge/strategy",
    "other repository": "mkdir sub; echo 'gitdir: ../evil' >sub/.git",
    "nested repository": "git init -q sub; git -C sub config core.fsmonitor evil",
    "in dependencies": "git init -q node_modules/x; git -C node_modules/x config core.pager evil",
    "repository without a name": "mkdir -p b/objects b/refs; echo ref: refs/heads/main >b/HEAD; "
    "printf '[core]\\nbare = true\\nfsmonitor = evil\\n' >b/config",
    "module": "mkdir -p .git/modules/x/hooks; echo ref: refs/heads/m >.git/modules/x/HEAD; "
    "echo x >.git/modules/x/hooks/post-checkout",
    "work tree": "git worktree add -q w; echo .. >.git/worktrees/w/commondir",
    "no repository": "rm -rf .git",
    "no settings": "rm .git/config",
    "replaced": "mv .git old; git init -q; git config core.editor evil",
}


@pytest.mark.parametrize("script", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_on_a_repository_is_asked_about_once(
    session: Session, work: Path, asked: list[Question], script: str
) -> None:
    before = sorted(os.listdir(work)), (work / ".git" / "config").read_bytes(), os.listdir(work / ".git" / "hooks")
    run(session, script)
    assert len(asked) == 1
    assert asked[0].files
    after = sorted(os.listdir(work)), (work / ".git" / "config").read_bytes(), os.listdir(work / ".git" / "hooks")
    assert after == before


def test_a_repository_in_two_halves_is_asked_about(session: Session, work: Path, asked: list[Question]) -> None:
    run(
        session, "mkdir half; printf '[core]\\nfsmonitor = evil\\n' >half/config; mkdir half/objects; echo x >half/HEAD"
    )
    assert asked == []
    run(session, "mkdir -p half/refs")
    assert len(asked) == 1
    assert not session.call("Write", {"file_path": "half/refs/x", "content": "x"}).ok
    assert len(asked) == 2


def test_the_common_part_of_a_work_tree_is_a_repository(session: Session, asked: list[Question]) -> None:
    run(session, "git clone -q --bare . store.git; git -C store.git worktree add -q ../one side")
    run(session, "rm store.git/HEAD")
    assert asked == []
    run(session, "printf '[core]\\nfsmonitor = evil\\n' >store.git/config")
    assert len(asked) == 1


EVERYDAY = [
    "echo b >>a.txt; git add .; git commit -qm two; git log --oneline",
    "git checkout -q side; git checkout -q main; git switch -qc new; git branch -d new || true",
    "git merge -q --no-edit side",
    "git rebase -q side",
    "git checkout -q side; echo x >a.txt; git commit -qam x; git checkout -q main; echo y >a.txt; git commit -qam y; "
    "git rebase side || true",
    "git cherry-pick side; git revert --no-edit HEAD",
    "echo b >a.txt; git stash -q; git stash pop -q; git checkout -q .",
    "git tag v1; git tag -am x v2; git tag -d v1",
    "git reset -q --hard HEAD; git clean -fdxq; git gc -q; git pack-refs --all; git reflog expire --all --expire=now",
    "git init -q sub; git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m x",
    "git clone -q . copy; git -C copy fetch -q; git -C copy pull -q",
    "git worktree add -q w side; git worktree list; git worktree remove w",
    "git remote add up ../up; git remote rename up down; git remote remove down",
    "git branch --set-upstream-to=main side; git branch -m side other",
    "git config user.name b; git config user.email b@c",
    "git bisect start; git bisect bad; git bisect reset",
    "git format-patch -q -1 side; git am -q *.patch; git notes add -m x",
    "git sparse-checkout set src; git sparse-checkout disable",
    "git clone -q --bare . store.git; git -C store.git fetch -q origin main; git -C store.git remote set-url origin x",
]


@pytest.mark.parametrize("script", EVERYDAY)
def test_everyday_git_is_no_question(session: Session, work: Path, asked: list[Question], script: str) -> None:
    run(session, script)
    assert asked == []
    git(work, "status")


def test_a_checkout_that_brings_protected_files_is_asked_about_once(
    session: Session, work: Path, asked: list[Question]
) -> None:
    git(work, "checkout", "-qb", "ci")
    for name in (".github/workflows/ci.yml", ".envrc"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("run: x\n", encoding="utf-8")
    git(work, "add", ".")
    git(work, "commit", "-qm", "ci")
    git(work, "checkout", "-q", "main")
    result = session.call("Bash", {"command": "git checkout -q ci"})
    assert len(asked) == 1
    assert {".github/workflows/ci.yml", ".envrc"} <= {access.target for access in asked[0].accesses}
    assert asked[0].preview().count("+run: x") == 2
    assert not result.data["kept"]
    assert (work / ".git" / "HEAD").read_text(encoding="utf-8") == "ref: refs/heads/main\n"
