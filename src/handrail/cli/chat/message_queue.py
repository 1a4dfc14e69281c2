"""The messages that a person has sent and that wait for the agent."""

from __future__ import annotations

import threading

_MOST = 100


class MessageQueue:
    """Hands messages to the agent in order. A held queue waits; a message that is sent meanwhile goes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._first: list[str] = []
        self._waiting: list[str] = []
        self._closed = False
        self.held = False
        self.working = False
        """Whether a message was taken and the next one not asked for yet."""

    @property
    def waiting(self) -> tuple[str, ...]:
        """The messages that are not taken yet."""
        with self._changed:
            return (*self._first, *self._waiting)

    def add(self, text: str) -> bool:
        """Send a message; False if too many are waiting."""
        with self._changed:
            if len(self._first) + len(self._waiting) >= _MOST:
                return False
            (self._first if self.held else self._waiting).append(text)
            self._changed.notify_all()
            return True

    def take(self) -> str | None:
        """Wait for the next message; None if the queue is closed."""
        with self._changed:
            self.working = False
            self._changed.wait_for(lambda: self._closed or self._first or (self._waiting and not self.held))
            if self._closed:
                return None
            self.working = True
            return (self._first or self._waiting).pop(0)

    def take_back(self) -> str:
        """Remove the message that was sent last, to edit it; empty if none is waiting."""
        with self._changed:
            texts = self._waiting or self._first
            text = texts.pop() if texts else ""
            self.held = self.held and bool(self._waiting)
            return text

    def hold(self) -> None:
        """Keep the waiting messages until `release`."""
        with self._changed:
            self._waiting[:0] = self._first
            self._first.clear()
            self.held = bool(self._waiting)

    def release(self) -> None:
        with self._changed:
            self.held = False
            self._changed.notify_all()

    def close(self) -> None:
        """Hand out no more messages."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
