"""The records of calls, and the columns in which the journal stores them.

`BEGIN` is known when a call begins, `END` when it is over, and `FILE` of every file that it changes. An entry of a log
has the columns of one of these moments, or of both at once. A new column comes last, in `END` or `FILE_COLUMNS`: the
rows of older versions are shorter, and are filled up when they are read.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, Protocol

from handrail.files.versions import Change, SubtreeEntry, hash_bytes
from handrail.frozen import frozen
from handrail.model import Access, Call, FileAccess, Result, Verdict
from handrail.secrets.masking import Mask

ABSENT = ""
"""Means no file, where a hash is expected; NULL means unknown."""
PROMPT = "Prompt"
"""The name under which messages of a person are in the journal."""
UNDO, REDO = "Undo", "Redo"
"""The names under which undos and redos are in the journal."""
JOB = "Job"
"""The name under which the changes of a background job are in the journal. An undo has to name this call: some of the
changes may be a person's, made at the same time."""
RARE = f"tool IN ('{UNDO}', '{REDO}', '{JOB}')"
"""The condition that the index of these calls has: a query that repeats it reads no other call."""
IN_SCRIPT = "script:"
"""Begins the id of a call that a script made; the number of the script's call follows, and `/` with its own."""
DIRECTORY = "directory"
"""Stands for a directory."""
LINK = "link:"
"""Prefix for a link; the hash of its target follows."""
BEGIN = "time, session, workspace, dialect, tool, call_id, pid, arguments, given, touches, decision, rule, why, source"
END = (
    "ended, status, error, message, duration, diff, exit_code, output, said, answer_bytes, notes, traceback, left_out, "
    "client, model"
)
FILE = "place, path, kept, before, before_mode, planned, moved_from, made"
CALL_COLUMNS = ("seq", *BEGIN.split(", "), *END.split(", "))
FILE_COLUMNS = (*FILE.split(", "), "after", "after_mode")
MOST_HASHED_BYTES = 256 << 20
"""The contents of a larger file count as unknown."""
_HEAD = 4_000
_LONGEST_NAME = 200
_MOST_REPEATED = 16
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Queries(Protocol):
    """Executes queries; `?` stands for a value."""

    def execute(self, query: str, values: Sequence[object] = ..., /) -> Any: ...


@frozen
class Origin:
    """Where calls come from: the same for all calls of a session."""

    session: str = ""
    dialect: str = ""
    workspace: str = ""
    """The directory that relative paths start from, links followed."""
    hide: Callable[[str], str] = str
    """Takes secrets out of a text, where the session hides any."""
    client: str = ""
    """The program that makes the calls, as it names itself."""
    model: str = ""


PathState = tuple[str | None, int | None]
"""Hash of what is at a path (a fixed text for a directory or for nothing), and its mode; None: unknown."""


@frozen
class BeforeImage:
    """A file that something else than a commit may change: a command that is about to run."""

    path: str
    """Absolute, links followed."""
    before: bytes | None
    """The contents; None: no file."""
    mode: int | None = None
    after: PathState | None = None
    """What will be there, if that is known before; if not, the disk is asked when the call is over."""


@frozen
class MovedEntry:
    """One entry of a move or removal of a subtree: it leaves its path, or arrives there."""

    path: str
    """Absolute, links above it followed."""
    entry: SubtreeEntry
    goes: bool
    moved_from: str | None = None
    top: bool = False
    """Whether it is the top of the moved subtree: parent directories may have been created for it."""
    sure: bool = True
    """Whether the change is made or not made as a whole; if not, the disk is asked."""
    after: PathState | None = None
    """As in `BeforeImage`; only for an entry that leaves its path."""


@frozen
class PendingRecord:
    """A call that is about to change something."""

    call: Call
    accesses: tuple[Access, ...]
    verdict: Verdict | None
    """None for a call that was stopped before it could be judged."""
    changes: Sequence[Change | BeforeImage | MovedEntry] = ()
    origin: Origin = Origin()


@frozen
class Token:
    """The token that `begin` returns and `record` takes."""

    seq: int
    """The number of the call in the journal; 0 if nothing was written down."""
    attempt: int = 0
    files: tuple[PlannedFile, ...] = ()
    warning: str = ""
    """Why the journal could not be written, where that stops nothing."""
    unkept: tuple[str, ...] = ()
    """Paths whose contents are too large to store: their change cannot be undone."""
    withdrawn: bool = False
    """Whether the changes whose end was known were not made."""
    row: tuple[Any, ...] = ()
    """The columns of the beginning."""


@frozen
class Record(PendingRecord):
    """A finished call: its result, and the changes that were made, earlier contents included."""

    changes: tuple[Change, ...] = ()
    result: Result = field(kw_only=True)
    traceback: str = field(default="", kw_only=True)
    """Of a fault in this program."""
    token: Token | None = field(default=None, kw_only=True)
    """From `begin`, if the call came that far."""
    data: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """The tool's values for programs, before the dialect shaped them; the result's own if None."""


