"""What `/proc` says about the processes of agents."""

from __future__ import annotations

import os

from handrail.attach.client.handrail_run import read_process

_MOST_LEVELS = 100
_SHELLS = ("sh", "bash", "dash", "zsh", "busybox")


def list_ancestors(pid: int) -> list[int]:
    """The processes above a process, the nearest first; without the first process of all."""
    above: list[int] = []
    while pid > 1 and len(above) < _MOST_LEVELS:
        pid = int(read_process(pid, 1) or 0)
        if pid > 1:
            above.append(pid)
    return above


def read_start(pid: int) -> str:
    """When a process started, which tells it from a later one with the same number; empty if it has ended."""
    return read_process(pid, 19)


def read_invocation(pid: int) -> tuple[str, str, dict[str, str]]:
    """The last word that a process was started with, its directory and its variables; raises `OSError`."""
    texts = []
    for name in ("cmdline", "environ"):
        with open(f"/proc/{pid}/{name}", "rb") as file:
            texts.append(file.read().removesuffix(b"\0").decode("utf-8", "surrogateescape").split("\0"))
    words, variables = texts
    return words[-1], os.readlink(f"/proc/{pid}/cwd"), dict(one.split("=", 1) for one in variables if "=" in one)


def find_agent(hook: int, named: int) -> int:
    """The process of the agent that started a hook: the one it names, or the nearest that is no shell."""
    above = list_ancestors(hook)
    if named in above:
        return named
    for pid in above:
        try:
            program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        except OSError:
            continue
        if program not in _SHELLS:
            return pid
    return 0
