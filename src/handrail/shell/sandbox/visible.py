"""The trees that a command sees if nobody was asked about it: the system, toolchains, and the project's repository.

There is one list of them. The policy judges the names in a command by it (`RulePolicy.visible_trees`), and the mounts
of a command show nothing else (`mount_plan.NarrowViews`). Files of the workspace have no say in it, since a
project may be hostile: its links are not followed, and it names a repository elsewhere only if that names it as well.
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
"""How the directory of programs is called in the directory that a toolchain is installed in."""
_PARTS = ("lib", "lib64", "libexec", "share", "include", "pkg", "versions")
"""Of these, such a directory has at least one more."""
_MOST_LINKS = 5_000
"""Programs on the search path that are links, and are followed."""
_MOST_DIRECTORIES = 100
_MOST_STEPS = 40
_MOST_BYTES = 64 << 10
_MOST_INCLUDED = 50
_SECTION = re.compile(r"^[ \t]*\[[ \t]*([\w.-]+)[^\n]*\]([^\[]*)", re.MULTILINE)
_INCLUDED = re.compile(r"^[ \t]*path[ \t]*=[ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_WORK_TREE = re.compile(r"^\s*worktree\s*=\s*(.+?)\s*$", re.MULTILINE)


def list_visible(listed: Iterable[str], roots: Sequence[str], home: str, environ: Mapping[str, str]) -> list[str]:
    """Absolute paths of all visible trees; a link on the way to one is visible too.

    ``listed``: trees of the system and of toolchains, as `defaults.toml` has them; `~` and `$NAME` are allowed at the
    beginning. ``roots``: the real directories of the session.
    """

    def is_wide(path: str) -> bool:
        """Whether a directory is too much to be the place of a toolchain alone."""
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
    """The trees that git compares in a directory, for a command that does nothing but look.

    All files of the repository, also where the workspace is only a part of it, and repositories with further objects.
    """
    places = (directory, *iterate_parents(directory))
    top = next((place for place in places if os.path.lexists(os.path.join(place, ".git"))), "")
    if not top:
        return []
    further = _read(os.path.join(top, ".git", "objects", "info", "alternates")).splitlines()
    return [top, *_list_repository(top), *(path for path in further if path.startswith("/"))]


def list_named(paths: Iterable[str]) -> list[str]:
    """Paths that a command names, each with the directory that it is in: a script reads the files beside it.

    Not the home directory, nor one above it.
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
    """The trees of the list. A variable may hold several paths, and is left out if one would show too much."""
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
    """The user's git settings and the files that they include: without a name and an address nobody can commit."""
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
    """The directory that a toolchain is installed in, by its directory of programs; empty if it does not look so.

    Where the list names parts of that directory, these are meant, and not the rest.
    """
    prefix, name = os.path.split(programs)
    if name not in _PROGRAMS or is_wide(prefix) or any(is_inside(one, prefix) for one in named):
        return []
    return [prefix] if any(os.path.isdir(os.path.join(prefix, part)) for part in _PARTS) else []


class _Linked(NamedTuple):
    """The programs that links in a directory lead to, and the directories on the way with their times."""

    programs: list[str]
    times: dict[str, int]


_linked: dict[str, _Linked] = {}
"""For all sessions of the process: at most one entry for each directory on the search path."""


def _follow_programs(directory: str, most: int) -> list[str]:
    """The files that links in a directory of programs lead to."""
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
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        links = (entry.path for entry in entries if entry.is_symlink())
        for path in islice(links, _MOST_LINKS):
            if "/" in (text := os.readlink(path)):
                real = _follow(os.path.join(directory, text), real_directories)
                if os.path.isfile(real):
                    programs.append(real)
    for place in (*real_directories, *real_directories.values()):
        times.setdefault(place, _get_time(place))
    return _Linked(programs, times)


def _get_time(directory: str) -> int:
    """When names in the directory last changed; 0 if it is not there."""
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


def _follow(path: str, real_directories: dict[str, str]) -> str:
    """The real path of a program. Most programs have links in the same few directories, each resolved once."""
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
    """The directories that the repository of a work tree or a submodule is in, if that is elsewhere."""
    git = os.path.join(top, ".git")
    if not os.path.isfile(git):
        return
    inside = os.path.realpath(os.path.join(top, _read(git).removeprefix("gitdir:").strip()))
    if _names_work_tree(inside, git):
        yield inside
        yield os.path.realpath(os.path.join(inside, _read(os.path.join(inside, "commondir")).strip()))


def _names_work_tree(directory: str, git: str) -> bool:
    """Whether the directory of a work tree or a submodule names the `.git` that leads to it."""
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
