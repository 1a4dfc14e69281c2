"""Journal: one record a call, refusals included, with what was replaced. `Journal` is any object with this hook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from handrail.files.commit import Change
from handrail.nouns import Call, Result, Touch, Verdict


@dataclass(frozen=True, slots=True)
class Record:
    """A call and all that came of it."""

    call: Call
    touches: tuple[Touch, ...]
    verdict: Verdict | None
    """None for a call that was stopped before it could be judged."""
    result: Result
    changes: tuple[Change, ...] = ()
    """What was changed, the contents before included."""
    traceback: str = ""
    """For a fault of this program."""


class Journal(Protocol):
    """Keeps records."""

    def record(self, record: Record) -> None:
        """Called once for every call, before its result is handed out."""


class NoJournal:
    """Keeps nothing."""

    def record(self, record: Record) -> None:
        pass
