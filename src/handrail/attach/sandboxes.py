"""The agent's own sandbox, as the kernel shows it: a wrapped command never gets more than that."""

from __future__ import annotations

import os
from collections.abc import Iterator

from handrail.drafts.places import read_mounts
from handrail.frozen import frozen
from handrail.shell.sandbox.confinement import is_inside

_PRIVATE = ("/dev", "/proc", "/run", "/tmp")  # noqa: S108 - commands in drafts have their own


@frozen
class Limits:
    """What the agent's sandbox takes from a command."""

    unknown: str = ""
    """Why it cannot be kept to; empty if there is no sandbox, or it can."""
    read_only: tuple[str, ...] = ()
    """Paths of the workspace that cannot be changed; some need not exist."""
    offline: bool = False

    @property
    def is_open(self) -> bool:
        """Whether there is no sandbox."""
        return not (self.unknown or self.read_only or self.offline)


def read_limits(pid: int, workspace: str, *, of_mounts: bool) -> Limits:
    """The limits of a process that an agent started, compared with this one.

    ``of_mounts``: whether the sandbox of this agent consists of mounts and the network, both of which can be seen here.
    """
    try:
        is_same = {name: _is_same_namespace(pid, name) for name in ("mnt", "net", "pid", "user")}
        locked = _read_locks(str(pid))
        if all(is_same.values()) and locked == _read_locks("self"):
            return Limits()
        if is_same["mnt"] or not of_mounts:
            return Limits(f"the agent runs it in a sandbox of its own around {workspace}")
        offline = not is_same["net"] or "Seccomp:\t0\n" not in locked
        return Limits(read_only=tuple(_list_read_only(pid, os.path.realpath(workspace))), offline=offline)
    except _Unknown as error:
        return Limits(str(error))
    except (OSError, ValueError, IndexError):
        return Limits("the agent's sandbox cannot be seen")


class _Unknown(Exception):
    """The sandbox shows something that a draft cannot show."""


def _is_same_namespace(pid: int, name: str) -> bool:
    return os.readlink(f"/proc/{pid}/ns/{name}") == os.readlink(f"/proc/self/ns/{name}")


def _read_locks(pid: str) -> list[str]:
    """The lines about what a process has given up for good."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return [line for line in file if line.startswith(("NoNewPrivs:", "Seccomp:", "CapBnd:"))]


def _list_read_only(pid: int, workspace: str) -> Iterator[str]:
    """The paths of the workspace that a process sees and cannot change; raises `_Unknown` if it sees other files."""
    mounts = _read_mounts(pid)
    around = max((path for path in mounts if is_inside(workspace, path)), key=len)
    if not _is_same_file(pid, workspace):
        raise _Unknown(f"the agent shows it another {workspace}")
    if not mounts[around]:
        yield workspace
    for path, is_writable in mounts.items():
        if not is_inside(path, workspace) or path == workspace:
            if not (_is_same_file(pid, path) or any(is_inside(path, one) for one in _PRIVATE)):
                raise _Unknown(f"the agent hides {path} from it")
        elif not _is_same_file(pid, path) and _holds_something(path):
            raise _Unknown(f"the agent hides {path} from it")
        elif not is_writable:
            yield path


def _read_mounts(pid: int) -> dict[str, bool]:
    """The mounts that a process sees, and whether each can be written to. A later one covers those below it."""
    mounts: dict[str, bool] = {}
    for row in read_mounts(f"/proc/{pid}/mountinfo"):
        mounts = {one: value for one, value in mounts.items() if not is_inside(one, row.point)}
        mounts[row.point] = row.is_writable
    return mounts


def _is_same_file(pid: int, path: str) -> bool:
    """Whether a path leads a process to the same file as this one."""
    try:
        theirs, ours = os.stat(f"/proc/{pid}/root{path}"), os.stat(path)
    except FileNotFoundError:
        return False
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def _holds_something(path: str) -> bool:
    """Whether there is more than a place to mount on, which the agent has made for the time of the command."""
    return bool(os.listdir(path)) if os.path.isdir(path) else os.path.lexists(path) and os.lstat(path).st_size > 0
