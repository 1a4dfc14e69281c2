"""Find the programs that Handrail itself starts: git, bash, rg, ssh and others.

They run outside of any sandbox, so a checkout must not be able to bring its own. A program is found on PATH as usual,
but neither below a directory that somebody works in (`distrust`) nor through a relative entry. No other module looks
for programs, or starts one by its bare name.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache

_distrusted: dict[str, None] = {}
"""Workspaces of this process. A root stays here when its session ends: its files have not become better."""


def distrust(*roots: str) -> None:
    """Never start a program from below these directories."""
    for root in roots:
        _distrusted.update(dict.fromkeys((os.path.abspath(root), os.path.realpath(root))))


def find_program(name: str) -> str | None:
    """The absolute path of a helper, by its name; None if there is none to be trusted."""
    return _find(name, _get_path(), _list_roots())


def get_program(name: str) -> str:
    """As `find_program`; raises `FileNotFoundError` if there is none."""
    program = find_program(name)
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return program


def resolve_words(words: Sequence[str]) -> list[str]:
    """The words of a command that a person has chosen. A program without a slash in its name is a helper."""
    return [words[0] if "/" in words[0] else get_program(words[0]), *words[1:]]


def find_own_program(name: str) -> str | None:
    """A program of Handrail's own installation, which may be inside a workspace: it is protected there."""
    import sysconfig  # slow to import, and only needed for searches

    beside = (sysconfig.get_path("scripts"), os.path.dirname(sys.executable))
    return next((path for place in beside if (path := shutil.which(name, path=place)) and os.path.isabs(path)), None)


def find_on_path(name: str, path: str | None = None) -> str | None:
    """The program that a command finds by this name. It may be anybody's: it is not for Handrail to start."""
    return shutil.which(name, path=_get_path() if path is None else path)


def make_search_path() -> str:
    """PATH for helpers: git and ssh start other programs in turn."""
    return _clean(_get_path(), _list_roots())


def list_untrusted() -> list[str]:
    """The entries of PATH that a command searches and a helper does not."""
    trusted = make_search_path().split(os.pathsep)
    return [entry for entry in _get_path().split(os.pathsep) if entry not in trusted]


def _get_path() -> str:
    return os.environ.get("PATH", os.defpath)


def _list_roots() -> tuple[str, ...]:
    """The directories that are not trusted; the current one is among them unless it is the home directory or above."""
    try:
        here = os.getcwd()
    except OSError:
        return tuple(_distrusted)
    home = os.path.realpath(os.path.expanduser("~"))
    wide = here in ("/", home) or home.startswith(f"{here}/")
    return tuple(_distrusted) if wide else tuple(dict.fromkeys((*_distrusted, here)))


@lru_cache(256)
def _find(name: str, path: str, roots: tuple[str, ...]) -> str | None:
    for entry in _clean(path, roots).split(os.pathsep):
        program = shutil.which(name, path=entry) if entry else None
        if program and _trusts(os.path.dirname(os.path.realpath(program)), roots):
            return program
    return None


@lru_cache(64)
def _clean(path: str, roots: tuple[str, ...]) -> str:
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry) and _trusts(entry, roots))


def _trusts(entry: str, roots: tuple[str, ...]) -> bool:
    """Whether a directory is the system's, or below no root by any of its names."""
    real = os.path.realpath(entry)
    if real in map(os.path.realpath, os.defpath.split(os.pathsep)):
        return True  # a session on the whole machine still needs a shell
    return not any(_is_below(one, roots) for one in (os.path.normpath(entry), real))


def _is_below(path: str, roots: tuple[str, ...]) -> bool:
    """Whether a path is below a root: by name, or by the identity of a directory above it."""
    known = {identity for root in roots for identity in _identify(root)}
    return any(above in roots or not known.isdisjoint(_identify(above)) for above in _list_above(path))


def _list_above(path: str) -> Iterator[str]:
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def _identify(path: str) -> set[tuple[int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return set()
    return {(status.st_dev, status.st_ino)}
