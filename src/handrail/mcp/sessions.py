"""The sessions behind the door: one for each conversation, opened when first needed, the longest unused closed.

Most clients start a server for each conversation and need one session. A client that tells its threads apart gets one
for each, so that what one thread has read does not let another write. All work on the same files under the same locks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from handrail.session import Session


class CannotOpen(Exception):
    """No session can be opened; the text says why, for a person."""


class _Held:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.users = 0


class Sessions:
    """Opens, finds and closes them."""

    def __init__(self, opened: Callable[[], Session], most: int = 16) -> None:
        self._opened = opened
        self._most = most
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def use(self, thread: str) -> Iterator[Session]:
        """The session of a conversation, which stays open while it is used."""
        with self._lock:
            if self._closed:
                raise CannotOpen("the server is ending")
            held = self._held.pop(thread, None) or _Held(self._opened())
            self._held[thread] = held  # the last one is the one used last
            held.users += 1
            outdated = self._too_many()
        for session in outdated:
            _close(session)
        try:
            yield held.session
        finally:
            with self._lock:
                held.users -= 1

    def close(self) -> None:
        """End what still runs in them."""
        with self._lock:
            self._closed = True
            held, self._held = list(self._held.values()), {}
        for one in held:
            _close(one.session)

    def _too_many(self) -> list[Session]:
        unused = [thread for thread, held in self._held.items() if not held.users]
        return [self._held.pop(thread).session for thread in unused[: max(0, len(self._held) - self._most)]]


def _close(session: Session) -> None:
    session.close()
    session.journal.close()  # opened for this session alone
