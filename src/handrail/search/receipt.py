"""Count what a search looked at and what it skipped, so that "nothing found" can be trusted."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Literal

from handrail.errors import CallCancelled
from handrail.json_types import JsonObject

Stop = Literal["", "time_limit", "count_limit"]


@dataclass(slots=True)
class Receipt:
    """Counts skipped entries by reason."""

    searched: int = 0
    """Files looked at; for a listing, entries."""
    read: int = 0
    """Bytes of them, as far as the search engine counts them."""
    ignored: int = 0
    """Entries left out by an ignore rule, a directory counted once."""
    hidden: int = 0
    binary: int = 0
    large: int = 0
    links: int = 0
    linked_directories: int | None = None
    """Links to directories, which count as links if nothing is found. None: they were not counted."""
    withheld: int = 0
    """Entries that rules keep from the model, whatever is in them, a directory counted once. A search with ripgrep does
    not count files that no glob describes: it opens them, and a count would depend on their contents."""
    unreadable: int = 0
    stopped: Stop = ""
    """Why it ended before everything was looked at."""
    fallback: str = ""
    """Why the search was not made by ripgrep."""
    complaints: list[str] = field(default_factory=list)
    """Error messages of the search engine."""
    uncounted: list[str] = field(default_factory=list)
    """Kinds of entries that were left out without being counted: by a search by name in a large tree with ripgrep."""

    @property
    def complete(self) -> bool:
        """Whether all that was asked for was looked at."""
        return not (self.stopped or self.unreadable or self.large)

    def facts(self) -> JsonObject:
        """For sentences: only what is not zero."""
        names = ("ignored", "hidden", "binary", "large", "links", "withheld", "unreadable")
        return {name: getattr(self, name) or None for name in names}

    def data(self) -> JsonObject:
        """For programs."""
        skipped = {name: count for name, count in self.facts().items() if count}
        uncounted = {"uncounted": self.uncounted} if self.uncounted else {}
        return {"searched": self.searched, "skipped": skipped, "complete": self.complete, **uncounted}

    def clear(self) -> None:
        """Forget all counts, because the search begins again."""
        for name, value in asdict(Receipt()).items():
            setattr(self, name, value)


class Budget:
    """How long a search may take, how many entries it may visit, and whether somebody still waits for it.

    Whoever asks for it in a search that was cancelled gets `CallCancelled`.
    """

    def __init__(self, seconds: float, visits: int | None = None, cancel: threading.Event | None = None) -> None:
        self.seconds = seconds
        self._cancel = cancel
        self.deadline = time.monotonic() + seconds
        self.visits = visits

    @property
    def left(self) -> float:
        self._require_wanted()
        return max(0.0, self.deadline - time.monotonic())

    def spent(self, visited: int) -> Stop:
        """Why the search must stop now, if it must."""
        self._require_wanted()
        if self.visits is not None and visited >= self.visits:
            return "count_limit"
        return "time_limit" if time.monotonic() >= self.deadline else ""

    def allot(self, seconds: float) -> Budget:
        """A budget for a part of the search."""
        return Budget(seconds, cancel=self._cancel)

    def _require_wanted(self) -> None:
        if self._cancel is not None and self._cancel.is_set():
            raise CallCancelled
