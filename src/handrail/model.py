"""The data of a call, as frozen dataclasses.

A `Call` declares its `Access`es, and a `Verdict` allows or denies them. A `Question` asks a person for an `Answer`. The
call ends in a `Result`, whose `Note`s explain what is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, field, fields
from functools import cache, partial
from operator import attrgetter
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from handrail.frozen import frozen
from handrail.json_types import JsonMapping, JsonObject

FileAction = Literal["read", "write", "delete"]
Action = Literal["read", "write", "delete", "run", "network", "call"]
Status = Literal["ok", "partial", "error", "denied"]
Decision = Literal["allow", "ask", "deny"]
Tier = Literal["", "read_only", "ordinary", "destructive"]
Lasting = Literal["once", "session", "always"]


@frozen
class Call:
    """One tool call as it came in, in the dialect's own names."""

    tool: str
    arguments: JsonMapping
    id: str = ""


MentionKind = Literal["path", "name", "pattern", "program"]


class Mention(NamedTuple):
    """A path in a command we don't recognise."""

    path: str
    kind: MentionKind = "path"
    """`name`: only the last name is known. `pattern`: a pattern of the shell. `program`: it is run."""


@frozen
class FileAccess:
    """What a call will do to one file or directory."""

    action: FileAction
    target: str
    """As the model named it."""
    path: str = ""
    """The real absolute path, links followed, once the workspace has resolved it."""
    by_command: bool = False
    """Whether a command would do this, and not a tool: the path need not be in the workspace then."""
    glob: bool = False
    """By a command: the target is a pattern of the shell."""
    below: bool = False
    """By a command: includes everything below, if the path is a directory."""
    sees: Literal["contents", "names", "tracked", "unhidden"] = "contents"
    """By a command: which part of the file it shows. `tracked`: what git has of it."""
    deferred: bool = False
    """By a command in a draft: the change is judged after the command has run."""
    observed: bool = False
    """By a command in a draft: this change was made there, is not kept yet, and can be undone later."""
    renamed: bool = False
    """Of a deletion: the file gets another name in the same call, and its contents are kept."""
    instead: str = ""
    """The path the model probably meant: something is there, and nothing is at the target."""
    unsaved: bool = False
    """By a command: its old contents are not in the journal, so it cannot be undone."""
    lent_to: str = ""
    """The command that asks to see this hidden file. `why` names all the files that it asks for."""
    place: str = ""
    """The directory of that command, if that is not the workspace."""
    why: str = ""

    def at(self, path: str) -> FileAccess:
        """The same access with its real path; made for every file of every call, so without `replace`."""
        return FileAccess(self.action, self.target, path, *_read_rest(self))


_read_rest = attrgetter(*FileAccess.__match_args__[3:])


@frozen
class CommandAccess:
    """A command that will run, or a part of it."""

    action: ClassVar[Literal["run"]] = "run"
    by_command: ClassVar[bool] = False

    target: str
    path: str = ""
    """The draft that it ran in."""
    tier: Tier = ""
    """Its worst case, as far as its words tell."""
    why: str = ""
    """Why it is in that tier."""
    doubt: str = ""
    """Why its effects are not known."""
    place: str = ""
    """Where it runs, if not in the workspace; for input to a job, the job."""
    undoable: bool = False
    """It may discard files of the workspace, which an undo of its draft restores."""
    deferred: bool = False
    """It runs in a draft: what it changes is judged after it has run."""
    mentions: tuple[Mention, ...] = field(default=(), repr=False)
    """Paths in the words of programs we don't recognise."""
    script: object = field(default=None, compare=False, repr=False)
    """The parsed command, so that nobody parses it again; it follows from the target."""


