"""Workspaces of a fleet: built from a folder, a git commit or a tar, once, and apart from each other."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import AnySession, FleetWorkspace
from handrail.drafts.keep import DraftConflict
from handrail.drafts.store import DraftStore
from handrail.fleet.worker import open_beside, open_draft, open_session, work_in
from handrail.fleet.workspaces import build_workspace, remove_unused
from handrail.pipeline.options import ConnectOptions
from tests.command import handrail
from tests.drafts.machine import require_drafts

FULL: ConnectOptions = {"mode": "full"}


def from_folder(tree: Path) -> dict[str, str]:
    return {"folder": str(tree)}


def from_tar(tree: Path) -> dict[str, str]:
    if not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python cannot check the names in a tar")
    path = tree.parent / "tree.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for one in sorted(tree.iterdir()):
            archive.add(one, one.name)
    return {"tar": str(path)}


def from_git(tree: Path) -> dict[str, str]:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", tree, *words], check=True)
    done = subprocess.run(["git", "-C", tree, "rev-parse", "HEAD"], check=True, capture_output=True, encoding="ascii")
    return {"git": str(tree), "commit": done.stdout.strip()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.txt").write_text("one\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("src/a.txt")
    return folder


@pytest.fixture(params=["draft", "copy"])
def built(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How workspaces are built: as drafts where there are some, and as copies."""
    if request.param == "copy":
        monkeypatch.setattr("handrail.fleet.workspaces._try_drafts", lambda _: False)
    else:
        require_drafts()
    return str(request.param)


def look(session: AnySession, _: FleetWorkspace) -> list[str]:
    return [session.call("Read", {"file_path": name}).text.split("\t")[1] for name in ("src/a.txt", "link")]


def change(session: AnySession, _: FleetWorkspace) -> str:
    session.call("Read", {"file_path": "src/a.txt"})
    return session.call("Write", {"file_path": "src/a.txt", "content": "changed\n"}).status


@pytest.mark.parametrize("source", [from_folder, from_tar, from_git])
def test_a_workspace_has_the_files_of_its_source(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Callable[[Path], dict[str, str]]
) -> None:
    monkeypatch.setattr("handrail.fleet.workspaces._try_drafts", lambda _: False)
    given: Any = source(tree)
    first = build_workspace(FleetWorkspace("w1", **given), str(tmp_path / "base"))
    (Path(first.path) / "src" / "a.txt").write_text("changed\n")
    second = build_workspace(FleetWorkspace("w2", **given), str(tmp_path / "base"))
    assert (Path(second.path) / "src" / "a.txt").read_text() == "one\n"
    assert (Path(second.path) / "run.sh").stat().st_mode & 0o111
    assert (Path(second.path) / "link").is_symlink()
    assert second.built in ("copy", "reflink")


def test_each_workspace_has_its_own_files(tree: Path, built: str) -> None:
    first, second = (FleetWorkspace(name, folder=str(tree)) for name in ("w1", "w2"))
    result = work_in(first, change, "run", FULL)
    assert result.value == "ok"
    assert result.built == built or (built, result.built) == ("copy", "reflink")
    assert work_in(second, look, "run", FULL).value == ["one", "one"]
    assert work_in(first, look, "run", FULL).value == ["changed", "changed"]
    assert (tree / "src" / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(("after_restart", "text"), [("reopen", "changed"), ("rebuild", "one")])
def test_a_workspace_is_reopened_or_rebuilt_as_declared(tree: Path, built: str, after_restart: Any, text: str) -> None:
    workspace = FleetWorkspace("w", folder=str(tree), after_restart=after_restart)
    assert work_in(workspace, change, "run", FULL).value == "ok"
    assert work_in(workspace, look, "run", FULL).value == [text, text]


def test_a_workspace_that_was_not_built_to_its_end_is_built_again(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.fleet.workspaces._try_drafts", lambda _: False)
    base = tmp_path / "base"
    (base / "work" / "w" / "files").mkdir(parents=True)
    (base / "work" / "w" / "files" / "half").write_text("")
    built = build_workspace(FleetWorkspace("w", folder=str(tree)), str(base))
    assert not (Path(built.path) / "half").exists()
    assert (Path(built.path) / "run.sh").exists()


def test_a_tar_cannot_write_beside_its_workspace(tmp_path: Path) -> None:
    path = tmp_path / "bad.tar"
    (tmp_path / "x").write_text("x")
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "x", "../../escaped")
    with pytest.raises((OSError, tarfile.TarError)):
        build_workspace(FleetWorkspace("w", tar=str(path)), str(tmp_path / "base"))
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"name": "../w", "folder": "x"}, "letters"),
        ({"name": "w"}, "give one of"),
        ({"name": "w", "folder": "x", "tar": "y"}, "give one of"),
        ({"name": "w", "git": "x"}, "commit"),
        ({"name": "w", "git": "x", "commit": "main"}, "commit"),
        ({"name": "w", "folder": "x", "after_restart": "stop"}, "after_restart"),
    ],
)
def test_wrong_workspaces_are_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        FleetWorkspace(**given)


