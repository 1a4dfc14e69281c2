"""The files of Handrail's own installation, where that is inside a workspace: commands could change what it runs.

These are the package itself, the packages that it imports, their programs, the interpreter, and whatever Python runs
when it starts. Other packages of the same environment are the project's.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache

from handrail.frozen import frozen
from handrail.shell.sandbox.confinement import is_inside

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = "__pycache__"
SEPARATE = "install it in an environment of its own, outside of the workspace (`pipx install handrail`)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@frozen
class Installation:
    """The part of an installation that is inside of workspaces; most of the time there is none."""

    paths: tuple[str, ...] = ()
    """Files, and directories with all that is below them."""
    patterns: tuple[tuple[str, str], ...] = ()
    """Directories, and patterns of names in them: these files need not exist yet."""

    def __bool__(self) -> bool:
        return bool(self.paths or self.patterns)

    def contains(self, path: str) -> bool:
        """Whether a path is a part of it."""
        if any(is_inside(path, one) for one in self.paths):
            return True
        folder, name = os.path.split(path)
        return any(folder == place and fnmatch.fnmatchcase(name, pattern) for place, pattern in self.patterns)

    def list_caches(self, upper: str, top: str) -> Iterator[str]:
        """What Python compiled of it in a copy-on-write layer of a directory; a file stands for what was deleted."""
        for path in self.paths:
            inner = os.path.relpath(path, top)
            for here, folders, files in os.walk(os.path.join(upper, inner)) if not inner.startswith("../") else ():
                if CACHE in (*folders, *files):
                    yield os.path.join(here, CACHE)
                folders[:] = [name for name in folders if name != CACHE]
        for place, pattern in self.patterns:
            inner = os.path.relpath(place, top)
            if os.path.basename(place) == CACHE and not inner.startswith("../"):
                yield from glob.glob(os.path.join(glob.escape(os.path.join(upper, inner)), pattern))


NOTHING_INSTALLED = Installation()


@lru_cache(16)
def find_installation(roots: tuple[str, ...]) -> Installation:
    """The part of this installation that is inside of some directories, by all its names."""
    tops = [*roots, *map(os.path.realpath, roots)]
    usual = (sys.prefix, sys.base_prefix, os.path.dirname(sys.executable), PACKAGE)
    if not any(is_inside(path, top) for one in usual for path in _name(one) for top in tops):
        return NOTHING_INSTALLED
    import sysconfig  # slow to import, and rarely needed

    scripts = {sysconfig.get_path("scripts"), os.path.dirname(sys.executable)}
    sites = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), os.path.dirname(PACKAGE)}
    stdlib = sysconfig.get_path("stdlib")
    paths = [PACKAGE, *_list_files(), os.path.join(sys.prefix, "pyvenv.cfg"), *_list_links(tops)]
    paths += (os.path.join(place, "handrail") for place in scripts)
    patterns = [(place, "python*") for place in scripts]
    patterns += [(place, name) for place in sites for name in ("*.pth", "sitecustomize.py", "usercustomize.py")]
    modules = [os.path.split(path) for path in paths if path.endswith(".py")]
    patterns += [(os.path.join(place, CACHE), f"{name[:-3]}.*") for place, name in modules]
    patterns += [(stdlib, "*.py"), (os.path.join(stdlib, "lib-dynload"), "*")]

    def is_ours(path: str) -> bool:
        return any(is_inside(path, top) for top in tops) and not any(is_inside(top, path) for top in tops)

    every = dict.fromkeys(name for path in paths for name in _name(path) if is_ours(name))
    known = dict.fromkeys((name, one) for place, one in patterns for name in _name(place) if is_ours(name))
    return Installation(tuple(every), tuple(known))


def _name(path: str) -> tuple[str, ...]:
    """A path as it is called, and as it is called without links above it."""
    above, name = os.path.split(os.path.abspath(path))
    return tuple(dict.fromkeys((os.path.join(above, name), os.path.join(os.path.realpath(above), name))))


def _list_links(tops: Sequence[str]) -> Iterator[str]:
    """Links inside the workspaces on the way to the interpreter: with another target they lead to another one."""
    path = os.path.abspath(sys.executable)
    while any(is_inside(path, top) for top in tops):
        if os.path.islink(path):
            yield path
        path = os.path.dirname(path)


def _list_files() -> Iterator[str]:
    """The packages and programs of Handrail's distribution, and of all that it requires."""
    from importlib.metadata import PackageNotFoundError, distribution

    waiting, seen = ["handrail"], set[str]()
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in seen:
            continue
        seen.add(key)
        try:
            known = distribution(name)
        except PackageNotFoundError:
            continue
        waiting += [match[0] for one in known.requires or () if (match := _NAME.match(one))]
        top = str(known.locate_file(""))
        for file in known.files or ():
            shared = file.parts[0] in ("..", CACHE)
            yield os.path.normpath(os.path.join(top, *(file.parts if shared else file.parts[:1])))
