"""A view of the file system: the mounts that commands see, as plain data that a launcher builds.

A view begins with an empty root, so that a command sees what a record names and nothing else. Records are mounted in
the order of the list, and a later one covers an earlier one. Sources are paths of this machine; `Hide` and `Pin` name
paths of the view. In the mounts of one command, which come on top of a view, sources are paths of the view as well.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from handrail.shell.sandbox.confinement import Confinement, Protection, drop_nested, is_inside

OVERLAID = ("/dev", "/proc", "/run", "/tmp")  # noqa: S108 - a private one stands there
_SETTLED = 2_000_000_000
"""Nanoseconds: what has changed within this time may change again and leave the same time."""
_MOST_LINKS = 40
"""As many links as the kernel follows on the way to one path."""
PRIVATE = "/.handrail"
"""What a view has for Handrail itself. It is covered before a command begins."""
DRAFTS, HOME = f"{PRIVATE}/drafts", f"{PRIVATE}/home"
"""The directory of drafts; the private home directory, which as a visible tree stands for the home directory."""
KEPT_IN_RUN = (  # of a directory that is full of sockets: programs (NixOS) and the addresses of name servers
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
)


@dataclass(frozen=True, slots=True)
class Bind:
    """A file or directory of this machine, with everything that is mounted below it."""

    source: str
    target: str
    read_only: bool = True
    optional: bool = False
    """Whether a missing source is left out."""


@dataclass(frozen=True, slots=True)
class Tmpfs:
    """An empty directory in memory."""

    target: str
    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class Symlink:
    """A symbolic link."""

    text: str
    target: str


@dataclass(frozen=True, slots=True)
class Dev:
    """The usual devices, a private `/dev/shm` and private terminals."""

    target: str = "/dev"


@dataclass(frozen=True, slots=True)
class Overlay:
    """A copy-on-write view of directories: changes go to ``upper``."""

    lower: tuple[str, ...]
    """The topmost layer first."""
    upper: str
    work: str
    target: str
    options: str = "userxattr"


@dataclass(frozen=True, slots=True)
class DraftLayers:
    """The draft that a command works in."""

    workspace: str
    """Its real path."""
    name: str
    """Of the draft's directory in the directory of drafts; it holds `upper` and `work`."""
    hiding: str = ""
    """Of the directory there whose `upper` hides paths of the workspace; empty if none are hidden."""
    read_only: tuple[str, ...] = ()
    """Real paths in the workspace that the command cannot change, as far as they exist."""


@dataclass(frozen=True, slots=True)
class Hide:
    """A path that cannot be read or changed. One that is missing is left out."""

    target: str


@dataclass(frozen=True, slots=True)
class Pin:
    """A path that cannot be renamed or replaced; with ``read_only`` its contents cannot change either."""

    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class Narrow:
    """Nothing else stays to be seen of the view: all other directories at the top are empty but for these paths."""

    visible: tuple[str, ...]
    """Real paths, none inside another."""
    links: tuple[tuple[str, str], ...]
    """Links on the way to them: the path and the text of each."""
    home: str = ""
    """Where the private home directory is mounted, with the visible paths in it; empty for nowhere."""
    identities: tuple[tuple[int, ...], ...] = ()
    """The device and inode of each visible path: if something else stands there, it is another view."""


Mount = Bind | Tmpfs | Symlink | Dev | Overlay | Hide | Pin
CommandMount = Mount | Narrow


def as_data(mounts: Iterable[CommandMount]) -> list[tuple[object, ...]]:
    """The records as tuples of plain values, each with its kind first."""
    return [
        (type(mount).__name__, *(getattr(mount, name) for name in type(mount).__dataclass_fields__)) for mount in mounts
    ]


def plan_base_view(confinement: Confinement, tmp: str) -> list[Mount]:
    """The view of a confinement, the same for all its commands."""
    return [
        *_plan_system(confinement),
        *_plan_private(tmp),
        *_plan_trees(confinement, tmp),
        *_plan_hidden(confinement),
        *_plan_aliases(confinement),
        *(
            Bind(path, place, read_only=False)
            for path, place in ((confinement.drafts, DRAFTS), (confinement.home, HOME))
            if path
        ),
    ]


def plan_draft_mounts(confinement: Confinement, draft: DraftLayers) -> Iterator[Mount]:
    """The mounts that show a draft to one command: the overlay covers what is hidden inside the workspace as well."""
    inside = os.path.join(DRAFTS, draft.name)
    # Nothing is written to the disk when the command ends: a keep does that, for the files that are kept.
    hiding = [f"{DRAFTS}/{draft.hiding}/upper"] if draft.hiding else []
    lower = (*hiding, draft.workspace)
    yield Overlay(lower, f"{inside}/upper", f"{inside}/work", draft.workspace, "userxattr,volatile")
    for path in confinement.hidden:
        if is_inside(path, draft.workspace):
            yield Hide(path)
    for path in draft.read_only:
        if os.path.lexists(path):
            yield Pin(path)


