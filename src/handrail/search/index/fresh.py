"""The index of a tree as it is now: which of its files have changed since, and which files a search looks at.

The first search of a session compares every file with its stamp in the index. From the second one on the tree is
watched (`listing.py`), and only what was reported as changed is looked at again. Nothing is reported from before a
directory was watched, so all files are compared once the watch of an indexed directory has begun. A file that may have
changed is searched each time. All files are compared again now and then, because stores to mapped memory are not
reported.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from handrail import system_calls
from handrail.json_types import JsonMapping
from handrail.search.index.layout import make_stamp
from handrail.search.index.read import BadIndex, IndexFile
from handrail.search.index.structure import Structure
from handrail.search.listing import TRUSTED_FOR, Listing
from handrail.search.receipt import Budget, Receipt
from handrail.search.results import iterate_rows
from handrail.search.ripgrep import Ripgrep, Scope
from handrail.search.tree import SearchTree
from handrail.search.walk import VisitedDirectory

_MOST_VIEWS = 16


@dataclass(frozen=True, slots=True)
class FileList:
    """The files that a search in one scope looks at."""

    numbers: frozenset[int] | None
    """Of the files in the index; None: all of them."""
    unknown: tuple[bytes, ...]
    """Names of files that are not in the index, below the root."""
    receipt: Receipt
    """Counts what is left out."""


@dataclass(frozen=True, slots=True)
class View:
    """The index and the state of the files for one search."""

    index: IndexFile
    list: FileList
    changed: frozenset[int]
    """Numbers of files that may have changed since they were indexed."""
    is_current: Callable[[], bool]
    """Whether no change was reported since."""


class _NumberedDirectory(NamedTuple):
    """The files of one directory, as the index numbers them."""

    numbers: tuple[int, ...]
    unknown: tuple[bytes, ...]
    links: int
    """Links that lead to no directory."""
    linked_directories: int


@dataclass(frozen=True, slots=True)
class _State:
    """What is known of changes since the files were indexed."""

    listing: Listing
    epoch: object
    renewed: int
    """How many of the directories that the listing reports as changed are taken into account."""
    touched: int = 0
    """The same for files."""
    entered: int = 0
    """How many of the directories whose watches have begun were compared since."""
    compared: float = float("-inf")
    """When all files were compared with their stamps."""
    changed: frozenset[int] = frozenset()

    @property
    def moment(self) -> tuple[object, ...]:
        """Equal as long as no change becomes known."""
        return self.epoch, self.renewed, self.touched, self.changed


class FreshIndex:
    """An index file in the use of one session."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._index: IndexFile | None = None
        self._state: _State | None = None
        self._lists: dict[tuple[str, Scope], tuple[object, FileList]] = {}
        """The files that searches in one scope look at, and when they were listed."""

    @property
    def changes(self) -> int:
        """How many files have changed since they were indexed, as far as it is known."""
        changed = self._state.changed if self._state else ()
        return len(changed) + max((len(files.unknown) for _, files in self._lists.values()), default=0)

    def view(self, base: Ripgrep, engine: Ripgrep, budget: Budget) -> View | None:
        """The state of the files for a search; None: the index cannot be used.

        ``base`` searches the whole tree, ``engine`` the part that is asked for. Raises `RipgrepFailed` and `OSError`.
        """
        with self._lock:
            listing = engine.tree.listing
            index = self._load(listing)
            if index is None:
                return None
            listing.refresh(watch=self._state is not None)
            state = self._state = self._read_reports(index, listing)  # before the files are listed
            files = self._list_files(index, state, base, engine, budget)
            if files is None:
                return None
            state = self._state = _compare_unwatched(index, state)
            return View(index, files, state.changed, lambda: self._is_current(index, state))

    def _load(self, listing: Listing) -> IndexFile | None:
        try:
            status = os.stat(self._path, follow_symlinks=False)
            if self._index is None or self._index.identity != (status.st_dev, status.st_ino):
                self._forget()
                self._index = IndexFile(self._path)
        except (OSError, BadIndex, ValueError, KeyError):
            self._index = None
            return None
        top = os.fstat(listing.root)
        is_same = tuple(self._index.description["identity"]) == (top.st_dev, top.st_ino)
        # On a remote file system other machines may change files unnoticed.
        return self._index if is_same and not system_calls.is_remote(listing.root) else None

    def _read_reports(self, index: IndexFile, listing: Listing) -> _State:
        """The state with all changes that the listing has reported by now."""
        state, epoch, renewed = self._state, listing.epoch, len(listing.renewed)
        if state is None or state.listing is not listing or state.epoch is not epoch:
            self._lists.clear()
            return _State(listing, epoch, renewed, len(listing.touched))
        reported = listing.touched[state.touched :]  # another search may add to them at any time
        if not reported and renewed == state.renewed:
            return state
        numbers = [number for path in reported if (number := index.find(path)) is not None]
        # A file with several names has changed under all of them, without a report.
        compared = float("-inf") if any(_has_other_names(listing, path) for path in reported) else state.compared
        touched, changed = state.touched + len(reported), state.changed.union(numbers)
        return replace(state, renewed=renewed, touched=touched, compared=compared, changed=changed)

    def _list_files(
        self, index: IndexFile, state: _State, base: Ripgrep, engine: Ripgrep, budget: Budget
    ) -> FileList | None:
        """The files in the scope of a search; None: the index cannot be used for it."""
        scope, description, listing = engine.scope, index.description, state.listing
        is_whole = engine.tree.path.inner == "." and scope == base.scope
        key, moment = (engine.tree.path.inner, scope), (state.epoch, state.renewed)
        files = None
        if key in self._lists and self._lists[key][0] == moment:
            return self._lists[key][1]
        if listing.is_watched:
            files = self._walk(index, engine, budget)
        elif is_whole and description["complete"] and Structure(index.directories, index.rules).holds(listing.root):
            return FileList(None, (), _count_links(listing, description))
        if not listing.is_watched or (files and engine.narrows):
            receipt = Receipt()
            files = _number_all(index, engine, engine.list_files(budget, receipt), receipt)
        if files is None or files.receipt.unreadable:
            return None
        if listing.is_watched:
            if len(self._lists) >= _MOST_VIEWS:
                self._lists.clear()
            self._lists[key] = moment, files
        return files

    def _walk(self, index: IndexFile, engine: Ripgrep, budget: Budget) -> FileList | None:
        """Number the files of the tree; only those of directories that have changed are looked up."""
        tree = engine.tree
        walk = tree.walk(budget)
        numbers: set[int] = set()
        unknown: list[bytes] = []
        links = linked = 0
        for row in iterate_rows(
            tree, walk, ("index", index.identity, engine.scope), engine.look, lambda here: _number(index, tree, here)
        ):
            numbers.update(row.numbers)
            unknown += row.unknown
            links += row.links
            linked += row.linked_directories
        receipt = walk.receipt
        if receipt.stopped or not tree.listing.covers(walk.paths):
            return None
        receipt.searched, receipt.linked_directories = len(numbers) + len(unknown), linked
        receipt.links += links
        return FileList(frozenset(numbers), tuple(unknown), receipt)

    def _is_current(self, index: IndexFile, state: _State) -> bool:
        with self._lock:
            if state.listing.is_watched:
                state.listing.refresh()
            if index is self._index:
                self._state = self._read_reports(index, state.listing)
            return index is self._index and self._state is not None and self._state.moment == state.moment


