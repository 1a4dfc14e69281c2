"""Definition of a tool: typed arguments, limits and facts, a `run` that returns facts and a `render` that words them.

A tool file holds, in this order, `Args`, `Limits`, `Facts`, `run`, `render` and `TOOL`. A tool reaches files only
through its `Context`, which knows only the paths that the call declared. Most tools only stage changes there, so one
`run` serves both the preview and the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeVar, cast

from handrail.frozen import frozen
from handrail.json_types import JsonMapping, JsonObject
from handrail.model import Access, FileAccess, FileAction, NetworkGrant, Result

if TYPE_CHECKING:
    import threading

    from handrail.drafts.changes import FileSummary
    from handrail.drafts.store import OpenDraft
    from handrail.files.pages import TextFile
    from handrail.files.versions import Stored, Subtree
    from handrail.search.tree import SearchTree
    from handrail.shell.command_host import CommandHost
    from handrail.shell.start_process import CommandStreams
    from handrail.text.diff import ChangedLines, Hunk
    from handrail.text.document import Document, Splice
    from handrail.text.line_tags import ShownTags
    from handrail.tools.arguments import Arguments as Arguments
    from handrail.tools.notes import NoteFacts

A = TypeVar("A", bound="Arguments")
L = TypeVar("L")
F = TypeVar("F")
L2 = TypeVar("L2")
F2 = TypeVar("F2")
L_co = TypeVar("L_co", covariant=True)
F_co = TypeVar("F_co", covariant=True)
T = TypeVar("T")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """`Arguments`, when the first tool asks for it: a session that only stands ready needs no pydantic."""
        if name != "Arguments":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from handrail.tools.arguments import Arguments

        return Arguments


@frozen
class Names:
    """Marks an argument that names a resource, and what the tool will do to it."""

    action: FileAction


Reads = Annotated[str, Names("read")]
Writes = Annotated[str, Names("write")]


@frozen
class Outcome(Generic[F_co]):
    """Result of a run, before a dialect words it."""

    kind: str
    """Which of the tool's answers this is; the dialect has a template of this name."""
    facts: F_co
    """Input of `render`; the fields of this dataclass are the names that templates may use."""
    data: Mapping[str, object] = field(default_factory=dict)
    """For programs: plain JSON values."""
    notes: tuple[NoteFacts, ...] = ()
    """Added to the answer: why it is partial, for example."""
    blocks: tuple[JsonMapping, ...] = ()
    """Shown besides the text: pictures."""
    failed: bool = False
    """Whether the dialect reports this as a failure, though the tool did its work: a command that exits with 1."""

    def with_facts(self, facts: F) -> Outcome[F]:
        """The same outcome with other ``facts``: for a tool that works with another tool."""
        return Outcome(self.kind, facts, self.data, self.notes, self.blocks, self.failed)


@frozen
class Loaded:
    """A file that may be changed, with its current contents."""

    stored: Stored
    document: Document
    described_changes: str | None
    """The lines that changed since the file was seen; None if none did or nothing was compared, empty if unknown."""
    changed: ChangedLines | None = None
    """The same changes, as line numbers."""
    unread: bool = False
    """Whether the file was never read, and may be changed because the call quotes its lines exactly."""


@frozen
class RecalledTags:
    """The lines of a file that were shown with their tags."""

    tags: ShownTags
    """In the version in which they were shown."""
    changed: bool = False
    """Whether the file has changed since."""
    before: str | None = None
    """The text in which they were shown, if the file has changed and that text is still known."""


@frozen
class Staged:
    """A change that will be made when the run is over."""

    changes: bool
    """Whether there is anything to change at all."""
    hunks: list[Hunk]


@frozen
class UndoneFile:
    """A file that an undo changes or leaves alone."""

    path: str
    outcome: str
    """What happened to it, or would: reverted, restored, deleted, mode restored or left alone."""
    left: str | None = None
    """Why it was left alone."""