def begin_row(record: PendingRecord, now: int, mask: Mask) -> tuple[Any, ...]:
    """The columns that are known when a call begins."""
    call, verdict, origin = record.call, record.verdict, record.origin
    hide = origin.hide
    return (
        now,
        *_encode_origin(origin.session, origin.workspace, origin.dialect),
        escape_surrogates(call.tool)[:200],
        escape_surrogates(call.id)[:200],
        os.getpid(),
        _to_json(mask.value(call.arguments)),
        _count_characters(call.arguments),
        f"[{','.join([_touch(access, mask, hide) for access in record.accesses])}]",
        verdict.decision if verdict else None,
        escape_surrogates(verdict.rule) if verdict else None,
        escape_surrogates(origin.hide(verdict.why)) if verdict else None,
        escape_surrogates(verdict.source) if verdict else None,
    )


@lru_cache(64)
def _encode_origin(session: str, workspace: str, dialect: str) -> tuple[str, bytes, str]:
    """The columns that are the same for all calls of a session."""
    return escape_surrogates(session), os.fsencode(workspace), escape_surrogates(dialect)


@lru_cache(64)
def _encode_source(client: str, model: str) -> tuple[str, str]:
    return escape_surrogates(client[:_LONGEST_NAME]), escape_surrogates(model[:_LONGEST_NAME])


def end_row(record: Record, now: int, mask: Mask) -> tuple[Any, ...]:
    """The columns that are known when it is over."""
    result = record.result
    data = result.data if record.data is None else record.data
    error, exit_code, diff = result.error, data.get("exit_code"), data.get("diff")
    text, trace = result.text, record.traceback
    message = "\n".join(filter(None, (error.message if error else "", result.advice)))
    return (
        now,
        result.status,
        error.code if error else None,
        mask.text(escape_surrogates(message)[:_HEAD]) or None,
        round(result.time_ms, 3),
        mask.text(escape_surrogates(diff)) if isinstance(diff, str) else None,
        int(exit_code) if isinstance(exit_code, int) else None,
        mask.text(escape_surrogates(text[:_HEAD])),
        len(text),
        len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")),
        _to_json([[note.code, note.text[:_HEAD]] for note in result.notes]) if result.notes else "[]",
        mask.text(escape_surrogates(record.origin.hide(trace))) if trace else "",
        _count_left_out(data, record.call.arguments, len(text)),
        *_encode_source(record.origin.client, record.origin.model),
    )


def _count_left_out(data: Mapping[str, object], arguments: Mapping[str, object], shown: int) -> int:
    """About how many characters an answer leaves out that one more call shows: of an output, or of a whole file."""
    size = data.get("output_bytes")
    if isinstance(size, int):
        return max(0, size - shown)
    first, last, total = data.get("first"), data.get("last"), data.get("total_lines")
    if not (isinstance(first, int) and isinstance(last, int) and isinstance(total, int) and total > last):
        return 0
    asked_for_part = any(isinstance(value, int) for value in arguments.values())
    return 0 if asked_for_part else (total - last) * shown // max(1, last - first + 1)


def split_changes(changes: Sequence[Change | BeforeImage | MovedEntry]) -> list[Change | BeforeImage | MovedEntry]:
    """The changes one by one: each thing in a directory that is moved or removed is one of its own."""
    parts: list[Change | BeforeImage | MovedEntry] = []
    for change in changes:
        if not isinstance(change, Change) or change.subtree is None:
            parts.append(change)
            continue
        source = change.moved_from.path.real if change.moved_from else None
        for entry in change.subtree.entries:
            below = f"/{entry.inner}" if entry.inner else ""
            if source is not None:
                old = source + below
                parts.append(MovedEntry(change.path.real + below, entry, False, old, top=not below))
                parts.append(MovedEntry(old, entry, True))
            else:
                parts.append(MovedEntry(change.path.real + below, entry, True))
    return parts


def state(entry: SubtreeEntry) -> str:
    """Return the value for an entry where a hash is expected."""
    if entry.kind == "directory":
        return DIRECTORY
    return hash_bytes(entry.raw) if entry.kind == "file" else LINK + hash_bytes(entry.raw)


