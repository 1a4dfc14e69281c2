"""Follow what is changed in the workspace itself: by background jobs, and by every command where there are no drafts.

The tree is listed before a job starts, at each call of the session, and when the job ends. What has changed between two
listings is judged as the changes of a draft are. What nobody allowed is put back; the rest is recorded for an undo.
What the session's own tools write meanwhile was judged by itself, and is accepted. A change that somebody else makes at
the same time looks like a job's, unless the job finds the file read-only.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from handrail.drafts.changes import DraftChange
from handrail.frozen import frozen
from handrail.shell.put_back import PutBack, TreeRepair
from handrail.shell.runner.run import Run
from handrail.shell.sandbox.confinement import is_inside, iterate_parents
from handrail.shell.saved_files import JobContents, SavedFiles
from handrail.shell.tree_listing import Stamp, TreeListing, make_entry

MOST_MOUNTED = 100
"""Protected paths that get a mount of their own, which costs time at every start; the others are compared."""
_STEERS_GIT = re.compile(
    r".*/\.git(?:/(?:modules|worktrees)/.+)?/(?:config|config\.worktree|commondir|info/attributes|hooks)(?:/.*)?", re.I
)


@frozen
class ChangeJudge:
    """Judges and records what was changed in the workspace itself."""

    protects: Callable[[str], bool]
    """Whether a person has to approve a change of this path."""
    list_refused: Callable[[str, Sequence[DraftChange], JobContents], set[str]]
    """The paths below a root, of those that were changed, whose change nobody has allowed."""
    record: Callable[[str, str, Sequence[DraftChange], JobContents], None]
    """Records what changed below a root while a command ran."""


@dataclass(slots=True)
class _Job:
    run: Run
    command: str
    approved: bool
    mounted: frozenset[str]


@dataclass
class FollowedJobs:
    """The jobs of a session, and the tree as it was when somebody last looked."""

    roots: Sequence[str]
    judge: ChangeJudge
    left_out: frozenset[str]
    """Paths below the roots that are not the project's."""
    also: Sequence[str]
    """Further protected paths, which do not exist yet."""
    place: Callable[[str], str]
    """Where an entry goes that is taken out of the workspace, by its name."""
    is_too_large: bool = False
    """Whether the tree had too many entries to be followed."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _users: int = 0
    jobs: list[_Job] = field(default_factory=list)
    _listing: TreeListing | None = None
    _saved: SavedFiles = field(init=False)
    _tested: set[str] = field(default_factory=set)
    _protected: set[str] = field(default_factory=set)
    _first: dict[str, Stamp | None] = field(default_factory=dict)
    """The stamps that changed entries had before their first change."""
    restored: list[PutBack] = field(default_factory=list)
    """What was put back, until an answer says it."""
    _failed: set[PutBack] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._saved = SavedFiles(self.roots)

    # Before and after a command

    def begin(self, *, for_undo: bool) -> None:
        """Look at the tree before a command starts that will work on it."""
        with self._lock:
            if self._users:
                self._compare(judges=not all(job.approved for job in self.jobs))
            else:
                self._first, self._saved = {}, SavedFiles(self.roots)
                self._listing = TreeListing.take(self.roots, self.left_out)
                self.is_too_large = self._listing is None
                self._find_protected()
            self._users += 1
            if for_undo and self._listing:
                self._saved.save_all(self._listing)

    def end(self, command: str = "", *, approved: bool = False) -> list[PutBack]:
        """Look at what a command has done that ended before its answer; returns what was put back.

        ``command``: its words, if its changes are to be recorded. ``approved``: a person allowed it to change anything.
        """
        with self._lock:
            known = dict(self._first)
            done = self._compare(judges=not approved)
            self._users -= 1
            if command:
                self._record(command)
            else:  # what it changed is no job's
                self._first = known
            return done

    def list_mounts(self) -> list[str]:
        """The protected paths that exist, for a boundary to make read-only."""
        with self._lock:
            tops = [path for path in self._protected if os.path.dirname(path) not in self._protected]
            return sorted(tops, key=lambda path: (not _STEERS_GIT.fullmatch(path), path.count("/"), path))[
                :MOST_MOUNTED
            ]

    def watch(self, run: Run, command: str, approved: bool, mounted: Sequence[str]) -> None:
        """Follow a job since `begin`. ``mounted``: what is read-only for it unless it is approved."""
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
        """Judge what jobs have changed since the last look, and record the changes of those that have ended."""
        with self._lock:
            if not self.jobs:
                return
            ended = [job for job in self.jobs if not job.run.running]
            for one in self._compare(judges=not all(job.approved for job in self.jobs)):
                if one not in self._failed:
                    self.restored.append(one)
                if one.failed:
                    self._failed.add(one)
            for job in ended:
                self._record(job.command)
                self._users -= 1
                self.jobs.remove(job)  # last: a call that finds no job any more does not wait for this

    @contextlib.contextmanager
    def accepting(self) -> Iterator[list[str]]:
        """Accept what is written meanwhile to the paths that are added to the list."""
        with self._lock:
            paths: list[str] = []
            try:
                yield paths
            finally:
                if self._users and self._listing:
                    for path in {*paths, *map(os.path.dirname, paths)}.difference(self.roots):
                        self._listing.update(path)
                        self._saved.add(path, self._listing.entries.get(path))
                    self._find_protected()

    # The tree

    def _find_protected(self) -> None:
        """Find the protected entries of the listing, and save them. Directories come before what is in them."""
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
        """Take a new listing. Judges what has changed since the last one, and returns what was put back."""
        before = self._listing
        if before is None:
            return []
        now = before.renew(self.roots, self.left_out)
        changed = now.find_changed(before)
        # Their stamps may be those of two versions, so their contents tell.
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
        # What no job can change was changed by somebody else.
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
            # A new directory is taken out with all that is in it.
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
                with contextlib.suppress(OSError):  # there is more in it
                    os.rmdir(above)
                above = os.path.dirname(above)
            return done
        if change.before and change.before.is_directory:
            stands = os.path.isdir(path) and not os.path.islink(path)
            done = PutBack(path, change.how) if stands else repair.remove(path, change.how)
            with contextlib.suppress(OSError):  # what was in it is put back by itself
                os.makedirs(path, exist_ok=True)
                os.chmod(path, stat.S_IMODE(old[1]))
            return done
        return repair.restore(path, change.how, self._saved.find(path, old), old[1])

    def _record(self, command: str) -> None:
        """Hand over all changes since the last job that ended."""
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


def _list_changes(root: str, paths: Iterable[str], before: TreeListing, now: TreeListing) -> Iterator[DraftChange]:
    """The changes below a root, in the order of their paths."""
    for path in sorted(paths):
        old, new = before.entries.get(path), now.entries.get(path)
        if (old or new) and path.startswith(f"{root}/"):
            yield DraftChange(os.path.relpath(path, root), make_entry(old), make_entry(new))


def _is_same(change: DraftChange, contents: JobContents) -> bool:
    """Whether an entry has the mode and the contents that it had."""
    old, new = change.before, change.after
    if old is None or new is None or old.mode != new.mode or old.size != new.size:
        return False
    if old.is_directory:
        return True
    raw = contents.read_before(change, old.size)
    return raw is not None and raw == contents.read_after(change, new.size)
