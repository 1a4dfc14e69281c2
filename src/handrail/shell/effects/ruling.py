"""Types: the ruling on one command (tier, reason, doubt) and its effects on files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

CommandTier = Literal["read_only", "ordinary", "destructive"]
FileAction = Literal["read", "write", "delete"]
Visibility = Literal["contents", "names", "unhidden"]
"""How much a command shows of a file that it reads."""


@dataclass(frozen=True, slots=True)
class FileEffect:
    """A file that a command would read, write or delete.

    The path is as bash sees it, relative to the directory that the whole command line starts in. One that begins with
    `~` is below a home directory; a file whose own name begins so is given as `./~name`.
    """

    action: FileAction
    path: str
    glob: bool = False
    """The path is a pattern of the shell; its fixed characters are escaped with a backslash where needed."""
    below: bool = False
    """If it is a directory, everything below it is meant too."""
    into: str = ""
    """If it is a directory, the file of this name in it is meant."""
    sees: Visibility = field(default="contents", compare=False)
    """What is shown of it, if it is read."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the rules say of one simple command. Paths are relative to the directory that it runs in."""

    tier: CommandTier = "ordinary"
    why: str = ""
    doubt: str = ""
    files: tuple[FileEffect, ...] = ()


READ_ONLY = Ruling("read_only")
