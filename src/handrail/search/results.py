"""Remember what a listing came to, for as long as the watched directories prove that nothing has changed."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from handrail.search.listing import TRUSTED_FOR, Position
from handrail.search.receipt import Receipt
from handrail.search.tree import SearchTree, Visibility
from handrail.search.walk import Walk

T = TypeVar("T")

_MOST_RESULTS = 8


@dataclass(frozen=True, slots=True)
class _Result(Generic[T]):
    value: T
    visited: int
    receipt: Receipt
    position: Position
    sight: Visibility
    since: float


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
        known: _Result[T] | None = self._results.get(self._key)
        if (
            known is None
            or known.position != self._position
            or known.sight is not self._tree.sight
            or self._since - known.since > TRUSTED_FOR
        ):
            return None
        self._walk.visited, self._walk.receipt = known.visited, replace(known.receipt)
        return known.value

    def keep(self, value: T) -> T:
        """Remember a result, if all that it depends on is watched; returns it."""
        walk, position = self._walk, self._position
        is_whole = walk.is_lasting and not walk.receipt.stopped and not walk.receipt.unreadable
        if position and is_whole and self._tree.listing.covers(walk.paths) and self._poll() == position:
            kept = _Result(value, walk.visited, replace(walk.receipt), position, self._tree.sight, self._since)
            results = self._results
            results[self._key] = kept
            results.move_to_end(self._key)
            if len(results) > _MOST_RESULTS:
                results.popitem(last=False)
        return value

    @property
    def _results(self) -> OrderedDict[Hashable, _Result[T]]:
        results: OrderedDict[Hashable, _Result[T]] = self._tree.results
        return results
