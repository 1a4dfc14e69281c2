"""What a host may set for a session. A dialect never changes these, nor does a model."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal

from handrail.files.commit import HardLinks
from handrail.shell.fencing.fence import Mode, Network


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
    most_processes: int | None = 8192
    """Processes of this user beyond which a command cannot start more; root is not counted."""
    artefact_bytes: int = 1 << 30
    """What long output may take on disk."""
    journaling: Literal["off", "warn", "require"] = "warn"
    """Where a door keeps one: whether a journal that cannot be written stops a change."""
    journal_bytes: int = 1 << 30
    """What the contents that were replaced may take in it."""
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
