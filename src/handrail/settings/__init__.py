"""What a host may set for a session. A dialect never changes these, nor does a model."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from handrail.files.changes import HardLinks
from handrail.shell.sandbox.confinement import Mode, Network


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What the agent in the terminal uses where nothing else is said."""

    model: str | None = None
    """The name of a model; `$HANDRAIL_MODEL` and `--model` come first."""
    api: Literal["chat", "responses", "anthropic"] | None = None
    """Which API is spoken; by default the model's name decides."""
    window: int | None = None
    """How many tokens the model takes; by default the model's name decides."""
    price_in: float | None = None
    """What a million tokens of input cost, in any currency."""
    price_out: float | None = None
    """What a million tokens of output cost."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a session treats files."""

    durable: bool = True
    """Sync files and directories, so that a change survives a power cut once it is reported."""
    hard_links: HardLinks = "refuse"
    """A file with several names: `refuse` to change it, `split` it off, or write `through` to all names (in place)."""
    legacy_encoding: str | None = None
    """The encoding to try first for files that are not Unicode."""
    most_edit_bytes: int = 256 << 20
    """Files above this size are not loaded for a change."""
    read_seconds: float = 10.0
    """How long one Read may scan a file."""
    lock_seconds: float = 30.0
    """How long a call waits for another one that changes the same file."""
    answer_chars: int = 400_000
    """No answer is longer, whatever a dialect's limits say."""
    sandbox: Mode = "auto"
    """What holds commands: the strongest boundary that works here, a certain one, or `off`."""
    sandbox_required: bool = False
    """Rather run no command than one without a boundary."""
    network: Network = "loopback"
    """What commands reach that nobody was asked about: nothing, loopback (where the boundary knows it), or all."""
    keep_env: tuple[str, ...] = ()
    """Variables that commands get besides the harmless ones."""
    confine_files: bool = False
    """Run the file tools inside the boundary of commands too, in threads that the kernel confines (Landlock)."""
    most_processes: int | None = 8192
    """Processes of this user beyond which a command cannot start more; root is not counted."""
    artefact_bytes: int = 1 << 30
    """What long output may take on disk."""
    journaling: Literal["off", "warn", "require"] = "warn"
    """Where a door keeps one: whether a journal that cannot be written stops a change."""
    journal_bytes: int = 1 << 30
    """What the contents that were replaced may take in it."""
    redact_values_from_env: tuple[str, ...] = ()
    """Variables whose values no model sees: a placeholder stands for them, and is understood when it comes back."""
    redact_patterns: tuple[str, ...] = ()
    """Regular expressions of what is hidden as well; of one with a group, the first group."""
    redact_files: tuple[str, ...] = ()
    """Files with `NAME=value` lines whose values are hidden as well; of any other file, its contents."""
    state: str | None = None
    """Where locks are kept; by default `$HANDRAIL_STATE` or the user's state directory."""
    raise_bugs: bool = False
    """Let a fault of this program through as an exception instead of reporting it as a result."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.legacy_encoding:
            try:
                codecs.lookup(self.legacy_encoding)
            except LookupError:
                raise ValueError(f"legacy_encoding: unknown encoding {self.legacy_encoding!r}") from None
        for pattern in self.redact_patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"redact_patterns: {pattern!r} is not a regular expression: {error}") from None


def check_fields(settings: Settings | AgentSettings) -> None:
    """Check every field against its annotation; raises `ValueError` with the field, the valid values and the value."""
    kind: type = type(settings)
    for name, hint in _hints(kind).items():
        value = getattr(settings, name)
        if not _fits(value, hint):
            *most, last = _valid_values(hint)
            valid = f"{', '.join(most)} or {last}" if most else last
            raise ValueError(f"{name} must be {valid}, not {repr(value)[:80]}")


@cache
def _hints(kind: type) -> dict[str, Any]:
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


def _valid_values(hint: Any) -> list[str]:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return [text for one in get_args(hint) for text in _valid_values(one)]
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
