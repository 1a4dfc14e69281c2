"""What a tool is: arguments, limits, a run that returns facts, and how they are said.

A tool file holds, in this order, `Args`, `Limits`, `run`, `say` and `TOOL`. It reaches files through its `Context`
alone, which knows only the paths that the call declared; it stages changes there and never writes itself, so that the
same `run` serves the preview and the real thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from handrail.model import Access, Action

if TYPE_CHECKING:
    import threading

    from handrail.files.changes import Subtree
    from handrail.files.pages import TextFile
    from handrail.files.versions import Stored
    from handrail.search.tree import SearchTree
    from handrail.shell.terminal import Terminal
    from handrail.text.diff import Hunk
    from handrail.text.document import Document, Splice
    from handrail.tools.arguments import Arguments as Arguments


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """`Arguments`, when the first tool asks for it: a session that only stands ready needs no pydantic."""
        if name != "Arguments":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from handrail.tools.arguments import Arguments

        return Arguments


@dataclass(frozen=True, slots=True)
class Names:
    """Marks an argument that names a resource, and what the tool will do to it."""

    action: Action


Reads = Annotated[str, Names("read")]
Writes = Annotated[str, Names("write")]


@dataclass(frozen=True, slots=True)
class Remark:
    """A note before it is worded: why an answer is partial."""

    code: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found or did."""

    kind: str
    """Which of the tool's answers this is; names its template in the dialect's messages."""
    facts: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    """For programs: plain JSON values."""
    remarks: tuple[Remark, ...] = ()
    blocks: tuple[Mapping[str, Any], ...] = ()
    """What is shown besides the text: pictures."""
    failed: bool = False
    """Whether the dialect takes this for a failure, though the tool did what was asked: a command that fails."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file that may be changed: it was seen, and this is what it holds now."""

    stored: Stored
    document: Document
    moved: str | None
    """Which lines changed since the file was seen: None if none did, empty if that is not known."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A change that will be made when the run is over."""

    changes: bool
    """Whether there is anything to change at all."""
    hunks: list[Hunk]


class Context(Protocol):
    """What a running tool may reach: the files it declared, and the limits in force."""

    @property
    def limits(self) -> Any: ...

    @property
    def call_id(self) -> str:
        """The id of the call, if it has one."""

    @property
    def cancel(self) -> threading.Event | None:
        """Set when the caller does not want the answer any more."""

    @property
    def network(self) -> bool:
        """Whether a person or a rule has allowed this call to use the network, whatever the settings are."""

    @property
    def terminal(self) -> Terminal:
        """Where commands run; a preview has none."""

    def where(self, named: str) -> str:
        """The real path of a directory that was declared."""

    def watch(self) -> Callable[[], list[str]]:
        """From now on: which of the files that the model has seen are changed when this is asked."""

    def open(self, named: str) -> TextFile:
        """A file to be read in pages."""

    def tree(self, named: str) -> SearchTree:
        """A directory to look around in, or a file to search."""

    def saw(self, file: TextFile, first: int = 0, last: int = 0) -> None:
        """These lines of it were shown."""

    def moved(self, file: TextFile) -> bool:
        """Whether the file was seen before, and is not what it was then."""

    def exists(self, named: str) -> bool:
        """Whether something stands there. Says nothing about what."""

    def load(self, named: str, *, whole: bool = False, unseen: bool = False) -> Loaded:
        """A file to be changed: existing, seen, and (with ``whole``) not changed since; ``unseen``: seen or not."""

    def stage(self, named: str, loaded: Loaded | None, splices: Sequence[Splice]) -> Staged:
        """Ask for a change; it is made when the run is over. None creates the file."""

    def remove(self, named: str, loaded: Loaded) -> Staged:
        """Ask for a file to be deleted."""

    def move(
        self, named: str, target: str, loaded: Loaded, splices: Sequence[Splice], over: Loaded | None = None
    ) -> Staged:
        """Ask for a file to be changed and moved, in place of ``over`` if something stands there."""

    def read_subtree(self, named: str) -> Subtree:
        """A file or a directory, with all that is in it."""

    def take(self, named: str, subtree: Subtree, to: str | None = None) -> None:
        """Ask for it to be moved as it stands, or (with no ``to``) removed so that this can be taken back."""


class Words(Protocol):
    """The dialect's way of saying things."""

    def say(self, key: str, **facts: Any) -> str:
        """The template of that name, filled in."""

    def rows(self, rows: Iterable[tuple[int | str, str]]) -> str:
        """Numbered lines behind the dialect's gutter."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What a host may want to know of a tool before any call."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `id` is its name in the house; the name that a model sees is the dialect's."""

    id: str
    args: type[Arguments]
    limits: type[Any]
    run: Callable[[Any, Context], Outcome]
    say: Callable[[Outcome, Words], str]
    hints: Hints = Hints()
    accesses: Callable[[Any], Sequence[Access]] | None = None
    """Only for tools whose targets are inside a text; the others are read off the types of their arguments."""
    seek: Callable[[Any, Context], Sequence[Access]] | None = None
    """Only for tools whose targets must be looked for: what they will touch besides, found by reading alone."""

    def declare(self, args: Arguments) -> tuple[Access, ...]:
        """What a call with these arguments will touch."""
        if self.accesses:
            return tuple(self.accesses(args))
        return tuple(
            Access(action, getattr(args, name))
            for name, action in _named(type(args))
            if getattr(args, name) is not None
        )


def _named(args: type[Arguments]) -> list[tuple[str, Action]]:
    """The arguments that name a resource, and what is done to it."""
    return [
        (name, mark.action) for name, one in args.declared().items() for mark in one.marks if isinstance(mark, Names)
    ]
