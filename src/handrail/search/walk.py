"""Walk a tree of the workspace in a fixed order, within a budget, without following links.

The walk reads the root's `Listing`. What it shows of a directory is remembered too, for as long as the entries of the
directory and the rules that hold there are the same: only what has changed is judged again.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from handrail.search.ignores import IgnoreFile, Ignores
from handrail.search.listing import MOST_NAMES, Entries, Listing
from handrail.search.receipt import Budget, Receipt
from handrail.text.globs import Glob, Places

_WALKS = 4
"""Kinds of walks that are remembered."""
_MOST_REMEMBERED = 50_000
"""Directories of such a walk."""

NameList = Sequence[str]
_NOWHERE: Places = frozenset()
_NO_NAMES: NameList = ()


class VisibleNames(NamedTuple):
    """Decides which names a walk may show."""

    withhold: Callable[[str, NameList, bool], set[str]]
    """The names in a directory below the root not to show. The flag: whether it has one of `POLICY_NAMES`."""
    key: Hashable = None
    """Equal keys give equal answers for the session, so that a walk can be remembered; None: not known."""
    asking: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered for many questions one after the other."""


class DirectoryCounts(NamedTuple):
    """What one directory adds to the counts of a walk."""

    size: int
    """How many entries there are."""
    ignored: int
    hidden: int
    withheld: int


NOTHING = DirectoryCounts(0, 0, 0, 0)


class VisitedDirectory(NamedTuple):
    """One directory of a walk, with its visible entries."""

    prefix: str
    """From the beginning of the walk: empty, or with a slash at its end."""
    path: str
    """Below the root."""
    listing: Listing
    dirs: NameList
    files: NameList
    links: NameList
    others: NameList
    counts: DirectoryCounts

    def mtimes(self, names: NameList) -> list[int]:
        """When these were changed last; 0 for what is gone since it was listed."""
        return self.listing.mtimes(self.path, names)


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
    """The listings of a session, one for each root."""

    def __init__(self, most_names: int = MOST_NAMES) -> None:
        self._most_names = most_names
        self._known: dict[tuple[int, int, int], Listing] = {}
        self._lock = threading.Lock()
        self.results: OrderedDict[Hashable, Any] = OrderedDict()
        """Results of listings that are remembered: `search.results`."""
        self.large: set[str] = set()
        """Real paths of directories with too many names for a list of all of them."""

    def of(self, root: int) -> Listing:
        """The listing below an open directory."""
        status = os.fstat(root)
        key = root, status.st_dev, status.st_ino
        with self._lock:
            if key not in self._known:
                self._known[key] = Listing(root, self._most_names)
            return self._known[key]

    def close(self) -> None:
        """Stop watching."""
        with self._lock:
            for listing in self._known.values():
                listing.close()


class _SeenDirectory(NamedTuple):
    """A directory as a walk of some kind shows it, and what that was worked out from."""

    entries: Entries
    above: Ignores
    below: Ignores
    """The rules that hold in it."""
    shown: VisitedDirectory


