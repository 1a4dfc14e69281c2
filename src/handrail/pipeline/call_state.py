"""The states of one tool call, in order: each step of the pipeline takes one and returns the next.

    Received -> Parsed -> Declared -> Resolved -> Judged -> Approved -> Ran -> Done -> Rendered

A state holds the one before it as `previous`, so a step that is skipped or moved is a type error. A call may be stopped
at any step: `Progress` holds the last state that it reached, for the result and the record. `Proposed` is a change that
a call would make, and `Consent` the yes of a person who was shown it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from handrail.files.versions import Change
from handrail.frozen import frozen
from handrail.journal import BeforeImage, MovedEntry, Token
from handrail.json_types import JsonMapping
from handrail.model import LENT, Access, Answer, Call, CommandAccess, NetworkGrant, Result, Verdict
from handrail.text.diff import format_unified
from handrail.text.display import escape, escape_lines, replace_surrogates
from handrail.text.document import Splice
from handrail.text.partial_change import keep_hunks, replace_text
from handrail.tools.notes import NoteFacts, PartlyApproved, WrittenOtherwise
from handrail.tools.tool import Outcome
from handrail.workspace import WorkPath

if TYPE_CHECKING:
    from handrail.dialects import ToolEntry
    from handrail.pipeline.events import OnEvent
    from handrail.shell.start_process import CommandStreams
    from handrail.text.diff import Hunk
    from handrail.text.line_tags import ShownTags
    from handrail.tools.tool import AnyTool, Arguments


class CallClock:
    """The time that a call takes. The time for which a person thinks about it does not count."""

    __slots__ = ("_left_out", "_started")

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._left_out = 0.0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started - self._left_out

    def leave_out(self, since: float) -> None:
        """Leave out the time that has passed since ``since``, by `time.perf_counter`."""
        self._left_out += time.perf_counter() - since


class CallGuard(Protocol):
    """Records the intent of a call before it has an effect, and may stop it by raising a `ToolError`."""

    def before_commit(self, changes: Sequence[Change | BeforeImage | MovedEntry]) -> None:
        """Called right before files change, with their contents before and after."""

    def before_command(self, in_draft: bool) -> None:
        """Called right before a command starts."""


@frozen
class Received:
    """A call as the model sent it, with secrets replaced by placeholders."""

    call: Call
    clock: CallClock
    """How long the call has taken so far."""
    cancel: threading.Event | None = None
    """Set when the caller no longer waits for the result."""
    on_event: OnEvent | None = None
    """Gets the events of this call, besides the session's listener."""
    guard: CallGuard | None = None
    """Hears what the call is about to do, where it must not be done twice."""
    rewritten: Answer | None = None
    """The answer of a person who replaced the model's arguments."""
    streams: CommandStreams | None = None
    """The streams of a command that another agent's own tool runs."""
    previous: ClassVar[None] = None

    def with_arguments(self, arguments: Mapping[str, object]) -> Received:
        """The same call with these arguments; made for every call, so without `replace`."""
        call = Call(self.call.tool, arguments, self.call.id)
        return Received(call, self.clock, self.cancel, self.on_event, self.guard, self.rewritten, self.streams)

    def is_heard(self, on_event: OnEvent | None) -> bool:
        """Whether anybody gets the events of the call; ``on_event``: the session's listener."""
        return on_event is not None or self.on_event is not None


@frozen
class Parsed:
    """The tool and its typed arguments are known."""

    previous: Received
    entry: ToolEntry
    tool: AnyTool
    args: Arguments
    limits: Any


@frozen
class Declared:
    """The tool has declared every access, with the paths and commands as the model wrote them."""

    previous: Parsed
    accesses: tuple[Access, ...]


@frozen
class Resolved:
    """Every path that the tool itself opens lies in the workspace."""

    previous: Declared
    accesses: tuple[Access, ...]
    """With real paths."""
    paths: Mapping[str, WorkPath]
    """By the name that the model gave."""


