"""The async API: a session for programs that run an event loop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

from handrail.model import Approve
from handrail.pipeline.async_calls import AsyncCalls
from handrail.pipeline.options import SessionOptions, UndoOptions
from handrail.pipeline.session import Session

if TYPE_CHECKING:
    from handrail.journal.undo import UndoReport

__all__ = ["AsyncSession", "SessionOptions", "UndoOptions"]


class AsyncSession(AsyncCalls):
    """A `Session` whose methods are awaited. Several calls may run at once, each in a thread of its own."""

    @classmethod
    def open(
        cls, root: str | os.PathLike[str] = ".", *, approve: Approve | None = None, **options: Unpack[SessionOptions]
    ) -> AsyncSession:
        """Open a session with the options of `Session`; an async ``approve`` runs in the loop that makes the call."""
        return cls(Session(root, approve=approve, **options))

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def undo(self, **which: Unpack[UndoOptions]) -> UndoReport:
        """Undo one call or several, like `Session.undo`; by default the last change of this session."""
        return await self.run_in_thread(lambda: self.session.undo(**which))

    async def redo(self, *, any_session: bool = False, dry_run: bool = False) -> UndoReport:
        """Redo what the last undo of this session took back, like `Session.redo`."""
        return await self.undo(redo=True, any_session=any_session, dry_run=dry_run)
