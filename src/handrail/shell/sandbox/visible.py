"""The trees visible to a command that nobody approved: system, toolchains, repository.

The policy judges the paths in a command by this list (`RulePolicy.visible_trees`), and the command's mounts show
nothing else (`mount_plan.NarrowViews`). A project may be hostile, so its files cannot extend the list: its links are
not followed, and a repository elsewhere is visible only if it points back to the project.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from handrail.shell.sandbox.confinement import is_inside, iterate_parents

_PROGRAMS = ("bin", "sbin", "shims", "condabin")
"""Names of the program directory inside a toolchain's prefix."""
_PARTS = ("lib", "lib64", "libexec", "share", "include", "pkg", "versions")
"""A toolchain's prefix contains at least one of these as well."""
_MOST_LINKS = 5_000
"""The most linked programs on the search path to follow."""
_MOST_DIRECTORIES = 100
_MOST_STEPS = 40
_MOST_BYTES = 64 << 10
_MOST_INCLUDED = 50
_SECTION = re.compile(r"^[ \t]*\[[ \t]*([\w.-]+)[^\n]*\]([^\[]*)", re.MULTILINE)
_INCLUDED = re.compile(r"^[ \t]*path[ \t]*=[ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_WORK_TREE = re.compile(r"^\s*worktree\s*=\s*(.+?)\s*$", re.MULTILINE)


def list_visible(listed: Iterable[str], roots: Sequence[str], home: str, environ: Mapping[str, str]) -> list[str]:
    """Absolute paths of all visible trees. Links on the way to a tree are visible too.

    ``listed``: the system and toolchain trees from `defaults.toml`, which may start with `~` or `$NAME`. ``roots``: the
    real directories of the session.
    """

    def is_wide(path: str) -> bool:
        """Whether a directory is too broad to be a toolchain's prefix."""
        real = os.path.realpath(path)
        return os.path.dirname(real) == "/" or is_inside(home, real) or any(is_inside(root, real) for root in roots)

    named = [*_expand(listed, home, environ, is_wide), *_list_git_settings(home, environ)]
    trees = [*roots, *named, *(prefix for prefix in (sys.prefix, sys.base_prefix) if not is_wide(prefix))]
    known = [os.path.realpath(tree) for tree in trees]
    real_named = known[len(roots) : len(roots) + len(named)]
    followed = 0
    for entry in dict.fromkeys(environ.get("PATH", os.defpath).split(os.pathsep)):
        real = os.path.realpath(entry)
        if not entry.startswith("/") or is_wide(real) or any(is_inside(real, root) for root in roots):
            continue
        further = [entry, *_find_prefix(real, real_named, is_wide)]
        trees += further
        known += map(os.path.realpath, further)
        for target in _follow_programs(real, _MOST_LINKS - followed):
            followed += 1
            if not any(is_inside(target, tree) for tree in known):
                trees += _find_prefix(os.path.dirname(target), real_named, is_wide) or [target]
                known.append(os.path.realpath(trees[-1]))
    for root in roots:
        trees += _list_repository(root)
    return list(dict.fromkeys(map(os.path.normpath, trees)))


def list_looked_at(directory: str) -> list[str]:
    """The trees that git compares in a directory, for a read-only command.

    These are the whole repository, even if the workspace is only part of it, and its alternate object stores.
    """
    places = (directory, *iterate_parents(directory))
    top = next((place for place in places if os.path.lexists(os.path.join(place, ".git"))), "")
    if not top:
        return []
    further = _read(os.path.join(top, ".git", "objects", "info", "alternates")).splitlines()
    return [top, *_list_repository(top), *(path for path in further if path.startswith("/"))]


def list_named(paths: Iterable[str]) -> list[str]:
    """Paths that a command names, each with its directory, because a script reads the files beside it.

    The home directory and its parents are left out.
    """
    named = [
        one
        for path in map(os.path.realpath, paths)
        for one in (path, path if os.path.isdir(path) else os.path.dirname(path))
    ]
    return [path for path in named if path.count("/") > 1 and not is_inside(os.path.expanduser("~"), path)]


def _expand(
    listed: Iterable[str], home: str, environ: Mapping[str, str], is_wide: Callable[[str], bool]
) -> Iterator[str]:
    """The listed trees. A variable may hold several paths; paths that would show too much are left out."""
    for text in listed:
        if not text.startswith("$"):
            yield os.path.join(home, text[2:]) if text.startswith("~/") else text
            continue
        name, _, rest = text[1:].partition("/")
        for value in environ.get(name, "").split(os.pathsep):
            path = os.path.join(value, rest) if rest else value
            if path.startswith("/") and not is_wide(path):
                yield path


def _list_git_settings(home: str, environ: Mapping[str, str]) -> Iterator[str]:
    """The user's git settings and their included files: a commit needs the user's name and email."""
    folder = os.path.join(environ.get("XDG_CONFIG_HOME", "") or os.path.join(home, ".config"), "git")
    yield folder
    waiting = [os.path.join(home, ".gitconfig"), os.path.join(folder, "config")]
    for path in waiting:
        yield path
        for section, body in _SECTION.findall(_read(path)):
            for included in _INCLUDED.findall(body) if section.lower().startswith("include") else ():
                plain = included.strip('"')
                plain = os.path.join(home, plain[2:]) if plain.startswith("~/") else plain
                target = os.path.normpath(os.path.join(os.path.dirname(path), plain))
                if os.path.isfile(target) and target not in waiting and len(waiting) < _MOST_INCLUDED:
                    waiting.append(target)


def _find_prefix(programs: str, named: Sequence[str], is_wide: Callable[[str], bool]) -> list[str]:
    """The prefix of the toolchain with this program directory; empty if it does not look like a toolchain.

    It is empty too if the list names parts of the prefix: only those parts are visible then.
    """
    prefix, name = os.path.split(programs)
    if name not in _PROGRAMS or is_wide(prefix) or any(is_inside(one, prefix) for one in named):
        return []
    return [prefix] if any(os.path.isdir(os.path.join(prefix, part)) for part in _PARTS) else []


class _Linked(NamedTuple):
    """The programs that a directory's links lead to, and the directories on the way with their times."""

    programs: list[str]
    times: dict[str, int]


_linked: dict[str, _Linked] = {}
"""Shared by all sessions of the process: at most one entry for each directory on the search path."""


def _follow_programs(directory: str, most: int) -> list[str]:
    """The files that the links in a program directory lead to."""
    known = _linked.get(directory)
    if known is None or any(_get_time(place) != time for place, time in known.times.items()):
        if len(_linked) >= _MOST_DIRECTORIES:
            _linked.clear()
        known = _linked[directory] = _list_linked(directory)
    return known.programs[:most]


def _list_linked(directory: str) -> _Linked:
    real_directories = {directory: directory}
    times = {directory: _get_time(directory)}
    programs: list[str] = []
    links: list[str] = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        links.extend(islice((entry.path for entry in entries if entry.is_symlink()), _MOST_LINKS))
    for path in links:
        with contextlib.suppress(OSError):  # it is gone
            if "/" in (text := os.readlink(path)):
                real = _follow(os.path.join(directory, text), real_directories)
                if os.path.isfile(real):
                    programs.append(real)
    for place in (*real_directories, *real_directories.values()):
        times.setdefault(place, _get_time(place))
    return _Linked(programs, times)


def _get_time(directory: str) -> int:
    """When the directory's entries last changed; 0 if it does not exist."""
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


def _follow(path: str, real_directories: dict[str, str]) -> str:
    """The real path of a program. Most links lead to the same few directories, so each is resolved only once."""
    for _ in range(_MOST_STEPS):
        above, name = os.path.split(path)
        if above not in real_directories:
            real_directories[above] = os.path.realpath(above)
        path = os.path.join(real_directories[above], name)
        try:
            path = os.path.join(real_directories[above], os.readlink(path))
        except OSError:
            break
    return path


def _list_repository(top: str) -> Iterator[str]:
    """The repository directories of a work tree or a submodule, if they are elsewhere."""
    git = os.path.join(top, ".git")
    if not os.path.isfile(git):
        return
    inside = os.path.realpath(os.path.join(top, _read(git).removeprefix("gitdir:").strip()))
    if _names_work_tree(inside, git):
        yield inside
        yield os.path.realpath(os.path.join(inside, _read(os.path.join(inside, "commondir")).strip()))


def _names_work_tree(directory: str, git: str) -> bool:
    """Whether a repository directory points back to the `.git` file that names it."""
    back = _read(os.path.join(directory, "gitdir")).strip()
    if back:
        return os.path.realpath(os.path.join(directory, back)) == os.path.realpath(git)
    tree = _WORK_TREE.search(_read(os.path.join(directory, "config")))
    work = os.path.realpath(os.path.join(directory, tree[1])) if tree else ""
    return work == os.path.realpath(os.path.dirname(git))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""
