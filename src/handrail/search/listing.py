"""The listing of one root: its directories and their entries, shared by every walk of the tree in a session.

A directory is listed once. Later its inode, modification time and change time prove that it is unchanged. In a large
tree, the kernel reports changes instead (`watch.py`), and nothing else is checked. Directories are opened below the
root's descriptor without following links, so nothing outside is listed even if a directory is swapped meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from handrail import system_calls
from handrail.search.ignores import NAMES, POLICY_NAMES, IgnoreFile, read_lines
from handrail.search.index.watch import CannotWatch, Changes, Watch

MOST_NAMES = 400_000
"""The most names kept in memory."""
WATCHED_FROM = 400
"""Trees with fewer directories are compared, not watched: each user has a limited number of watches."""
TRUSTED_FOR = 60.0
"""Seconds for which cached file times are trusted: the kernel does not report writes through mapped memory."""
_MOST_TOUCHED = 100_000
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_RULES = (None,) * len(NAMES)
_NO_STAMPS = ((),) * len(NAMES)
_RULE_NAMES = frozenset(NAMES)
_GUARD_NAMES = frozenset(POLICY_NAMES)

FileStamp = tuple[int, ...]
"""Inode, modification time and change time; empty if there is no such file."""


Mark = tuple[str, int, int]
"""A path below the root (empty for the root itself), its inode and change time."""
CHANGING = (0, 0)
"""Matches no real inode and change time. Marks a path whose next change might not show: it has only just changed."""


class Entries(NamedTuple):
    """The entries of one directory by kind, sorted by name. The object stays the same while the entries do."""

    dirs: tuple[str, ...]
    files: tuple[str, ...]
    links: tuple[str, ...]
    others: tuple[str, ...]
    """Pipes, sockets, devices."""
    rules: tuple[IgnoreFile | None, ...]
    rule_stamps: tuple[FileStamp, ...]
    guarded: bool
    """Whether one of `POLICY_NAMES` is among the entries."""
    repository: bool
    """Whether this is the top of a repository: git's ignore files above it do not apply."""

    @property
    def structure(self) -> tuple[object, ...]:
        """The parts that also affect the directories below."""
        return self.dirs, self.rules, self.rule_stamps, self.guarded, self.repository

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self.dirs) + len(self.files) + len(self.links) + len(self.others)


class _Directory(NamedTuple):
    """A directory as last listed."""

    stamp: FileStamp
    entries: Entries
    proven: bool
    """Whether every later change will show in the stamps."""
    has_certain_rules: bool
    """Whether every later change to its ignore files will show."""


class Position(NamedTuple):
    """A point in the history of a watched tree. If it equals the current position, no change was reported since."""

    epoch: object
    renewed: int
    """How many directories had been listed again by then."""
    touched: int
    """How many file changes had been reported by then."""
    restructured: int
    """How often the structure of a directory had changed by then."""


