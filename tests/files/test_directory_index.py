"""The index of a tree is what a walk of the tree finds, whatever happened to the tree in between."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from handrail.files import directory_index
from handrail.files.directory_index import DirectoryIndex, Entry, StoredDirectory, read_entries
from tests.sizes import pick

_MARKED = ("mark", "mark2")


def _read(_: str, entries: list[Entry]) -> tuple[tuple[str, ...] | None, list[str]]:
    marked = sorted(name for name, _, _ in entries if name in _MARKED)
    return tuple(marked) or None, [name for name, is_folder, _ in entries if is_folder and name != "skipped"]


def _walk(root: Path) -> dict[str, tuple[str, ...]]:
    collected: dict[str, tuple[str, ...]] = {}
    waiting = [str(root)]
    while waiting:
        here = waiting.pop()
        if os.path.isdir(here):
            kept, folders = _read(here, read_entries(here))
            if kept:
                collected[here] = kept
            waiting += [os.path.join(here, name) for name in folders]
    return collected


def _directories(root: Path) -> list[Path]:
    return [root, *(path for path in sorted(root.rglob("*")) if path.is_dir() and not path.is_symlink())]


def _change(root: Path, outside: Path, chance: random.Random) -> None:
    """One change of a tree, as a command could make it."""
    place, other = chance.choice(_directories(root)), chance.choice(_directories(root))
    name = place / chance.choice(("a", "b", "c", "skipped"))
    kind = chance.randrange(10)
    before = place.stat()
    if kind in (0, 1):
        (place / chance.choice(_MARKED)).touch()
        if kind == 1:  # and the directory looks as if nothing had happened
            os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif kind == 2:
        (place / chance.choice(_MARKED)).unlink(missing_ok=True)
    elif kind in (3, 4) and not os.path.lexists(name):
        name.mkdir()
        (name / "deeper").mkdir()
        (name / "deeper" / "mark").touch()
    elif kind == 5 and place != root:
        shutil.rmtree(place)
    elif kind == 6 and place != root and not os.path.lexists(other / "moved") and place not in (other, *other.parents):
        place.rename(other / "moved")
    elif kind == 7 and place != root:  # another directory by the same name
        aside = outside / str(chance.random())
        place.rename(aside)
        place.mkdir()
        (place / "mark2").touch()
    elif kind == 8 and os.listdir(outside) and not os.path.lexists(name):
        (outside / chance.choice(sorted(os.listdir(outside)))).rename(name)
    elif kind == 9 and place != root:  # a link in the place of a directory leads nowhere
        place.rename(outside / str(chance.random()))
        place.symlink_to(outside)


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "compared"])
def test_it_follows_every_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: bool) -> None:
    monkeypatch.setattr(directory_index, "_WATCHED_FROM", 1 if watched else 1 << 30)
    for seed in range(pick(8, 300)):
        chance = random.Random(seed)
        root, outside = tmp_path / f"{seed}" / "root", tmp_path / f"{seed}" / "outside"
        for folder in (root / "x" / "y", root / "z", outside):
            folder.mkdir(parents=True)
        index = DirectoryIndex([str(root)], _read)
        for _ in range(30):
            for _ in range(chance.randrange(4)):
                _change(root, outside, chance)
            assert index.update() == _walk(root), f"seed {seed}"


def test_a_root_that_is_another_directory_now_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_index, "_WATCHED_FROM", 1)
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    index = DirectoryIndex([str(root)], _read)
    assert index.update() == {}
    root.rename(tmp_path / "aside")
    assert index.update() == {}
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "mark").touch()
    assert index.update() == {str(root / "deep"): ("mark",)}


@pytest.mark.parametrize("lost", ["reports", "watches"])
def test_it_compares_the_tree_where_the_kernel_reports_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    monkeypatch.setattr(directory_index, "_WATCHED_FROM", 1)
    index = DirectoryIndex([str(tmp_path)], _read)
    index.update()
    if index._watches is None:
        pytest.skip("this system does not report changes")
    if lost == "reports":
        monkeypatch.setattr(index._watches, "changed", lambda: None)
    else:

        def refuse(_: str) -> int:
            raise directory_index._NoMoreWatches

        monkeypatch.setattr(index._watches, "add", refuse)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mark").touch()
        assert index.update() == _walk(tmp_path)
    assert (index._watches is None) == (lost == "watches")


def _let_time_pass(root: Path, outside: Path) -> None:
    """Until a change of a directory shows in its times."""
    newest = max(path.stat().st_ctime_ns for path in _directories(root))
    probe = outside / "probe"
    probe.touch()
    while probe.stat().st_ctime_ns <= newest:
        probe.chmod(0o644)
    probe.unlink()


def test_another_process_begins_with_what_was_found_and_follows_every_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_index, "_LATE", -(1 << 62))  # the times of this machine are exact enough
    trusted = 0
    for seed in range(pick(20, 600)):
        chance = random.Random(seed)
        root, outside = tmp_path / f"{seed}" / "root", tmp_path / f"{seed}" / "outside"
        for folder in (root / "x" / "y", root / "z", outside):
            folder.mkdir(parents=True)
        stored: list[StoredDirectory[tuple[str, ...]]] = []
        for _ in range(10):
            _let_time_pass(root, outside)
            for _ in range(chance.randrange(4)):
                _change(root, outside, chance)
            index = DirectoryIndex([str(root)], _read)
            index.restore(stored)
            assert index.update() == _walk(root), f"seed {seed}"
            trusted += len(stored) and index.changes < len(index.directories)
            stored = list(index.list_stored(lambda _: False))
    assert trusted


def test_a_directory_that_changed_of_late_is_read_again_by_another_process(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    first = DirectoryIndex([str(tmp_path)], _read)
    assert first.update() == {}
    known = list(first.list_stored(lambda _: False))
    assert all(identity[2:] == (0, 0) for _, identity, _, _ in known)
    second = DirectoryIndex([str(tmp_path)], _read)
    second.restore(known)
    before = second.changes
    second.update()
    assert second.changes - before == len(known) == 2
