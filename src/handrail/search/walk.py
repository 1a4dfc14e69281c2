"""Walk a tree of the workspace in a fixed order, within a budget, without following links.

Every directory is opened below the root's descriptor without following a link, so that nothing outside is listed even
if directories are swapped meanwhile. Listings are cached for the session, and reused only if inode, modification and
change time prove that the directory is unchanged. File times are never cached.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from handrail import system_calls
from handrail.search.ignores import NAMES, POLICY_NAMES, IgnoreFile, Ignores, read_lines
from handrail.search.receipt import Budget, Receipt
from handrail.text.globs import Glob, Places

_KEPT = 200_000
"""Names kept for a session at the most."""
_WALKS = 4
"""Walks that are remembered."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


NameList = Sequence[str]
_NOWHERE: Places = frozenset()
_NO_NAMES: NameList = ()


class DirectoryListing(NamedTuple):
    """Entries of one directory by kind, each in the order of the names."""

    stamp: tuple[int, ...]
    dirs: tuple[str, ...]
    files: tuple[str, ...]
    links: tuple[str, ...]
    others: tuple[str, ...]
    """Pipes, sockets, devices."""
    rules: tuple[IgnoreFile | None, ...]
    rule_stamps: tuple[tuple[int, ...], ...]
    guarded: bool
    """Whether one of `POLICY_NAMES` is among the entries."""
    repository: bool
    """Whether a repository begins here: git's ignore files from above do not hold in it."""
    proven: bool
    """Whether any later change would show in the stamps."""
    size: int
    """How many entries there are."""


class VisibleNames(NamedTuple):
    """Decides which names a walk may show."""

    select: Callable[[str, NameList, bool], NameList]
    """Of the names in a directory below the root. The flag: whether one of `POLICY_NAMES` stands in it."""
    key: Hashable = None
    """Equal keys give equal answers for the session, so that a walk can be remembered; None: not known."""


class VisitedDirectory:
    """One directory of a walk, with its visible entries."""

    __slots__ = ("above", "dirs", "fd", "files", "links", "others", "prefix")

    def __init__(
        self, prefix: str, fd: int, dirs: NameList, files: NameList, links: NameList, others: NameList, above: str = ""
    ) -> None:
        self.prefix = prefix
        """From the beginning of the walk: empty, or with a slash at its end."""
        self.fd = fd
        """Open until the walk goes on: the directory, or one that lies ``above`` it by so much of a path."""
        self.above = above
        self.dirs = dirs
        self.files = files
        self.links = links
        self.others = others

    def mtimes(self, names: NameList) -> list[int]:
        """When these were changed last; 0 for what is gone since it was listed."""
        fd, above, stat = self.fd, self.above, os.stat
        try:
            return [stat(above + name, dir_fd=fd, follow_symlinks=False).st_mtime_ns for name in names]
        except OSError:
            return [_stamp(fd, above + name)[1] for name in names]


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """Which entries a walk shows."""

    hidden: bool = False
    ignored: bool = False
    obey: bool = True
    """Whether ignore files count at all."""
    skip: frozenset[str] = frozenset()
    """Names that are passed over like ignored ones."""
    git: bool = False
    """Whether `.git` may be entered: only if the walk begins inside one."""


