"""Settings of a session, made by its host. Neither a dialect nor a model can change them."""

from __future__ import annotations

import re
from dataclasses import field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from handrail.files.versions import HardLinks
from handrail.frozen import frozen
from handrail.shell.sandbox import Mode, Network


@frozen
class AgentSettings:
    """Defaults of the agent in the terminal."""

    model: Annotated[str | None, "The name of a model; `$HANDRAIL_MODEL` and `--model` come first."] = None
    api: Annotated[
        Literal["chat", "responses", "anthropic"] | None, "The API; by default the model's name decides."
    ] = None
    window: Annotated[int | None, "How many tokens the model takes; by default the model's name decides."] = None
    price_in: Annotated[float | None, "The price of a million input tokens, in any currency."] = None
    price_out: Annotated[float | None, "The price of a million output tokens."] = None

    def __post_init__(self) -> None:
        check_fields(self)


@frozen
class Settings:
    """How a session treats files."""

    durable: Annotated[
        bool, "Sync files and directories, so that a change survives a power cut once it is reported."
    ] = True
    hard_links: Annotated[
        HardLinks,
        "A file with several names: `refuse` to change it, `split` it off, or write `through` to all names (in place).",
    ] = "refuse"
    legacy_encoding: Annotated[str | None, "The encoding to try first for files that are not Unicode."] = None
    matching: Annotated[
        Literal["dialect", "ladder"],
        "How edits are matched: as the dialect's document says, or by the whole ladder in every dialect.",
    ] = "dialect"
    most_edit_bytes: Annotated[int, "Files above this size are not loaded for a change."] = 256 << 20
    read_seconds: Annotated[float, "How long one Read may scan a file."] = 10.0
    lock_seconds: Annotated[float, "How long a call waits for another one that changes the same file."] = 30.0
    answer_chars: Annotated[int, "No answer is longer, whatever a dialect's limits say."] = 400_000
    sandbox: Annotated[
        Mode, "The sandbox of commands: the strongest that works on this machine, a certain one, or `off`."
    ] = "auto"
    sandbox_required: Annotated[bool, "Refuse commands if no sandbox works."] = False
    drafts: Annotated[bool, "Run commands in drafts of the workspace where that is possible: see docs/drafts.md."] = (
        True
    )
    network: Annotated[
        Network, "The network of commands without approval: none, loopback (if the sandbox supports it), or all."
    ] = "loopback"
    index: Annotated[
        bool, "Search large trees with an index, built in the background after a slow search: see docs/search-index.md."
    ] = True
    keep_env: Annotated[tuple[str, ...], "Environment variables that commands get besides the harmless ones."] = ()
    most_processes: Annotated[
        int | None, "Processes of this user beyond which a command cannot start more; root is not counted."
    ] = 8192
    artefact_bytes: Annotated[int, "Maximum size of saved output on disk."] = 1 << 30
    journaling: Annotated[
        Literal["off", "warn", "require"],
        "Whether a session without a writable journal works silently, with a note, or not at all.",
    ] = "warn"
    journal: Annotated[
        str | None,
        "A shared journal, `postgresql://USER@HOST/DATABASE?tenant=NAME`, to which records are sent as well: see "
        "docs/fleet.md.",
    ] = field(default=None, repr=False)
    journal_bytes: Annotated[
        int, "Maximum size of the stored old contents in the journal, and of its records; the oldest are removed."
    ] = 1 << 30
    journal_calls: Annotated[int, "Maximum number of calls in the journal, at least 1000; the oldest are removed."] = (
        1_000_000
    )
    redact_values_from_env: Annotated[tuple[str, ...], "Environment variables whose values are redacted."] = ()
    redact_patterns: Annotated[
        tuple[str, ...], "Regular expressions of further secrets; if one has a group, its first group is the secret."
    ] = ()
    redact_files: Annotated[
        tuple[str, ...], "Files with `NAME=value` lines whose values are secrets; of any other file, its contents."
    ] = ()
    state: Annotated[str | None, "The state directory; by default `$HANDRAIL_STATE` or the user's state directory."] = (
        None
    )
    raise_bugs: Annotated[bool, "Raise internal errors as exceptions instead of returning them as results."] = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.legacy_encoding:
            try:
                "".encode(self.legacy_encoding)
            except (LookupError, ValueError):
                raise ValueError(
                    f"legacy_encoding: unknown encoding {self.legacy_encoding!r}; try cp1252, gbk or shift_jis"
                ) from None
        if self.journal is not None:
            from handrail.settings.journal_address import JournalAddress

            JournalAddress.parse(self.journal)
        for pattern in self.redact_patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"redact_patterns: {pattern!r} is not a regular expression: {error}") from None


def describe_fields(kind: type[Settings] | type[AgentSettings]) -> dict[str, str]:
    """What each field of these settings means."""
    return {name: hint.__metadata__[0] for name, hint in get_type_hints(kind, include_extras=True).items()}


def check_fields(settings: Settings | AgentSettings) -> None:
    """Check every field against its annotation; raises `ValueError` with the field, the valid values and the value."""
    kind: type = type(settings)
    for one in fields(settings):
        name, value = one.name, getattr(settings, one.name)
        if value is one.default:  # annotations are evaluated only for what somebody set: that takes time
            continue
        hint = _read_hints(kind)[name]
        if not _fits(value, hint):
            *most, last = _list_valid_values(hint)
            valid = f"{', '.join(most)} or {last}" if most else last
            raise ValueError(f"{name} must be {valid}, not {repr(value)[:80]}")


@cache
def _read_hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)


def _fits(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(hint)[0]) for item in value)
    if hint in (int, float):  # NaN is not at least 0 either
        kinds = int if hint is int else int | float
        return isinstance(value, kinds) and not isinstance(value, bool) and value >= 0
    return isinstance(value, hint)


def _list_valid_values(hint: Any) -> list[str]:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return [text for one in get_args(hint) for text in _list_valid_values(one)]
    if origin is Literal:
        return [repr(choice) for choice in get_args(hint)]
    if origin is tuple:
        return ["a tuple of strings"]
    return [_VALID[hint]]


_VALID = {
    bool: "True or False",
    int: "a whole number of at least 0",
    float: "a number of at least 0",
    str: "a string",
    NoneType: "None",
}
