"""Run the calls of a session in threads, for programs that use an event loop.

Each call gets a thread of its own, because files block in the OS. There is no pool: a call may wait for a person, and
waiting calls must not keep others from starting. It uses the standard library only, since a plain installation has no
anyio; where anyio is loaded, its cancel scopes are respected too.

A task that is cancelled cancels its call: a running command is ended, a question to a person is withdrawn, and the
thread is awaited, so that nothing continues in the background and no change is left half done.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from handrail.dialects import Spec
from handrail.model import Result
from handrail.pipeline.any_session import AnySession
from handrail.pipeline.callers_loop import CURRENT, LoopCall
from handrail.pipeline.events import SessionEvent, ToolOutput, ToolProgress

Value = TypeVar("Value")
_MOST_EVENTS = 256
"""Events of one call that may wait to be read."""


class AsyncCalls:
    """Awaitable calls of a `Session`. Several may run at once, as with a session that is used by threads."""

    def __init__(self, session: AnySession) -> None:
        if isinstance(session, type) or not hasattr(session, "make_call"):
            raise ValueError(f"session must be a Session, not {repr(session)[:80]}; or use AsyncSession.open(root)")
        self.session = session
        self._running: set[LoopCall] = set()

    async def specs(self) -> list[Spec]:
        """The tools of the session's dialect, for the model."""
        return await self.run_in_thread(self.session.specs)

    async def call(self, tool: str, arguments: Mapping[str, object] | str | None = None, *, id: str = "") -> Result:
        """Make one tool call. Never raises for anything that a model did."""
        running = LoopCall(asyncio.get_running_loop())
        return await self._run_in_thread(
            running, lambda: self.session.call(tool, arguments, id=id, cancel=running.cancel)
        )

    async def stream(
        self, tool: str, arguments: Mapping[str, object] | str | None = None, *, id: str = ""
    ) -> AsyncGenerator[SessionEvent]:
        """Make one tool call and yield its events as they happen; the last one is `ToolFinished`, with the result.

        Closing the generator cancels the call. Who iterates too slowly misses output, never the result.
        """
        running = LoopCall(asyncio.get_running_loop())
        queue = _EventQueue(running.loop)
        call = partial(self.session.call, tool, arguments, id=id, cancel=running.cancel, on_event=queue.put)
        task = asyncio.create_task(self._run_in_thread(running, call))
        task.add_done_callback(lambda _: queue.close())
        try:
            while (event := await queue.get()) is not None:
                yield event
            await task  # raises what the call raised
        finally:
            task.cancel()
            with _shield():
                await _wait_until_done(task)

    async def close(self) -> None:
        """Stop the running calls, end the processes they started and close the session."""
        for running in tuple(self._running):
            running.stop()
        await self.run_in_thread(self.session.close)

    async def run_in_thread(self, work: Callable[[], Value]) -> Value:
        """Run ``work``, which uses the session, in a thread of its own."""
        return await self._run_in_thread(LoopCall(asyncio.get_running_loop()), work)

    async def _run_in_thread(self, running: LoopCall, work: Callable[[], Value]) -> Value:
        """Run ``work`` in a thread and wait for its end, even if the task is cancelled."""
        done: Future[Value] = Future()
        done.set_running_or_notify_cancel()
        context = contextvars.copy_context()
        context.run(CURRENT.set, running)

        def run() -> None:
            try:
                done.set_result(context.run(work))
            except BaseException as fault:  # noqa: BLE001 - the caller gets it, as it would without a thread
                done.set_exception(fault)

        self._running.add(running)
        thread = threading.Thread(target=run, name="handrail call")
        thread.start()
        waited = asyncio.wrap_future(done)
        try:
            return await asyncio.shield(waited)
        except asyncio.CancelledError:
            running.stop()
            with _shield():
                await _wait_until_done(waited)
            raise
        finally:
            self._running.discard(running)


class _EventQueue:
    """Events on their way from the threads of a call to its loop. Adding one never waits.

    When it is full, the oldest output and progress are dropped, and the next output says how much is missing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: deque[SessionEvent] = deque()
        self._lock = threading.Lock()
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, event: SessionEvent) -> None:
        with self._lock:
            self._events.append(event)
            if len(self._events) > _MOST_EVENTS:
                self._drop_oldest()
        self._wake()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def get(self) -> SessionEvent | None:
        """The next event; None after the last one."""
        while True:
            with self._lock:
                if self._events:
                    return self._events.popleft()
                if self._closed:
                    return None
                self._ready.clear()
            await self._ready.wait()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._ready.set)

    def _drop_oldest(self) -> None:
        at = next((n for n, one in enumerate(self._events) if isinstance(one, ToolOutput | ToolProgress)), None)
        if at is None:
            return
        dropped = self._events[at]
        del self._events[at]
        if isinstance(dropped, ToolOutput):
            missing = dropped.omitted + len(dropped.text.encode("utf-8", "replace"))
            for n, one in enumerate(self._events):
                if isinstance(one, ToolOutput):
                    self._events[n] = replace(one, omitted=one.omitted + missing)
                    return


async def _wait_until_done(waited: asyncio.Future[Any]) -> None:
    """Wait until it is done, however often the task is cancelled."""
    while not waited.done():
        try:
            await asyncio.wait([waited])
        except asyncio.CancelledError:
            continue
    if not waited.cancelled():
        waited.exception()  # retrieved, so that the loop does not warn; the task ends as cancelled


def _shield() -> AbstractContextManager[object]:
    """Shield the wait from anyio, whose scopes cancel a task again and again."""
    if "anyio" not in sys.modules:
        return nullcontext()
    import anyio  # waits for another thread that is importing it just now

    return anyio.CancelScope(shield=True)
