"""The index of a tree is what a walk of the tree finds, whatever happened to the tree in between."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from handrail.files import directory_index
from handrail.files.directory_index import DirectoryIndex, Entry, read_entries
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
