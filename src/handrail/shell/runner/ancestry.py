"""Where a process comes from: its ancestors, and the runs of Handrail that it, or one of them, was started by.

A command can take the mark of its run off itself, but not off the shell above it, and not leave its place below us.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from handrail.shell.runner.process_tree import limit_mark, look, read_marks

_MOST = 1000


def iterate_ancestors(pid: int) -> Iterator[int]:
    """The parent of a process, its parent, and so on, without the first process of the machine."""
    for _ in range(_MOST):
        process = look(pid)
        if process is None or process.parent <= 1:
            return
        pid = process.parent
        yield pid


def runs_above(pid: int) -> frozenset[int]:
    """The marks of all runs that a process belongs to."""
    marks: set[int] = set()
    for one in (pid, *iterate_ancestors(pid)):
        marks |= limit_mark(one) | read_marks(one)
    return frozenset(marks)


def has_given_up_privileges(pid: int) -> bool:
    """Whether a process has given up new privileges for good, as every command inside a boundary has."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb", buffering=0) as file:
        return file.read(8192).partition(b"\nNoNewPrivs:")[2].split(None, 1)[:1] == [b"1"]
    return False
