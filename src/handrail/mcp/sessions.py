"""The sessions of an MCP server: one per conversation, opened when first needed; the least recently used are closed.

Most clients start a server for each conversation and need one session. A client that identifies its threads gets one
for each, so that a file read in one thread cannot be written in another. All share the same files and locks.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from handrail.mcp.protocol import CannotOpen as CannotOpen

if TYPE_CHECKING:
    from handrail.pipeline.any_session import AnySession

_LONGEST_NAME = 200


def get_conversation(meta: Mapping[str, object]) -> str:
    """Which conversation a call belongs to, where the client says so in `_meta`; empty if it does not."""
    for name in ("threadId", "sessionId"):
        if isinstance(value := meta.get(name), str) and value:
            if len(value) > _LONGEST_NAME:
                value = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
            return f"{name}:{value}"
    return ""


def read_model(meta: Mapping[str, object]) -> str:
    """The model that makes a call, where the client names it in `_meta`, as Codex does; empty if it does not."""
    turn = meta.get("x-codex-turn-metadata")
    for place in (turn, meta):
        if isinstance(place, dict) and isinstance(model := place.get("model"), str):
            return model[:_LONGEST_NAME]
    return ""


class _Held:
    def __init__(self) -> None:
        self.session: AnySession | None = None
        self.users = 0
        self.opening = threading.Lock()


class Sessions:
    """Opens, finds and closes them."""

    def __init__(self, opened: Callable[[], AnySession], most: int = 16) -> None:
        self._opened = opened
        self._most = most
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def use(self, thread: str) -> Iterator[AnySession]:
        """The session of a conversation, which stays open while it is used."""
        with self._lock:
            held = self._held.pop(thread, None) or _Held()
            self._held[thread] = held  # the last one is the one used last
            held.users += 1
        try:
            yield self._open_session(held)
        finally:
            with self._lock:
                held.users -= 1
                left = self._drop_unused()
            for session in left:
                session.close()

    def _open_session(self, held: _Held) -> AnySession:
        with held.opening:  # its own lock: whoever is slow to open holds up nobody else
            if held.session is None and not self._closed:
                held.session = self._opened()
            with self._lock:
                if not self._closed and held.session:
                    return held.session
                session, held.session = held.session, None
        if session:
            session.close()
        raise CannotOpen("the server is shutting down")

    def close(self) -> None:
        """End the calls that still run in them."""
        with self._lock:
            self._closed = True
            held, self._held = list(self._held.values()), {}
            sessions = [one.session for one in held if one.session]
            for one in held:
                one.session = None
        for session in sessions:
            session.close()

    def _drop_unused(self) -> list[AnySession]:
        unused = [thread for thread, held in self._held.items() if not held.users]
        left = [self._held.pop(thread).session for thread in unused[: max(0, len(self._held) - self._most)]]
        return [session for session in left if session]
