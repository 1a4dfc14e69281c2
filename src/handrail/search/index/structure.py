"""The directories and ignore files of a tree: as long as none of them changes, the same files are in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import NamedTuple

from handrail import system_calls
from handrail.search.ignores import NAMES, POLICY_NAMES

_RULES = frozenset(NAMES)
_MOST_DIRECTORIES = 1_000_000

Mark = tuple[int, int]
"""Inode and change time."""
_CHANGING: Mark = (0, 0)
"""Equals no mark: of what changed so recently that another change may leave no trace."""


class TooManyDirectories(Exception):
    """More than can be kept track of."""


class Exceptions(NamedTuple):
    """What a scan meets that may keep files from being shown."""

    linked: set[bytes]
    """Files with several names."""
    guarded: set[bytes]
    """Directories with an ignore file of the policy."""


class Structure(NamedTuple):
    """Directories and ignore files by their path below the root, which is empty for the root itself."""

    directories: dict[bytes, Mark]
    rules: dict[bytes, Mark]

    def holds(self, root: int) -> bool:
        """Whether nothing of it has changed."""
        marks = (self.directories, self.rules)
        return all(read_mark(root, path) == mark for entries in marks for path, mark in entries.items())

    @property
    def is_settled(self) -> bool:
        """Whether a later change of any of it would show."""
        return _CHANGING not in self.directories.values() and _CHANGING not in self.rules.values()


def is_rule_file(path: bytes) -> bool:
    """Whether this is an ignore file by its name, or the top of a repository, inside which others hold."""
    name = os.fsdecode(path.rpartition(b"/")[2])
    return name in _RULES or name == ".git"


def read_mark(root: int, path: bytes) -> Mark | None:
    try:
        status = os.stat(path or b".", dir_fd=root, follow_symlinks=False)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def scan(
    root: int,
    skipped: Collection[bytes],
    before: Callable[[bytes], None] = lambda _: None,
    settled: int | None = None,
    known: Structure | None = None,
    exceptions: Exceptions | None = None,
) -> Structure:
    """List all directories but the ``skipped`` ones. ``before`` is called with each directory before it is listed.

    What has changed after the time ``settled`` (nanoseconds) gets a mark that nothing equals. Directories that are
    unchanged since they were ``known`` are not listed again. ``exceptions`` are collected in the directories listed.
    """
    result = Structure({}, {})
    below = _group(known) if known else {}
    waiting = [b""]
    while waiting:
        path = waiting.pop()
        if known and (mark := known.directories.get(path)) and read_mark(root, path) == mark:
            result.directories[path] = mark
            dirs, rules = below.get(path, ([], []))
            waiting += (inner for inner in dirs if inner not in skipped)
            for inner in rules:
                result.rules[inner] = read_mark(root, inner) or _CHANGING
            continue
        before(path)
        waiting += _list_directory(root, path, skipped, settled, result, exceptions)
        if len(result.directories) > _MOST_DIRECTORIES:
            raise TooManyDirectories
    return result


def _list_directory(
    root: int,
    path: bytes,
    skipped: Collection[bytes],
    settled: int | None,
    result: Structure,
    exceptions: Exceptions | None,
) -> list[bytes]:
    """Add one directory and its ignore files to the result; returns the directories in it."""
    try:
        fd = system_calls.open_beneath(root, os.fsdecode(path) or ".", system_calls.READABLE_DIRECTORY)
    except OSError:
        return []  # gone, or a link now
    inside: list[bytes] = []
    prefix = path + b"/" if path else b""
    try:
        result.directories[path] = _mark(os.fstat(fd), settled)
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    inner = prefix + os.fsencode(name)
                    if inner not in skipped and name != ".git":
                        inside.append(inner)
                elif name in _RULES:
                    mark = _mark(os.stat(name, dir_fd=fd, follow_symlinks=False), settled)
                    result.rules[prefix + os.fsencode(name)] = mark
                elif exceptions and entry.stat(follow_symlinks=False).st_nlink > 1:
                    exceptions.linked.add(prefix + os.fsencode(name))
                if exceptions and name in POLICY_NAMES:
                    exceptions.guarded.add(path)
    except OSError:  # something was removed meanwhile
        result.directories[path] = _CHANGING
        if exceptions:
            exceptions.guarded.add(path)
    finally:
        os.close(fd)
    return inside


def _group(known: Structure) -> dict[bytes, tuple[list[bytes], list[bytes]]]:
    """The directories and the ignore files in each directory."""
    below: dict[bytes, tuple[list[bytes], list[bytes]]] = {}
    for kind, entries in enumerate((known.directories, known.rules)):
        for path in entries:
            if path:
                below.setdefault(path.rpartition(b"/")[0], ([], []))[kind].append(path)
    return below


def _mark(status: os.stat_result, settled: int | None) -> Mark:
    if settled is not None and status.st_ctime_ns > settled:
        return _CHANGING
    return status.st_ino, status.st_ctime_ns
