"""Types of a parsed script: its commands with their words, assignments, redirections and nested scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from handrail.shell.parser.words import Part, Word

READS = ("<", "<>")
WRITES = (">", ">>", ">|", "&>", "&>>", ">&", "<>")
HEREDOCS = ("<<", "<<-")
PLACES = ("HOME", "PWD", "VIRTUAL_ENV")
"""Variables that hold a directory unless the script itself says indirect."""


class Span(NamedTuple):
    """A stretch of the source in characters; line and column of its beginning count from one."""

    start: int
    end: int
    line: int
    column: int


_START = Span(0, 0, 1, 1)


class Fault(NamedTuple):
    """A place that is not valid, the text there and the reason. Column 0 is unknown."""

    line: int
    column: int
    text: str
    message: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`, `name+=value`, `name[subscript]=value` or `name=(values)`."""

    name: str
    values: tuple[Word, ...]
    array: bool = False
    adds: bool = False
    """`+=`: the former value is kept."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirection. `descriptor` stands before the operator: digits, `{name}` or nothing.

    The target is the file, the descriptor, or the text of a here-string; a here-document has its body there.
    """

    operator: str
    target: Word
    descriptor: str = ""

    @property
    def copies(self) -> bool:
        """Whether it copies, moves or closes a descriptor and touches no file."""
        text = self.target.fixed
        return self.operator in ("<&", ">&") and text is not None and text.rstrip("-").isdigit() | (text == "-")

    @property
    def reads(self) -> bool:
        return self.operator in READS

    @property
    def writes(self) -> bool:
        return self.operator in WRITES and not self.copies

    @property
    def feeds(self) -> bool:
        """Whether its target is a text that becomes the standard input."""
        return self.operator in (*HEREDOCS, "<<<") and self.descriptor in ("", "0")


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command. One without words only assigns or redirects, as the redirections of a group do."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    where: Span = _START
    within: tuple[str, ...] = ()
    """Constructs around it, outermost first: subshell, group, if, while, for, case, function, substitution, process,
    pipeline, piped (its input is a pipe), background, coproc, heredoc."""
    via: tuple[str, ...] = ()
    """The wrappers that it was reached through, outermost first: env, xargs, bash."""
    nested: tuple[Command | Script, ...] = field(default=(), compare=False, repr=False)
    """Commands and scripts that it runs: those of `env`, `xargs`, `find -exec`, `bash -c`, `eval` and the like.

    A script without source stands for something that could not be opened; its doubts give the reason.
    """
    indirect_sets: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Variables that it sets by other means than `name=value`: `read`, `printf -v`, `declare`."""

    base: str | None = field(init=False, compare=False, repr=False)
    """The name without its directory, which need not be known; None if it is computed, empty without words."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", _base(self.words))

    @property
    def name(self) -> str | None:
        """The first word, if it is fixed; empty for a command without words."""
        return self.words[0].fixed if self.words else ""

    def walk(self) -> Iterator[Command]:
        """Yield this command and every command that it runs, in the order of the source."""
        yield self
        for item in self.nested:
            if isinstance(item, Script):
                yield from item.runs
            else:
                yield from item.walk()


def _base(words: tuple[Word, ...]) -> str | None:
    if not words:
        return ""
    parts = words[0].parts
    tail = ""
    for index in range(len(parts) - 1, -1, -1):
        if parts[index].kind != "text":
            return None
        _, slash, rest = parts[index].text.rpartition("/")
        tail = rest + tail
        if slash:
            # The directory must stay one word.
            return tail if all(_one_word(part) for part in parts[:index]) else None
    return tail


def _one_word(part: Part) -> bool:
    return (part.quoted and "@" not in part.text) or part.kind in ("text", "tilde") or part.text.strip("${}") in PLACES


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed script with its nested scripts. Unless it is proven, it may do more than its commands say."""

    source: str
    commands: tuple[Command, ...] = ()
    """Every simple command that is written in it, in whatever it stands."""
    runs: tuple[Command, ...] = ()
    """Every command that it runs: those, and the ones that wrappers, `eval` and shells among them run."""
    functions: tuple[str, ...] = ()
    error: Fault | None = None
    doubts: tuple[str, ...] = ()
    """Why it cannot be proven what the script does, nested scripts included."""
    own_doubts: tuple[str, ...] = ()
    """Doubts of the text itself, without its nested scripts."""
    stopped: bool = False
    """The parser did not reach the end: there may be commands that are not listed."""
    elsewhere: frozenset[str] = frozenset()
    """Variables that are set, or may be, by other means than `name=value`."""

    @property
    def proven(self) -> bool:
        return self.error is None and not self.doubts
