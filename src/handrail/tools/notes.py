"""The notes that an answer can carry: why it is partial, as typed facts before a dialect words them.

Each class has a `code`, and its annotated fields are the facts that the template `notes.CODE` of a dialect may use. A
field with a default may be left out. They are plain classes and not dataclasses, because all of them are made at
start-up and a dataclass costs a hundred times as much to make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class NoteFacts:
    """The facts of one note. Its fields are keyword arguments."""

    code: ClassVar[str]
    advice: str = ""
    """What a person can do about it; the model does not read this."""

    def __init__(self, **facts: object) -> None:
        self.__dict__.update(facts)

    @classmethod
    def names(cls) -> frozenset[str]:
        """The facts that this note declares."""
        return frozenset(name for kind in cls.__mro__ for name in vars(kind).get("__annotations__", ())) - {
            "code",
            "advice",
        }


def iterate_notes() -> Iterator[type[NoteFacts]]:
    """Every kind of note, those of loaded tools from other packages included."""
    yield from NoteFacts.__subclasses__()


class MoreLines(NoteFacts):
    code = "more_lines"
    next: int
    remaining: int | None = None
    total: int | None = None


class LongLines(NoteFacts):
    """Lines were cut; ``line`` is the first of them, and goes on at ``column``."""

    code = "long_lines"
    count: int
    line: int
    next: int
    column: int


class FallbackEncoding(NoteFacts):
    code = "fallback_encoding"


class MorePages(NoteFacts):
    code = "more_pages"
    remaining: int
    next: str


class PagesStopped(NoteFacts):
    """A page of a PDF took too long or crashed the decoder."""

    code = "pages_stopped"
    page: int
    next: str
    """The page after it; empty if there is none."""


class AnswerCut(NoteFacts):
    code = "answer_cut"
    count: int
    next: int | None = None
    """The line to continue with."""


class MoreEntries(NoteFacts):
    code = "more_entries"
    next: int
    remaining: int
    total: int
    count: int


class MorePaths(NoteFacts):
    code = "more_paths"
    next: int
    remaining: int
    total: int
    count: int


class MoreOccurrences(NoteFacts):
    code = "more_occurrences"
    next: int
    remaining: int
    total: int


class MoreResults(NoteFacts):
    code = "more_results"
    next: int | None
    count: int


class TimeLimit(NoteFacts):
    code = "time_limit"
    seconds: float
    count: int | None = None


class CountLimit(NoteFacts):
    code = "count_limit"
    visits: int | None
    count: int


class Unreadable(NoteFacts):
    code = "unreadable"
    count: int


class NotAllSearched(NoteFacts):
    code = "not_all_searched"
    reasons: Sequence[str]


class CutMatches(NoteFacts):
    """Matching lines of which only the part around the match is shown."""

    code = "cut_matches"
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

    code = "changed_elsewhere"
    path: str
    moved: str


class UnreadFile(NoteFacts):
    """The file was never read, and the edit quotes its lines exactly."""

    code = "unread_file"
    path: str


class InvalidNotebook(NoteFacts):
    code = "invalid_notebook"
    count: int
    fault: str


class CommandTimedOut(NoteFacts):
    code = "command_timed_out"
    seconds: float
    unseen: bool | None = None
    """Whether it has changed files that other programs did not see."""


class CommandCancelled(NoteFacts):
    code = "command_cancelled"


class LostOutput(NoteFacts):
    code = "lost_output"
    bytes: int


class TooMuchOutput(NoteFacts):
    code = "too_much_output"
    bytes: int


class NamedElsewhere(NoteFacts):
    """The command used a name that only the file tools know."""

    code = "named_elsewhere"
    name: str
    place: str


class HiddenLeft(NoteFacts):
    """The command created or deleted paths that exist, and that it could not see."""

    code = "hidden_left"
    paths: str


class HeldOpen(NoteFacts):
    """The command changed files that another program has open for writing."""

    code = "held_open"
    paths: str


class MergedFiles(NoteFacts):
    """Files that something else has changed during the command have the changes of both now."""

    code = "merged_files"
    paths: str


class OverlapsDraft(NoteFacts):
    """Somebody has changed the same lines in an open draft: one of the two will have a conflict."""

    code = "overlaps_draft"
    path: str
    who: str
    minutes: int
    draft: str


class IgnoredLeft(NoteFacts):
    """Something else has changed these files, which git ignores, so the command's versions were dropped."""

    code = "ignored_left"
    paths: str


