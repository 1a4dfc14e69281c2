"""Await something for a call that runs in a thread: in the event loop of the caller, or in a loop of its own.

`AsyncSession` makes each call in a thread and notes here which loop waits for it. What a host's callback or function
returns to be awaited then runs in that loop, where the host's clients and connections belong.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from handrail.errors import CallCancelled

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

Value = TypeVar("Value")
_SLICE = 0.05
"""Seconds after which a loop of its own looks again whether the call is cancelled."""


class LoopCall:
    """A call that runs in a thread: the loop that awaits it, and the way to stop it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.cancel = threading.Event()
        self._awaited: set[Future[Any]] = set()
        self._lock = threading.Lock()

    def stop(self) -> None:
        with self._lock:
            self.cancel.set()
            awaited = tuple(self._awaited)
        for one in awaited:
            one.cancel()

    def wait_for(self, awaitable: Awaitable[Value]) -> Value:
        """Await in the caller's loop; raises `CallCancelled` if the call is stopped meanwhile."""
        import asyncio
        from concurrent.futures import CancelledError

        with self._lock:
            future = asyncio.run_coroutine_threadsafe(_await(awaitable), self.loop)
            self._awaited.add(future)
            stopped = self.cancel.is_set()
        if stopped:
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise CallCancelled from None
        finally:
            with self._lock:
                self._awaited.discard(future)


CURRENT: contextvars.ContextVar[LoopCall | None] = contextvars.ContextVar("handrail_loop_call", default=None)
"""The call that this thread makes for a loop."""


def wait_for(awaitable: Awaitable[Value], cancel: threading.Event | None = None) -> Value:
    """Await in the caller's loop if the call was made from one, else in a new loop; raises `CallCancelled`."""
    import asyncio  # slow to import, and only needed here

    call = CURRENT.get()
    if call is not None and not _is_inside_loop():
        return call.wait_for(awaitable)

    async def watch() -> Value:
        task = asyncio.ensure_future(_await(awaitable))
        while not task.done():
            await asyncio.wait([task], timeout=_SLICE if cancel else None)
            if cancel and cancel.is_set():
                task.cancel()
        if task.cancelled():
            raise CallCancelled
        return task.result()

    if not _is_inside_loop():
        return asyncio.run(watch())
    from concurrent.futures import ThreadPoolExecutor  # this thread runs a loop, and cannot run a second one

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(watch())).result()


async def _await(awaitable: Awaitable[Value]) -> Value:
    return await awaitable


def _is_inside_loop() -> bool:
    """Whether this thread runs an event loop itself, so that blocking on a loop could deadlock."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