def test_a_worker_that_starts_over_repeats_no_edit(tree: Path, built: str) -> None:
    """What Ray does after a kill: the same function with the same workspace, from its beginning."""
    workspace = FleetWorkspace("w", folder=str(tree))

    def work(session: AnySession, _: FleetWorkspace) -> str:
        session.call("Bash", {"command": "echo ran >> log.txt"})
        session.call("Edit", {"file_path": "src/a.txt", "old_string": "one", "new_string": "one more"})
        return session.call("Bash", {"command": "cat log.txt src/a.txt"}).text

    first = work_in(workspace, work, "run-1", FULL)
    assert first.value == "ran\none more"
    again = work_in(workspace, work, "run-1", FULL)
    assert (again.value, again.built) == (first.value, "reopened")


def replace_line(session: AnySession, workspace: FleetWorkspace) -> str:
    """Each workspace replaces the line of the file with its name, and all of them the line of src/a.txt."""
    lines = f"sed -i s/{workspace.name}/{workspace.name.upper()}/ list.txt; echo {workspace.name} > src/a.txt"
    return session.call("Bash", {"command": lines if workspace.data.get("all") else lines.split(";")[0]}).status


def test_drafts_of_a_fleet_are_kept_resolved_and_dropped(tree: Path) -> None:
    require_drafts()
    (tree / "list.txt").write_text("w1\n-\n-\nw2\n-\n-\nw3\n")
    one, two, three, last = (FleetWorkspace(f"w{n}", folder=str(tree), data={"all": n > 1}) for n in range(1, 5))
    results = [work_in(workspace, replace_line, "run", FULL) for workspace in (one, two, three)]
    assert [one.value for one in results] == ["ok"] * 3
    if results[0].built != "draft":
        pytest.skip("workspaces are copies here")

    def read_all(session: AnySession, _: FleetWorkspace) -> str:
        return session.call("Bash", {"command": f"cat list.txt src/a.txt  # {time.time_ns()}"}).text

    for workspace, conflicts in ((one, False), (two, False), (three, True)):
        with open_draft(open_beside(workspace, "run", FULL)) as draft:
            assert "list.txt" in [change.path for change in draft.changes()]
            if conflicts:
                with pytest.raises(DraftConflict):
                    draft.keep()
                assert draft.resolve("ours", "src/a.txt") == []
            draft.keep()
    merged = "W1\n-\n-\nW2\n-\n-\nW3\nw3"
    assert work_in(last, read_all, "run", FULL).value == merged
    assert (tree / "src" / "a.txt").read_text() == "one\n"
    again = work_in(one, read_all, "run", FULL)  # after its keep it starts anew
    assert (again.value, again.built) == (merged, "draft")
    assert work_in(two, change, "run", FULL).value == "ok"
    with open_draft(open_beside(two, "run", FULL)) as draft:
        assert [change.path for change in draft.changes()] == ["src/a.txt"]
        draft.drop()
    assert work_in(two, read_all, "run", FULL).value == merged


def test_a_workspace_of_a_fleet_is_a_draft_at_the_terminal(tree: Path) -> None:
    require_drafts()
    one, two = (FleetWorkspace(name, folder=str(tree)) for name in ("w1", "w2"))
    results = [work_in(workspace, change, "run", FULL) for workspace in (one, two)]
    if results[0].built != "draft":
        pytest.skip("workspaces are copies here")

    def draft(*words: str, code: int = 0) -> str:
        done = handrail("draft", *words, cwd=tree)
        assert done.returncode == code, done.stderr
        return (done.stdout + done.stderr).decode()

    assert "1 changed: src/a.txt by handrail" in draft("list", "run/w1")
    assert "+++ src/a.txt" in draft("diff", "run/w1")
    draft("run", "run/w2", "--", "sh", "-c", "echo other > src/a.txt")
    assert "1 changed: kept" in draft("keep", "run/w1")
    assert "handrail draft resolve run/w2" in draft("keep", "run/w2", code=1)
    assert draft("resolve", "run/w2", "src", "--theirs") == "src/a.txt\n"
    assert "run/w2 is dropped" in draft("drop", "run/w2")
    assert "there is no draft run/w3" in draft("diff", "run/w3", code=2)
    assert (tree / "src" / "a.txt").read_text() == "one\n"


def test_nobody_keeps_a_draft_of_a_fleet_in_which_somebody_works(tree: Path) -> None:
    require_drafts()
    workspace = FleetWorkspace("w", folder=str(tree), after_restart="rebuild")
    session, cost = open_session(workspace, "run", FULL)
    if cost.built != "draft":
        pytest.skip("workspaces are copies here")
    with session:
        assert change(session, workspace) == "ok"
        with (
            open_draft(open_beside(workspace, "run", FULL)) as draft,
            pytest.raises(OSError, match="another process works in this draft"),
        ):
            draft.keep()
    with open_draft(open_beside(workspace, "run", FULL)) as draft:
        assert [one.path for one in draft.keep()] == ["src/a.txt"]


