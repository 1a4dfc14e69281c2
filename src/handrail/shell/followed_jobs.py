"""Follow the changes that commands make in the workspace itself, outside any draft.

Background jobs do, and so does every command where drafts are unavailable. The tree is listed before a job starts, at
each call of the session, and when the job ends. Differences between two listings are judged like the changes of a
draft. Changes that were not allowed are reverted; the rest are recorded for undo. Writes by the session's own tools
were judged before, and are accepted. Another program's change at the same time looks like a job's, unless the path is
read-only for the job.

Old contents come from copies of small files, and from git for the others. A running program may replace a directory
with a link, so nothing is restored through a link.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from handrail.drafts.changes import DraftChange, How, read_entry
from handrail.drafts.compare import Entry
from handrail.drafts.git_index import list_blobs
from handrail.frozen import frozen
from handrail.shell.git.objects import GitObjects
from handrail.shell.runner.run import Run
from handrail.shell.sandbox.confinement import is_inside, iterate_parents
from handrail.shell.tree_listing import Stamp, TreeListing, make_entry
from handrail.system_calls import DIRECTORY, READABLE_DIRECTORY, open_beneath


@dataclass(frozen=True, slots=True)
class PutBack:
    """A protected file that a command changed, now reverted."""

    path: str
    change: How
    failed: str = ""
    """Why it could not be reverted; empty if it was."""


@dataclass(frozen=True, slots=True)
class TreeRepair:
    """Reverts files below a root without following links."""

    root: str
    place: Callable[[str], str]
    """Maps the name of a removed entry to the path it is moved to."""

    def remove(self, path: str, change: How = "created") -> PutBack:
        """Move an entry out of the tree; a directory goes with its contents."""
        try:
            if not self._remove_link_above(path) and os.path.lexists(path):
                self._move_out(path)
        except OSError as error:
            if os.path.lexists(path):
                return PutBack(path, change, failed=error.strerror or str(error))
        return PutBack(path, change)

    def restore(self, path: str, change: How, raw: bytes | None, mode: int) -> PutBack:
        """Restore a file's contents or a link's target; ``raw`` is None if they were not saved."""
        if raw is None:
            return PutBack(path, change, failed="its old contents were not saved")
        taken = self.remove(path, change)
        if taken.failed:
            return taken
        try:
            with self._open_parent(path, make=True) as parent:
                _write(os.path.basename(path), parent, raw, mode)
        except OSError as error:
            return PutBack(path, change, failed=error.strerror or str(error))
        return taken

    def _remove_link_above(self, path: str) -> bool:
        """Remove a link that has replaced a parent directory; False if there is none."""
        above = self.root
        for part in os.path.relpath(os.path.dirname(path), self.root).split("/"):
            above = os.path.normpath(os.path.join(above, part))
            if os.path.islink(above):
                self._move_out(above)
                return True
        return False

    def _move_out(self, path: str) -> None:
        name = os.path.basename(path)
        place = self.place(name)
        with self._open_parent(path) as parent:
            shutil.move(f"/proc/self/fd/{parent}/{name}", place)
        if os.path.isfile(place) and not os.path.islink(place):
            os.chmod(place, 0o600)

    @contextlib.contextmanager
    def _open_parent(self, path: str, make: bool = False) -> Iterator[int]:
        """Open the parent directory of a path without following links below the root."""
        name = os.path.relpath(os.path.dirname(path), self.root)
        with contextlib.ExitStack() as stack:
            fd = os.open(self.root, DIRECTORY)
            stack.callback(os.close, fd)
            if make:
                for part in [] if name == "." else name.split("/"):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                    fd = os.open(part, DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                    stack.callback(os.close, fd)
            else:
                fd = open_beneath(fd, name, DIRECTORY)
                stack.callback(os.close, fd)
            yield fd


def _write(name: str, parent: int, raw: bytes, mode: int) -> None:
    fresh = f"{name}.{secrets.token_hex(4)}"
    if stat.S_ISLNK(mode):
        os.symlink(raw, os.fsencode(fresh), dir_fd=parent)
    else:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
        with open(fd, "wb") as file:
            file.write(raw)
            os.fchmod(fd, stat.S_IMODE(mode))
    os.replace(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)


_MOST_BYTES = 16 << 20
"""The most bytes of all copies together."""
_MOST_FILE_BYTES = 1 << 20
_MOST_INDEX_BYTES = 64 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SavedFiles:
    """Old contents of the files below some roots."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._copies: dict[str, tuple[Stamp, bytes]] = {}
        self._left = _MOST_BYTES
        self._blobs: dict[str, tuple[str, str]] = {}
        """By path: the repository, and the id of the blob with the file's contents."""
        self._objects: dict[str, GitObjects] = {}

    def save_all(self, listing: TreeListing) -> None:
        """Save the files whose contents git does not have, nearest the root first, while there is room."""
        for root in self._roots:
            self._read_index(root, listing)
        others = (path for path in listing.entries if path not in self._blobs and "/.git/" not in path)
        for path in sorted(others, key=lambda path: path.count("/")):
            self.add(path, listing.entries[path])

    def add(self, path: str, stamp: Stamp | None) -> None:
        """Save a file or a link, if there is room."""
        known = self._copies.get(path)
        if stamp is None or (known and known[0] == stamp) or stamp[2] > min(self._left, _MOST_FILE_BYTES):
            return
        raw = _read("/", path.lstrip("/"), make_entry(stamp), _MOST_FILE_BYTES)
        if raw is not None and len(raw) == stamp[2]:
            self._left += len(known[1]) if known else 0
            self._left -= len(raw)
            self._copies[path] = stamp, raw

    def _read_index(self, root: str, listing: TreeListing) -> None:
        try:
            with open(os.open(os.path.join(root, ".git", "index"), _READ), "rb") as file:
                blobs = list_blobs(file.read(_MOST_INDEX_BYTES))
        except OSError:
            return
        for name, (mtime, size, identity) in blobs.items():
            path = os.path.join(root, name)
            stamp = listing.entries.get(path)
            if stamp and stat.S_ISREG(stamp[1]) and stamp[2:4] == (size, mtime):
                self._blobs[path] = root, identity

    def find(self, path: str, stamp: Stamp) -> bytes | None:
        """The contents that a file or link had under this stamp; None if unknown."""
        known = self._copies.get(path)
        if known and known[0] == stamp:
            return known[1]
        if path not in self._blobs or not stat.S_ISREG(stamp[1]):
            return None
        root, identity = self._blobs[path]
        objects = self._objects.setdefault(root, GitObjects(root))
        raw = objects.read(identity, b"blob")
        return raw if raw is not None and len(raw) == stamp[2] else None

    def close(self) -> None:
        """Stop the processes that read git's objects; the next `find` restarts them."""
        while self._objects:
            self._objects.popitem()[1].close()