class OutsideHidden(NoteFacts):
    """A command failed, and could not see a path in ``tree`` because nobody was asked about it."""

    code = "outside_hidden"
    path: str
    tree: str
    advice: str = ""


class SecretsHidden(NoteFacts):
    """A command failed, and could not see these files; ``first`` is one of them."""

    code = "secrets_hidden"
    paths: str
    first: str


class NotSearched(NoteFacts):
    """The workspace has so many directories that not all were searched for secrets and protected files."""

    code = "not_searched"
    most: int


class NeedsNetwork(NoteFacts):
    """A command without the network failed because it could not reach a host."""

    code = "needs_network"
    host: str | None = None


class NeedsPort(NoteFacts):
    """A command tried to reach services of this machine outside of its sandbox."""

    code = "needs_port"
    ports: str


class ProtectedPutBack(NoteFacts):
    """Protected files that an unapproved command changed, and that were put back."""

    code = "protected_put_back"
    change: str
    """How the command changed them: created, changed or deleted."""
    paths: str
    by: str = "The command"


class ProtectedChanged(NoteFacts):
    """Protected files that an unapproved command changed, and that could not be put back."""

    code = "protected_changed"
    paths: str
    by: str = "The command"


class ChangesDropped(NoteFacts):
    """The changes that a command made in a draft were not kept."""

    code = "changes_dropped"
    why: str
    files: str
    advice: str = ""


class ChangesLeft(NoteFacts):
    """The changes that a command made in a draft could not be kept, and the draft is still there."""

    code = "changes_left"
    why: str
    files: str
    draft: str
    advice: str = ""


class Swept(NoteFacts):
    """Processes that were ended together with their command."""

    code = "swept"
    processes: str


class Survivors(NoteFacts):
    code = "survivors"
    pids: str


class KeptRunning(NoteFacts):
    """A command that goes on in the background after its timeout."""

    code = "kept"
    job: str
    pid: int
    log: str
    seconds: float


class JobMore(NoteFacts):
    code = "job_more"
    job: str


class JournalFailing(NoteFacts):
    code = "journal"
    why: str


class JournalDamaged(NoteFacts):
    code = "journal_damaged"
    path: str


class LinksSplit(NoteFacts):
    """Files that a command changed under one name, while their other names (hard links) have the old contents."""

    code = "links_split"
    count: int
    paths: str


class KeptByCopying(NoteFacts):
    """Changes that were copied to be kept, because the workspace lies on an overlay: many bytes."""

    code = "kept_by_copying"
    megabytes: int


class NotKept(NoteFacts):
    """Files whose old contents could not be saved, so that undo cannot restore them."""

    code = "not_kept"
    paths: str


class Irreversible(NoteFacts):
    """A command that worked on the workspace itself, and may have changed files that nobody saved before."""

    code = "irreversible"
    why: str


class OwnerChanged(NoteFacts):
    """Files of other users that a command changed, and that belong to this user now."""

    code = "owner_changed"
    paths: str


class PartlyApproved(NoteFacts):
    code = "partly_approved"
    wanted: int
    total: int


class WrittenOtherwise(NoteFacts):
    """A person wrote other contents than the model proposed."""

    code = "written_otherwise"
    paths: str


class Rewritten(NoteFacts):
    """A person changed the arguments of the call."""

    code = "rewritten"
    arguments: str


class NotRemembered(NoteFacts):
    code = "not_remembered"
    why: str


class AnswerLost(NoteFacts):
    """The change of an earlier call with the same id was made; its answer is lost with the server that made it."""

    code = "answer_lost"
    paths: str


class NewProblems(NoteFacts):
    """A check of the project reports problems that were not there before; a block of its own below a result."""

    code = "new_problems"
    command: str
    problems: str
    unsure: bool | None = None
    """Whether some may be older."""


class CheckFailed(NoteFacts):
    """A check of the project could not be run."""

    code = "check_failed"
    command: str
    why: str