class Walk:
    """One walk below a directory; its receipt counts skipped entries."""

    def __init__(
        self,
        listing: Listing,
        inner: str,
        above: Sequence[str],
        shown: VisibleNames | None,
        budget: Budget,
    ) -> None:
        self.receipt = Receipt()
        self._listing = listing
        self._inner = inner
        self._lines = tuple(above)
        self._shown = shown
        self._budget = budget
        self.visited = 0
        self.paths: list[str] = []
        """The directories that were visited, below the root."""
        self.is_lasting = shown is None or shown.key is not None
        """Whether the same walk shows the same as long as none of these directories changes."""
        self.has_links = False
        """Whether links were shown, which may lead to what changes elsewhere."""

    def directories(
        self, look: WalkOptions, glob: Glob | None = None, depth: int | None = None, *, fold: bool = False
    ) -> Iterator[VisitedDirectory]:
        """The directories, each before those in it, with what is to be seen.

        With a ``glob`` only those below which it may match, with the files and links that it matches.

        ``fold``: the directories in the order of `folded`, and not in that of their characters.
        """
        with self._shown.asking() if self._shown else nullcontext():
            yield from self._visit(look, glob, depth, fold)

    def _visit(self, look: WalkOptions, glob: Glob | None, depth: int | None, fold: bool) -> Iterator[VisitedDirectory]:
        listing, receipt = self._listing, self.receipt
        listing.refresh()
        hidden = look.hidden or (glob is not None and glob.says_hidden)
        remembered, ignores = self._recall(look, hidden)
        places = glob.begin if glob else _NOWHERE
        waiting: list[tuple[str, str, Places, Ignores, int]] = [("", self._inner, places, ignores, 1)]
        while waiting and not self._is_stopped():
            prefix, path, places, ignores, level = waiting.pop()
            try:
                entries = listing.entries(path)
            except FileNotFoundError:  # gone since it was listed
                continue
            except OSError:
                receipt.unreadable += 1
                continue
            here = remembered.get(prefix)
            if here is None or here.entries is not entries or here.above is not ignores:
                in_repository = prefix == "" or remembered[""].entries.repository
                here = self._see(prefix, path, entries, ignores, look, hidden, in_repository, here)
                if prefix == "" or len(remembered) < _MOST_REMEMBERED:
                    remembered[prefix] = here
            shown, below = here.shown, here.below
            self._count(shown.counts, NOTHING)
            if shown.dirs and (depth is None or level < depth):
                start = "" if path == "." else f"{path}/"
                for name in reversed(sorted(shown.dirs, key=folded) if fold else shown.dirs):
                    inside = glob.enter(places, name) if glob else places
                    if inside or not glob:
                        waiting.append((f"{prefix}{name}/", start + name, inside, below, level + 1))
            self.paths.append(path)
            if glob:
                entered = [name for name in shown.links if glob.enter(places, name)]
                receipt.links += sum(listing.is_directory(path, name) for name in entered)
                shown = _narrow(shown, glob, places)
            self.has_links = self.has_links or bool(shown.links)
            yield shown

    def _count(self, counts: DirectoryCounts, before: DirectoryCounts) -> None:
        self.visited += counts.size - before.size
        self.receipt.ignored += counts.ignored - before.ignored
        self.receipt.hidden += counts.hidden - before.hidden
        self.receipt.withheld += counts.withheld - before.withheld

    def renew(
        self, look: WalkOptions, shown: Iterable[VisitedDirectory], glob: Glob | None, visited: int, receipt: Receipt
    ) -> list[VisitedDirectory] | None:
        """Some directories that an earlier walk of this kind has ``shown``, as they are now.

        ``visited`` and ``receipt``: its counts, from which those of this walk are made. None: a directory has gone, or
        what has changed in it changes more than its own entries.
        """
        listing = self._listing
        hidden = look.hidden or (glob is not None and glob.says_hidden)
        remembered, _ = self._recall(look, hidden)
        start = "" if self._inner == "." else f"{self._inner}/"
        renewed: list[tuple[VisitedDirectory, VisitedDirectory]] = []
        for old in shown:
            path = old.path
            prefix = "" if path == self._inner else f"{path[len(start) :]}/"
            before = remembered.get(prefix)
            try:
                entries = listing.entries(path)
            except OSError:
                return None
            if before is None or before.entries.structure != entries.structure:
                return None
            here = before
            if before.entries is not entries:
                in_repository = prefix == "" or remembered[""].entries.repository
                here = self._see(prefix, path, entries, before.above, look, hidden, in_repository, before)
                remembered[prefix] = here
            new = _narrow(here.shown, glob, _find_places(glob, prefix)) if glob else here.shown
            if glob and new.links != old.links:  # which are counted
                return None
            renewed.append((old, new))
        if not listing.covers(new.path for _, new in renewed):
            return None
        self.visited, self.receipt = visited, replace(receipt)
        for old, new in renewed:
            self._count(new.counts, old.counts)
        return [new for _, new in renewed]

    def _recall(self, look: WalkOptions, hidden: bool) -> tuple[dict[str, _SeenDirectory], Ignores]:
        """What earlier walks of this kind have shown, and the rules from above: the same objects for each of them."""
        top = Ignores(IgnoreFile(self._lines))
        if self._shown and self._shown.key is None:
            return {}, top
        kinds = self._listing.kinds
        key = self._inner, self._lines, look, hidden, self._shown and self._shown.key
        known: tuple[dict[str, _SeenDirectory], Ignores] = kinds.setdefault(key, ({}, top))
        kinds.move_to_end(key)
        if len(kinds) > _WALKS:
            kinds.popitem(last=False)
        return known

    def _see(
        self,
        prefix: str,
        path: str,
        entries: Entries,
        above: Ignores,
        look: WalkOptions,
        hidden: bool,
        in_repository: bool,
        before: _SeenDirectory | None,
    ) -> _SeenDirectory:
        """Decide what is to be seen of a directory; ``before``: as it was seen last."""
        below = above
        if before and before.above is above and before.entries.structure == entries.structure:
            below = before.below
        elif look.obey:  # ripgrep, too, looks for repositories only below the top of another one
            below = above.below(prefix, entries.rules, in_repository and entries.repository)
        kinds: Sequence[NameList] = entries.dirs, entries.files, entries.links, entries.others
        names = [name for kind in kinds for name in kind]
        out = self._shown.withhold(path, names, entries.guarded) if self._shown else set()
        withheld = len(out)
        if not look.git and entries.repository:  # whatever an ignore file says of it, nobody misses that one
            out.add(".git")
        spoken: dict[str, bool] = {}
        if not (below.silent or look.ignored):
            left = [[name for name in kind if name not in out] for kind in kinds] if out else kinds
            spoken = below.judge(prefix, [*left[1], *left[2], *left[3]], left[0])
        ignored = {name for name, verdict in spoken.items() if verdict}
        if look.skip and not look.ignored:
            ignored |= look.skip.intersection(names) - out
        out |= ignored
        unspoken = 0
        if not hidden:
            dotted = [name for name in names if name[0] == "." and name not in spoken and name not in out]
            unspoken = len(dotted)
            out.update(dotted)
        if out:
            kinds = [[name for name in kind if name not in out] for kind in kinds]
        counts = DirectoryCounts(len(names), len(ignored), unspoken, withheld)
        dirs, files, links, others = kinds
        shown = VisitedDirectory(prefix, path, self._listing, dirs, files, links, others, counts)
        return _SeenDirectory(entries, above, below, shown)

    def _is_stopped(self) -> bool:
        self.receipt.stopped = self.receipt.stopped or self._budget.spent(self.visited)
        return bool(self.receipt.stopped)


def _narrow(here: VisitedDirectory, glob: Glob, places: Places) -> VisitedDirectory:
    """The files and the links in a directory that a glob matches."""
    last = glob.last(places) if here.files or here.links else None
    files = links = _NO_NAMES
    if last:
        match = last.match
        files = [name for name in here.files if match(name)]
        links = [name for name in here.links if match(name)]
    return VisitedDirectory(here.prefix, here.path, here.listing, _NO_NAMES, files, links, _NO_NAMES, here.counts)


def _find_places(glob: Glob, prefix: str) -> Places:
    """The positions in a glob below a directory."""
    places = glob.begin
    for name in prefix.split("/")[:-1]:
        places = glob.enter(places, name)
    return places


def folded(name: str) -> tuple[str, str]:
    """The key by which names are sorted whatever their case is."""
    return name.casefold(), name
