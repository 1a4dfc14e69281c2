"""The notes that an answer can carry: why it is partial, as typed facts before a dialect words them.

The annotated fields of a class are the facts that the template `notes.CODE` of a dialect may use. A field with a
default may be left out. They are plain classes and not dataclasses, because all of them are made at start-up and a
dataclass costs a hundred times as much to make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import dataclass_transform

from handrail.errors.calls import DeclaredFacts


@dataclass_transform(kw_only_default=True, frozen_default=True)
class NoteFacts(DeclaredFacts):
    """The facts of one note. Its fields are keyword arguments."""

    advice: str = ""
    """What a person can do about it; the model does not read this."""

    def __init__(self, **facts: object) -> None:
        self.__dict__.update(facts)


def iterate_notes() -> Iterator[type[NoteFacts]]:
    """Every kind of note, those of loaded tools from other packages included."""
    yield from NoteFacts.__subclasses__()


class MoreLines(NoteFacts):
    next: int
    remaining: int | None = None
    total: int | None = None


class LongLines(NoteFacts):
    """Lines were cut; ``line`` is the first of them, and goes on at ``column``."""

    count: int
    line: int
    next: int
    column: int


class FallbackEncoding(NoteFacts):
    """The bytes of the file are text in no encoding that we know for certain."""


class MorePages(NoteFacts):
    remaining: int
    next: str


class PagesStopped(NoteFacts):
    """A page of a PDF took too long or crashed the decoder."""

    page: int
    next: str
    """The page after it; empty if there is none."""


class AnswerCut(NoteFacts):
    count: int
    next: int | None = None
    """The line to continue with."""


class MoreEntries(NoteFacts):
    next: int
    remaining: int
    total: int
    count: int


class MorePaths(NoteFacts):
    next: int
    remaining: int
    total: int
    count: int


class MoreOccurrences(NoteFacts):
    next: int
    remaining: int
    total: int


class MoreResults(NoteFacts):
    next: int | None
    count: int


class TimeLimit(NoteFacts):
    seconds: float
    count: int | None = None


class CountLimit(NoteFacts):
    visits: int | None
    count: int


class Unreadable(NoteFacts):
    count: int


class NotAllSearched(NoteFacts):
    reasons: Sequence[str]


class CutMatches(NoteFacts):
    """Matching lines of which only the part around the match is shown."""

    count: int
    chars: int
    file: str
    line: int


class SearchFallback(NoteFacts):
    """The search was made without ripgrep."""

    code = "fallback"
    why: str


class ChangedElsewhere(NoteFacts):
    """The file changed since it was read, in lines that the edit does not reach."""

    path: str
    moved: str


class UnreadFile(NoteFacts):
    """The file was never read, and the edit quotes its lines exactly."""

    path: str


class InvalidNotebook(NoteFacts):
    count: int
    fault: str


class CommandTimedOut(NoteFacts):
    seconds: float
    unseen: bool | None = None
    """Whether it has changed files that other programs did not see."""


class CommandCancelled(NoteFacts):
    """The caller cancelled the command."""


class LostOutput(NoteFacts):
    bytes: int


class TooMuchOutput(NoteFacts):
    bytes: int


class NamedElsewhere(NoteFacts):
    """The command used a name that only the file tools know."""

    name: str
    place: str


class HiddenLeft(NoteFacts):
    """The command created or deleted paths that exist, and that it could not see."""

    paths: str


class HeldOpen(NoteFacts):
    """The command changed files that another program has open for writing."""

    paths: str


class MergedFiles(NoteFacts):
    """Files that something else has changed during the command have the changes of both now."""

    paths: str


class OverlapsDraft(NoteFacts):
    """Somebody has changed the same lines in an open draft: one of the two will have a conflict."""

    path: str
    who: str
    minutes: int
    draft: str


class IgnoredLeft(NoteFacts):
    """Something else has changed these files, which git ignores, so the command's versions were dropped."""

    paths: str


class OutsideHidden(NoteFacts):
    """A command failed, and could not see a path in ``tree`` because nobody was asked about it."""

    path: str
    tree: str
    advice: str = ""


class SecretsHidden(NoteFacts):
    """A command failed, and could not see these files; ``first`` is one of them."""

    paths: str
    first: str


class NotSearched(NoteFacts):
    """The workspace has so many directories that not all were searched for secrets and protected files."""

    most: int


class NeedsNetwork(NoteFacts):
    """A command without the network failed because it could not reach a host."""

    host: str | None = None


class NeedsPort(NoteFacts):
    """A command tried to reach services of this machine outside of its sandbox."""

    ports: str


class ProtectedPutBack(NoteFacts):
    """Protected files that an unapproved command changed, and that were put back."""

    change: str
    """How the command changed them: created, changed or deleted."""
    paths: str
    by: str = "The command"


class ProtectedChanged(NoteFacts):
    """Protected files that an unapproved command changed, and that could not be put back."""

    paths: str
    by: str = "The command"


class ChangesDropped(NoteFacts):
    """The changes that a command made in a draft were not kept."""

    why: str
    files: str
    advice: str = ""


class ChangesLeft(NoteFacts):
    """The changes that a command made in a draft could not be kept, and the draft is still there."""

    why: str
    files: str
    draft: str
    advice: str = ""


class Swept(NoteFacts):
    """Processes that were ended together with their command."""

    processes: str


class Survivors(NoteFacts):
    pids: str


class KeptRunning(NoteFacts):
    """A command that goes on in the background after its timeout."""

    code = "kept"
    job: str
    pid: int
    log: str
    seconds: float


class JobMore(NoteFacts):
    job: str


class JournalFailing(NoteFacts):
    code = "journal"
    why: str


class JournalDamaged(NoteFacts):
    path: str


class LinksSplit(NoteFacts):
    """Files that a command changed under one name, while their other names (hard links) have the old contents."""

    count: int
    paths: str


class KeptByCopying(NoteFacts):
    """Changes that were copied to be kept, because the workspace lies on an overlay: many bytes."""

    megabytes: int


class NotKept(NoteFacts):
    """Files whose old contents could not be saved, so that undo cannot restore them."""

    paths: str


class Irreversible(NoteFacts):
    """A command that worked on the workspace itself, and may have changed files that nobody saved before."""

    why: str


class OwnerChanged(NoteFacts):
    """Files of other users that a command changed, and that belong to this user now."""

    paths: str


class PartlyApproved(NoteFacts):
    wanted: int
    total: int


class WrittenOtherwise(NoteFacts):
    """A person wrote other contents than the model proposed."""

    paths: str


class Rewritten(NoteFacts):
    """A person changed the arguments of the call."""

    arguments: str


class NotRemembered(NoteFacts):
    why: str


class AnswerLost(NoteFacts):
    """The change of an earlier call with the same id was made; its answer is lost with the server that made it."""

    paths: str


class NewProblems(NoteFacts):
    """A check of the project reports problems that were not there before; a block of its own below a result."""

    command: str
    problems: str
    unsure: bool | None = None
    """Whether some may be older."""


class CheckFailed(NoteFacts):
    """A check of the project could not be run."""

    command: str
    why: str
