"""The paths and the network that commands get, described once for every kind of sandbox.

Namespaces enforce all of a `Confinement`. Landlock only knows "allowed below this directory": it hides a
path by allowing all its neighbours instead (`split_trees`), and can protect nothing inside a writable tree, because
whoever may create files in a directory may do so everywhere below it. Each sandbox describes what it does not cover.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from handrail.drafts.places import read_mounts
from handrail.shell.sandbox import Network
from handrail.shell.sandbox.environment import Logins
from handrail.shell.sandbox.local_services import LocalServices

Protection = Literal["nothing", "protected", "workspace"]
"""What a command finds read-only: nothing, all protected files that exist, or everything."""

MOST_MASKED = 4_000
"""Paths that are hidden by a mount of their own. With more of them a command runs in a draft or not at all."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Which paths and which network a command gets. Paths are made real: absolute, links followed."""

    writable: tuple[str, ...]
    """Trees to read and write."""
    readable: tuple[str, ...] = ("/",)
    """Trees to read and run programs from: all, and those that would otherwise be covered."""
    hidden: tuple[str, ...] = ()
    """Not to be read, though inside a readable tree."""
    protected: Callable[[], Sequence[str]] | None = None
    """Paths inside writable trees that a job is not to change, as far as they exist, asked for at each start."""
    own: tuple[str, ...] = ()
    """Trees that the file tools write beside (locks, journal, artefacts), and commands do not."""
    masked: Callable[[], Sequence[str]] | None = None
    """Further paths not to be read, asked for at each start. Only namespaces hold these inside writable trees."""
    denied: Callable[[], Sequence[str]] | None = None
    """Those of them that are cheap to name at each start, for Landlock, which hides what is outside writable trees."""
    credentials: Callable[[], Sequence[str]] | None = None
    """Further paths not to be read, outside of writable trees, but for those that a command logs in with."""
    aliases: tuple[tuple[str, str], ...] = ()
    """Directories to be read by another name too: the name at the top of the tree, and the real path."""
    drafts: str = ""
    """The directory with the layers of drafts; empty if commands run in none."""
    home: str = ""
    """A private directory that commands find in the place of the home directory; empty for none."""
    in_draft: bool = False
    """Whether this process itself sees a named draft in the place of the workspace."""
    network: Network = "off"
    most_processes: int | None = None
    """Counted by the kernel for the user, not for the command (in a user namespace: for that); root is not counted."""
    services: LocalServices = field(default_factory=LocalServices)
    """What commands reach on this machine beyond their own network, where `network` is "loopback"."""

    def __post_init__(self) -> None:
        for name in ("writable", "readable", "hidden", "own"):
            real = tuple(dict.fromkeys(os.path.realpath(path) for path in getattr(self, name)))
            if any("\0" in path for path in real):
                raise ValueError(f"{name}: a path cannot carry a NUL character")
            object.__setattr__(self, name, real)

    def list_hidden(self, logins: Logins) -> list[str]:
        """All further paths that a command is not to read, asked for at its start."""
        masked = self.masked() if self.masked else ()
        credentials = self.credentials() if self.credentials else ()
        if logins.files or logins.all_files:
            credentials = [path for place in credentials for path in _list_without(place, logins)]
        return [*masked, *credentials]

    def list_protected(self, protection: Protection) -> Sequence[str]:
        """All paths that a command is to find read-only, as far as they exist now."""
        if protection == "workspace":
            return self.writable
        return self.protected() if self.protected and protection == "protected" else ()


def _list_without(place: str, logins: Logins) -> Sequence[str]:
    """What is to be hidden of a place, where a command logs in with files that are in it."""
    if logins.shows(place):
        return ()
    if not any(is_inside(file, os.path.realpath(place)) for file in logins.files):
        return (place,)
    return [path for name in os.listdir(place) if not logins.shows(path := os.path.join(place, name))]


def find_repository(directory: str) -> str:
    """The top of the nearest git repository, from here upwards; `/` if there is none.

    A directory `.git` without a HEAD is no repository: git goes on above it, and some sandboxes leave one behind.
    """
    while directory != "/" and not _is_repository(f"{directory}/.git"):
        directory = os.path.dirname(directory)
    return directory


def _is_repository(path: str) -> bool:
    return os.path.lexists(f"{path}/HEAD") if os.path.isdir(path) else os.path.lexists(path)


def is_inside(path: str, tree: str) -> bool:
    """Whether ``path`` is ``tree`` or below it."""
    return path == tree or path.startswith(tree.rstrip("/") + "/")


def drop_nested(paths: Iterable[str]) -> list[str]:
    """The paths that do not lie inside another one of them."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not kept or not is_inside(path, kept[-1]):
            kept.append(path)
    return kept


def choose_maskable(paths: Iterable[str], writable: Iterable[str]) -> list[str]:
    """Real paths that can be hidden: none that holds a writable tree, and none that lies inside another one of them."""
    roots, above = tuple(writable), dict[str, str]()
    real = set[str]()
    for path in paths:
        directory, name = os.path.split(path.rstrip("/"))
        if directory not in above:  # that of many
            above[directory] = os.path.realpath(directory)
        plain = os.path.join(above[directory], name)
        real.add(os.path.realpath(plain) if name in ("", ".", "..") or os.path.islink(plain) else plain)
    return drop_nested(path for path in real if not any(is_inside(root, path) for root in roots))


def iterate_parents(path: str) -> Iterator[str]:
    """Every directory that holds a path, the nearest first."""
    while path != (path := os.path.dirname(path)):
        yield path


def split_trees(roots: Iterable[str], hidden: Iterable[str], most: int = 16_384) -> tuple[list[str], list[str]]:
    """The trees that together are ``roots`` without ``hidden``, and the directories that were split for it.

    What is created in a split directory later belongs to none of the trees.
    """
    without = tuple(hidden)
    trees: list[str] = []
    split: list[str] = []
    todo = [root for root in roots if root not in without]
    while todo:
        here = todo.pop()
        if any(is_inside(here, path) for path in without):
            continue
        if not any(is_inside(path, here) for path in without):
            trees.append(here)
        else:
            split.append(here)
            todo += _walk_below(here)
        if len(trees) + len(todo) > most:
            raise OSError(f"to hide {', '.join(without)} takes over {most} rules")
    return trees, split


def _walk_below(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            # A link gives no access of its own: what counts is the place that it leads to.
            yield from [entry.path for entry in entries if not entry.is_symlink()]
    except OSError:  # nobody who is confined to less could look into it either
        return


def find_all_names(paths: Iterable[str], table: str = "/proc/self/mountinfo") -> tuple[str, ...]:
    """``paths``, and every further path by which another mount shows the same files."""
    names = dict.fromkeys(paths)
    try:
        mounts = read_mounts(table)
    except OSError:  # the kernel has no such table
        mounts = []
    for path in list(names):
        holding = [mount for mount in mounts if is_inside(path, mount.point)]
        if not holding:
            continue
        # Of mounts on one directory the last one covers the others.
        length = max(len(mount.point) for mount in holding)
        own = [mount for mount in holding if len(mount.point) == length][-1]
        on_device = os.path.normpath(os.path.join(own.root, os.path.relpath(path, own.point)))
        for other in mounts:
            if other.device == own.device and is_inside(on_device, other.root):
                names[os.path.normpath(os.path.join(other.point, os.path.relpath(on_device, other.root)))] = None
    return tuple(names)
