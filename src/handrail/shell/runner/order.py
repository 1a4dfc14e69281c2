"""The nouns of running a command: what is ordered, who starts the process, and how it ended."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from handrail.shell.start_process import Spawn, start_process

BUDGET = 4 << 30
"""Bytes of output; a command that prints more is ended."""
GRACE = 2.0
"""Seconds between TERM and KILL."""

Reason = Literal["", "timeout", "cancelled", "closed", "output"]


def find_shell() -> str:
    """The shell that runs commands: bash if there is one."""
    return shutil.which("bash") or next((path for path in ("/bin/bash", "/usr/bin/bash") if os.path.exists(path)), "sh")


@dataclass(frozen=True, slots=True)
class LeftoverProcess:
    """A process that a command left running."""

    pid: int
    command: str
    holds_output: bool = False


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended."""

    exit_code: int | None
    """None if a signal ended the shell."""
    signal: str
    """Such as SIGTERM; empty if the shell ended by itself."""
    reason: Reason
    """Why it was ended from here; empty if it was not."""
    duration: float
    output_bytes: int
    """All that was printed."""
    lost_bytes: int
    """What of it could not be written to the log, because the disk is full."""
    log: str
    strays: tuple[LeftoverProcess, ...] = ()
    """Left running in the background."""
    swept: tuple[LeftoverProcess, ...] = ()
    """Were still running when the shell ended, and ended with it, as the sandbox has it; by their numbers inside."""
    survivors: tuple[LeftoverProcess, ...] = ()
    """Could not be ended: not ours to signal, or stuck in the kernel."""
    meaning: str = ""
    """What a well-known exit code means."""
    interactive: str = ""
    """The program in the command that wants a person at a terminal."""

    @property
    def timed_out(self) -> bool:
        return self.reason == "timeout"

    @property
    def cancelled(self) -> bool:
        return self.reason in ("cancelled", "closed")

    @property
    def overflowed(self) -> bool:
        """Whether it was ended because it printed more than the log may hold."""
        return self.reason == "output"


@dataclass(frozen=True, slots=True)
class CommandOrder:
    """A command and how it is to be run."""

    command: str
    log: str
    """The log file. Must not exist."""
    env: Mapping[str, str]
    cwd: str | None = None
    """A path, `/proc/self/fd/N` for an open directory."""
    spawn: Spawn = start_process
    shell: str = "bash"
    stdin: bool = False
    """Whether something will be written to it; otherwise its stdin is empty."""
    namespaced: bool = False
    """Whether it is started in a PID namespace of its own, which ends with the shell."""
    budget: int = BUDGET
    grace: float = GRACE
