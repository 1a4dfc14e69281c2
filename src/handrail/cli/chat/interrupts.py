"""Handle Ctrl-C while the agent works: once stops the run, twice within a second quits.

The first one interrupts no code: a request to the model is abandoned, and a running call is cancelled but still
returns a result, so that the conversation stays complete.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handrail.agent.messages import Reply
    from handrail.agent.providers import Model, Request

_TWICE = 1.0


class Leave(BaseException):
    """The person wants to leave, now; or the terminal has gone, or somebody ends the program."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def ended_in_order(stop: Callable[[], None]) -> Iterator[None]:
    """On SIGHUP and SIGTERM, end running commands before the program ends."""

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature is fixed
        stop()
        raise Leave(128 + number)

    signals = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.signal(number, end) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupts:
    """Handle Ctrl-C inside this context, if it is entered by the main thread: a composer handles the key itself."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._last = 0.0
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._before)

    def _handle_interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is fixed
        now = time.monotonic()
        again, self._last = now - self._last < _TWICE, now
        self._stop()
        if again:
            raise Leave


class Watched:
    """A model, with the knowledge of when it is being asked."""

    def __init__(self, model: Model, waiting: Callable[[bool], None]) -> None:
        self._model = model
        self._waiting = waiting

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def window(self) -> int:
        return self._model.window

    def reply(self, request: Request) -> Reply:
        self._waiting(True)
        try:
            return self._model.reply(request)
        finally:
            if not request.cancel.is_set():  # else nobody waits for this one any more
                self._waiting(False)
