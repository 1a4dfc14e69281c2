"""A budget of work for loose matching, counted in steps: about the characters that are looked at.

Loose matching tries many readings of a text, and texts can be built that make it slow. Whatever goes over a whole text
spends its steps here first. Once they are used up the edit is refused; a call that nobody waits for any more ends.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar

from handrail.errors import CallCancelled, TooMuchWork

MOST_STEPS = 6_000_000
"""About two seconds on a slow machine."""


class WorkBudget:
    """The steps that are left for one call."""

    def __init__(self, steps: int, cancel: threading.Event | None) -> None:
        self.left = steps
        self.cancel = cancel

    def spend(self, steps: int) -> None:
        """Take ``steps``; raises `TooMuchWork` if there are not so many, and `CallCancelled`."""
        self.left -= steps
        if self.cancel is not None and self.cancel.is_set():
            raise CallCancelled
        if self.left < 0:
            raise TooMuchWork


_current: ContextVar[WorkBudget | None] = ContextVar("work", default=None)


@contextlib.contextmanager
def limit_work(cancel: threading.Event | None = None, steps: int = MOST_STEPS) -> Iterator[None]:
    """Limit the work inside; a limit inside another one is that one."""
    if _current.get() is not None:
        yield
        return
    token = _current.set(WorkBudget(steps, cancel))
    try:
        yield
    finally:
        _current.reset(token)


def spend(steps: int) -> None:
    """Spend steps of the limit in force, if there is one."""
    work = _current.get()
    if work is not None:
        work.spend(steps)