@frozen
class StagedChanges:
    """The changes that a run asked for; nothing is written yet."""

    changes: Sequence[Change]
    hunks: Sequence[Sequence[Hunk]]
    """Of each change."""
    proposed: Sequence[Proposed]
    """All staged changes, including those that the person left out."""
    unread: Set[str] = frozenset()
    """The real paths of files that were never read, and still count as unread after the change."""
    tags: Mapping[str, ShownTags] = field(default_factory=dict)
    """By real path: the tags that are valid after a change that was made by tags."""

    def diff(self) -> str:
        """All changes as one unified diff."""
        if not self.changes:
            return ""
        parts = (
            change.preview
            or format_unified(
                escape(change.path.named), hunks, created=change.before is None, deleted=change.after is None
            )
            for change, hunks in zip(self.changes, self.hunks, strict=True)
        )
        return replace_surrogates("".join(parts))


@frozen
class Judged:
    """The policy has decided. Nothing has changed yet, and a preview can be made. Public as `Prepared`."""

    previous: Resolved
    verdict: Verdict
    dry_run: Callable[[], StagedChanges]
    """Run the tool without changing anything, once; raises the errors of the run."""

    @property
    def received(self) -> Received:
        return self.previous.previous.previous.previous

    @property
    def call(self) -> Call:
        return self.received.call

    @property
    def cancel(self) -> threading.Event | None:
        """Set when the call is cancelled: nobody waits for the answer any more."""
        return self.received.cancel

    @property
    def parsed(self) -> Parsed:
        return self.previous.previous.previous

    @property
    def tool(self) -> AnyTool:
        return self.parsed.tool

    @property
    def args(self) -> Arguments:
        return self.parsed.args

    @property
    def accesses(self) -> tuple[Access, ...]:
        return self.previous.accesses

    @property
    def paths(self) -> Mapping[str, WorkPath]:
        return self.previous.paths

    @property
    def command(self) -> str | None:
        """The command that would run, if one would."""
        return next((access.target for access in self.accesses if access.action == "run"), None)

    @property
    def written_paths(self) -> list[str]:
        """The real paths of the files that the tool itself would change."""
        return [
            self.paths[access.target].real
            for access in self.accesses
            if access.action in ("write", "delete") and not access.by_command
        ]

    def still_holds(self, now: Judged) -> bool:
        """Whether the call still makes the accesses that the person was asked about, and is not denied ``now``."""
        return now.accesses == self.accesses and now.verdict.decision != "deny"

    def preview(self) -> str:
        """Return the command, or a unified diff of the changes; raises the errors of the run."""
        command = self.command
        if command is not None:  # its changes are known only after it ran
            return f"$ {escape_lines(command)}\n"
        return self.dry_run().diff()

    def proposed(self) -> Sequence[Proposed]:
        """Return the changes by file; empty for a command. Raises the errors of the run."""
        return () if self.command is not None else self.dry_run().proposed


FOR_SESSION = "approved for this session"
"""The rule of a verdict on a call that a person has allowed for the session."""


@frozen
class Approved:
    """The call may run: the policy or a person allows it."""

    previous: Judged
    accesses: tuple[Access, ...]
    """With a doubt where a command's change cannot be undone in full."""
    consent: Consent | None
    """None if nobody had to be asked."""
    network: NetworkGrant
    notes: tuple[NoteFacts, ...] = ()
    irreversible: str = ""
    """Why the changes of a command cannot be undone, if they cannot."""

    @property
    def by_person(self) -> bool:
        """Whether a person has allowed this call, now or earlier in this session, and not only lent it secrets."""
        rule = self.previous.verdict.rule
        return rule != LENT if self.consent else rule == FOR_SESSION

    @property
    def may_change_files(self) -> bool:
        """Whether a command of this call is not proven to change no files."""
        for access in self.accesses:
            if isinstance(access, CommandAccess):
                if access.tier != "read_only" or access.doubt:
                    return True
            elif access.by_command and access.action in ("write", "delete"):
                return True
        return False


@frozen
class Ran:
    """The tool has run and staged its changes."""

    previous: Approved
    outcome: Outcome[Any]
    staged: StagedChanges


@frozen
class Done:
    """All changes are committed."""

    previous: Ran
    changes: tuple[Change, ...]
    token: Token | None
    """The call's entry in the journal, if it was begun there."""
    notes: tuple[NoteFacts, ...] = ()
    data: Mapping[str, object] = field(default_factory=dict)
    """Data of the commit for programs; the tool's own data come first."""


CallState = Received | Parsed | Declared | Resolved | Judged | Approved | Ran | Done