class NarrowViews:
    """Plans the part of a view that a command sees which may not read everything.

    The last plan holds as long as the directories stay as they are in which the links on the way were looked for.
    """

    def __init__(self, confinement: Confinement, tmp: str) -> None:
        self._confinement = confinement
        self._tmp = tmp
        self._visible: tuple[str, ...] | None = None
        self._narrow: Narrow | None = None
        self._looked: dict[str, tuple[int, ...]] = {}
        """The directories, each as it was before it was looked into."""

    def plan(self, visible: tuple[str, ...]) -> Narrow | None:
        """``visible``, and what is the command's own; None if all of the view is visible.

        A visible path that is reached through links is seen by that name as well.
        """
        if visible != self._visible or any(identify(path) != known for path, known in self._looked.items()):
            self._visible, self._looked, begun = visible, {}, time.time_ns() - _SETTLED
            self._narrow = self._plan_anew(visible)
            if any(known and known[-1] > begun for known in self._looked.values()):
                self._visible = None  # another change may leave the same time
        narrow = self._narrow
        return narrow and replace(narrow, identities=tuple(identify(path)[:2] for path in narrow.visible))

    def _plan_anew(self, visible: Sequence[str]) -> Narrow | None:
        confinement, links, known = self._confinement, dict[str, str](), dict[str, str]()
        trees = [*OVERLAID, DRAFTS, self._tmp, *confinement.writable, *(alias for alias, _ in confinement.aliases)]
        home = os.path.realpath(os.path.expanduser("~")) if confinement.home and HOME in visible else ""
        for path in set(visible).difference(trees):
            passed, real = trace_links(path, known, self._looked)
            links |= passed
            trees.append(real)
        shown = drop_nested(trees)
        if "/" in shown:
            return None
        outside = {path: text for path, text in links.items() if not any(is_inside(path, tree) for tree in shown)}
        return Narrow(
            tuple(shown), tuple(outside.items()), "" if any(is_inside(home, tree) for tree in shown) else home
        )


def trace_links(path: str, known: dict[str, str], looked: dict[str, tuple[int, ...]]) -> tuple[dict[str, str], str]:
    """The links on the way to an absolute path, each with its text, and the real path.

    ``known``: the texts of links, "" for what is none. ``looked``: the directories, before they were looked into.
    """
    links: dict[str, str] = {}
    here, names, followed = "/", path.split("/")[::-1], 0
    while names and followed <= _MOST_LINKS:
        name = names.pop()
        if name in ("", ".", ".."):
            here = os.path.dirname(here) if name == ".." else here
            continue
        one = os.path.join(here, name)
        if one not in known:
            looked.setdefault(here, identify(here))
            try:
                known[one] = os.readlink(one)
            except OSError:
                known[one] = ""
        text = known[one]
        if not text:
            here = one
            continue
        links[one] = text
        followed += 1
        here = "/" if text.startswith("/") else here
        names += text.split("/")[::-1]
    return links, here


def identify(path: str) -> tuple[int, ...]:
    """The device and inode of a file or directory, and when it has changed; empty if it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _plan_system(confinement: Confinement) -> Iterator[Mount]:
    """The trees of the system, one by one, so that a name at the top can be added."""
    with os.scandir("/") as listing:
        entries = sorted((entry.path, entry.is_symlink()) for entry in listing)
    for path, is_link in entries:
        if is_link:
            yield Symlink(os.readlink(path), path)
        elif path not in OVERLAID:
            yield Bind(path, path, read_only="/" not in confinement.writable, optional=True)
    # Each command mounts its own /proc here. The kernel lets a user namespace do so only where it sees a whole one.
    yield from (Dev(), Bind("/proc", "/proc"), Tmpfs("/run"))
    for path in KEPT_IN_RUN:
        yield Bind(path, path, optional=True)


def _plan_private(tmp: str) -> Iterator[Mount]:
    # Under both names, so that a path that a command prints is the path that the file tools know.
    yield Bind(tmp, "/tmp", read_only=False)  # noqa: S108 - that is the point
    yield Bind(tmp, tmp, read_only=False)


def _plan_trees(confinement: Confinement, tmp: str) -> Iterator[Mount]:
    trees = {path: Bind(path, path) for path in confinement.readable}
    trees |= {path: Bind(path, path, read_only=False) for path in confinement.writable}
    for prefix in (sys.prefix, sys.base_prefix):  # an interpreter that lies in /tmp is still there
        real = os.path.realpath(prefix)
        if os.path.isdir(real) and is_inside(real, os.path.realpath("/tmp")):  # noqa: S108
            trees.setdefault(real, Bind(real, real))
    for path in sorted(set(trees) - {"/", tmp}):  # a deeper path comes later, and covers
        yield trees[path]


def _plan_hidden(confinement: Confinement) -> Iterator[Mount]:
    for path in confinement.hidden:
        if not any(is_inside(root, path) for root in confinement.writable):
            yield Hide(path)


def _plan_aliases(confinement: Confinement) -> Iterator[Mount]:
    if "/" not in confinement.writable:
        for alias, real in confinement.aliases:
            yield Bind(real, alias, optional=True)


def plan_protections(confinement: Confinement, protection: Protection) -> Iterator[Pin]:
    """Read-only mounts for protected paths that exist; the directories on the way cannot be renamed."""
    pinned: set[str] = set()
    for path in confinement.list_protected(protection):
        root = max((root for root in confinement.writable if is_inside(path, root)), key=len, default=None)
        if root is None or not os.path.lexists(path) or os.path.islink(path):
            continue
        # A directory on the way there could be moved aside, with a fresh one in its place; a mount cannot.
        for directory in reversed(_find_special_parents(path, root)):
            if directory not in pinned:
                pinned.add(directory)
                yield Pin(directory, read_only=False)
        yield Pin(path)


def _find_special_parents(path: str, root: str) -> list[str]:
    """The directories above a protected path that are part of it, such as `.git`; ordinary ones stay movable."""
    parents: list[str] = []
    above = os.path.dirname(path)
    while above != root and is_inside(above, root):
        parents.append(above)
        above = os.path.dirname(above)
    special = [place for place, one in enumerate(parents) if os.path.basename(one).startswith(".")]
    return parents[: special[0] + 1] if special else []
