"""Walking a tree: in order, past links and what cannot be read, while it changes, and never with a stale listing."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from handrail.errors import NotDirectory, NotFound
from handrail.search import listing as listing_module
from handrail.search.index.use import make_base
from handrail.search.listing import Listing
from handrail.search.receipt import Budget, Receipt
from handrail.search.ripgrep import find_program
from handrail.search.tree import SearchTree, Visibility
from handrail.search.walk import Listings, VisitedDirectory, Walk, WalkOptions
from handrail.text.globs import Glob
from handrail.workspace import Root, Workspace
from tests import sizes

MakeTree = Callable[..., SearchTree]


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[MakeTree]:
    workspace = Workspace([Root(str(tmp_path))])
    yield lambda start=".", listings=None, sight=None: SearchTree(
        workspace, workspace.resolve(start), listings or Listings(), sight or Visibility()
    )
    workspace.close()


def put(top: Path, *paths: str) -> None:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(b"")


def seen(walk: Walk, look: WalkOptions | None = None, glob: Glob | None = None, depth: int | None = None) -> list[str]:
    collected: list[str] = []
    for here in walk.directories(look or WalkOptions(), glob, depth):
        collected += [here.prefix + name for name in (*here.files, *here.links, *here.others)]
    return collected


def test_directories_come_in_the_order_of_their_names_each_before_those_in_it(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, "b/x", "a/c/z", "a/b/y", "a/w", "c", "a-b/v")
    prefixes = [here.prefix for here in tree().walk(Budget(9)).directories(WalkOptions())]
    assert prefixes == ["", "a/", "a/b/", "a/c/", "a-b/", "b/"]
    assert [here.prefix for here in tree("a").walk(Budget(9)).directories(WalkOptions())] == ["", "b/", "c/"]


def test_links_are_listed_and_never_entered(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, "real/f")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "real/up").symlink_to("..")
    (tmp_path / "out").symlink_to("/")
    (tmp_path / "broken").symlink_to("missing")
    (tmp_path / "file").symlink_to("real/f")
    actual = tree()
    top, real = list(actual.walk(Budget(9)).directories(WalkOptions()))
    assert list(top.dirs) == ["real"]
    assert list(top.links) == ["broken", "file", "loop", "out"]
    assert [actual.behind(name) for name in top.links] == ["link", "file", "dir", "link"]
    assert list(real.links) == ["up"]


def test_pipes_are_told_apart_and_not_opened(tmp_path: Path, tree: MakeTree) -> None:
    os.mkfifo(tmp_path / "pipe")
    (here,) = tree().walk(Budget(9)).directories(WalkOptions())
    assert (list(here.files), list(here.others)) == ([], ["pipe"])


def test_what_is_left_out_is_counted_by_its_reason(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, ".gitignore", ".env", ".git/config", "x.log", "build/a", "build/b", "src/a.py", "skipped/a")
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n", encoding="utf-8")
    walk = tree().walk(Budget(9))
    assert seen(walk, WalkOptions(skip=frozenset(["skipped"]))) == ["src/a.py"]
    assert (walk.receipt.ignored, walk.receipt.hidden) == (3, 2)
    walk = tree().walk(Budget(9))
    assert seen(walk, WalkOptions(hidden=True, ignored=True)) == [
        ".env", ".gitignore", "x.log", "build/a", "build/b", "skipped/a", "src/a.py"
    ]  # fmt: skip
    assert (walk.receipt.ignored, walk.receipt.hidden) == (0, 0)
    assert walk.receipt.complete
    assert seen(tree().walk(Budget(9)), WalkOptions(obey=False)) == [
        "x.log",
        "build/a",
        "build/b",
        "skipped/a",
        "src/a.py",
    ]


def test_git_is_not_entered_whatever_an_ignore_file_says(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, ".git/config", ".env")
    (tmp_path / ".gitignore").write_text("!*\n", encoding="utf-8")
    assert seen(tree().walk(Budget(9))) == [".env", ".gitignore"]
    inside = tree(".git")
    assert seen(inside.walk(Budget(9)), inside.look(hidden=False, ignored=False)) == ["config"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every directory: nothing is unreadable for it")
def test_a_directory_that_cannot_be_read_is_counted_and_the_rest_is_seen(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, "closed/a", "open/b")
    (tmp_path / "closed").chmod(0)
    walk = tree().walk(Budget(9))
    try:
        assert seen(walk) == ["open/b"]
    finally:
        (tmp_path / "closed").chmod(0o755)
    assert walk.receipt.unreadable == 1
    assert not walk.receipt.complete


def test_a_directory_that_vanishes_on_the_way_is_passed_over(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, "a/x", "b/y", "c/z")
    walk = tree().walk(Budget(9))
    collected = []
    for here in walk.directories(WalkOptions()):
        if not here.prefix:
            shutil.rmtree(tmp_path / "b")
        collected += [here.prefix + name for name in here.files]
    assert collected == ["a/x", "c/z"]
    assert walk.receipt.complete


def test_a_directory_swapped_for_a_link_on_the_way_leads_nowhere(tmp_path: Path, tree: MakeTree) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    put(outside, "secret")
    put(tmp_path, "a/x", "b/deep/y")
    walk = tree().walk(Budget(9))
    collected = []
    for here in walk.directories(WalkOptions()):
        if here.prefix == "a/":
            (tmp_path / "b").rename(tmp_path.parent / f"{tmp_path.name}-gone")
            (tmp_path / "b").symlink_to(outside)
        collected += [here.prefix + name for name in here.files]
    assert collected == ["a/x"]
    assert not walk.receipt.complete


def test_policy_hides_files_and_whole_directories_and_counts_them(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, "secret/key", "src/a", "src/secret", "src/b")
    top = os.path.realpath(tmp_path)
    asked: list[str] = []

    def readable(real: str) -> bool:
        asked.append(os.path.relpath(real, top))
        return "secret" not in real.removeprefix(top)

    walk = tree(sight=Visibility(readable, None)).walk(Budget(9))
    assert seen(walk) == ["src/a", "src/b"]
    assert "secret/key" not in asked
    assert walk.receipt == Receipt(withheld=2)
    walk = tree("src", sight=Visibility(readable, None)).walk(Budget(9))
    assert seen(walk) == ["a", "b"]


def test_a_glob_enters_only_where_something_can_match(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, "a/b/x.py", "a/c/x.py", "d/b/x.py", "a/x.py", "a/b/.y.py")
    walk = tree().walk(Budget(9))
    prefixes = [here.prefix for here in walk.directories(WalkOptions(), Glob("a/b/*.py"))]
    assert prefixes == ["", "a/", "a/b/"]
    assert walk.paths == [".", "a", "a/b"]
    assert seen(tree().walk(Budget(9)), glob=Glob("a/**/*.py")) == ["a/x.py", "a/b/x.py", "a/c/x.py"]
    assert seen(tree().walk(Budget(9)), glob=Glob("**/.y.py")) == ["a/b/.y.py"]


def test_depth_ends_a_walk(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, "a", "b/c", "b/d/e")
    assert seen(tree().walk(Budget(9)), depth=1) == ["a"]
    assert seen(tree().walk(Budget(9)), depth=2) == ["a", "b/c"]


def test_a_budget_of_visits_or_time_ends_a_walk_and_says_so(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, *(f"{directory}/{name}" for directory in "abcd" for name in "xyz"))
    walk = tree().walk(Budget(9, visits=7))
    assert seen(walk) == ["a/x", "a/y", "a/z"]
    assert (walk.receipt.stopped, walk.receipt.complete) == ("count_limit", False)
    walk = tree().walk(Budget(0))
    assert seen(walk) == []
    assert walk.receipt.stopped == "time_limit"


def test_times_of_what_is_gone_are_zero(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, "a", "b")
    os.utime(tmp_path / "a", ns=(5, 7))
    for here in tree().walk(Budget(9)).directories(WalkOptions()):
        (tmp_path / "b").unlink()
        assert here.mtimes(here.files) == [7, 0]


def test_no_descriptor_is_left_open(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, *(f"d{number}/x" for number in range(20)))
    actual = tree()
    before = len(os.listdir("/proc/self/fd" if os.path.exists("/proc/self/fd") else "/dev/fd"))
    walk = actual.walk(Budget(9)).directories(WalkOptions())
    next(walk)
    next(walk)
    cast("Generator[object, None, None]", walk).close()
    seen(actual.walk(Budget(9)))
    assert len(os.listdir("/proc/self/fd" if os.path.exists("/proc/self/fd") else "/dev/fd")) == before


def test_a_missing_place_and_a_file_are_refused(tmp_path: Path, tree: MakeTree) -> None:
    put(tmp_path, "f")
    with pytest.raises(NotFound):
        tree("missing")
    with pytest.raises(NotDirectory):
        tree("f").walk(Budget(9))


def test_an_unchanged_directory_is_listed_once(tmp_path: Path) -> None:
    put(tmp_path, "a")
    time.sleep(0.06)  # a directory changed just now is not to be trusted
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    listing = Listing(fd)
    try:
        assert listing.entries(".") is listing.entries(".")
        put(tmp_path, "b")
        assert listing.entries(".").files == ("a", "b")
    finally:
        os.close(fd)


def test_a_directory_of_this_very_moment_is_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Mock(wraps=os.scandir)
    monkeypatch.setattr(os, "scandir", counted)
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    listing = Listing(fd)
    try:
        put(tmp_path, "a")
        assert listing.entries(".") is listing.entries(".")
        assert counted.call_count == 2
    finally:
        os.close(fd)


def _change(top: Path, dice: random.Random) -> None:
    """Something happens to the tree: made, removed, renamed, swapped, or an ignore file written anew in place."""
    places = [top, *(path for path in top.rglob("*") if path.is_dir() and not path.is_symlink())]
    here = dice.choice(places)
    target = here / dice.choice(["a", "b", "c.log", ".h", "d"])
    what = dice.randrange(6)
    if what == 0 and not os.path.lexists(target):
        target.mkdir()
    elif what == 1 and not target.is_dir() and not target.is_symlink():
        target.write_bytes(b"x")
        if dice.random() < 0.5:
            os.utime(target, ns=(10**18 + dice.randrange(3),) * 2)
    elif what == 2 and os.path.lexists(target):
        shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
    elif what == 3 and not os.path.lexists(target):
        target.symlink_to(dice.choice(["a", "..", "missing"]))
    elif what == 4:
        (here / ".gitignore").write_text(
            dice.choice(["*.log\n", "a\n", "!a\n", "d/\n", "/a/b\n", "a/**\n", ""]), encoding="utf-8"
        )
    elif what == 5 and target.exists() and here != top and not os.path.lexists(top / "moved"):
        target.rename(top / "moved")


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_kept_listing_is_never_stale(
    tmp_path: Path, tree: MakeTree, seed: int, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    put(tmp_path, "a/b/x", "d/c.log", "d/a")
    kept = Listings()
    if watched:
        monkeypatch.setattr(listing_module, "WATCHED_FROM", 1)
    for _ in range(sizes.pick(150, 2500)):
        for _ in range(dice.randrange(3)):
            _change(tmp_path, dice)
        if dice.random() < 0.15:
            time.sleep(0.055)  # now listings are kept
        look = WalkOptions(hidden=dice.random() < 0.5, ignored=dice.random() < 0.3)

        def all_of(listings: Listings | None, look: WalkOptions = look) -> list[tuple[object, ...]]:
            walk = tree(listings=listings).walk(Budget(30))
            return [_row(here) for here in walk.directories(look)]

        assert all_of(kept) == all_of(None)


@pytest.mark.skipif(find_program() is None, reason="ripgrep is not there")
@pytest.mark.parametrize("seed", range(sizes.pick(6, 60)))
def test_a_walk_sees_and_counts_what_ripgrep_does(tmp_path: Path, tree: MakeTree, seed: int) -> None:
    dice = random.Random(seed)
    put(tmp_path, "a/b/x", "d/c.log", "d/a", "a/.git/x")
    kept, program = Listings(), find_program()
    assert program
    for _ in range(40):
        _change(tmp_path, dice)
        actual = tree(
            dice.choice([".", "a", "d"]) if (tmp_path / "a").is_dir() and (tmp_path / "d").is_dir() else ".", kept
        )
        base, receipt = make_base(program, actual), Receipt()
        listed = base.list_files(Budget(30), receipt)
        walk = actual.walk(Budget(30))
        walked: list[str] = []
        for here in walk.directories(WalkOptions()):
            walked += [here.prefix + name for name in here.files]
            walk.receipt.links += actual.count_links(here)
        assert sorted(map(os.fsdecode, listed)) == sorted(walked)
        assert walk.receipt.facts() == receipt.facts()


def _row(here: VisitedDirectory) -> tuple[object, ...]:
    return (here.prefix, *here.dirs, "|", *here.files, "|", *here.links, "|", *here.mtimes(here.files))