@frozen
class Rendered:
    """The result in the dialect's words, of a call that is done or was stopped at an earlier state."""

    progress: Progress
    result: Result
    data: JsonMapping
    """The tool's values for programs, before the dialect gave them its own shape."""
    traceback: str = ""
    """Of a fault in this program."""


State = TypeVar("State", bound=CallState)


@dataclass(slots=True)
class Progress:
    """How far a call has come, for its record if the next step fails."""

    state: CallState
    token: Token | None = None
    """The entry that was begun in the journal; it is kept when a step is tried again."""
    left_in: str = ""
    """The draft with the changes of a command that an error kept from becoming real."""
    received: Received = field(init=False)

    def __post_init__(self) -> None:
        state = self.state
        while not isinstance(state, Received):
            state = state.previous
        self.received = state

    def reach(self, state: State) -> State:
        """Note that the call has come to ``state``."""
        self.state = state
        if isinstance(state, Received):
            self.received = state
        return state

    def find(self, kind: type[State]) -> State | None:
        """The state of this kind, if the call came that far."""
        state: CallState | None = self.state
        while state is not None and not isinstance(state, kind):
            state = state.previous
        return state

    @property
    def accesses(self) -> tuple[Access, ...]:
        """As far as they are known."""
        known = self.find(Approved) or self.find(Resolved) or self.find(Declared)
        return known.accesses if known else ()


@frozen
class Proposed:
    """The proposed change of one file."""

    path: str
    """As the model named it."""
    before: bytes | None
    """None: the file is created."""
    after: bytes | None
    """None: the file is deleted."""
    hunks: Sequence[Hunk]
    text: str = ""
    """The new text, for a person to edit; empty if it cannot be edited."""
    parts: bool = False
    """Whether single hunks can be chosen: not where a file is created, moved or deleted."""
    description: str = ""
    """Shown where there are no lines to compare: a directory, a binary file."""


@frozen
class ObservedChanges:
    """The changes that a command made in a draft, for the person who is asked about them."""

    proposed: Sequence[Proposed]
    """As many as can be shown."""
    asked: Sequence[Access]
    """Those that the policy asks about."""
    not_shown: int = 0
    """How many further paths would change."""


@frozen
class Choice:
    """A person's choice among the proposed changes."""

    hunks: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By path, the numbers (from 0) of the wanted hunks; a path that is missing is wanted whole."""
    contents: Mapping[str, str] = field(default_factory=dict)
    """By path, the text that the person wrote instead."""

    def of(self, path: str, text: str, splices: Sequence[Splice]) -> Sequence[Splice]:
        """Return the chosen part of a change."""
        if path in self.contents:
            return replace_text(text, self.contents[path])
        return keep_hunks(text, splices, self.hunks[path]) if path in self.hunks else splices


class NotAsShown(Exception):
    """The call would now make other changes than the person was shown."""


@frozen
class Consent:
    """A person's yes, and the changes it was given for."""

    answer: Answer
    shown: Sequence[Proposed] | None
    """None where nothing could be shown in advance: a command."""

    @property
    def choice(self) -> Choice | None:
        """The part of the changes that the person wants; None: all of them."""
        hunks, contents = self.answer.hunks, self.answer.contents
        return None if hunks is None and contents is None else Choice(hunks or {}, contents or {})

    def require_same(self, proposed: Sequence[Proposed]) -> None:
        """Raise `NotAsShown` if the run proposes other bytes than the preview did."""
        if self.shown is not None and _list_bytes(self.shown) != _list_bytes(proposed):
            raise NotAsShown

    def notes(self) -> list[NoteFacts]:
        """Notes for the model about the answer."""
        notes: list[NoteFacts] = []
        approved = total = 0
        for one in self.shown or ():
            numbers = range(len(one.hunks))
            chosen = (self.answer.hunks or {}).get(one.path, numbers) if one.parts else numbers
            total += len(numbers)
            approved += len(set(chosen) & set(numbers))
        if approved < total:
            notes.append(PartlyApproved(wanted=approved, total=total))
        if self.answer.contents:
            notes.append(WrittenOtherwise(paths=", ".join(map(escape, self.answer.contents))))
        return notes


def _list_bytes(proposed: Sequence[Proposed]) -> list[tuple[str, bytes | None, bytes | None]]:
    return [(one.path, one.before, one.after) for one in proposed]