class Listing:
    """The directories below one root, listed on first use."""

    def __init__(self, root: int, most_names: int = MOST_NAMES) -> None:
        self.root = root
        self._most_names = most_names
        self._lock = threading.RLock()
        self._uses = 0
        self._can_watch = True
        self._watch: Watch | None = None
        self._forget()

    def _forget(self) -> None:
        """Forget everything and stop watching."""
        self.epoch = object()
        """Replaced whenever changes may have been missed."""
        self.renewed: list[str] = []
        """Changed directories, in the order they were noticed."""
        self.restructured = 0
        self.touched: list[bytes] = []
        """Files reported as changed, in order. Each reader remembers how many of them it has seen."""
        self.entered: list[str] = []
        """Watched directories, in the order watching began: earlier changes in them were not reported."""
        self._current: dict[str, _Directory] = {}
        """Watched directories without a reported change."""
        self._rules: dict[str, list[tuple[str, FileStamp]]] = {}
        """Their ignore files. Writes through another hard link are not reported."""
        self._known: dict[str, _Directory] = {}
        """Directories that must be compared with the disk before use."""
        self._times: dict[str, dict[str, int]] = {}
        self._timed_since = time.monotonic()
        self._names = 0
        self.kinds: OrderedDict[Hashable, Any] = OrderedDict()
        """Results of earlier walks, by kind of walk."""
        if self._watch:
            self._watch.close()
        self._watch = None

    def close(self) -> None:
        """Stop watching."""
        with self._lock:
            self._forget()
            self._can_watch = False

    @property
    def is_watched(self) -> bool:
        """Whether the kernel reports changes."""
        return self._watch is not None

    @property
    def position(self) -> Position | None:
        """The position of the last `refresh`; None if the tree is not watched."""
        if not self.is_watched:
            return None
        return Position(self.epoch, len(self.renewed), len(self.touched), self.restructured)

    def changed_since(self, position: Position) -> set[str] | None:
        """Directories listed again or with changed files since then; None if there may be more."""
        if position.epoch is not self.epoch or not self._watch or position.restructured != self.restructured:
            return None
        above = {path.rpartition(b"/")[0] for path in self.touched[position.touched :]}
        return {*self.renewed[position.renewed :], *(os.fsdecode(path) or "." for path in above)}

    def refresh(self, *, watch: bool = False) -> None:
        """Take in all changes up to now. ``watch``: start watching even if the tree is small."""
        with self._lock:
            self._uses += 1
            if self._watch:
                self._apply(self._watch.read())
            elif self._can_watch and (watch or (self._uses > 1 and len(self._known) >= WATCHED_FROM)):
                self._begin_watch()

    def _begin_watch(self) -> None:
        try:
            self._watch = None if system_calls.is_remote(self.root) else Watch(self.root)
        except CannotWatch:
            self._watch = None
        self._can_watch = self._watch is not None
        if self._watch:
            self.epoch = object()
            self._renew(list(self._known))

    def _apply(self, changes: Changes) -> None:
        reported = len(self.touched) + len(self.renewed) + len(changes.files)
        if changes.everything or reported > _MOST_TOUCHED:
            self._forget()
            return
        for path in changes.files:
            above, _, name = path.rpartition(b"/")
            times = self._times.get(os.fsdecode(above) or ".")
            if times:
                times.pop(os.fsdecode(name), None)
        self.touched += changes.files
        for path in changes.moved:
            self._drop(os.fsdecode(path))
        stale = {os.fsdecode(path) or "." for path in changes.directories}
        stale.update(path for path, rules in self._rules.items() if not _hold(self.root, rules))
        for directory in stale:
            if known := self._current.pop(directory, None):
                self._rules.pop(directory, None)
                self._known[directory] = known
        self._renew(stale)
        if time.monotonic() - self._timed_since > TRUSTED_FOR:
            self._times, self._timed_since = {}, time.monotonic()

    def _renew(self, paths: Iterable[str]) -> None:
        """List these directories again if they are known; note the others as changed."""
        for path in sorted(paths):
            if path not in self._known:  # it could not be read, or is new
                self.renewed.append(path)
                continue
            with contextlib.suppress(OSError):
                self.entries(path)

    def entries(self, path: str) -> Entries:
        """The entries of a directory, given by its path below the root; raises `OSError`."""
        known = self._current.get(path)
        if known:
            return known.entries
        with self._lock:
            before = self._known.get(path)
            if before and not self._watch and self._is_same(path, before):
                return before.entries
            return self._list(path, before)

    def _is_same(self, path: str, known: _Directory) -> bool:
        return known.proven and _stamp(self.root, path) == known.stamp and _hold(self.root, _list_rules(path, known))

    def _list(self, path: str, before: _Directory | None) -> Entries:
        if self._watch and path != ".":
            self.entries(os.path.dirname(path) or ".")  # if a parent is moved away, its own parent reports that
        try:
            fd = system_calls.open_beneath(self.root, path, _OPEN)
        except OSError:
            self._drop(path)
            raise
        try:
            is_watched = self._add_watch(fd, path)  # before listing, so that no change is missed
            before = self._known.get(path)
            status = os.fstat(fd)
            stamp = status.st_ino, status.st_mtime_ns, status.st_ctime_ns
            if before and before.stamp == stamp and self._is_same(path, before):
                here = before
            else:
                here = _list_directory(fd, stamp, before)
        except OSError:
            self._drop(path)
            raise
        finally:
            os.close(fd)
        self._keep(path, before, here, is_watched)
        return here.entries if before is None or here.entries != before.entries else before.entries

    def _keep(self, path: str, before: _Directory | None, here: _Directory, is_watched: bool) -> None:
        if before and here.entries == before.entries:
            here = here._replace(entries=before.entries)
        else:
            if before:
                self.renewed.append(path)
                self.restructured += before.entries.structure != here.entries.structure
            for name in set(before.entries.dirs).difference(here.entries.dirs) if before else ():
                self._drop(_join(path, name))
            self._names += here.entries.size - (before.entries.size if before else 0)
        self._known.pop(path, None)
        if self._names > self._most_names:
            self._names -= here.entries.size
            self._times.pop(path, None)
        elif is_watched:
            self._current[path] = here
            if rules := _list_rules(path, here):
                self._rules[path] = rules
        else:
            self._known[path] = here

    def _add_watch(self, fd: int, path: str) -> bool:
        """Start watching an open directory. False if it cannot be watched."""
        if self._watch is None or self._names > self._most_names:
            return False
        try:
            if self._watch.add(fd, os.fsencode("" if path == "." else path)):
                self.entered.append(path)
        except CannotWatch:  # no watches left: from now on directories are compared
            self._forget()
            self._can_watch = False
            return False
        return True

    def _drop(self, path: str) -> None:
        """Forget a directory and all directories below it."""
        waiting = [path]
        while waiting:
            here = waiting.pop()
            known = self._current.pop(here, None) or self._known.pop(here, None)
            self._rules.pop(here, None)
            self._times.pop(here, None)
            if known:
                self.renewed.append(here)
                self._names -= known.entries.size
                waiting += [_join(here, name) for name in known.entries.dirs]
                if self._watch:
                    self._watch.remove(os.fsencode("" if here == "." else here))

    def covers(self, paths: Iterable[str]) -> bool:
        """Whether all of these directories are watched and have no reported change."""
        return all(path in self._current for path in paths)

    def list_marks(self, paths: Iterable[str]) -> tuple[list[Mark], list[Mark]]:
        """The marks of these directories and of the ignore files in them, as last listed."""
        directories: list[Mark] = []
        rules: list[Mark] = []
        for path in paths:
            known = self._current.get(path) or self._known.get(path)
            inner = "" if path == "." else path
            if known is None or not known.proven:
                directories.append((inner, *CHANGING))
                continue
            directories.append((inner, known.stamp[0], known.stamp[2]))
            rules += [(name, stamp[0], stamp[2]) for name, stamp in _list_rules(path, known)]
        return directories, rules

    def is_directory(self, path: str, link: str) -> bool:
        """Whether a link leads to a directory."""
        with contextlib.suppress(OSError):
            return stat.S_ISDIR(os.stat(os.path.join(path, link), dir_fd=self.root).st_mode)
        return False

    def mtimes(self, path: str, names: Sequence[str]) -> list[int]:
        """The modification times of these files in a directory; 0 for files deleted since it was listed."""
        above = "" if path == "." else f"{path}/"
        if path not in self._current:
            return [self._read_time(above + name)[0] for name in names]
        times: list[int] = []
        with self._lock:
            known = self._times.setdefault(path, {})
            for name in names:
                mtime = known.get(name)
                if mtime is None:
                    mtime, is_certain = self._read_time(above + name)
                    if is_certain:
                        known[name] = mtime
                times.append(mtime)
        return times

    def _read_time(self, path: str) -> tuple[int, bool]:
        """The modification time, and whether every change will be reported: false for hard links."""
        try:
            status = os.stat(path, dir_fd=self.root, follow_symlinks=False)
        except OSError:
            return 0, False
        return status.st_mtime_ns, status.st_nlink == 1


