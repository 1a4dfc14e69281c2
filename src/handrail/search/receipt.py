"""Count what a search looked at and what it skipped, so that "nothing found" can be trusted."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Stop = Literal["", "time_limit", "count_limit"]


@dataclass(slots=True)
class Receipt:
    """Counts skipped entries by reason."""

    searched: int = 0
    """Files looked at; for a listing, entries."""
    ignored: int = 0
    """Entries left out by an ignore rule, a directory counted once."""
    hidden: int = 0
    binary: int = 0
    large: int = 0
    links: int = 0
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

    def facts(self) -> dict[str, Any]:
        """For sentences: only what is not zero."""
        names = ("ignored", "hidden", "binary", "large", "links", "withheld", "unreadable")
        return {name: getattr(self, name) or None for name in names}

    def data(self) -> dict[str, Any]:
        """For programs."""
        skipped = {name: count for name, count in self.facts().items() if count}
        uncounted = {"uncounted": self.uncounted} if self.uncounted else {}
        return {"searched": self.searched, "skipped": skipped, "complete": self.complete, **uncounted}

    def clear(self) -> None:
        """Forget all counts, because the search begins again."""
        for name, value in asdict(Receipt()).items():
            setattr(self, name, value)


class Budget:
    """How long a search may take, and how many entries it may visit."""

    def __init__(self, seconds: float, visits: int | None = None) -> None:
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        self.visits = visits

    @property
    def left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def spent(self, visited: int) -> Stop:
        """Why the search must stop now, if it must."""
        if self.visits is not None and visited >= self.visits:
            return "count_limit"
        return "time_limit" if time.monotonic() >= self.deadline else ""