@frozen
class NetworkAccess:
    """A use of the network, by a command or for an address."""

    action: ClassVar[Literal["network"]] = "network"
    path: ClassVar[str] = ""

    target: str
    by_command: bool = False
    hosts: str = ""
    """The hosts that its words name, as words: `host` or `host:port`."""
    proven: bool = False
    """No other host is contacted."""
    proxied: bool = False
    """Its programs use an HTTP proxy if one is set, and need nothing else."""
    possible: bool = False
    """It is no network program by nature, but runs code that may use it."""
    fetches: bool = False
    """It only reads, from hosts that the project uses, and nothing else runs beside it."""
    script: object = field(default=None, compare=False, repr=False)
    """The parsed command; it follows from the target."""


@frozen
class ToolAccess:
    """A call of a tool of the host's own, which may do more than the accesses to files that it declares."""

    action: ClassVar[Literal["call"]] = "call"
    by_command: ClassVar[bool] = False
    path: ClassVar[str] = ""

    target: str


Access = FileAccess | CommandAccess | NetworkAccess | ToolAccess
"""One declared access: what a call will do to one resource."""


@frozen
class NetworkGrant:
    """The use of the network that a person or a rule has allowed for one call, whatever the settings are."""

    open: bool = False
    """All of it."""
    filtered: bool = False
    """The hosts that the rules allow, through a proxy."""
    local: bool = False
    """The loopback of this machine."""
    ports: tuple[int, ...] = ()
    """The ports of this machine that it names."""


NO_NETWORK = NetworkGrant()


LENT = "hidden files for one command"
"""The rule of a verdict on secrets that a command asks to see."""


@frozen
class Verdict:
    """The decision of the policy on a call, with the rule and the reason."""

    decision: Decision
    rule: str = ""
    """The rule as it is written, or the name of a built-in one."""
    why: str = ""
    source: str = ""
    """The place of the rule: `file:line`; empty for a built-in one."""
    allow: str = ""
    """The exact rule that would allow this."""
    advice: str = ""
    """What a person can do about it; models do not read it."""

    def __post_init__(self) -> None:
        if self.decision not in ("allow", "ask", "deny"):
            raise ValueError(f"decision must be 'allow', 'ask' or 'deny', not {repr(self.decision)[:80]}")


@frozen
class FileDiff:
    """The change that a call proposes for one file, as text."""

    path: str
    """As the model named it."""
    header: str = ""
    """The `---` and `+++` lines of the diff."""
    hunks: tuple[str, ...] = ()
    """Each in the form of a unified diff, from its `@@` line on."""
    description: str = ""
    """Shown where there are no lines to compare: a directory, a binary file."""
    created: bool = False
    deleted: bool = False
    before: str | None = None
    """The text of the file now; None if there is no file, or it is not text."""
    after: str | None = None
    """The text that would be written; None if the file is deleted, or it is not text."""
    selectable: bool = False
    """Whether an answer may choose single hunks: not where a tool creates, moves or deletes a file."""
    editable: bool = False
    """Whether an answer may put another text in the place of `after`."""

    @property
    def diff(self) -> str:
        """The unified diff of this file."""
        return self.description or (self.header + "".join(self.hunks) if self.hunks else "")

    @classmethod
    def from_json(cls, value: JsonMapping) -> FileDiff:
        """Build an object from the dict of `dataclasses.asdict`; raises `ValueError` for anything else."""
        before, after = (None if value[name] is None else _read_text(value[name]) for name in ("before", "after"))
        hunks = tuple(map(_read_text, value["hunks"]))
        return cls(**_read_plain_fields(cls, value), hunks=hunks, before=before, after=after)