def _compare_unwatched(index: IndexFile, state: _State) -> _State:
    """The state with the changes that nobody reports."""
    listing, root = state.listing, state.listing.root
    entered = listing.entered[state.entered :]
    state = replace(state, entered=state.entered + len(entered))
    if (
        not listing.is_watched
        or not index.directories.keys().isdisjoint(map(os.fsencode, entered))
        or time.monotonic() - state.compared > TRUSTED_FOR
    ):
        state = replace(state, compared=time.monotonic(), changed=frozenset(_find_changed(index, root)))
    linked = [number for number in index.linked - state.changed if _has_changed(index, root, number)]
    return replace(state, changed=state.changed.union(linked)) if linked else state


def _count_links(listing: Listing, description: JsonMapping) -> Receipt:
    """The receipt of a search of all files, with the links as they are now."""
    links: list[str] = description["links"]
    linked = sum(listing.is_directory("", name) for name in links)
    return replace(Receipt(**description["receipt"]), links=len(links) - linked, linked_directories=linked)


def _find_changed(index: IndexFile, root: int) -> Iterator[int]:
    """Compare each file with its stamp: in one loop, because there are many."""
    stat = os.stat
    for number, (name, (mtime, ctime, size, inode)) in enumerate(zip(index.files, index.stamps(), strict=True)):
        try:
            status = stat(name, dir_fd=root, follow_symlinks=False)
        except OSError:
            yield number
            continue
        if (
            status.st_ctime_ns != ctime
            or status.st_mtime_ns != mtime
            or status.st_ino != inode
            or status.st_size != size
        ):
            yield number


def _has_other_names(listing: Listing, path: bytes) -> bool:
    status = system_calls.stat_at(os.fsdecode(path), listing.root)
    return status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def _has_changed(index: IndexFile, root: int, number: int) -> bool:
    status = system_calls.stat_at(os.fsdecode(index.name(number)), root)
    return status is None or make_stamp(status) != index.stamp(number)


def _number(index: IndexFile, tree: SearchTree, here: VisitedDirectory) -> _NumberedDirectory:
    above = b"" if here.path == "." else os.fsencode(here.path) + b"/"
    names = [above + os.fsencode(name) for name in here.files]
    links = tree.count_links(here)
    return _NumberedDirectory(*_look_up(index, names), links, len(here.links) - links)


def _number_all(index: IndexFile, engine: Ripgrep, names: Iterable[bytes], receipt: Receipt) -> FileList:
    inner = engine.tree.path.inner
    above = b"" if inner == "." else os.fsencode(inner) + b"/"
    numbers, unknown = _look_up(index, (above + name for name in names))
    return FileList(frozenset(numbers), unknown, receipt)


def _look_up(index: IndexFile, names: Iterable[bytes]) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
    """The numbers of these files, and the names that are not in the index."""
    numbers: list[int] = []
    unknown: list[bytes] = []
    for name in names:
        number = index.numbers.get(name)
        if number is None:
            unknown.append(name)
        else:
            numbers.append(number)
    return tuple(numbers), tuple(unknown)
