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
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from handrail.dialects import Spec
from handrail.model import Answer, Approve, Question, Result
from handrail.pipeline.session import Session

Value = TypeVar("Value")


class _Running:
    """A call that runs in a thread: the loop that awaits it, and the way to stop it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.cancel = threading.Event()
        self._asked: Future[bool | Answer] | None = None
        self._lock = threading.Lock()

    def stop(self) -> None:
        with self._lock:
            self.cancel.set()
            asked = self._asked
        if asked:
            asked.cancel()

    def answer(self, awaitable: Awaitable[bool | Answer]) -> bool | Answer:
        """Await an answer in the caller's loop; it is a no if the call is stopped meanwhile."""

        async def awaited() -> bool | Answer:
            return await awaitable

        with self._lock:
            asked = asyncio.run_coroutine_threadsafe(awaited(), self.loop)
            self._asked = asked
            stopped = self.cancel.is_set()
        if stopped:
            asked.cancel()
        try:
            return asked.result()
        except CancelledError:
            return Answer(False, "the call was cancelled")


_RUNNING: contextvars.ContextVar[_Running | None] = contextvars.ContextVar("handrail_running", default=None)


def in_callers_loop(approve: Approve) -> Approve:
    """Wrap an approval callback so that an awaitable answer is awaited in the loop that made the call.

    `Session(root, approve=in_callers_loop(ask))`; `AsyncSession.open` does it for you.
    """

    if not callable(approve):  # wrapped, it would look like a function to `Session`
        raise ValueError(
            f"approve must be a function that takes a Question and returns an answer, not {repr(approve)[:80]}"
        )

    def approve_in_loop(question: Question) -> bool | Answer | Awaitable[bool | Answer]:
        answer = approve(question)
        running = _RUNNING.get()
        if not isinstance(answer, Awaitable) or running is None or _inside_a_loop():
            return answer
        return running.answer(answer)

    return approve_in_loop


def _inside_a_loop() -> bool:
    """Whether this thread runs an event loop itself, so that blocking on a loop could deadlock."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class AsyncCalls:
    """Awaitable calls of a `Session`. Several may run at once, as with a session that is used by threads."""

    def __init__(self, session: Session) -> None:
        if not isinstance(session, Session):
            raise ValueError(f"session must be a Session, not {repr(session)[:80]}; or use AsyncSession.open(root)")
        self.session = session
        self._running: set[_Running] = set()

    async def specs(self) -> list[Spec]:
        """The tools of the session's dialect, for the model."""
        return await self.run_in_thread(self.session.specs)

    async def call(self, tool: str, arguments: Mapping[str, Any] | str | None = None, *, id: str = "") -> Result:
        """Make one tool call. Never raises for anything that a model did."""
        running = _Running()
        return await self._in_thread(running, lambda: self.session.call(tool, arguments, id=id, cancel=running.cancel))

    async def close(self) -> None:
        """Stop the running calls, end the processes they started and close the session."""
        for running in tuple(self._running):
            running.stop()
        await self.run_in_thread(self.session.close)

    async def run_in_thread(self, work: Callable[[], Value]) -> Value:
        """Run ``work``, which uses the session, in a thread of its own."""
        return await self._in_thread(_Running(), work)

    async def _in_thread(self, running: _Running, work: Callable[[], Value]) -> Value:
        """Run ``work`` in a thread and wait for its end, even if the task is cancelled."""
        done: Future[Value] = Future()
        done.set_running_or_notify_cancel()
        context = contextvars.copy_context()
        context.run(_RUNNING.set, running)

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
            with _shielded():
                await _wait_until_done(waited)
            raise
        finally:
            self._running.discard(running)


async def _wait_until_done(waited: asyncio.Future[Any]) -> None:
    """Wait until it is done, however often the task is cancelled."""
    while not waited.done():
        try:
            await asyncio.wait([waited])
        except asyncio.CancelledError:
            continue
    if not waited.cancelled():
        waited.exception()  # retrieved, so that the loop does not warn; the task ends as cancelled


def _shielded() -> AbstractContextManager[object]:
    """Shield the wait from anyio, whose scopes cancel a task again and again."""
    if "anyio" not in sys.modules:
        return nullcontext()
    import anyio  # waits for another thread that is importing it just now

    return anyio.CancelScope(shield=True)
