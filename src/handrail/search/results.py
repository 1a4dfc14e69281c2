"""Remember what a walk came to, for as long as the watched directories prove that nothing else has changed.

A result that has a row for each directory is brought up to date: only what has changed since is looked at again.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from handrail.search.listing import MOST_NAMES, TRUSTED_FOR, Position
from handrail.search.receipt import Receipt
from handrail.search.tree import SearchTree, Visibility
from handrail.search.walk import VisitedDirectory, Walk, WalkOptions
from handrail.text.globs import Glob

T = TypeVar("T")
Row = TypeVar("Row")

_MOST_RESULTS = 12
_MOST_CHANGED = 500
"""After changes in more directories at once the whole walk is made again."""


@dataclass(frozen=True, slots=True)
class _Result(Generic[T]):
    value: T
    visited: int
    receipt: Receipt
    position: Position
    sight: Visibility
    since: float


@dataclass(frozen=True, slots=True)
class _Rows(Generic[Row]):
    """What each directory of a walk came to, by its path below the root."""

    rows: dict[str, tuple[VisitedDirectory, Row]]
    linked: set[str]
    """Directories with links, which may lead to what changes elsewhere."""


class RememberedResult(Generic[T]):
    """The result of a walk with certain options: the former one, or a place to keep a new one."""

    def __init__(self, tree: SearchTree, walk: Walk, key: Hashable) -> None:
        self._tree = tree
        self._walk = walk
        self._key = tree.path.root, tree.path.inner, tuple(tree.above()), key
        self._position = self._poll()
        self._since = time.monotonic()

    def _poll(self) -> Position | None:
        listing = self._tree.listing
        listing.refresh()
        return listing.position

    def recall(self) -> T | None:
        """The former result, if it still holds: the counts of the walk are those of the former one then."""
        known = self.find()
        if known is None or known.position != self._position:
            return None
        self._walk.visited, self._walk.receipt = known.visited, replace(known.receipt)
        return known.value

    def find(self) -> _Result[T] | None:
        """The former result, which may have to be brought up to date."""
        known: _Result[T] | None = self._results.get(self._key)
        is_usable = known and known.sight is self._tree.sight and self._since - known.since <= TRUSTED_FOR
        return known if is_usable else None

    def keep(self, value: T, paths: Iterable[str], since: float | None = None) -> T:
        """Remember a result, if the directories it depends on are watched; returns it."""
        walk, position = self._walk, self._position
        is_whole = walk.is_lasting and not walk.receipt.stopped and not walk.receipt.unreadable
        if position and is_whole and self._tree.listing.covers(paths) and self._poll() == position:
            counts, since = replace(walk.receipt), since or self._since
            results = self._results
            results[self._key] = _Result(value, walk.visited, counts, position, self._tree.sight, since)
            results.move_to_end(self._key)
            if len(results) > _MOST_RESULTS:
                results.popitem(last=False)
        return value

    @property
    def _results(self) -> OrderedDict[Hashable, _Result[T]]:
        results: OrderedDict[Hashable, _Result[T]] = self._tree.results
        return results


def iterate_rows(
    tree: SearchTree,
    walk: Walk,
    key: Hashable,
    look: WalkOptions,
    see: Callable[[VisitedDirectory], Row],
    glob: Glob | None = None,
) -> Iterator[Row]:
    """What ``see`` makes of each directory of a walk; it is asked only about those that may have changed since."""
    result: RememberedResult[_Rows[Row]] = RememberedResult(tree, walk, key)
    if known := result.find():
        rows, linked = dict(known.value.rows), set(known.value.linked)
        changed = tree.listing.changed_since(known.position)
        if changed is not None and len(changed) <= _MOST_CHANGED:
            paths = [path for path in changed | linked if path in rows]
            renewed = walk.renew(look, [rows[path][0] for path in paths], glob, known.visited, known.receipt)
            if renewed is not None:
                for here in renewed:
                    _add(here, see(here), rows, linked)
                result.keep(_Rows(rows, linked), paths, known.since)
                yield from (row for _, row in rows.values())
                return
    rows, linked, listing = {}, set(), tree.listing
    for here in walk.directories(look, glob):
        row = see(here)
        if listing.is_watched and walk.visited <= MOST_NAMES:  # else they are not kept
            _add(here, row, rows, linked)
        yield row
    if len(rows) == len(walk.paths):
        result.keep(_Rows(rows, linked), walk.paths)


def _add(here: VisitedDirectory, row: Row, rows: dict[str, tuple[VisitedDirectory, Row]], linked: set[str]) -> None:
    rows[here.path] = here, row
    (linked.add if here.links else linked.discard)(here.path)
