"""Trees that are deeper than a path can be long, or wider than a process can have open files."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from handrail.drafts.compare import walk_tree
from handrail.drafts.layout import remove_tree
from handrail.system_calls import READABLE_DIRECTORY, walk_beneath

DEEP = 1500
NAME = "directory"


def build_deep(top: Path, mode: int) -> None:
    """Directories in each other, each with a file, with this mode; the path of the last is too long for the system."""
    top.mkdir()
    fd = os.open(top, READABLE_DIRECTORY)
    for _ in range(DEEP):
        os.mkdir(NAME, dir_fd=fd)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
        inner = os.open(NAME, READABLE_DIRECTORY, dir_fd=fd)
        os.fchmod(fd, mode)
        os.close(fd)
        fd = inner
    os.close(fd)


@contextmanager
def limit_open_files(more: int) -> Iterator[None]:
    """Only so many files may be open besides those that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/dev/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("mode", [0o700, 0o500, 0o300, 0o000])
def test_a_deep_tree_is_removed(tmp_path: Path, mode: int) -> None:
    build_deep(tmp_path / "deep", mode)
    with limit_open_files(20):
        remove_tree(str(tmp_path / "deep"))
    assert not (tmp_path / "deep").exists()


def test_a_wide_tree_is_removed(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / "wide" / f"{number}" / "inner").mkdir(parents=True)
    os.symlink(tmp_path, tmp_path / "wide" / "link")
    os.mkfifo(tmp_path / "wide" / "pipe")
    with limit_open_files(20):
        remove_tree(str(tmp_path / "wide"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["", "a"])
def test_a_walk_through_a_wide_tree_has_few_directories_open(tmp_path: Path, path: str) -> None:
    for number in range(200):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "file").touch()
    directory = os.open(tmp_path.parent, READABLE_DIRECTORY)
    try:
        with limit_open_files(20):
            entries = [(one, status) for one, status, _, _ in walk_tree(directory, tmp_path.name, path)]
    finally:
        os.close(directory)
    above = f"{path}/" if path else ""
    assert {one for one, _ in entries} == {
        *(f"{above}{number}" for number in range(200)),
        *(f"{above}{number}/file" for number in range(200)),
    }
    assert all(entries)


def test_a_walk_reaches_the_end_of_a_deep_tree(tmp_path: Path) -> None:
    build_deep(tmp_path / "deep", 0o700)
    directory = os.open(tmp_path, READABLE_DIRECTORY)
    with limit_open_files(20):
        entries = list(walk_tree(directory, "deep", ""))
        assert sum(status is not None and stat.S_ISDIR(status.st_mode) for _, status, _, _ in entries) == DEEP
        assert len(entries) == 2 * DEEP
        fd = walk_beneath(directory, "deep/" + "/".join([NAME] * DEEP), READABLE_DIRECTORY)
    assert os.listdir(fd) == []
    os.close(fd)
    os.close(directory)
    remove_tree(str(tmp_path / "deep"))
