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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from handrail import system_calls
from handrail.search.index.layout import NEVER, Stamp, make_stamp
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

    files: int
    numbers: tuple[int, ...]
    unknown: tuple[bytes, ...]
    links: int
    """Links that lead to no directory."""


class FreshIndex:
    """An index file in the use of one session."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._index: IndexFile | None = None
        self._listing: Listing | None = None
        self._uses = 0
        self._forget()

    def _forget(self) -> None:
        """Know nothing about changes."""
        self._epoch: object = None
        self._version = 0
        """Grows with every change that becomes known."""
        self._changed: set[int] = set()
        self._noted = 0
        """How many of the files that the listing reports are in `_changed`."""
        self._entered = 0
        """How many of the directories whose watches have begun were compared since."""
        self._compared = float("-inf")
        self._lists: dict[tuple[str, Scope], tuple[object, FileList]] = {}
        """The files that searches in one scope look at, and when they were listed."""

    @property
    def changes(self) -> int:
        """How many files have changed since they were indexed, as far as it is known."""
        return len(self._changed) + max((len(files.unknown) for _, files in self._lists.values()), default=0)

    def view(self, base: Ripgrep, engine: Ripgrep, budget: Budget) -> View | None:
        """The state of the files for a search; None: the index cannot be used.

        ``base`` searches the whole tree, ``engine`` the part that is asked for. Raises `RipgrepFailed` and `OSError`.
        """
        with self._lock:
            listing = engine.tree.listing
            index = self._load(listing)
            if index is None:
                return None
            self._uses += 1
            self._take_changes(index, listing)
            files = self._list_files(index, listing, base, engine, budget)
            if files is None:
                return None
            entered = listing.entered[self._entered :]
            self._entered += len(entered)
            if (
                not listing.is_watched
                or not index.directories.keys().isdisjoint(map(os.fsencode, entered))
                or time.monotonic() - self._compared > TRUSTED_FOR
            ):
                self._compare(index, listing.root)
            for number in index.linked - self._changed:
                if _read_stamp(listing.root, index.name(number)) != index.stamp(number):
                    self._changed.add(number)
                    self._version += 1
            state = listing.epoch, len(listing.renewed), self._version
            return View(index, files, frozenset(self._changed), lambda: self._is_current(index, listing, state))

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
        if system_calls.is_remote(listing.root):  # other machines may change files unnoticed
            return None
        if tuple(self._index.description["identity"]) != (top.st_dev, top.st_ino):
            return None
        return self._index

    def _take_changes(self, index: IndexFile, listing: Listing) -> None:
        """Note the files that were reported as changed."""
        listing.refresh(watch=self._uses > 1)
        if self._listing is not listing or self._epoch is not listing.epoch:
            self._forget()
            self._listing, self._epoch, self._noted = listing, listing.epoch, len(listing.touched)
        reported = listing.touched[self._noted :]
        self._noted += len(reported)  # another search may add to them at any time
        self._version += len(reported)
        for path in reported:
            number = index.find(path)
            if number is not None:
                self._changed.add(number)
            status = system_calls.stat_at(os.fsdecode(path), listing.root)
            if status and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                self._compared = float("-inf")  # changed under its other names too, without a report

    def _compare(self, index: IndexFile, root: int) -> None:
        """Compare each file with its stamp: in one loop, because there are many."""
        self._compared = time.monotonic()
        changed: set[int] = set()
        stat = os.stat
        for number, (name, (mtime, ctime, size, inode)) in enumerate(zip(index.files, index.stamps(), strict=True)):
            try:
                status = stat(name, dir_fd=root, follow_symlinks=False)
            except OSError:
                changed.add(number)
                continue
            if (
                status.st_ctime_ns != ctime
                or status.st_mtime_ns != mtime
                or status.st_ino != inode
                or status.st_size != size
            ):
                changed.add(number)
        self._version += changed != self._changed
        self._changed = changed

    def _list_files(
        self, index: IndexFile, listing: Listing, base: Ripgrep, engine: Ripgrep, budget: Budget
    ) -> FileList | None:
        """The files in the scope of a search; None: the index cannot be used for it."""
        scope, description = engine.scope, index.description
        is_whole = engine.tree.path.inner == "." and scope == base.scope
        key, moment = (engine.tree.path.inner, scope), (listing.epoch, len(listing.renewed))
        files = None
        if key in self._lists and self._lists[key][0] == moment:
            return self._lists[key][1]
        if listing.is_watched:
            files = self._walk(index, engine, budget)
        elif is_whole and description["complete"] and Structure(index.directories, index.rules).holds(listing.root):
            return FileList(None, (), Receipt(**description["receipt"]))
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
        count = links = 0
        for row in iterate_rows(
            tree, walk, ("index", index.identity, engine.scope), engine.look, lambda here: _number(index, tree, here)
        ):
            numbers.update(row.numbers)
            unknown += row.unknown
            count += row.files
            links += row.links
        receipt = walk.receipt
        if receipt.stopped or not tree.listing.covers(walk.paths):
            return None
        receipt.searched, receipt.links = count, receipt.links + links
        return FileList(frozenset(numbers), tuple(unknown), receipt)

    def _is_current(self, index: IndexFile, listing: Listing, state: tuple[object, int, int]) -> bool:
        with self._lock:
            if self._listing is listing and listing.is_watched and state[0] is listing.epoch:
                self._take_changes(index, listing)
            return (listing.epoch, len(listing.renewed), self._version) == state


def _read_stamp(root: int, name: bytes) -> Stamp:
    try:
        return make_stamp(os.stat(name, dir_fd=root, follow_symlinks=False))
    except OSError:
        return NEVER


def _number(index: IndexFile, tree: SearchTree, here: VisitedDirectory) -> _NumberedDirectory:
    above = b"" if here.path == "." else os.fsencode(here.path) + b"/"
    names = [above + os.fsencode(name) for name in here.files]
    return _NumberedDirectory(len(names), *_look_up(index, names), tree.count_links(here))


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
