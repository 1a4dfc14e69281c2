"""The async door: a session for programs that run an event loop.

Files block in the OS, so that each call runs in a thread of its own, and the loop stays free. A thread a call, and no
pool: a call may wait for a person, and calls that wait must not keep others from starting. Standard library only,
since a plain installation has no anyio; where anyio is loaded its cancel scopes are respected too.

A task that is cancelled cancels its call: a command is ended, an approval that is awaited is withdrawn, and the thread
is waited for, so that nothing goes on behind the caller's back and no change is left half done.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

from handrail.dialects import Dialect, Spec
from handrail.model import Result
from handrail.pipeline.prepared import Answer, Approve, Prepared
from handrail.pipeline.session import Session

if TYPE_CHECKING:
    from handrail.journal import Journal
    from handrail.journal.undo import UndoReport
    from handrail.policy import Policy
    from handrail.policy.files import PolicyFile
    from handrail.policy.secrets import Mode
    from handrail.settings import Settings
    from handrail.workspace import Root

Found = TypeVar("Found")


class SessionOptions(TypedDict, total=False):
    """The options of `Session`, but for ``approve``: for functions that hand them on."""

    dialect: str | Dialect
    roots: Sequence[Root]
    policy: Policy | None
    mode: Mode | None
    rules: Sequence[PolicyFile]
    journal: Journal | Literal["auto", "require"] | None
    settings: Settings | None


class UndoOptions(TypedDict, total=False):
    """What `Session.undo` takes."""

    call: str | int | None
    since: str | int | None
    session: str | None
    dry_run: bool


class _Running:
    """A call in its thread: the loop that waits for it, and how it is stopped."""

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
        """What the host's loop makes of it; no, if the call is stopped meanwhile."""

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
    """The same callback, but what it returns is awaited in the loop that made the call, if one did.

    `Session(root, approve=in_callers_loop(ask))`; `AsyncSession.open` does it for you.
    """

    if not callable(approve):  # wrapped, it would look like a function to `Session`
        raise ValueError(
            f"approve must be a function that takes a Prepared and returns an answer, not {repr(approve)[:80]}"
        )

    def asked(prepared: Prepared) -> bool | Answer | Awaitable[bool | Answer]:
        answer = approve(prepared)
        running = _RUNNING.get()
        if not isinstance(answer, Awaitable) or running is None or _inside_a_loop():
            return answer
        return running.answer(answer)

    return asked


def _inside_a_loop() -> bool:
    """Whether this thread runs a loop itself, so that waiting here for a loop could be waiting for oneself."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class AsyncSession:
    """A `Session` whose calls are awaited. Several may run at once, as with a session in threads."""

    def __init__(self, session: Session) -> None:
        if not isinstance(session, Session):
            raise ValueError(f"session must be a Session, not {repr(session)[:80]}; or use AsyncSession.open(root)")
        self.session = session
        self._running: set[_Running] = set()

    @classmethod
    def open(
        cls, root: str | os.PathLike[str] = ".", *, approve: Approve | None = None, **options: Unpack[SessionOptions]
    ) -> AsyncSession:
        """A new session with the options of `Session`; an async ``approve`` runs in the loop that makes the call."""
        return cls(Session(root, approve=None if approve is None else in_callers_loop(approve), **options))

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def specs(self) -> list[Spec]:
        """What the model is told: the tools of the dialect."""
        return await self._apart(_Running(), self.session.specs)

    async def call(self, tool: str, arguments: Mapping[str, Any] | str | None = None, *, id: str = "") -> Result:
        """One tool call, from start to end. Never raises for anything that a model did."""
        running = _Running()
        return await self._apart(running, lambda: self.session.call(tool, arguments, id=id, cancel=running.cancel))

    async def undo(self, **which: Unpack[UndoOptions]) -> UndoReport:
        """`Session.undo`: take back a call, or several; by default this workspace's last change."""
        return await self._apart(_Running(), lambda: self.session.undo(**which))

    async def close(self) -> None:
        """Stop the calls that still run, end what they have started, and let go of the workspace."""
        for running in tuple(self._running):
            running.stop()
        await self._apart(_Running(), self.session.close)

    async def _apart(self, running: _Running, work: Callable[[], Found]) -> Found:
        """The work done in a thread; never left alone, also not by a task that is cancelled."""
        done: Future[Found] = Future()
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
                await _settled(waited)
            raise
        finally:
            self._running.discard(running)


async def _settled(waited: asyncio.Future[Any]) -> None:
    """Wait until it is done, however often the task is cancelled."""
    while not waited.done():
        try:
            await asyncio.wait([waited])
        except asyncio.CancelledError:
            continue
    if not waited.cancelled():
        waited.exception()  # looked at, so that the loop does not complain; the task ends as cancelled


def _shielded() -> AbstractContextManager[object]:
    """Where anyio is in use its scopes cancel a task over and over: keep that away while waiting."""
    anyio = sys.modules.get("anyio")
    return anyio.CancelScope(shield=True) if anyio else nullcontext()