class Listings:
    """Caches the directory listings of a session."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], DirectoryListing] = OrderedDict()
        self._walks: OrderedDict[Hashable, RememberedWalk] = OrderedDict()
        self._names = 0
        self._lock = threading.Lock()
        self.results: OrderedDict[Hashable, Any] = OrderedDict()
        """Results of listings that are remembered: `index.results`."""
        self.large: set[str] = set()
        """Real paths of directories with too many names for a list of all of them."""

    def of(self, fd: int) -> DirectoryListing:
        """List the open directory; raises `OSError`."""
        status = os.fstat(fd)
        number, stamp = (status.st_dev, status.st_ino), (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        known = self._known.get(number)
        if known and known.stamp == stamp and all(_stamp(fd, name) == was for name, was in _stamps(known)):
            return known
        fresh = _list_directory(fd, stamp)
        with self._lock:
            if old := self._known.pop(number, None):
                self._names -= old.size
            if fresh.proven:
                self._known[number] = fresh
                self._names += fresh.size
            while self._names > _KEPT:
                self._names -= self._known.popitem(last=False)[1].size
        return fresh

    def recall(self, key: Hashable, root: int) -> RememberedWalk | None:
        """Return the former results of the same walk, if every directory that it passed proves to be unchanged."""
        known = self._walks.get(key)
        if known and all(
            _stamp(root, step.path) == step.listing.stamp
            and all(_stamp(root, f"{step.path}/{name}") == was for name, was in _stamps(step.listing))
            for step in known.steps
        ):
            return known
        return None

    def remember(self, key: Hashable, walk: RememberedWalk) -> None:
        """Keep what a walk found, if it can be proven later that it still holds."""
        if all(step.listing.proven for step in walk.steps):
            with self._lock:
                self._walks[key] = walk
                self._walks.move_to_end(key)
                while len(self._walks) > _WALKS:
                    self._walks.popitem(last=False)


class WalkStep(NamedTuple):
    """One directory of a walk that is remembered."""

    path: str
    """Below the root."""
    listing: DirectoryListing
    seen: VisitedDirectory


class RememberedWalk(NamedTuple):
    """A whole walk with its counts."""

    steps: list[WalkStep]
    visited: int
    ignored: int
    hidden: int
    withheld: int


_IGNORE_NAMES = frozenset(NAMES)
_GUARD_NAMES = frozenset(POLICY_NAMES)
_NO_RULES = (None,) * len(NAMES)
_NO_STAMPS = ((),) * len(NAMES)


def _list_directory(fd: int, stamp: tuple[int, ...]) -> DirectoryListing:
    now = time.time_ns()
    dirs: list[str] = []
    files: list[str] = []
    links: list[str] = []
    others: list[str] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):  # most of them
                files.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                dirs.append(entry.name)
            elif entry.is_symlink():
                links.append(entry.name)
            else:
                others.append(entry.name)
    stamps: tuple[tuple[int, ...], ...] = _NO_STAMPS
    rules: tuple[IgnoreFile | None, ...] = _NO_RULES
    if not _IGNORE_NAMES.isdisjoint(files):
        own = [name if name in files else "" for name in NAMES]
        stamps = tuple(_stamp(fd, name) if name else () for name in own)
        rules = tuple(IgnoreFile(_lines(fd, name)) if name else None for name in own)
    # What was changed just now can be changed again without a trace in its times.
    proven = now - max(stamp[1], stamp[2], *(max(was[1:]) for was in stamps if was)) > system_calls.TICK
    guarded = not all(_GUARD_NAMES.isdisjoint(names) for names in (dirs, files, links, others) if names)
    repository = ".git" in dirs or ".git" in files
    dirs.sort()
    files.sort()
    links.sort()
    others.sort()
    size = len(dirs) + len(files) + len(links) + len(others)
    names = tuple(dirs), tuple(files), tuple(links), tuple(others)
    return DirectoryListing(stamp, *names, rules, stamps, guarded, repository, proven, size)


def _lines(fd: int, name: str) -> tuple[str, ...]:
    return read_lines(name, lambda: os.open(name, _REGULAR, dir_fd=fd))


def _stamps(listing: DirectoryListing) -> Iterator[tuple[str, tuple[int, ...]]]:
    return ((name, was) for name, was in zip(NAMES, listing.rule_stamps, strict=True) if was)


def _stamp(fd: int, name: str) -> tuple[int, ...]:
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


class Walk:
    """One walk below a directory; its receipt counts skipped entries."""

    def __init__(
        self,
        root: int,
        inner: str,
        above: Sequence[str],
        listings: Listings,
        shown: VisibleNames | None,
        budget: Budget,
    ) -> None:
        self.receipt = Receipt()
        self._root = root
        self._inner = inner
        self._lines = tuple(above)
        self._above = IgnoreFile(above)
        self._listings = listings
        self._shown = shown
        self._budget = budget
        self._recorded = 0
        self.visited = 0
        self.paths: list[str] = []
        """The directories that were visited, below the root."""
        self.is_lasting = shown is None or shown.key is not None
        """Whether the same walk gives the same result as long as none of these directories changes."""

    def directories(
        self, look: WalkOptions, glob: Glob | None = None, depth: int | None = None, *, fold: bool = False
    ) -> Iterator[VisitedDirectory]:
        """The directories, each before those in it, with what is to be seen; with a ``glob`` the files it matches.

        ``fold``: the directories in the order of `folded`, and not in that of their characters.
        """
        rules = self._shown and self._shown.key
        lasting = self.is_lasting
        key = (
            self._root,
            self._inner,
            self._lines,
            look,
            glob and (glob.pattern, glob.hidden, glob.ignore_case),
            depth,
            fold,
            rules,
        )
        known = self._listings.recall(key, self._root) if lasting else None
        receipt = self.receipt
        if known:
            self.visited = known.visited
            receipt.ignored, receipt.hidden, receipt.withheld = known.ignored, known.hidden, known.withheld
            self._is_stopped()
            for step in known.steps:
                self._note(step.path, step.seen)
                yield step.seen
            return
        steps: list[WalkStep] = []
        yield from self._walk_fresh(look, glob, depth, fold, steps)
        if lasting and self._recorded <= _KEPT and not receipt.stopped and not receipt.unreadable:
            counts = self.visited, receipt.ignored, receipt.hidden, receipt.withheld
            self._listings.remember(key, RememberedWalk(steps, *counts))

    def _walk_fresh(
        self, look: WalkOptions, glob: Glob | None, depth: int | None, fold: bool, steps: list[WalkStep]
    ) -> Iterator[VisitedDirectory]:
        hidden = look.hidden or (glob is not None and glob.says_hidden)
        places = glob.begin if glob else _NOWHERE
        waiting: list[tuple[str, Places, Ignores, int]] = [("", places, Ignores(self._above), 1)]
        while waiting and not self._is_stopped():
            prefix, places, ignores, level = waiting.pop()
            path = _join(self._inner, prefix)
            try:
                fd = system_calls.open_beneath(self._root, path, _OPEN)
            except FileNotFoundError:  # gone since it was listed
                continue
            except OSError:
                self.receipt.unreadable += 1
                continue
            try:
                listing = self._listings.of(fd)
                self.visited += listing.size
                if look.obey:
                    ignores = ignores.below(prefix, listing.rules, listing.repository)
                judge = None if ignores.silent or look.ignored else ignores
                own = listing.guarded
                dirs = self._filter_names(listing.dirs, path, prefix, own, look, hidden, judge, "/")
                files = self._filter_names(listing.files, path, prefix, own, look, hidden, judge)
                links = others = _NO_NAMES
                if listing.links or listing.others:  # most directories have none
                    links = self._filter_names(listing.links, path, prefix, own, look, hidden, judge)
                    others = self._filter_names(listing.others, path, prefix, own, look, hidden, judge)
                if dirs and (depth is None or level < depth):
                    for name in reversed(sorted(dirs, key=folded) if fold else dirs):
                        below = glob.enter(places, name) if glob else places
                        if below or not glob:
                            waiting.append((f"{prefix}{name}/", below, ignores, level + 1))
                if glob:
                    dirs = others = ()
                    match = last.match if (last := glob.last(places)) else _match_nothing
                    files = [name for name in files if match(name)]
                    links = [name for name in links if match(name)] if links else links
                self._recorded += listing.size
                if self._recorded <= _KEPT:
                    above = "" if path == "." else path + "/"
                    steps.append(
                        WalkStep(path, listing, VisitedDirectory(prefix, self._root, dirs, files, links, others, above))
                    )
                else:  # too many names to remember the walk
                    steps.clear()
                here = VisitedDirectory(prefix, fd, dirs, files, links, others)
                self._note(path, here)
                yield here
            except OSError:
                self.receipt.unreadable += 1
            finally:
                os.close(fd)

    def _note(self, path: str, here: VisitedDirectory) -> None:
        self.paths.append(path)
        if here.links:  # they may lead to what changes elsewhere
            self.is_lasting = False

    def _filter_names(
        self,
        names: NameList,
        path: str,
        prefix: str,
        guarded: bool,
        look: WalkOptions,
        hidden: bool,
        ignores: Ignores | None,
        mark: str = "",
    ) -> NameList:
        """The names that the walk is to see; the others are counted."""
        if not names:
            return names
        if self._shown:
            shown = self._shown.select(path, names, guarded)
            self.receipt.withheld += len(names) - len(shown)
            names = shown
        if not names:
            return names
        spoken = ignores.judge(prefix, names, mark) if ignores else {}
        first, behind = bisect_left(names, "."), bisect_left(names, "/")  # the names that begin with a dot
        if spoken or first < behind or look.skip:
            out = {name for name, ignored in spoken.items() if ignored}
            if look.skip and not look.ignored:
                out |= look.skip.intersection(names)
            self.receipt.ignored += len(out)
            for name in names[first:behind]:
                git = name == ".git" and not look.git  # whatever an ignore file says of it
                if name not in out and (git or (not hidden and name not in spoken)):
                    self.receipt.hidden += not git  # nobody misses that one, and no switch would bring it in
                    out.add(name)
            names = [name for name in names if name not in out]
        return names

    def _is_stopped(self) -> bool:
        self.receipt.stopped = self.receipt.stopped or self._budget.spent(self.visited)
        return bool(self.receipt.stopped)


def folded(name: str) -> tuple[str, str]:
    """The key by which names are sorted whatever their case is."""
    return name.casefold(), name


def _join(inner: str, prefix: str) -> str:
    path = prefix.rstrip("/")
    if inner == ".":
        return path or "."
    return f"{inner}/{path}" if path else inner


def _match_nothing(_: str) -> None:
    return None
