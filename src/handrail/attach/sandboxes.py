"""The agent's own sandbox, as the kernel shows it: a wrapped command never gets more than that."""

from __future__ import annotations

import os

from handrail.frozen import frozen

_NAMESPACES = ("mnt", "net", "pid", "user")


@frozen
class Limits:
    """What the agent's sandbox takes from a command."""

    unknown: str = ""
    """Why it cannot be kept to; empty if there is no sandbox, or it can."""


def read_limits(pid: int, workspace: str) -> Limits:
    """The limits of a process that an agent started, compared with this one."""
    try:
        inside = [os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES]
        outside = [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES]
        locked, free = _read_locks(str(pid)), _read_locks("self")
    except OSError:
        return Limits("the agent's sandbox cannot be seen")
    if inside == outside and locked == free:
        return Limits()
    return Limits(f"the agent runs it in a sandbox of its own around {workspace}")


def _read_locks(pid: str) -> list[str]:
    """The lines about what a process has given up for good."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return [line for line in file if line.startswith(("NoNewPrivs:", "Seccomp:", "CapBnd:"))]
