"""Watch the protected files while commands run in the background that nobody has approved.

Such a job works on the workspace itself, for as long as it likes. What it does to protected files is put back at each
call of the session, and when the job ends. The files are compared with those at the start of the first job; what the
session's own tools write meanwhile was judged by itself, and is accepted.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from handrail.shell.sandbox.protected_files import ProtectedFiles, PutBack, Snapshot


class _Job(Protocol):
    """A command that runs in the background."""

    on_end: Callable[[], None] | None

    @property
    def running(self) -> bool: ...


class WatchedJobs:
    """The unapproved jobs of a session, and the protected files as they are to stay."""

    def __init__(self, guard: ProtectedFiles, place: Callable[[str], str]) -> None:
        """``place``: where a file goes that is taken out of the workspace, by its name."""
        self._guard = guard
        self._place = place
        self._lock = threading.RLock()
        self._before = Snapshot()
        self._jobs: list[tuple[_Job, frozenset[str]]] = []
        self._put_back: list[PutBack] = []
        self._failed: set[PutBack] = set()

    def watch(self, job: _Job, before: Snapshot, mounted: Sequence[str]) -> None:
        """Watch a job. ``before``: the files at its start; ``mounted``: those that are read-only for it."""
        check = weakref.WeakMethod(self.check)

        def end() -> None:
            if method := check():  # unless the session is gone
                method()

        with self._lock:
            if not self._jobs:
                self._before = before
            self._jobs.append((job, frozenset(mounted)))
            job.on_end = end
        if not job.running:
            self.check()

    def check(self) -> None:
        """Put back what jobs have changed since the last look."""
        with self._lock:
            if not self._jobs:
                return
            running = [(job, mounted) for job, mounted in self._jobs if job.running]
            # What is read-only for all of them was changed by somebody else.
            mounted = frozenset.intersection(*(mounted for _, mounted in self._jobs))
            for one in self._guard.put_back(self._before, sorted(mounted), self._place):
                if one not in self._failed:
                    self._put_back.append(one)
                if one.failed:
                    self._failed.add(one)
            self._jobs = running

    def take(self) -> list[PutBack]:
        """What was put back since the last time."""
        with self._lock:
            done, self._put_back = self._put_back, []
            return done

    @contextlib.contextmanager
    def accepting(self) -> Iterator[list[str]]:
        """Accept what is written meanwhile to the paths that are added to the list."""
        with self._lock:
            paths: list[str] = []
            try:
                yield paths
            finally:
                if self._jobs:
                    self._guard.renew(self._before, paths)

    def accept_all(self) -> None:
        """Take the files as they are now: a person has approved a command that may change them."""
        with self._lock:
            if self._jobs:
                self._before = self._guard.find(self._before.own)