def _list_rules(path: str, here: _Directory) -> list[tuple[str, FileStamp]]:
    """The ignore files in a directory with their stamps; empty stamps if changes may have gone unnoticed."""
    stamps = zip(NAMES, here.entries.rule_stamps, strict=True)
    return [(_join(path, name), stamp if here.has_certain_rules else ()) for name, stamp in stamps if stamp]


def _hold(root: int, rules: Iterable[tuple[str, FileStamp]]) -> bool:
    """Whether these ignore files are unchanged."""
    return all(_stamp(root, path) == stamp for path, stamp in rules)


def _join(above: str, name: str) -> str:
    return name if above == "." else f"{above}/{name}"


def _list_directory(fd: int, stamp: FileStamp, before: _Directory | None) -> _Directory:
    """List a directory. ``before``: the earlier listing, whose ignore files are reused if unchanged."""
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
    for names in (dirs, files, links, others):
        names.sort()
    stamps: tuple[FileStamp, ...] = _NO_STAMPS
    rules: tuple[IgnoreFile | None, ...] = _NO_RULES
    is_certain = True
    if not _RULE_NAMES.isdisjoint(files):
        own = [name if name in files else "" for name in NAMES]
        stamps = tuple(_stamp(fd, name) if name else () for name in own)
        if before and before.has_certain_rules and before.entries.rule_stamps == stamps:
            rules = before.entries.rules
        else:
            rules = tuple(IgnoreFile(_lines(fd, name)) if name else None for name in own)
        # A file that has just changed can change again without a new timestamp.
        is_certain = now - max(max(was[1:]) for was in stamps if was) > system_calls.TICK
    proven = is_certain and now - max(stamp[1:]) > system_calls.TICK
    names = dirs + files + links + others
    guarded = not _GUARD_NAMES.isdisjoint(names)
    repository = ".git" in names
    kinds = tuple(dirs), tuple(files), tuple(links), tuple(others)
    return _Directory(stamp, Entries(*kinds, rules, stamps, guarded, repository), proven, is_certain)


def _lines(fd: int, name: str) -> tuple[str, ...]:
    return read_lines(name, lambda: os.open(name, _REGULAR, dir_fd=fd))


def _stamp(fd: int, name: str) -> FileStamp:
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
