"""Workspaces of a fleet: built from a folder, a git commit or a tar, once, and apart from each other."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import FleetWorkspace, Session
from handrail.fleet.work import work_in
from handrail.fleet.workspaces import build_workspace


def from_folder(tree: Path) -> dict[str, str]:
    return {"folder": str(tree)}


def from_tar(tree: Path) -> dict[str, str]:
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


@pytest.mark.parametrize("source", [from_folder, from_tar, from_git])
def test_each_workspace_has_its_own_files(tree: Path, tmp_path: Path, source: Callable[[Path], dict[str, str]]) -> None:
    given = source(tree)
    base = str(tmp_path / "base")
    first = build_workspace(FleetWorkspace("w1", **given), base)  # type: ignore[arg-type]
    (Path(first.path) / "src" / "a.txt").write_text("changed\n")
    second = build_workspace(FleetWorkspace("w2", **given), base)  # type: ignore[arg-type]
    assert (Path(second.path) / "src" / "a.txt").read_text() == "one\n"
    assert (Path(second.path) / "run.sh").stat().st_mode & 0o111
    assert (Path(second.path) / "link").is_symlink()
    assert (tree / "src" / "a.txt").read_text() == "one\n"
    assert second.built in ("copy", "reflink")


def test_a_workspace_is_reopened_or_rebuilt_as_declared(tree: Path, tmp_path: Path) -> None:
    base = str(tmp_path / "base")
    for after_restart, text, attempt in (("reopen", "changed\n", 1), ("rebuild", "one\n", 2)):
        workspace = FleetWorkspace(f"w-{after_restart}", folder=str(tree), after_restart=after_restart)  # type: ignore[arg-type]
        path = Path(build_workspace(workspace, base).path) / "src" / "a.txt"
        path.write_text("changed\n")
        again = build_workspace(workspace, base)
        assert (path.read_text(), again.attempt) == (text, attempt)


def test_a_workspace_that_was_not_built_to_its_end_is_built_again(tree: Path, tmp_path: Path) -> None:
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


def test_a_worker_that_starts_over_repeats_no_edit(tree: Path) -> None:
    """What Ray does after a kill: the same function with the same workspace, from its beginning."""
    workspace = FleetWorkspace("w", folder=str(tree))

    def work(session: Session, _: FleetWorkspace) -> str:
        session.call("Bash", {"command": "echo ran >> log.txt"})
        session.call("Edit", {"file_path": "src/a.txt", "old_string": "one", "new_string": "one more"})
        return session.call("Bash", {"command": "cat log.txt src/a.txt"}).text

    options = {"mode": "full"}
    first = work_in(workspace, work, "run-1", options)
    assert first.value == "ran\none more"
    again = work_in(workspace, work, "run-1", options)
    assert (again.value, again.built) == (first.value, "reopened")


def test_a_workspace_that_cannot_be_built_is_a_result() -> None:
    result = work_in(FleetWorkspace("w", folder="/none/such"), lambda *_: 1, "run-1", {})
    assert not result.ok
    assert "/none/such" in result.error