class DraftTools(Protocol):
    """The tools of this dialect over the draft of a call, each through the whole pipeline."""

    @property
    def signatures(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        """By function name: the tool as the model knows it, and its arguments in order."""

    def call(self, tool: str, arguments: Mapping[str, object], cancel: threading.Event | None) -> Result:
        """One call in the draft."""

    def close(self) -> None:
        """End everything that runs there, before the draft is settled."""


class CommandDraft(Protocol):
    """The draft of the workspace in which the command of a call runs."""

    @property
    def open_draft(self) -> OpenDraft:
        """The draft itself."""

    @property
    def files(self) -> Sequence[FileSummary]:
        """The changes of the command, once they are settled."""

    @property
    def not_kept(self) -> str:
        """Why the changes were not kept; empty if they were, or there are none."""

    @property
    def advice(self) -> str:
        """What a person can do about changes that were refused."""

    @property
    def left_in(self) -> str:
        """The name of the draft that holds changes that could not be kept; empty if there is none."""

    @property
    def notes(self) -> Sequence[NoteFacts]:
        """Notes on how its changes were kept."""

    def begin(self) -> int:
        """Record that the call has begun; returns its number in the journal, 0 if it has none."""

    def settle(self) -> None:
        """The command has ended: judge its changes, and keep or drop them."""


class CommandContext(Protocol):
    """What a tool that runs commands needs besides the files of its call."""

    @property
    def streams(self) -> CommandStreams | None:
        """The streams of a command that another agent's own tool runs; None for a command of ours."""

    @property
    def network(self) -> NetworkGrant:
        """The use of the network that a person or a rule has allowed for this call, whatever the settings are."""

    @property
    def approved(self) -> bool:
        """Whether a person has seen this call and allowed it."""

    @property
    def draft(self) -> CommandDraft | None:
        """The draft in which the command of this call runs; None if it runs in the workspace itself."""

    @property
    def host(self) -> CommandHost:
        """Where commands run; a preview has none."""

    def trusts_fetch(self, service: str, addresses: Sequence[str]) -> bool:
        """Whether a fetch may go unasked: no program of the project takes part, and git only contacts remotes that were
        known before the first command."""

    @property
    def runs_in_draft(self) -> bool:
        """Whether what the command changes is judged after it has run."""

    def is_own_program(self, name: str, where: str) -> bool:
        """Whether a command in a directory finds a program of the workspace by this name."""

    def needs_port(self, port: int) -> bool:
        """Whether a port of this machine is served outside of the sandbox, and nobody has allowed it yet."""

    def reaches_agents(self) -> bool:
        """Whether a command can be given the socket of a signing agent (ssh-agent or gpg-agent)."""

    def unreached_host(self, command: str) -> str | None:
        """The hosts that this command failed to reach before, separated by spaces; empty if they are not known.

        None: it did not fail for want of a network.
        """

    def lend_secrets(self) -> tuple[str, ...]:
        """The hidden files that the command of this call may see; no answer shows their values from now on."""

    def list_visible(self, proven: bool, git: str = "") -> tuple[str, ...] | None:
        """The files and trees that the command of this call may see; None for all.

        ``proven``: the command is known to change nothing. ``git``: the directory in which it reads a repository.
        """

    def follow_output(self, log: str) -> None:
        """Stream the log of a command to the host until the run is over."""

    def open_draft_tools(self) -> DraftTools:
        """The tools over the draft of this call, for a script; raises `NoSandbox` where there can be no draft."""


class TagContext(Protocol):
    """The tags of lines, for dialects whose edits name them."""

    def show(self, file: TextFile | Stored, first: int, last: int) -> None:
        """Record that the model was shown these lines with their tags."""

    def recall(self, loaded: Loaded) -> RecalledTags | None:
        """The lines of a file that the model was shown with their tags; None if there are none."""

    def keep(self, loaded: Loaded, tags: ShownTags) -> None:
        """The tags that are valid after the staged change of a file."""


class SubtreeContext(Protocol):
    """Files and whole directories that are moved or deleted."""

    def is_link(self, named: str) -> bool:
        """Whether a path that is to be deleted is a link."""

    def read(self, named: str) -> Subtree:
        """Read a file, or a directory with all its contents."""

    def stage(self, named: str, subtree: Subtree, to: str | None = None) -> None:
        """Stage the move of a subtree or, without ``to``, its removal, which can be undone."""


class Context(Protocol[L_co]):
    """Context of a running tool: the files it declared, and the limits in force."""

    @property
    def limits(self) -> L_co:
        """The limits of this tool in the dialect in force."""

    @property
    def call_id(self) -> str:
        """The id of the call, if it has one."""

    @property
    def cancel(self) -> threading.Event | None:
        """Set when the caller does not want the answer any more."""

    @property
    def command(self) -> CommandContext:
        """For tools that run commands."""

    @property
    def tags(self) -> TagContext:
        """The tags of lines."""

    @property
    def subtrees(self) -> SubtreeContext:
        """Files and directories to move or delete."""

    def is_sent_again(self) -> bool:
        """Whether exactly this call was refused before for a line that looks like a placeholder."""

    def real(self, named: str) -> str:
        """The real path of a file or a directory that was declared."""

    def is_instead(self, named: str) -> bool:
        """Whether the declared path does not exist, and its substitute (`FileAccess.instead`) is used."""

    def resolve_directory(self, named: str) -> str:
        """The real path of a declared directory; raises if it does not exist."""

    def wait_for(self, awaitable: Awaitable[T]) -> T:
        """Await something in the caller's event loop, or in one of its own; raises `CallCancelled`."""

    def report_progress(self, message: str, done: float | None = None, total: float | None = None) -> None:
        """Tell the host how far the call has come."""

    def watch(self) -> Callable[[], list[str]]:
        """Start to watch the files that the model has read; the function returned lists those that have changed."""

    def open(self, named: str) -> TextFile:
        """Open a file to read it in pages."""

    def tree(self, named: str) -> SearchTree:
        """Open a directory to list or search, or a file to search."""

    def mark_seen(self, file: TextFile, first: int = 0, last: int = 0) -> None:
        """Record that the model was shown these lines of a file."""

    def changed_since_read(self, file: TextFile) -> bool:
        """Whether the model read the file before, and it has changed since."""

    def open_result(self, tree: SearchTree, inner: str) -> TextFile | None:
        """Open a file that a search of ``tree`` returned; None if it cannot be opened any more."""

    def exists(self, named: str) -> bool:
        """Whether the path exists, as a file of any kind."""

    def load(self, named: str, *, whole: bool = False, unseen: bool = False, quoted: Sequence[str] = ()) -> Loaded:
        """Load a file to change it; raises `NotSeen` if the dialect wants it to be read first, and it was not.

        ``whole``: raises `ChangedSince` if it has changed since. ``unseen``: checks neither. ``quoted`` are the texts
        that the change replaces: where the dialect allows it, a file that was never read may be changed if each of them
        is in it exactly, once, with at least one whole line.
        """

    def stage(self, named: str, loaded: Loaded | None, splices: Sequence[Splice]) -> Staged:
        """Stage a change, to be committed after the run. Without ``loaded`` it creates the file."""

    def stage_bytes(self, named: str, loaded: Loaded | None, raw: bytes) -> Staged:
        """Stage the whole contents of a file that need not be text. Without ``loaded`` it creates the file."""

    def remove(self, named: str, loaded: Loaded) -> Staged:
        """Stage the deletion of a file."""

    def move(
        self, named: str, target: str, loaded: Loaded, splices: Sequence[Splice], over: Loaded | None = None
    ) -> Staged:
        """Stage the change and the move of a file, in place of ``over`` if the target exists."""

    def undo(self, file: str | None, *, dry_run: bool = False) -> tuple[Sequence[UndoneFile], str]:
        """Take back the last change of this session, or of a file in it: the files, or why there is nothing."""


class Templates(Protocol):
    """The dialect's templates, as `render` uses them."""

    @property
    def notes(self) -> str:
        """The notes of this answer, each after a line break. Every template may use them as `{notes}`."""

    def fill(self, key: str, facts: object = None, /, **values: object) -> str:
        """Fill a template with the fields of ``facts`` and with ``values``, which take precedence."""

    def number_lines(self, rows: Iterable[tuple[int | str, str]]) -> str:
        """Put each line behind its number, in the dialect's layout."""


@frozen
class Hints:
    """Hints about a tool for the host."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


@frozen
class Tool(Generic[A, L, F]):
    """One tool. `id` is its name inside Handrail; a model sees the name that the dialect gives it."""

    id: str
    args: type[A]
    limits: type[L]
    run: Callable[[A, Context[L]], Outcome[F]]
    render: Callable[[Outcome[F], Templates], str]
    hints: Hints = Hints()
    accesses: Callable[[A], Sequence[Access]] | None = None
    """Overrides the accesses that the types of the arguments declare: for paths inside a patch, for example."""
    seek: Callable[[A, Context[L]], Sequence[Access]] | None = None
    """Only for tools that must search for their targets: more accesses, found by reading alone."""
    facts: type[F] | UnionType | None = None
    """The dataclass of the facts, or a union of several."""
    data: type[Mapping[str, object]] | None = None
    """The `TypedDict` of the data."""
    rendered: Sequence[str] = ()
    """Values that `render` computes for the tool's templates, besides the fields of the facts."""
    description: str = ""
    """The description for models, of a tool that has no `NAME.md` beside its module."""
    repeatable: bool = True
    """Whether `run` may run more than once: for a preview, and again if another program has changed a file meanwhile.
    A call that runs a command is never previewed."""
    commits: bool = False
    """Whether `run` writes files itself, under its own locks or in a draft; the pipeline then commits nothing."""
    drafted: Callable[[A], bool] | None = None
    """Whether a call may run its command in a draft of the workspace; only for tools that run commands."""
    rows: Mapping[str, type] = field(default_factory=dict)
    """Templates for a part of the answer, such as one line of it, and the class whose fields they may use."""

    def adapt(
        self,
        limits: type[L2],
        run: Callable[[A, Context[L2]], Outcome[F2]],
        render: Callable[[Outcome[F2], Templates], str],
        facts: type[F2] | UnionType | None = None,
    ) -> Tool[A, L2, F2]:
        """The same tool with another run, limits and rendering: for the adapter of a dialect."""
        changed: JsonObject = {"limits": limits, "run": run, "render": render, "facts": facts or self.facts}
        return cast("Tool[A, L2, F2]", replace(self, **changed))

    def declare(self, args: A) -> tuple[Access, ...]:
        """Return the accesses of a call with these arguments."""
        if self.accesses:
            return tuple(self.accesses(args))
        resources = [(action, getattr(args, name)) for name, action in _list_resources(cast("Any", type(args)))]
        return tuple([FileAccess(action, target) for action, target in resources if target is not None])


FUNCTION = "function:"
"""Begins the id of a tool made from a function of the host: `function:NAME`."""

AnyTool = Tool[Any, Any, Any]
"""Any tool, as it is found by its name."""


@cache
def _list_resources(args: type[Arguments]) -> list[tuple[str, FileAction]]:
    """The arguments that name a resource, and what is done to it."""
    return [
        (name, mark.action) for name, one in args.declared().items() for mark in one.marks if isinstance(mark, Names)
    ]
