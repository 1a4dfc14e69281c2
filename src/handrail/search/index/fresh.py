"""The index of a tree as it is now: which of its files have changed since, and which files a search looks at.

The first search of a session compares every file with its stamp in the index. From the second one on the directories
are watched, and only what was reported as changed is looked at again. A file that may have changed is searched each
time. Where the list of files may have changed, ripgrep makes a new one, or is asked about the few new files only. All
files are compared again now and then, because stores to mapped memory are not reported.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from handrail import system_calls
from handrail.search.index.layout import NEVER, Stamp, make_stamp
from handrail.search.index.read import BadIndex, IndexFile
from handrail.search.index.structure import Structure, TooManyDirectories, is_rule_file, scan
from handrail.search.index.watch import CannotWatch, Changes, Watch
from handrail.search.receipt import Budget, Receipt
from handrail.search.ripgrep import Ripgrep, Scope

COMPARE_AGAIN = 60.0
"""Seconds after which all files are compared with their stamps, although nothing was reported."""
_MOST_TRIES = 4
_MOST_VIEWS = 16
_MOST_NEW = 64
"""With more new or removed files the whole tree is listed again."""


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


class Position(NamedTuple):
    """A moment in the life of a watched tree: as long as it is the present one, no change was reported."""

    watch: Watch
    version: int


class FreshIndex:
    """An index file in the use of one session."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._root = -1
        self._lock = threading.Lock()
        self._index: IndexFile | None = None
        self._watch: Watch | None = None
        self._can_watch = True
        self._uses = 0
        self._version = 0
        """Changes with every change that becomes known."""
        self._forget()

    def _forget(self) -> None:
        """Know nothing about changes."""
        self._version += 1
        self._changed: set[int] = set()
        self._structure: Structure | None = None
        """None: as in the index."""
        self._skipped: set[bytes] | None = None
        """Entries that a search leaves out; None: not known."""
        self._others: set[bytes] = set()
        """Those of them that are neither files nor directories, if they are known."""
        self._listed: tuple[list[bytes], Receipt] | None = None
        """The files of the whole tree; None: as in the index."""
        self._listed_names: set[bytes] = set()
        self._is_listing_stale = False
        self._uncertain: set[bytes] = set()
        """Files that may have to be added to the list, or taken from it."""
        self._compared = float("-inf")
        self._views: dict[tuple[str, Scope], FileList | None] = {}
        if self._watch:
            self._watch.close()
        self._watch = None

    def close(self) -> None:
        with self._lock:
            self._forget()

    @property
    def changes(self) -> int:
        """How many files have changed since they were indexed, as far as it is known."""
        listed = self._views.values()
        return len(self._changed) + max((len(one.unknown) for one in listed if one), default=0)

    def view(self, root: int, base: Ripgrep, engine: Ripgrep, path: str, budget: Budget) -> View | None:
        """The state of the files for a search below ``path``; None: the index cannot be used.

        ``base`` searches the whole tree ``root``, ``engine`` the part that is asked for. Raises `RipgrepFailed` and
        `OSError`.
        """
        with self._lock:
            if root != self._root:
                self._forget()
                self._root = root
            index = self._load()
            if index is None or not self._update(index, base, budget):
                return None
            files = self._list(index, base, engine, path, budget)
            if files is None:
                return None
            for number in index.linked - self._changed:
                if self._stamp(index.name(number)) != index.stamp(number):
                    self._changed.add(number)
                    self._version += 1
            version = self._version
            return View(index, files, frozenset(self._changed), lambda: self._is_current(index, version))

    def poll(self, root: int) -> Position | None:
        """The present position; None: the tree is not watched, or not yet. Raises `OSError`."""
        with self._lock:
            if root != self._root:
                self._forget()
                self._root = root
            index = self._load()
            if index is None:
                return None
            if self._watch:
                self._apply(index, self._watch.read())
            else:
                self._uses += 1
            if self._watch is None and self._uses > 1 and self._can_watch:
                self._begin_watch(index)
            return Position(self._watch, self._version) if self._watch else None

    def _load(self) -> IndexFile | None:
        try:
            status = os.stat(self._path, follow_symlinks=False)
            if self._index is None or self._index.identity != (status.st_dev, status.st_ino):
                self._forget()
                self._index = IndexFile(self._path)
        except (OSError, BadIndex, ValueError, KeyError):
            self._index = None
            return None
        top = os.fstat(self._root)
        if system_calls.is_remote(self._root):  # other machines may change files unnoticed
            return None
        if tuple(self._index.description["identity"]) != (top.st_dev, top.st_ino):
            return None
        return self._index

    def _update(self, index: IndexFile, base: Ripgrep, budget: Budget) -> bool:
        """Bring up to date what has changed; False if that is not possible."""
        self._uses += 1
        for _ in range(_MOST_TRIES):
            if self._watch:
                self._apply(index, self._watch.read())
            if self._watch is None and self._uses > 1 and self._can_watch:
                self._begin_watch(index)
            if self._watch is None or self._must_compare:
                self._compare(index)
            if self._watch and self._uncertain:
                self._adjust_listing(index, base, budget)
                continue
            if self._watch is None or not self._is_listing_stale:
                return True
            if not self._list_again(index, base, budget):
                return False
            if not self._must_compare:
                return True
        return False

    @property
    def _must_compare(self) -> bool:
        return time.monotonic() - self._compared > COMPARE_AGAIN

    def _begin_watch(self, index: IndexFile) -> None:
        self._forget()
        try:
            self._watch = Watch(self._root)
            self._watch.add(index.directories)
        except CannotWatch:
            self._can_watch = False
            self._forget()

    def _compare(self, index: IndexFile) -> None:
        """Compare all files, directories and ignore files with their stamps."""
        self._compared = time.monotonic()
        changed = self._find_changed(index)
        self._version += changed != self._changed
        self._changed = changed
        structure = self._structure or Structure(index.directories, index.rules)
        self._is_listing_stale = not structure.holds(self._root) or (self._is_listing_stale and self._watch is not None)

    def _find_changed(self, index: IndexFile) -> set[int]:
        """Compare each file with its stamp: in one loop, because there are many."""
        changed: set[int] = set()
        stat, root = os.stat, self._root
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
        return changed

    def _stamp(self, name: bytes) -> Stamp:
        try:
            return make_stamp(os.stat(name, dir_fd=self._root, follow_symlinks=False))
        except OSError:
            return NEVER

    def _apply(self, index: IndexFile, changes: Changes) -> None:
        """Note what was reported."""
        if changes.everything:
            self._forget()
            return
        self._version += bool(changes)
        self._is_listing_stale = self._is_listing_stale or changes.directories
        for path in changes.files:
            number = index.find(path)
            if number is not None:
                self._changed.add(number)
            status = system_calls.stat_at(os.fsdecode(path), self._root)
            regular = status is not None and stat.S_ISREG(status.st_mode)
            if status and regular and status.st_nlink > 1:  # changed under its other names too, without a report
                self._compared = float("-inf")
            if is_rule_file(path):
                self._is_listing_stale = True
            elif not self._is_same_entry(path, number is not None, status is not None, regular):
                self._uncertain.add(path)

    def _is_same_entry(self, path: bytes, known: bool, exists: bool, regular: bool) -> bool:
        """Whether an entry that was changed is listed, or left out, as before."""
        if known if self._listed is None else path in self._listed_names:
            return regular
        if self._skipped is None:  # it may have been one that is left out and counted
            return False
        if path in self._others:
            return False
        if path in self._skipped:
            return exists
        return not exists  # a temporary file that came and went

    def _adjust_listing(self, index: IndexFile, base: Ripgrep, budget: Budget) -> None:
        """Add files that are new to the list, and take those from it that are gone; in any doubt it is stale."""
        paths, self._uncertain = self._uncertain, set()
        was_stale, self._is_listing_stale = self._is_listing_stale, True  # unless all of it succeeds
        if was_stale or len(paths) > _MOST_NEW or not (self._listed or index.description["complete"]):
            return
        names, receipt = self._listed or (index.files, Receipt(**index.description["receipt"]))
        if self._skipped is None and receipt.links:  # a new file may have been one of them
            return
        listed = self._listed_names if self._listed else set(names)
        directories = (self._structure or index).directories
        new: set[bytes] = set()
        for path in paths:
            status = system_calls.stat_at(os.fsdecode(path), self._root)
            if status is None:
                if path not in listed:
                    return
            elif (
                not stat.S_ISREG(status.st_mode)
                or path.rpartition(b"/")[0] not in directories
                or path in self._others
                or (self._skipped is not None and path in self._skipped)
            ):
                return
            else:
                new.add(path)
        if new and not base.would_list(new, budget):
            return
        self._listed_names = (listed - paths) | new
        self._listed = list(self._listed_names), replace(receipt, searched=len(self._listed_names))
        self._views.clear()
        self._version += 1
        self._is_listing_stale = False

    def _list_again(self, index: IndexFile, base: Ripgrep, budget: Budget) -> bool:
        """List the whole tree and watch new directories, until nothing changes meanwhile."""
        watch = self._watch
        assert watch
        self._views.clear()
        for _ in range(_MOST_TRIES):
            receipt = Receipt()
            settled = time.time_ns() - system_calls.TICK
            names, skipped, others = base.list_files(base.scope, budget, receipt)
            # What was left out before may have new directories below it.
            known = self._structure if self._skipped is not None and self._skipped <= skipped else None
            watched = len(watch)
            try:
                structure = scan(self._root, skipped, lambda path: watch.add([path]), settled, known)
            except (CannotWatch, TooManyDirectories):
                self._can_watch = False
                self._forget()
                return False
            self._listed, self._skipped, self._structure = (names, receipt), skipped, structure
            self._others = others
            self._listed_names = set(names)
            self._is_listing_stale = False
            self._uncertain.clear()
            grown = len(watch) > watched
            self._apply(index, watch.read())
            if self._watch is None:
                return False
            if not grown and not self._is_listing_stale and not self._uncertain:
                return True
        self._is_listing_stale = True
        return False

    def _list(self, index: IndexFile, base: Ripgrep, engine: Ripgrep, path: str, budget: Budget) -> FileList | None:
        """The files in the scope of a search; None: the index cannot be used for it."""
        scope = engine.scope
        key = path, scope
        if self._watch is None:
            self._views.clear()
        elif key in self._views:
            return self._views[key]
        is_whole = path == "" and scope == base.scope
        description = index.description
        files: FileList | None
        if is_whole and self._listed is None and not self._is_listing_stale and description["complete"]:
            files = FileList(None, (), Receipt(**description["receipt"]))
        else:
            if is_whole and self._listed:
                names, receipt = self._listed
            else:
                receipt = Receipt()
                names = engine.list_files(scope, budget, receipt).names
            prefix = os.fsencode(path) + b"/" if path else b""
            files = _number(index, (prefix + name for name in names), receipt)
            if self._watch and not self._watches(path, files, index):
                files = None
        if files and files.receipt.unreadable:
            files = None
        if self._watch:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            self._views[key] = files
        return files

    def _watches(self, path: str, files: FileList, index: IndexFile) -> bool:
        """Whether a file that appears beside one of these would be noticed."""
        known = (self._structure or index).directories
        return os.fsencode(path) in known and all(name.rpartition(b"/")[0] in known for name in files.unknown)

    def _is_current(self, index: IndexFile, version: int) -> bool:
        with self._lock:
            if self._watch and self._version == version:
                self._apply(index, self._watch.read())
            return self._version == version


def _number(index: IndexFile, names: Iterable[bytes], receipt: Receipt) -> FileList:
    numbers, unknown = set(), []
    known = index.numbers
    for name in names:
        number = known.get(name)
        if number is None:
            unknown.append(name)
        else:
            numbers.add(number)
    return FileList(frozenset(numbers), tuple(unknown), replace(receipt))