@frozen
class PlannedFile:
    """A file of a call as it is recorded: what is known before the call, and what tells what became of it."""

    row: tuple[Any, ...]
    """The columns that are known before."""
    named: str
    """The path as people read it."""
    raw: bytes | None
    """What is replaced; None if that has no contents."""
    modes: tuple[int | None, int | None] | None = None
    """The mode if the changes are not committed, and if they are; if not known before, the disk is asked."""
    after: PathState | None = None
    """What will be there, whoever commits."""
    is_observed: bool = False
    """Whether only the disk knows what became of it."""

    @property
    def digest(self) -> str:
        """The hash of what is replaced."""
        return str(self.row[3]).removeprefix(LINK)

    def find_after(self, committed: bool, withdrawn: bool) -> PathState:
        """Return hash and mode of the file after the call."""
        path, (before, mode, planned) = os.fsdecode(self.row[1]), self.row[3:6]
        if self.after:
            return (before, mode) if withdrawn else self.after
        if self.is_observed:
            return read_state(path)
        return (planned if committed else before), (self.modes[committed] if self.modes else read_mode(path))


def plan_files(changes: Sequence[Change | BeforeImage | MovedEntry]) -> tuple[PlannedFile, ...]:
    """The files of a call, before they change."""
    listed: set[str] = set()
    return tuple(_plan_file(place, change, listed) for place, change in enumerate(split_changes(changes)))


def _plan_file(place: int, change: Change | BeforeImage | MovedEntry, listed: set[str]) -> PlannedFile:
    path = named = change.path if isinstance(change, BeforeImage | MovedEntry) else change.path.real
    after = change.after if isinstance(change, BeforeImage | MovedEntry) else None
    modes: tuple[int | None, int | None] | None = None
    source = planned = raw = mode = None
    before, is_new, is_observed = ABSENT, True, after is None
    if isinstance(change, MovedEntry):
        source, is_new, is_observed = change.moved_from, change.top, not change.sure
        if change.goes:
            before, mode, planned = state(change.entry), change.entry.mode, after[0] if after else ABSENT
            raw = None if change.entry.kind == "directory" else change.entry.raw
            modes = mode, None
        else:
            planned, modes = state(change.entry), (None, change.entry.mode)
    elif isinstance(change, BeforeImage):
        raw, mode, planned = change.before, change.mode, after[0] if after else None
        before = ABSENT if raw is None else hash_bytes(raw)
    else:
        named, planned, is_observed = change.path.named, ABSENT if change.after is None else change.digest, False
        source = change.moved_from.path.real if change.moved_from else None
        if change.before:
            raw, mode, is_new = change.before.raw, read_mode(path), False
            before = change.before.version.digest or hash_bytes(raw)
    directories = _to_json(_list_missing(path, listed) if is_new else [])
    origin, kept = os.fsencode(source) if source else None, int(isinstance(change, BeforeImage))
    row = (place, os.fsencode(path), kept, before, mode, planned, origin, directories)
    return PlannedFile(row, named, raw, modes, after, is_observed)


def collect_replaced(files: Iterable[PlannedFile]) -> dict[str, bytes]:
    """All that is replaced, by hash."""
    return {file.digest: file.raw for file in files if file.raw is not None}


def read_mode(path: str) -> int | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def _touch(access: Access, mask: Mask, hide: Callable[[str], str]) -> str:
    """Encode an access as JSON; an effect of a command that cannot be undone has an extra word."""
    more = [mask.text(hide(access.why))] if isinstance(access, FileAccess) and access.unsaved else []
    texts = [access.action, mask.text(hide(access.target)), hide(access.path), *more]
    return f"[{','.join(map(_encode, texts))}]"  # a text is encoded faster than a list


def escape_surrogates(text: str) -> str:
    """Text that a database takes: half characters are written as escapes."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def _list_missing(real: str, listed: set[str]) -> list[str]:
    """The directories above that a new file will need, the deepest first.

    ``listed``: those of files before it. The nearest are listed for each file, and all others once: a tree may be deep.
    """
    missing: list[str] = []
    above = os.path.dirname(real)
    while above != "/" and not (len(missing) >= _MOST_REPEATED and above in listed) and not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    listed.update(missing)
    return missing


def read_state(path: str) -> PathState:
    """Return hash and mode of the entry at a path, also for a directory or a link."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return LINK + hash_bytes(os.fsencode(os.readlink(path))), stat.S_IMODE(status.st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT, None
    except OSError:
        return None, None
    mode = stat.S_IMODE(status.st_mode)
    return (DIRECTORY, mode) if stat.S_ISDIR(status.st_mode) else (_hash_of(path), mode)


def _hash_of(path: str) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_HASHED_BYTES:
                return None
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ABSENT
    except OSError:
        return None


def _to_json(value: object) -> str:
    try:
        return _encode(value)
    except (ValueError, RecursionError):
        return '"[cannot be written as JSON]"'


def _count_characters(arguments: object, depth: int = 40) -> int:
    """How much a model wrote, roughly: the characters of all its strings."""
    if isinstance(arguments, str):
        return len(arguments)
    if isinstance(arguments, dict) and depth:
        return sum([len(str(key)) + _count_characters(item, depth - 1) for key, item in arguments.items()])
    if isinstance(arguments, (list, tuple)) and depth:
        return sum([_count_characters(item, depth - 1) for item in arguments])
    return 1
