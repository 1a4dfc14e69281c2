"""The indexes that the searches of one session use, and when one is built."""

from __future__ import annotations

import threading
import time

from handrail.errors import ToolError
from handrail.search.index.fresh import FreshIndex, View
from handrail.search.index.store import IndexStore, has_numpy
from handrail.search.query import NameFilter, Query
from handrail.search.receipt import Budget, Receipt
from handrail.search.ripgrep import Ripgrep, RipgrepFailed
from handrail.search.tree import SearchTree

SLOW_FILES = 5_000
SLOW_BYTES = 50 << 20
"""A search of so many files, or of so many bytes, is worth an index."""
_MOST_CHANGES = 250
"""With more changed files a new index is built: each of them is read in every search."""
_MOST_WAIT = 10.0
"""Seconds that the end of a session waits until the files to index are listed."""
_BUILD_AGAIN = 600.0
"""Seconds until a session builds the same index again."""


class SessionIndexes:
    """The indexes of a session, one for each root."""

    def __init__(self, state: str) -> None:
        self.store = IndexStore.in_state(state)
        self._lock = threading.Lock()
        self._open: dict[str, FreshIndex] = {}
        self._builder: threading.Thread | None = None
        self._is_left = threading.Event()
        """Whether the process that builds an index needs this one no longer."""
        self._tried: dict[str, float] = {}
        """When an index was built, or could not be, in this session."""

    def view(self, program: str, query: Query, tree: SearchTree, engine: Ripgrep, budget: Budget) -> View | None:
        """The index for a search; None: it cannot be used, or there is none."""
        if (
            self.store.is_empty
            or query.hidden
            or query.ignored
            or query.file_bytes is not None
            or (engine.scope.by_name and not tree.is_large)
        ):
            return None
        whole = tree.whole()
        base = make_base(program, whole)
        path = self.store.path(whole.path.real, base)
        index = self._get(path)
        try:
            view = index.view(base, engine, budget)
        except (RipgrepFailed, OSError):
            return None
        # Both scopes were read before the view, and the view covers only later changes.
        if not (base.has_scope_of_now() and engine.has_scope_of_now()):
            return None
        if view and index.changes > _MOST_CHANGES:
            self._start_build(whole, base, path)
        return view

    def _get(self, path: str) -> FreshIndex:
        with self._lock:
            return self._open.setdefault(path, FreshIndex(path))

    def note_search(self, program: str, tree: SearchTree, receipt: Receipt) -> None:
        """Build an index in the background after a search of much without one."""
        if receipt.searched >= SLOW_FILES or receipt.read >= SLOW_BYTES:
            whole = tree.whole()
            base = make_base(program, whole)
            self._start_build(whole, base, self.store.path(whole.path.real, base))

    def _start_build(self, tree: SearchTree, base: Ripgrep, path: str) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._tried.get(path, float("-inf")) < _BUILD_AGAIN or not has_numpy():
                return
            self._tried[path] = now
            self._is_left.clear()
            self._builder = threading.Thread(target=self._build, args=(tree, base), daemon=True, name="handrail-index")
            self._builder.start()

    def _build(self, tree: SearchTree, base: Ripgrep) -> None:
        try:
            self.store.build(tree, base, begun=self._is_left.set)
        except (ToolError, OSError):
            return  # searches go on without it; `handrail index build` says why
        finally:
            self._is_left.set()

    def wait(self) -> None:
        """Wait until an index that is being built is there."""
        with self._lock:
            builder = self._builder
        if builder:
            builder.join()

    def close(self) -> None:
        """Leave an index that is being built to its own process, also if this one ends now."""
        with self._lock:
            is_building = self._builder is not None
        if is_building:
            self._is_left.wait(_MOST_WAIT)


def make_base(program: str, whole: SearchTree) -> Ripgrep:
    """The search of a whole tree, whose files are indexed."""
    query = Query("")
    return Ripgrep(program, query, whole, NameFilter(query))


def get_indexes(tree: SearchTree) -> SessionIndexes | None:
    """The indexes of the session that searches this tree."""
    return tree.indexes if isinstance(tree.indexes, SessionIndexes) else None
