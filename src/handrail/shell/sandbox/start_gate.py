"""A gate before a command: it is started, and begins only when the limits are on and its starter is out of the way.

Limits belong to a process. Set from outside right after the start, they race with what the process starts in turn;
behind the gate there is nothing to race with, and no code of ours runs between fork and exec.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator, Sequence

from handrail.shell.sandbox.confinement import ResourceLimits

# `-p` makes this shell ignore what the environment would have it do first.
_WAIT = 'gate=$1; shift; read -r -u "$gate" _ || exit 126; exec {gate}<&-; exec "$@"'


class StartGate:
    """A pipe that a started program waits at; there is none until somebody asks for the end to hand over."""

    def __init__(self) -> None:
        self._ends: tuple[int, int] | None = None

    @property
    def entry(self) -> int:
        """The end to hand over."""
        if self._ends is None:
            self._ends = os.pipe()
        return self._ends[0]

    def before(self, args: Sequence[str], shell: str) -> list[str]:
        """``args``, run by a shell once the gate opens. That costs one exec, and no helper program."""
        return [shell, "-p", "-c", _WAIT, "handrail", str(self.entry), *args]

    def open(self) -> None:
        if self._ends:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._ends[1], b"\n")

    def close(self) -> None:
        """A gate that closes without having opened lets nobody through."""
        for fd in self._ends or ():
            os.close(fd)
        self._ends = None


def set_limits(pid: int, limits: ResourceLimits) -> None:
    """Put limits on a process that waits; what it starts inherits them. A limit that is lower already stays."""
    with contextlib.suppress(ProcessLookupError):  # it did not even get as far as the gate
        for kind, most in limits.list_set():
            _, hard = resource.prlimit(pid, kind)
            if hard == resource.RLIM_INFINITY or hard > most:
                resource.prlimit(pid, kind, (most, most))


@contextlib.contextmanager
def kill_on_failure(started: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a command that waits at its gate if the block fails, so that it never runs."""
    try:
        yield
    except BaseException:
        started.kill()
        started.wait()
        raise
