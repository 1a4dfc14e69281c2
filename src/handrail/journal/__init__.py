"""Journal: one record per call, refusals included, with the old contents. `Journal` is any object with these methods.

A call that changes something is recorded in two steps: `begin` under the locks, right before the change, so that the
old contents are saved first; `record` when the call is over. If the process dies in between, the first record is
enough to undo the change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from handrail.errors import JournalFailed as JournalFailed
from handrail.files.versions import Change, SubtreeEntry
from handrail.model import Access, Call, Result, Verdict


@dataclass(frozen=True, slots=True)
class Origin:
    """Where calls come from: the same for all calls of a session."""

    session: str = ""
    dialect: str = ""
    workspace: str = ""
    """The directory that relative paths start from, links followed."""
    hide: Callable[[str], str] = str
    """Takes secrets out of a text, where the session hides any."""


@dataclass(frozen=True, slots=True)
class BeforeImage:
    """A file that something else than a commit may change: a command that is about to run."""

    path: str
    """Absolute, links followed."""
    before: bytes | None
    """The contents; None: no file."""
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class MovedEntry:
    """One entry of a move or removal of a subtree: it leaves its path, or arrives there."""

    path: str
    """Absolute, links above it followed."""
    entry: SubtreeEntry
    goes: bool
    moved_from: str | None = None
    top: bool = False
    """Whether it is the top of the moved subtree: parent directories may have been created for it."""
    sure: bool = True
    """Whether the change is made or not made as a whole; if not, the disk is asked."""


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """A call that is about to change something."""

    call: Call
    accesses: tuple[Access, ...]
    verdict: Verdict | None
    """None for a call that was stopped before it could be judged."""
    changes: Sequence[Change | BeforeImage | MovedEntry] = ()
    origin: Origin = Origin()


@dataclass(frozen=True, slots=True)
class Token:
    """The token that `begin` returns and `record` takes."""

    seq: int
    """The number of the call in the journal; 0 if nothing was written down."""
    attempt: int = 0
    changes: tuple[Change | BeforeImage | MovedEntry, ...] = ()
    warning: str = ""
    """Why the journal could not be written, where that stops nothing."""
    unkept: tuple[str, ...] = ()
    """Paths whose contents are too large to store: their change cannot be undone."""


@dataclass(frozen=True, slots=True)
class Record(PendingRecord):
    """A finished call: its result, and the changes that were made, earlier contents included."""

    changes: tuple[Change, ...] = ()
    result: Result = field(kw_only=True)
    traceback: str = field(default="", kw_only=True)
    """Of a fault in this program."""
    token: Token | None = field(default=None, kw_only=True)
    """From `begin`, if the call came that far."""
    data: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """The tool's values for programs, before the dialect shaped them; the result's own if None."""


class Journal(Protocol):
    """Keeps records."""

    def begin(self, pending: PendingRecord, /, token: Token | None = None) -> Token:
        """Called right before a change is made, under its locks; again, with the ``token``, if that has to be retried.

        Raises `JournalFailed` to stop the change.
        """

    def record(self, record: Record, /) -> str:
        """Called once for every call, before its result is handed out; a text says why that failed."""

    def close(self) -> None:
        """No more records come."""


class NoJournal:
    """Keeps nothing."""

    def begin(self, pending: PendingRecord, token: Token | None = None) -> Token:
        if any(isinstance(change, Change) and change.keep for change in pending.changes):
            raise JournalFailed(journal="", why="this session has no journal")
        return token or Token(0)

    def record(self, record: Record) -> str:  # noqa: ARG002
        return ""

    def close(self) -> None:
        pass
