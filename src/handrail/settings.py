"""What a host may set for a session. A dialect never changes these, nor does a model."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Literal

from handrail.files.commit import HardLinks
from handrail.shell.fencing.fence import Mode, Network


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
    """What commands may reach: nothing, this machine (where the boundary can tell), or everything."""
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
        if self.legacy_encoding:
            try:
                codecs.lookup(self.legacy_encoding)
            except LookupError:
                raise ValueError(f"legacy_encoding: there is no encoding {self.legacy_encoding!r}") from None
        for pattern in self.redact_patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"redact_patterns: {pattern!r} is not a regular expression: {error}") from None