def test_a_copy_is_no_draft(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.fleet.workspaces._try_drafts", lambda _: False)
    with pytest.raises(OSError, match="a copy, not a draft"):
        open_beside(FleetWorkspace("w", folder=str(tree)), "run", FULL)


def test_a_workspace_that_cannot_be_built_is_a_result() -> None:
    result = work_in(FleetWorkspace("w", folder="/none/such"), lambda *_: 1, "run-1", {})
    assert not result.ok
    assert "/none/such" in result.error


MONTH = 31 * 24 * 3600


def let_time_pass(fleets: Path, run: str, name: str) -> Path:
    """Have a workspace last opened or closed a month ago."""
    built = fleets / run / "work" / name / "built"
    long_ago = time.time() - MONTH
    os.utime(built, (long_ago, long_ago))
    return built


@pytest.mark.usefixtures("built")
def test_a_workspace_that_nobody_has_had_open_for_a_month_expires(tmp_path: Path, tree: Path) -> None:
    fleets = tmp_path / "fleet"
    for run, name in (("old", "a"), ("old", "b"), ("older", "c")):
        build_workspace(FleetWorkspace(name, folder=str(tree)), str(fleets / run)).opened.close()
    for run, name in (("old", "a"), ("older", "c")):
        let_time_pass(fleets, run, name)
    build_workspace(FleetWorkspace("d", folder=str(tree)), str(fleets / "new")).opened.close()
    assert sorted(str(path.relative_to(fleets)) for path in fleets.glob("*/work/*")) == ["new/work/d", "old/work/b"]
    assert not (fleets / "older").exists()


def test_a_workspace_does_not_expire_while_its_session_is_open(
    tree: Path, built: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleets = tmp_path / "fleet"
    monkeypatch.setattr("handrail.fleet.worker.find_base", lambda: str(fleets))
    workspace = FleetWorkspace("a", folder=str(tree))
    one, cost = open_session(workspace, "old", FULL)
    assert cost.built == built or (built, cost.built) == ("copy", "reflink")
    other, _ = open_session(workspace, "old", FULL)
    with one, other:
        file = let_time_pass(fleets, "old", "a")
        other.close()
        assert time.time() - file.stat().st_mtime < MONTH / 2  # the time of the last close
        let_time_pass(fleets, "old", "a")
        remove_unused(str(fleets))
        assert one.call("Read", {"file_path": "src/a.txt"}).ok
        assert file.exists()
    let_time_pass(fleets, "old", "a")
    remove_unused(str(fleets))
    assert not file.exists()


@pytest.mark.usefixtures("built")
def test_a_workspace_that_is_opened_after_a_month_is_not_removed_by_that(tmp_path: Path, tree: Path) -> None:
    base = tmp_path / "fleet" / "old"
    workspace = FleetWorkspace("a", folder=str(tree))
    build_workspace(workspace, str(base)).opened.close()
    let_time_pass(tmp_path / "fleet", "old", "a")
    place = build_workspace(workspace, str(base))
    place.opened.close()
    assert place.built == "reopened"
    assert (base / "work" / "a" / "built").exists()


def test_nothing_is_removed_while_a_workspace_is_built(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleets = tmp_path / "fleet"
    build_workspace(FleetWorkspace("a", folder=str(tree)), str(fleets / "old")).opened.close()
    file = let_time_pass(fleets, "old", "a")

    def fail(*_: object) -> str:
        remove_unused(str(fleets))
        assert file.exists()
        raise OSError(0, "the end of the build")

    with monkeypatch.context() as patch:
        patch.setattr("handrail.fleet.workspaces._prepare_source", fail)
        with pytest.raises(OSError, match="the end of the build"):
            build_workspace(FleetWorkspace("b", folder=str(tree)), str(fleets / "new"))
    assert file.exists()
    remove_unused(str(fleets))
    assert not file.exists()


def test_a_workspace_in_which_somebody_works_does_not_expire(tmp_path: Path, tree: Path) -> None:
    require_drafts()
    place = build_workspace(FleetWorkspace("a", folder=str(tree)), str(tmp_path / "fleet" / "old"))
    place.opened.close()
    if not place.draft:
        pytest.skip("workspaces are copies here")
    file = let_time_pass(tmp_path / "fleet", "old", "a")
    with contextlib.closing(DraftStore.open(place.state, place.path).open_named(place.draft, shared=True)):
        remove_unused(str(tmp_path / "fleet"))
        assert file.exists()
    remove_unused(str(tmp_path / "fleet"))
    assert not file.exists()