@frozen
class JobContents:
    """Reads files as they were before and after a job, like `ChangeReader` for a draft."""

    root: str
    before: TreeListing
    saved: SavedFiles

    def read_before(self, change: DraftChange, most: int) -> bytes | None:
        """The old contents of a file, or the target of a link; None if they were not saved."""
        path = os.path.join(self.root, change.path)
        stamp = self.before.entries.get(path)
        raw = self.saved.find(path, stamp) if stamp else None
        return raw if raw is not None and len(raw) <= most else None

    def read_after(self, change: DraftChange, most: int) -> bytes | None:
        """The new contents of a file, or the target of a link; None if too large or of another type."""
        return _read(self.root, change.path, change.after, most)


def _read(root: str, path: str, entry: Entry | None, most: int) -> bytes | None:
    try:
        tree = os.open(root, READABLE_DIRECTORY)
    except OSError:
        return None
    try:
        return read_entry(tree, path, entry, most)
    finally:
        os.close(tree)


MOST_MOUNTED = 100
"""The most protected paths to mount read-only: each mount slows every start. The others are only compared."""
_STEERS_GIT = re.compile(
    r".*/\.git(?:/(?:modules|worktrees)/.+)?/(?:config|config\.worktree|commondir|info/attributes|hooks)(?:/.*)?", re.I
)


@frozen
class ChangeJudge:
    """Judges and records changes in the workspace itself."""

    protects: Callable[[str], bool]
    """Whether changing this path needs a person's approval."""
    list_refused: Callable[[str, Sequence[DraftChange], JobContents], set[str]]
    """The paths below a root whose changes were not allowed."""
    record: Callable[[str, str, Sequence[DraftChange], JobContents], None]
    """Records the changes below a root while a command ran."""


@dataclass(slots=True)
class _Job:
    run: Run
    command: str
    approved: bool
    mounted: frozenset[str]


