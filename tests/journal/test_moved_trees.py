"""Undo of Move and Trash brings the entries themselves back, with inodes and times, as undo of `mv` and `rm` does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.journal import moved_trees
from tests.journal.wired import Wired, tree

Make = Callable[..., Wired]
YEARS_AGO = 1_500_000_000
CALLS = [
    ("Move", {"source_path": "file", "target_path": "new/er/file"}),
    ("Move", {"source_path": "folder", "target_path": "other"}),
    ("Trash", {"path": "file"}),
    ("Trash", {"path": "folder"}),
    ("Trash", {"path": "folder/link"}),
]


@pytest.fixture
def files(project: Path) -> Path:
    (project / "folder" / "deep").mkdir(parents=True)
    for name in ("file", "folder/one", "folder/deep/two"):
        (project / name).write_text(f"{name}\n", encoding="utf-8")
    (project / "folder" / "link").symlink_to("one")
    for path in (*project.rglob("*"), project / "file"):
        os.utime(path, (YEARS_AGO, YEARS_AGO), follow_symlinks=False)
    return project


def identify(project: Path) -> dict[str, tuple[int, int]]:
    states = {path: path.lstat() for path in project.rglob("*")}
    # A directory that an entry leaves and comes back to has a new time, as after `mv`.
    return {
        str(path.relative_to(project)): (one.st_ino, one.st_mtime_ns)
        for path, one in states.items()
        if path.name != "folder"
    }


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
def test_the_very_entries_come_back(wired: Make, files: Path, tool: str, arguments: dict[str, str]) -> None:
    before, was = identify(files), tree(files)
    session = wired()
    assert session.call(tool, arguments).ok
    then = tree(files)
    assert then != was
    report = session.undo(dry_run=True)
    assert report.restored and tree(files) == then
    assert session.undo() == report
    assert (identify(files), tree(files)) == (before, was)
    assert session.undo(redo=True).restored and tree(files) == then
    assert session.undo().restored and tree(files) == was


@pytest.mark.parametrize("change", ["contents", "name", "mode", "entry"])
@pytest.mark.parametrize("tool", ["Move", "Trash"])
def test_what_has_changed_since_is_restored_file_by_file_or_left_alone(
    wired: Make, files: Path, tool: str, change: str
) -> None:
    session = wired()
    arguments = {"path": "folder"} if tool == "Trash" else {"source_path": "folder", "target_path": "other"}
    assert session.call(tool, arguments).ok
    if change == "name":
        (files / "folder").mkdir()
        (files / "folder" / "mine").write_text("mine", encoding="utf-8")
    elif tool == "Move":
        place = files / "other" / "one"
        if change == "contents":
            place.write_text("mine", encoding="utf-8")
        elif change == "mode":
            place.chmod(0o600)
        else:
            (files / "other" / "mine").write_text("mine", encoding="utf-8")
    session.undo()
    texts = {path.read_text(encoding="utf-8") for path in files.rglob("*") if path.is_file()}
    assert {"file\n", "folder/deep/two\n"} <= texts
    if tool == "Trash" or change in ("name", "entry", "mode"):
        assert (files / "folder" / "one").read_text(encoding="utf-8") == "folder/one\n"
    if change in ("name", "entry") and (tool == "Move" or change == "name"):
        assert "mine" in texts


def test_few_deleted_trees_stay_and_older_ones_are_restored_from_their_contents(
    wired: Make, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moved_trees, "_MOST_RETAINED", 1)
    session, was, inode = wired(), tree(files), (files / "file").stat().st_ino
    session.call("Trash", {"path": "folder"})
    session.call("Trash", {"path": "file"})
    trash = Path(session.kept.path).parent / "trash"
    assert len(list(trash.iterdir())) == 1
    session.undo()
    assert (files / "file").stat().st_ino == inode
    session.undo()
    assert tree(files) == was
