"""A draft of a session's workspace for programs: work in it, look at its changes, keep or drop them."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

from handrail.model import Call
from handrail.pipeline.draft_changes import DRAFT, DraftChanges, keep_and_record
from handrail.pipeline.draft_process import open_draft
from handrail.pipeline.merging import resolve_conflicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from handrail.drafts.changes import FileSummary
    from handrail.drafts.store import DraftStore
    from handrail.journal import Journal, Origin
    from handrail.json_types import JsonMapping


class _Session(Protocol):
    def call(self, tool: str, arguments: JsonMapping, /) -> object: ...

    def list_background_calls(self) -> list[tuple[str, JsonMapping]]: ...

    def close(self) -> None: ...


S_co = TypeVar("S_co", bound=_Session, covariant=True)


class SessionDraft(Generic[S_co]):
    """A draft with a session that works in it; `Session.draft` creates it.

    All tools of ``session`` see the draft in the place of the workspace. To look at the changes, or to keep or drop
    them, that session is closed, and opened anew when it is used again. As a context manager it drops a draft without
    a name of its own at the end; one that you named stays.
    """

    def __init__(
        self,
        store: DraftStore,
        name: str,
        open_session: Callable[[str], S_co],
        journal: Callable[[], Journal],
        origin: Origin,
    ) -> None:
        self._store = store
        self._is_named = bool(name)
        self.name: str = name or f"session-{secrets.token_hex(4)}"
        open_draft(store, self.name).close()
        self._open_session = open_session
        self._journal = journal
        self._origin = origin
        self._session: S_co | None = None
        self._is_over = False

    @property
    def session(self) -> S_co:
        """The session in the draft; raises `ValueError` once the draft was kept or dropped."""
        self._require_open()
        if self._session is None:
            self._session = self._open_session(self.name)
        return self._session

    def changes(self) -> list[FileSummary]:
        """Each file that was created, changed or deleted in the draft, with the lines that were added and removed."""
        with self._observed() as changes:
            return list(changes.summaries())

    def diff(self) -> str:
        """The changes as a unified diff."""
        with self._observed() as changes:
            return changes.unified()

    def keep(self, *paths: str) -> list[FileSummary]:
        """Carry the changes over into the workspace, all or those of some paths; returns them.

        They are one call in the journal of the session that the draft was created from, whose `undo` takes them back.
        Lines that something else has changed meanwhile in the same files are merged. Raises `DraftConflict` where they
        overlap, and `OSError`; then nothing is kept. The draft is over if all changes were kept.
        """
        tops = [path.strip("/") or "." for path in paths]
        with self._observed() as observed, observed.narrow(tops, self._store) as changes:
            if changes.changes or changes.comparison.conflicts:
                call = Call(DRAFT, {"keep": self.name})
                changes = keep_and_record(self._journal(), self._origin, changes, call).changes
            kept = list(changes.summaries())
            if not paths:
                self._is_over = True
                if changes.draft.is_open:
                    changes.draft.drop()
            return kept

    def resolve(self, side: Literal["ours", "theirs", "merge"], *paths: str) -> list[str]:
        """Resolve conflicts with other changes in the workspace, all or those at and below some paths.

        ``side``: the draft's version, the workspace's, or both with markers around overlaps; returns the files with
        markers. Raises `DraftConflict` for files that have no lines to merge; then the draft is as before.
        """
        if side not in ("ours", "theirs", "merge"):
            raise ValueError("side is ours, theirs or merge")
        with self._observed() as changes:
            tops = [path.strip("/") or "." for path in paths]
            return resolve_conflicts(changes.draft.directory, side, tops or (".",))[1]

    def rebase(self) -> list[str]:
        """Merge what has changed in the workspace into the draft; returns the files that had to be merged.

        Background commands of `session`, such as a server, end before that and are started again. Raises
        `DraftConflict` where both sides changed the same lines; then the draft is as before.
        """
        ended = self._session.list_background_calls() if self._session else []
        try:
            with self._observed() as changes:
                return list(changes.merge()[1].paths)
        finally:
            for tool, arguments in ended:
                self.session.call(tool, arguments)

    def drop(self) -> None:
        """Delete the draft. May be called again."""
        if not self._is_over:
            self.close()
            self._is_over = True
            self._store.open_named(self.name).drop()

    def close(self) -> None:
        """End the session in the draft, and everything that runs there. The draft stays."""
        session, self._session = self._session, None
        if session:
            session.close()

    def __enter__(self) -> SessionDraft[S_co]:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_named:
            self.close()
        else:
            self.drop()

    @contextmanager
    def _observed(self) -> Iterator[DraftChanges]:
        """The changes of the draft. Nothing runs in it meanwhile."""
        self._require_open()
        self.close()
        draft = self._store.open_named(self.name)
        try:
            yield DraftChanges.observe(draft)
        finally:
            draft.close()

    def _require_open(self) -> None:
        if self._is_over:
            raise ValueError("this draft was kept or dropped")