@dataclass
class FollowedJobs:
    """The jobs of a session, and the last listing of the tree."""

    roots: Sequence[str]
    judge: ChangeJudge
    left_out: frozenset[str]
    """Paths below the roots that do not belong to the project."""
    also: Sequence[str]
    """Further protected paths, which do not exist yet."""
    place: Callable[[str], str]
    """Maps the name of a removed entry to the path it is moved to."""
    is_too_large: bool = False
    """Whether the tree has too many entries to follow."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    users: int = 0
    """How many commands are being followed."""
    jobs: list[_Job] = field(default_factory=list)
    _listing: TreeListing | None = None
    _saved: SavedFiles = field(init=False)
    _tested: set[str] = field(default_factory=set)
    _protected: set[str] = field(default_factory=set)
    _first: dict[str, Stamp | None] = field(default_factory=dict)
    """The stamps of changed entries before their first change."""
    restored: list[PutBack] = field(default_factory=list)
    """Reverted changes that no answer has reported yet."""
    _failed: set[PutBack] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._saved = SavedFiles(self.roots)

    # Before and after a command

    def begin(self, *, for_undo: bool) -> None:
        """List the tree before a command starts to work on it."""
        with self._lock:
            if len(self.jobs) == self.users > 0:
                self._compare_jobs()
            elif not self.users:  # else the end of the other command judges what changes until then
                self._first, self._saved = {}, SavedFiles(self.roots)
                self._listing = TreeListing.take(self.roots, self.left_out)
                self.is_too_large = self._listing is None
                self._find_protected()
            self.users += 1
            if for_undo and self._listing:
                self._saved.save_all(self._listing)

    def end(self, command: str = "", *, approved: bool = False) -> list[PutBack]:
        """Compare the tree after a command that ended within its call; return the reverted changes.

        ``command``: its text, or empty to record nothing. ``approved``: a person allowed it to change anything.
        """
        with self._lock:
            known = dict(self._first)
            done = self._compare(judges=not approved)
            self.users -= 1
            if command:
                self._record(command)
            else:  # do not record its changes as a job's
                self._first = known
            return done

    def list_mounts(self) -> list[str]:
        """Existing protected paths to mount read-only. Git's are included even in a tree too large to list."""
        with self._lock:
            tops = {path for path in self._protected if os.path.dirname(path) not in self._protected}
            tops |= {path for root in self.roots for path in _list_git_files(root) if os.path.lexists(path)}
            return sorted(tops, key=lambda path: (not _STEERS_GIT.fullmatch(path), path.count("/"), path))[
                :MOST_MOUNTED
            ]

    def watch(self, run: Run, command: str, approved: bool, mounted: Sequence[str]) -> None:
        """Follow a job since `begin`. ``mounted``: the paths that are read-only for it unless it is approved."""
        check = weakref.WeakMethod(self.check)

        def end() -> None:
            if method := check():  # unless the session is gone
                method()

        with self._lock:
            self.jobs.append(_Job(run, command, approved, frozenset(mounted)))
            run.on_end = end
        if not run.running:
            self.check()

    def check(self) -> None:
        """Judge the jobs' changes since the last listing; record those of jobs that have ended."""
        with self._lock:
            if not self.jobs:
                return
            ended = [job for job in self.jobs if not job.run.running]
            self._compare_jobs()
            for job in ended:
                self._record(job.command)
                self.users -= 1
                self.jobs.remove(job)  # last, because a call that finds no job does not wait for us

    def _compare_jobs(self) -> None:
        """Compare the tree while jobs run; the next answer reports the reverted changes."""
        for one in self._compare(judges=not all(job.approved for job in self.jobs)):
            if one not in self._failed:
                self.restored.append(one)
            if one.failed:
                self._failed.add(one)

    @contextlib.contextmanager
    def accepting(self) -> Iterator[list[str]]:
        """Accept writes inside this context to the paths added to the list."""
        with self._lock:
            paths: list[str] = []
            try:
                yield paths
            finally:
                if self.users and self._listing:
                    for path in {*paths, *map(os.path.dirname, paths)}.difference(self.roots):
                        self._listing.update(path)
                        self._saved.add(path, self._listing.entries.get(path))
                    self._find_protected()

    # The tree

    def _find_protected(self) -> None:
        """Find and save the protected entries of the listing, where directories come before their contents."""
        entries = self._listing.entries if self._listing else {}
        self._protected &= entries.keys()
        for path in entries:
            if path not in self._tested and self._is_protected(path):
                self._protected.add(path)
        self._tested = set(entries)
        for path in self._protected:
            self._saved.add(path, entries[path])

    def _is_protected(self, path: str) -> bool:
        if _STEERS_GIT.fullmatch(path):
            return True
        if "/.git/" in path.lower():
            return False
        if path.lower().endswith("/.git"):
            return not os.path.isdir(path)
        return os.path.dirname(path) in self._protected or self._is_own(path) or self.judge.protects(path)

    def _is_own(self, path: str) -> bool:
        return any(is_inside(path, one) for one in self.also)

    def _compare(self, *, judges: bool) -> list[PutBack]:
        """Take a new listing, judge the changes since the last listing, and return the reverted ones."""
        before = self._listing
        if before is None:
            return []
        now = before.renew(self.roots, self.left_out)
        changed = now.find_changed(before)
        # Two versions of these may share a stamp, so their contents are compared.
        doubtful = [path for path in self._protected if before.is_fresh(path) and path in now.entries]
        done: list[PutBack] = []
        if judges and (changed or doubtful):
            with contextlib.closing(self._saved):
                done = self._put_back_refused(before, now, dict.fromkeys([*changed, *doubtful]))
            changed += (path for one in done for path in (one.path, os.path.dirname(one.path)))
        for path in changed:
            if before.entries.get(path) != now.entries.get(path):
                self._first.setdefault(path, before.entries.get(path))
        self._listing = now
        if changed:
            self._find_protected()
        return done

    def _put_back_refused(self, before: TreeListing, now: TreeListing, paths: Iterable[str]) -> list[PutBack]:
        # Another program made the changes that no job can make.
        mounted = frozenset.intersection(*(job.mounted for job in self.jobs)) if self.jobs else frozenset[str]()
        own = [path for path in paths if not any(is_inside(path, top) for top in mounted)]
        done: list[PutBack] = []
        for root in self.roots:
            contents = JobContents(root, before, self._saved)
            changes = [change for change in _list_changes(root, own, before, now) if not _is_same(change, contents)]
            refused = self.judge.list_refused(root, changes, contents) if changes else set[str]()
            refused |= {one.path for one in changes if self._is_own(os.path.join(root, one.path))}
            repair = TreeRepair(root, self.place)
            new = {one.path for one in changes if one.path in refused and one.before is None and one.is_directory}
            # A new directory is removed with its contents.
            tops = (one for one in changes if not any(above in new for above in iterate_parents(one.path)))
            done += [self._undo_change(repair, root, before, one) for one in tops if one.path in refused]
        for one in done:
            now.update(one.path)
            now.update(os.path.dirname(one.path))
        return done

    def _undo_change(self, repair: TreeRepair, root: str, before: TreeListing, change: DraftChange) -> PutBack:
        path = os.path.join(root, change.path)
        old = before.entries.get(path)
        if old is None:
            done = repair.remove(path)
            above = os.path.dirname(path)
            while above not in before.entries and os.path.basename(above).startswith(".") and above not in self.roots:
                with contextlib.suppress(OSError):  # not empty
                    os.rmdir(above)
                above = os.path.dirname(above)
            return done
        if change.before and change.before.is_directory:
            stands = os.path.isdir(path) and not os.path.islink(path)
            done = PutBack(path, change.how) if stands else repair.remove(path, change.how)
            with contextlib.suppress(OSError):  # its contents are restored separately
                os.makedirs(path, exist_ok=True)
                os.chmod(path, stat.S_IMODE(old[1]))
            return done
        return repair.restore(path, change.how, self._saved.find(path, old), old[1])

    def _record(self, command: str) -> None:
        """Record all changes since the last job ended."""
        now, first = self._listing, self._first
        self._first = {}
        if now is None or not first:
            return
        before = TreeListing({path: stamp for path, stamp in first.items() if stamp}, 0)
        for root in self.roots:
            contents = JobContents(root, before, self._saved)
            changes = [one for one in _list_changes(root, first, before, now) if not _is_same(one, contents)]
            if changes:
                self.judge.record(command, root, changes, contents)
        self._saved.close()


def _list_git_files(root: str) -> list[str]:
    """Files that can make git run programs. A linked work tree has a `.git` file, which names the repository."""
    git = os.path.join(root, ".git")
    return [os.path.join(git, name) for name in ("hooks", "config")] if os.path.isdir(git) else [git]


def _list_changes(root: str, paths: Iterable[str], before: TreeListing, now: TreeListing) -> Iterator[DraftChange]:
    """The changes below a root, sorted by path."""
    for path in sorted(paths):
        old, new = before.entries.get(path), now.entries.get(path)
        if (old or new) and path.startswith(f"{root}/"):
            yield DraftChange(os.path.relpath(path, root), make_entry(old), make_entry(new))


def _is_same(change: DraftChange, contents: JobContents) -> bool:
    """Whether an entry's mode and contents are unchanged."""
    old, new = change.before, change.after
    if old is None or new is None or old.mode != new.mode or old.size != new.size:
        return False
    if old.is_directory:
        return True
    raw = contents.read_before(change, old.size)
    return raw is not None and raw == contents.read_after(change, new.size)
