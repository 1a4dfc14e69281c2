"""Directories as a search may see them: without files that the policy or Handrail itself keeps from the model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from handrail.model import FileAccess
from handrail.policy import Policy
from handrail.workspace import WorkPath, Workspace

if TYPE_CHECKING:
    from handrail.policy.guards import OwnFiles
    from handrail.search.index.use import SessionIndexes
    from handrail.search.tree import SearchTree, Visibility
    from handrail.search.walk import Listings


def make_sight(policy: Policy, own: OwnFiles | None = None) -> Visibility:
    """The files that a search may see: those that the policy lets be read, without Handrail's ``own``."""
    from handrail.search.tree import Visibility

    if own and own.is_within:
        seen = make_sight(policy).readable
        return Visibility(lambda real: own.shows(real) and (seen is None or seen(real)), find_hides=lambda: None)
    suspects = getattr(policy, "suspect_names", None)

    def find_hides() -> Sequence[str] | None:
        hides: Sequence[str] | None = getattr(policy, "hides", None)
        return hides

    if suspects is None and find_hides() == ():  # with rules of ours they take a while to find
        return Visibility()

    def readable(real: str) -> bool:
        return policy.judge((FileAccess("read", real, real),)).decision != "deny"

    is_other_name, asking = getattr(policy, "is_other_name", None), getattr(policy, "asking", nullcontext)
    return Visibility(getattr(policy, "readable", readable), suspects, is_other_name, find_hides, asking)


class SearchView:
    """The trees that the calls of one session search. The search package is imported when the first call needs it."""

    def __init__(
        self, workspace: Workspace, policy: Policy, own: Callable[[], OwnFiles], state: str | None = None
    ) -> None:
        self._workspace = workspace
        self._policy = policy
        self._own = own
        self._listings: Listings | None = None
        self._state = state
        """The state directory with the indexes; None: they are not used."""
        self._indexes: SessionIndexes | None = None
        self._sight: Visibility | None = None
        self._lock = threading.Lock()

    def follow(self, policy: Policy) -> None:
        """Use another policy from now on."""
        with self._lock:
            self._policy, self._sight = policy, None

    def tree(self, path: WorkPath) -> SearchTree:
        from handrail.search.tree import SearchTree
        from handrail.search.walk import Listings

        with self._lock:
            self._listings = self._listings or Listings()
            self._sight = self._sight or make_sight(self._policy, self._own())
            if self._state and self._indexes is None:
                from handrail.search.index.use import SessionIndexes

                self._indexes = SessionIndexes(self._state)
            return SearchTree(self._workspace, path, self._listings, self._sight, self._indexes)

    def close(self) -> None:
        """Stop watching for changes."""
        with self._lock:
            for one in (self._indexes, self._listings):
                if one:
                    one.close()
