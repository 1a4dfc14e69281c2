"""What a reader of scripts has found so far, shared by the readers of all nested texts."""

from __future__ import annotations

from dataclasses import dataclass, field

from handrail.shell.parser.commands import Assignment, Span
from handrail.shell.parser.words import Word


class Unread(Exception):
    """The reading stops here: what follows cannot be proven."""


class Wrong(Exception):
    """Not valid, at this offset."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message


@dataclass(slots=True)
class Here:
    """A here-document whose body is still to come, and then its body."""

    delimiter: str
    quoted: bool
    tabs: bool
    body: Word | None = None


@dataclass(slots=True)
class Redirect:
    """A redirection while its here-document may still be to come."""

    operator: str
    descriptor: str
    target: Word | Here


@dataclass(slots=True)
class Draft:
    """A simple command while it is being read."""

    where: Span
    within: tuple[str, ...]
    words: list[Word] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Found:
    """What all readers of one script, nested texts included, have found so far."""

    drafts: list[Draft] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    arithmetic: set[str] = field(default_factory=set)
    """Variables whose value is evaluated: bash runs a command substitution inside of such a value."""
    counted: set[str] = field(default_factory=set)
    """Variables that an expression gives a number."""
    split: set[str] = field(default_factory=set)
    """Variables that are put in without quotes where a word may be an operator of `test`."""
    defaulted: set[str] = field(default_factory=set)
    """Variables that get a value by `${name=...}`."""
    stopped: bool = False
    """The end of the text was not reached."""
    steps: int = 0
    depth: int = 0

    def doubt(self, why: str) -> None:
        if why not in self.doubts:
            self.doubts.append(why)

    def mark(self) -> tuple[int, int, int, set[str], set[str], set[str]]:
        names = set(self.arithmetic), set(self.counted), set(self.defaulted)
        return len(self.drafts), len(self.functions), len(self.doubts), *names

    def back_to(self, mark: tuple[int, int, int, set[str], set[str], set[str]]) -> None:
        """Forget what was found since: it was not what it was taken for."""
        del self.drafts[mark[0] :], self.functions[mark[1] :], self.doubts[mark[2] :]
        self.arithmetic, self.counted, self.defaulted = mark[3:]