@frozen
class Question:
    """A call that waits for a person's answer, with its preview and the reason. Nothing has changed yet."""

    call: Call
    accesses: tuple[Access, ...]
    verdict: Verdict
    files: tuple[FileDiff, ...] = ()
    """The files that would change; of a command only if it has run in a draft, and its changes are not kept yet."""
    command: str | None = None
    """The command that would be run."""
    command_argument: str = ""
    """The argument that holds the command, under the dialect's name; empty if an answer cannot rewrite it."""
    summary: str = ""
    """The command or the accesses in lines that are safe to show; for a call that changes no files."""
    workspace: str = ""
    session: str = ""
    client: str = ""
    shortened: tuple[str, ...] = ()
    """The parts that were too long to be included."""
    cancel: threading.Event | None = field(default=None, compare=False, repr=False)
    """Set when the call is cancelled and nobody waits for the answer. Stays in this process: it is not JSON."""

    def preview(self) -> str:
        """The diff, or the command."""
        return "".join(file.diff for file in self.files) or self.summary

    def as_json(self) -> JsonObject:
        """The question as plain JSON values."""
        return {
            "call": {"tool": self.call.tool, "arguments": dict(self.call.arguments), "id": self.call.id},
            "accesses": [access_as_json(access) for access in self.accesses],
            "verdict": asdict(self.verdict),
            "files": [asdict(file) for file in self.files],
            "command": self.command,
            "command_argument": self.command_argument,
            "summary": self.summary,
            "workspace": self.workspace,
            "session": self.session,
            "client": self.client,
            "shortened": list(self.shortened),
        }

    @classmethod
    def from_json(cls, value: Any) -> Question:
        """Parse the output of `as_json`; raises `ValueError` for anything else."""
        try:
            call, command = value["call"], value["command"]
            return cls(
                Call(_read_text(call["tool"]), _read_object(call["arguments"]), _read_text(call["id"])),
                tuple(read_access(one) for one in value["accesses"]),
                Verdict(**_read_plain_fields(Verdict, value["verdict"])),
                tuple(map(FileDiff.from_json, value["files"])),
                None if command is None else _read_text(command),
                shortened=tuple(map(_read_text, value["shortened"])),
                **_read_plain_fields(cls, value),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not a question: {error}") from None


@frozen
class Answer:
    """A person's answer to a question. It holds for exactly what the question showed."""

    yes: bool
    reason: str = ""
    """Why not; the model reads it."""
    lasting: Lasting = "once"
    """`session`: the same is not asked again in this session; `always`: nor later, the rule is written down."""
    hunks: Mapping[str, Sequence[int]] | None = None
    """By path, the numbers (from 0) of the hunks that are wanted; a path that is missing is wanted whole."""
    contents: Mapping[str, str] | None = None
    """By path, the text that the person wrote in the place of the proposed one."""
    arguments: JsonMapping | None = None
    """The call as the person has rewritten it, in the dialect's names; it is prepared and judged anew."""

    def __post_init__(self) -> None:
        if not isinstance(self.yes, bool):  # "no" would count as a yes
            raise ValueError(f"yes must be True or False, not {repr(self.yes)[:80]}")
        if self.lasting not in get_args(Lasting):
            raise ValueError(f"lasting must be 'once', 'session' or 'always', not {repr(self.lasting)[:80]}")

    @property
    def as_proposed(self) -> bool:
        """Whether this is a yes to everything that was shown, and to nothing else."""
        return self.yes and self.hunks is None and self.contents is None and self.arguments is None

    def as_json(self) -> JsonObject:
        """The answer as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Answer:
        """Parse the output of `as_json`; raises `ValueError` for anything else."""
        try:
            hunks, contents, arguments = value["hunks"], value["contents"], value["arguments"]
            return cls(
                value["yes"],
                _read_text(value["reason"]),
                value["lasting"],
                None if hunks is None else {_read_text(path): [_number(one) for one in hunks[path]] for path in hunks},
                None if contents is None else {_read_text(path): _read_text(contents[path]) for path in contents},
                None if arguments is None else _read_object(arguments),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not an answer: {error}") from None


Approve = Callable[[Question], bool | Answer | Awaitable[bool | Answer]]
"""The `approve` of a session: asks somebody, and returns the answer or something to await."""


@frozen
class Note:
    """Why a result is partial, and how to continue."""

    code: str
    text: str


@frozen
class Failure:
    """A stable code and the sentence for it."""

    code: str
    message: str


@frozen
class Result:
    """The result of a call. The model reads `full_text`; the status is `partial` if and only if there is a note."""

    tool: str
    status: Status
    text: str
    blocks: tuple[JsonMapping, ...] = ()
    data: JsonMapping = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    error: Failure | None = None
    accesses: tuple[Access, ...] = ()
    time_ms: float = 0.0
    id: str = ""
    advice: str = ""
    """What a person can do about it; no model reads this."""

    @property
    def full_text(self) -> str:
        """The text and those of further blocks, such as the report of a check, for a model that gets one text."""
        more = [str(block["text"]) for block in self.blocks[1:] if block["type"] == "text"]
        return "\n\n".join((self.text, *more)) if more else self.text

    @property
    def ok(self) -> bool:
        """Whether the call was made, in whole or in part."""
        return self.status in ("ok", "partial")


def as_json(result: Result) -> JsonObject:
    """A result as plain JSON values: the contract of `handrail batch` and `handrail call --json`."""
    error = result.error
    return {
        "id": result.id or None,
        "tool": result.tool,
        "status": result.status,
        "text": result.text,
        "blocks": [dict(block) for block in result.blocks],
        "data": dict(result.data),
        "notes": [{"code": note.code, "text": note.text} for note in result.notes],
        "error": {"code": error.code, "message": error.message} if error else None,
        "accesses": [{"action": t.action, "target": t.target, "path": t.path} for t in result.accesses],
        "stats": {"time_ms": round(result.time_ms, 3)},
        "advice": result.advice,
    }


def _read_plain_fields(kind: type, value: Mapping[str, object]) -> JsonObject:
    """The fields of a dataclass that are texts, words of a list or truth values; raises `TypeError` for others."""
    return {name: read(value[name]) for name, read in _find_plain_readers(kind)}


@cache
def _find_plain_readers(kind: type) -> tuple[tuple[str, Callable[[Any], str | bool]], ...]:
    readers: dict[Any, Callable[[Any], str | bool]] = {bool: _read_flag, str: _read_text}
    plain: list[tuple[str, Callable[[Any], str | bool]]] = []
    hints = get_type_hints(kind)
    for one in fields(kind):
        hint = hints[one.name]
        read = partial(_read_word, get_args(hint)) if get_origin(hint) is Literal else readers.get(hint)
        plain += [(one.name, read)] if read else []
    return tuple(plain)


_KINDS: Mapping[str, type[Access]] = {
    **dict.fromkeys(get_args(FileAction), FileAccess),
    **{kind.action: kind for kind in (CommandAccess, NetworkAccess, ToolAccess)},
}


def access_as_json(access: Access) -> dict[str, object]:
    """An access as plain JSON values, from which `read_access` makes the same access again."""
    value = {name: getattr(access, name) for name, _ in _find_plain_readers(cast("type", type(access)))}
    mentions = {"mentions": [list(one) for one in access.mentions]} if isinstance(access, CommandAccess) else {}
    return {"action": access.action, **value, **mentions}


def read_access(value: JsonMapping) -> Access:
    """Parse the output of `access_as_json`; raises `KeyError` or `TypeError` for anything else."""
    kind: Any = _KINDS[_read_text(value["action"])]
    more: JsonObject = {}
    if kind is CommandAccess:
        more["mentions"] = tuple(_read_mention(*one) for one in value["mentions"])
    return cast("Access", kind(**_read_plain_fields(kind, value), **more))


def _read_mention(path: object, kind: object) -> Mention:
    return Mention(_read_text(path), cast("MentionKind", _read_word(get_args(MentionKind), kind)))


def _read_object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise TypeError("an object is expected")
    return value


def _read_text(value: object) -> str:
    return _read_enum(str, value)


def _read_flag(value: object) -> bool:
    return _read_enum(bool, value)


def _read_word(words: tuple[str, ...], value: object) -> str:
    if _read_text(value) not in words:
        raise TypeError(f"one of {', '.join(map(repr, words))} is expected")
    return str(value)


def _number(value: object) -> int:
    return _read_enum(int, value)


_Json = TypeVar("_Json")


def _read_enum(kind: type[_Json], value: object) -> _Json:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} is expected")
    return value
