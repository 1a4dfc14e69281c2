"""Background jobs work on the workspace itself: their changes are found by comparing, judged, recorded and undone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from handrail import Session, Settings
from handrail.journal.store import SqliteJournal
from handrail.policy.files import trust
from handrail.shell import tree_listing
from handrail.shell.followed_jobs import ChangeJudge, FollowedJobs
from handrail.shell.tree_listing import TreeListing
from tests.command import TIMEOUT
from tests.pipeline.later_names import CACHES
from tests.pipeline.test_judged_changes import ATTACKS, creating, git, list_names
from tests.sizes import spread

pytestmark = [
    pytest.mark.slow,  # starts many processes
    pytest.mark.skipif(not shutil.which("git"), reason="git is not installed"),
]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "a")
    git(root, "config", "user.email", "a@b")
    (root / ".gitignore").write_text("script.sh\n", encoding="utf-8")
    (root / "a.txt").write_text("a\n", encoding="utf-8")
    (root / "b.txt").write_text("b\n", encoding="utf-8")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    return root


@pytest.fixture(params=["auto", "off"])
def session(work: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    settings = Settings(durable=False, state=str(work.parent / "state"), raise_bugs=True, sandbox=request.param)
    with Session(work, settings=settings, mode="full") as session:
        yield session


def run_job(session: Session, script: str) -> None:
    """Run a script in the background, until it has ended and somebody has looked at its changes."""
    place = Path(session.workspace.home) / "script.sh"
    place.write_text(f"{script}\n", encoding="utf-8")
    started = session.call("Bash", {"command": "bash script.sh", "background": True})
    assert started.data.get("job"), started.text
    session.services.command_host().jobs.get(started.data["job"]).run.wait(TIMEOUT)
    session.services.command_host().changes.check_jobs()


def find_job_call(session: Session) -> int:
    """The number under which the changes of the last job are in the journal."""
    assert isinstance(session.journal, SqliteJournal)
    from handrail.journal.queries import JournalReader

    with JournalReader(session.journal.path) as reader:
        return max(row.seq for row in reader.read_calls() if row.tool == "Job")


def test_a_job_leaves_no_name_that_runs_later(session: Session, work: Path) -> None:
    names = [name for name in list_names() if not name.endswith((".clinerules", ".unheard-of-tool"))]
    run_job(session, "\n".join(map(creating, names)))
    assert [name for name in names if os.path.lexists(work / name)] == []


def test_caches_outputs_and_plain_data_of_a_job_stay(session: Session, work: Path) -> None:
    run_job(session, "\n".join(map(creating, CACHES)))
    assert [name for name in CACHES if not (work / name).exists()] == []


@pytest.mark.parametrize("script", spread(list(ATTACKS.values()), 12))
def test_an_attack_of_a_job_on_a_repository_is_put_back(session: Session, work: Path, script: str) -> None:
    hooks, settings = set(os.listdir(work / ".git" / "hooks")), (work / ".git" / "config").read_bytes()
    run_job(session, script)
    (work / "script.sh").unlink()
    assert not os.path.islink(work / ".git" / "hooks") and not os.path.islink(work / ".git" / "info")
    assert (work / ".git" / "config").read_bytes() == settings
    assert os.path.isdir(work / ".git")
    assert set(os.listdir(work / ".git" / "hooks") if (work / ".git" / "hooks").exists() else []) <= hooks
    assert not os.path.lexists(work / ".git" / "commondir")
    assert not os.path.lexists(work / ".git" / "worktrees" / "w" / "commondir") or script.count("commondir") == 0
    listed = subprocess.run(["grep", "-rl", "evil", "."], cwd=work, capture_output=True, text=True, timeout=TIMEOUT)
    assert listed.stdout == ""


def test_everyday_git_in_a_job_stays(session: Session, work: Path) -> None:
    run_job(session, "echo c >>a.txt; git add .; git commit -qm two; git checkout -qb side; git stash list; git gc -q")
    log = subprocess.run(["git", "log", "--format=%s"], cwd=work, capture_output=True, text=True, timeout=TIMEOUT)
    assert log.stdout.split() == ["two", "one"]
    git(work, "fsck")


def test_undo_restores_what_git_and_copies_have_and_names_the_rest(session: Session, work: Path) -> None:
    (work / "mine.txt").write_text("mine\n", encoding="utf-8")
    (work / "b.txt").write_text("changed by the person\n", encoding="utf-8")
    (work / "large.bin").write_bytes(b"x" * (2 << 20))
    os.symlink("a.txt", work / "link")
    change = "echo job >a.txt; echo job >b.txt; rm mine.txt; echo y >>large.bin"
    run_job(session, f"{change}; mkdir new; echo n >new/n; ln -sfn b.txt link")
    number = find_job_call(session)
    with pytest.raises(LookupError) as unknown:  # whoever only wants to undo the last change does not mean a job
        session.undo()
    assert f"`handrail undo {number}` undoes the job `bash script.sh`" in str(unknown.value)
    assert "cannot be undone" not in str(unknown.value)
    report = session.undo(call=number)
    with pytest.raises(LookupError, match=r"nothing to undo in this \w+$"):
        session.undo(any_session=True)
    assert (work / "a.txt").read_text(encoding="utf-8") == "a\n"
    assert (work / "b.txt").read_text(encoding="utf-8") == "changed by the person\n"
    assert (work / "mine.txt").read_text(encoding="utf-8") == "mine\n"
    assert os.readlink(work / "link") == "a.txt"
    assert not (work / "new").exists()
    assert (report.missing, report.conflicts, report.unknown) == ((str(work / "large.bin"),), (), ())


def test_undo_leaves_a_repository_as_it_is_and_names_it(session: Session, work: Path) -> None:
    run_job(session, "echo c >>a.txt; git commit -qam two")
    report = session.undo(call=find_job_call(session))
    assert (work / "a.txt").read_text(encoding="utf-8") == "a\n"
    assert report.missing == (str(work / ".git"),)
    git(work, "fsck")


def test_changes_of_the_tools_beside_a_job_are_not_the_jobs(session: Session, work: Path) -> None:
    (work / "script.sh").write_text("until [ -e go ]; do sleep 0.02; done; echo job >b.txt\n", encoding="utf-8")
    started = session.call("Bash", {"command": "bash script.sh", "background": True})
    session.call("Read", {"file_path": "a.txt"})
    session.call("Write", {"file_path": "a.txt", "content": "tool\n"})
    session.call("Bash", {"command": "mkdir deep && echo x >deep/x"})
    (work / "go").touch()
    session.services.command_host().jobs.get(started.data["job"]).run.wait(TIMEOUT)
    session.services.command_host().changes.check_jobs()
    session.undo(call=find_job_call(session))
    assert (work / "a.txt").read_text(encoding="utf-8") == "tool\n"
    assert (work / "b.txt").read_text(encoding="utf-8") == "b\n"
    assert (work / "deep" / "x").exists() and not (work / "go").exists()


def test_a_kept_call_that_ends_in_time_is_recorded_as_a_job(session: Session, work: Path) -> None:
    (work / "script.sh").write_text("echo job >a.txt\n", encoding="utf-8")
    session.call("Bash", {"command": "bash script.sh", "keep": True, "timeout": 60})
    session.undo(call=find_job_call(session))
    assert (work / "a.txt").read_text(encoding="utf-8") == "a\n"


def test_a_tree_with_too_many_entries_is_not_followed_and_the_answer_says_so(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_listing, "MOST_ENTRIES", 3)
    monkeypatch.setattr(tree_listing, "MOST_OTHER_ENTRIES", 3)
    result = session.call("Bash", {"command": "bash -c 'echo x >a.txt'", "background": True})
    assert "cannot be undone: background jobs are not followed in a workspace with more than" in result.text


def test_in_a_large_tree_dependencies_are_not_followed_and_nothing_else_is_left(
    session: Session, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_listing, "MOST_ENTRIES", 3)
    run_job(session, "mkdir node_modules sub; echo x >node_modules/x; echo x >sub/.envrc; echo x >b.txt")
    assert (work / "node_modules" / "x").exists() and not (work / "sub" / ".envrc").exists()
    session.undo(call=find_job_call(session))
    assert (work / "b.txt").read_text(encoding="utf-8") == "b\n"


def test_a_job_cannot_hide_behind_many_files(session: Session, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = "touch begun; until [ -e go ]; do sleep 0.02; done"
    (work / "script.sh").write_text(f"{started}; echo x >.envrc; touch {{1..300}}\n", encoding="utf-8")
    job = session.call("Bash", {"command": "bash script.sh", "background": True}).data["job"]
    monkeypatch.setattr(tree_listing, "MOST_ENTRIES", 100)
    monkeypatch.setattr(tree_listing, "MOST_OTHER_ENTRIES", 100)
    (work / "go").touch()
    session.services.command_host().jobs.get(job).run.wait(TIMEOUT)
    session.services.command_host().changes.check_jobs()
    assert (work / "300").exists() and not (work / ".envrc").exists()


@pytest.mark.parametrize("event", ["before", "after"])
@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_a_hook_of_the_project_leaves_no_name_that_runs_later(
    work: Path, event: str, sandbox: Literal["auto", "off"]
) -> None:
    state = work.parent / "state"
    ours = (".clinerules", ".unheard-of-tool", "handrail.toml", ".envrc")
    names = [name for name in list_names() if not name.endswith(ours)]
    (work / ".envrc").write_text("mine\n", encoding="utf-8")
    script = "\n".join(map(creating, names))
    (work / "hook.sh").write_text(f"{script}\necho x >.envrc; echo x >plain.txt; true\n", encoding="utf-8")
    (work / "handrail.toml").write_text(f'[[hooks]]\n{event} = "Read"\nrun = "bash hook.sh"\n', encoding="utf-8")
    settings = Settings(durable=False, state=str(state), raise_bugs=True, sandbox=sandbox)
    with Session(work, settings=settings, journal=None) as session:
        (rules,) = (file for file in session.services.rules if file.origin == "project")
    trust(str(work), str(state), rules.sha256)
    with Session(work, settings=settings, journal=None) as session:
        session.call("Read", {"file_path": "a.txt"})
        result = session.call("LS", {"path": "."})
    assert [name for name in names if os.path.lexists(work / name)] == []
    assert (work / ".envrc").read_text(encoding="utf-8") == "mine\n"
    assert (work / "plain.txt").exists()
    assert "A background job or a hook created protected files" in str(result.blocks)


def test_the_listing_leaves_out_what_another_session_is_writing(tmp_path: Path) -> None:
    for name in (".handrail-0123456789abcdef", "deep/.handrail-0123456789abcdef", ".handrail-settings", "plain"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    listing = TreeListing.take([str(tmp_path)], frozenset())
    assert listing
    assert {os.path.relpath(path, tmp_path) for path in listing.entries} == {"deep", ".handrail-settings", "plain"}


def test_a_command_that_starts_meanwhile_accepts_nothing_of_another(work: Path, tmp_path: Path) -> None:
    def refuse(root: str, changes: Any, given: Any) -> set[str]:
        return {change.path for change in changes if ".git/hooks" in change.path}

    judge = ChangeJudge(protects=lambda _: False, list_refused=refuse, record=lambda *_: None)
    followed = FollowedJobs([str(work)], judge, frozenset(), (), lambda name: str(tmp_path / "removed"))
    followed.begin(for_undo=False)
    hook = work / ".git" / "hooks" / "pre-commit"
    hook.write_text("evil\n", encoding="utf-8")
    followed.begin(for_undo=False)
    assert [one.path for one in followed.end()] == [str(hook)]
    assert not hook.exists()
