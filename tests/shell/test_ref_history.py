"""Protected files come from branches of people, not from what a command has prepared in a repository."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session, Settings
from handrail.shell.sandbox.ref_history import RefHistory
from tests import sizes

pytestmark = pytest.mark.slow  # starts many processes

BOUNDARIES = ("auto", "landlock")
EVIL = ".vscode/tasks.json"
PERSON = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "n"), ("EMAIL", "e@example.org"))
}
NAMES = f"""export {" ".join(f"{name}={value}" for name, value in PERSON.items())}
"""
COMMIT = f"""{NAMES}
blob=$(echo evil | git hash-object -w --stdin)
inner=$(printf "100644 blob $blob\\ttasks.json\\n" | git mktree)
tree=$({{ git ls-tree HEAD; printf "040000 tree $inner\\t.vscode\\n"; }} | git mktree)
evil=$(git commit-tree $tree -p HEAD -m x)
"""
"""A commit with a protected file, which is in no work tree."""
MAKES = {
    "branch": "git branch evil $evil",
    "tag": "git tag evil $evil",
    "remote branch": "git update-ref refs/remotes/origin/evil $evil; git branch -q evil refs/remotes/origin/evil",
    "packed": "git branch evil $evil; git pack-refs --all",
    "by hand": "echo $evil >.git/refs/heads/evil",
    "annotated tag": "git tag -a -m x evil $evil",
    "among many": "for n in $(seq 600); do echo create refs/tags/a$n HEAD; done | git update-ref --stdin; "
    "git branch evil $evil",
}
BRINGS = {
    "switch": "git switch -q --detach evil",
    "all paths": "git checkout -q evil -- .",
    "folder": "git restore --source evil .vscode",
    "merge": "git merge -q --ff-only evil",
    "reset": "git reset -q --hard evil",
    "read-tree": "git read-tree -u -m HEAD evil",
    "archive": "git archive evil .vscode | tar x",
    "show": "mkdir -p .vscode; git show evil:.vscode/tasks.json >.vscode/tasks.json",
}


def git(root: Path, *words: str) -> None:
    env = {**os.environ, **PERSON}
    subprocess.run(["git", *words], cwd=root, env=env, check=True, capture_output=True, timeout=60)


@pytest.fixture
def work() -> Iterator[Path]:
    # Not in /tmp, of which a boundary shows another one.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as folder:
        root = Path(os.path.realpath(folder)) / "work"
        root.mkdir()
        git(root, "init", "-q", "-b", "main")
        (root / "a.txt").write_text("a\n", encoding="utf-8")
        git(root, "add", ".")
        git(root, "commit", "-qm", "one")
        git(root, "tag", "start")
        yield root


def open_session(root: Path, sandbox: Any, **options: Any) -> Session:
    settings = Settings(state=str(root.parent / "state"), sandbox=sandbox, raise_bugs=True)
    return Session(root, settings=settings, journal=None, **{"mode": "accept-edits", **options})


def run(session: Session, root: Path, script: str) -> Result:
    """Run a script whose words nobody has judged."""
    (root / "script.sh").write_text(f"{script}\n", encoding="utf-8")
    result = session.call("Bash", {"command": "bash script.sh"})
    assert result.status in ("ok", "partial"), result.text
    (root / "script.sh").unlink()
    return result


CASES = [(make, bring, sandbox) for sandbox in BOUNDARIES for make in MAKES for bring in BRINGS]
random.Random(16).shuffle(CASES)


@pytest.mark.parametrize(("make", "bring", "sandbox"), sizes.spread(CASES, 15))
def test_a_branch_of_a_command_brings_no_protected_file(work: Path, make: str, bring: str, sandbox: str) -> None:
    with open_session(work, sandbox) as session:
        run(session, work, f"{COMMIT}{MAKES[make]}")
        session.call("Bash", {"command": BRINGS[bring]})
        assert not (work / EVIL).exists()
    git(work, "checkout", "-q", "-f", "-B", "main", "start")
    with open_session(work, sandbox) as session:
        session.call("Bash", {"command": BRINGS[bring]})
        assert not (work / EVIL).exists()


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_an_approved_command_and_a_job_are_commands_too(work: Path, sandbox: str) -> None:
    with open_session(work, sandbox, mode="ask", approve=lambda _: True) as session:
        run(session, work, f"{COMMIT}{MAKES['branch']}")
    with open_session(work, sandbox) as session:
        session.call("Bash", {"command": BRINGS["all paths"]})
        assert not (work / EVIL).exists()
    git(work, "branch", "-D", "evil")
    (work / "job.sh").write_text(f"{COMMIT.replace('-m x', '-m y')}{MAKES['branch']}\n", encoding="utf-8")
    with open_session(work, sandbox) as session:
        job = session.command_host().start("bash job.sh", str(work), "job", False, None)
        job.run.wait(60)
        assert subprocess.run(["git", "rev-parse", "-q", "--verify", "evil"], cwd=work, check=False).returncode == 0
    with open_session(work, sandbox) as session:
        session.call("Bash", {"command": BRINGS["all paths"]})
        assert not (work / EVIL).exists()


def test_a_repository_that_a_command_made_is_a_commands(work: Path) -> None:
    subprocess.run(["rm", "-rf", str(work / ".git")], check=True)
    with open_session(work, "auto") as session:
        run(session, work, f"{NAMES}git init -q -b main .; git add a.txt; git commit -qm one")
        run(session, work, f"{COMMIT}{MAKES['branch']}")
    with open_session(work, "auto") as session:
        session.call("Bash", {"command": BRINGS["all paths"]})
    assert not (work / EVIL).exists()


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_branches_of_people_work_as_ever(work: Path, sandbox: str) -> None:
    with open_session(work, sandbox) as session:
        run(session, work, f"{NAMES}git switch -q -c mine; echo b >b.txt; git add b.txt; git commit -qm b")
        git(work, "switch", "-q", "-c", "theirs")  # a person, beside the session
        (work / ".vscode").mkdir()
        (work / EVIL).write_text("wanted\n", encoding="utf-8")
        git(work, "add", ".")
        git(work, "commit", "-qm", "tasks")
        git(work, "switch", "-q", "mine")
        result = session.call("Bash", {"command": "git switch -q theirs"})
        assert result.ok and result.data["put_back"] == [], result.text
        assert (work / EVIL).read_text(encoding="utf-8") == "wanted\n"
    with open_session(work, sandbox) as session:
        for command in ("git switch -q mine", "git merge -q theirs", "git switch -q main"):
            result = session.call("Bash", {"command": command})
            assert result.ok and result.data["put_back"] == [], (command, result.text)


def test_the_tips_of_commands_are_known_in_every_clone(work: Path) -> None:
    state = work.parent / "state"
    state.mkdir()
    history = RefHistory(str(work), str(state))
    history.note(by_command=False)
    (first,) = history.list_trusted()
    git(work, "commit", "-q", "--allow-empty", "-m", "two")
    history.note(by_command=True)
    assert history.list_trusted() == [first]
    second = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=work, capture_output=True, text=True, check=True
    ).stdout.strip()
    git(work, "clone", "-q", ".", "../clone")
    git(work, "worktree", "add", "-q", "../tree")
    git(work, "commit", "-q", "--allow-empty", "-m", "three")
    for root in (work, work.parent / "clone", work.parent / "tree"):
        other = RefHistory(str(root), str(state))
        other.note(by_command=False)
        assert first in other.list_trusted() and second not in other.list_trusted(), root


# A repository in two halves


HALVES = {
    "head": "echo ref: refs/heads/main >half/HEAD",
    "commondir": "echo ../rest >half/commondir",
    "settings": "git config -f half/config.worktree core.fsmonitor ./evil",
    "rest": "mkdir -p rest/objects rest/refs",
    "rest settings": "printf '[core]\\nrepositoryformatversion = 1\\n[extensions]\\nworktreeConfig\\n' >rest/config",
    "link": "ln -s ../rest/config half/config",
}


def takes_settings(folder: Path) -> bool:
    words = ["git", "config", "core.fsmonitor"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return bool(done.stdout.strip())


@pytest.mark.parametrize("order", [list(HALVES), list(HALVES)[::-1], [*list(HALVES)[2:], *list(HALVES)[:2]]])
@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_no_command_leaves_a_repository_in_two_halves(work: Path, sandbox: str, order: list[str]) -> None:
    (work / "half").mkdir()
    for at in range(1, len(order)):
        with open_session(work, sandbox) as session:
            for names in (order[:at], order[at:]):
                run(session, work, "; ".join(HALVES[name] for name in names))
        assert not takes_settings(work / "half"), order[:at]
        subprocess.run(["rm", "-rf", str(work / "rest"), str(work / "half")], check=True)
        (work / "half").mkdir()
    subprocess.run("; ".join(HALVES.values()), shell=True, cwd=work, check=True, timeout=60)
    assert takes_settings(work / "half")  # what git would have done


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_work_trees_of_a_bare_repository_work_as_ever(work: Path, sandbox: str) -> None:
    git(work, "clone", "-q", "--bare", ".", "store.git")
    with open_session(work, sandbox) as session:
        session.call("Bash", {"command": "git -C store.git worktree add -q ../one"})
    assert (work / "store.git" / "worktrees" / "one" / "commondir").exists()
