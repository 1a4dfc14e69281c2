"""A gate before a command: it is started, and begins only when its starter is out of the way.

A small shell waits there, sets the limits and becomes the command. No code of ours runs between fork and exec.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence

# `-p` makes this shell ignore what the environment would have it do first.
_WAIT = 'gate=$1; shift; read -r -u "$gate" _ || exit 126; exec {gate}<&-; ulimit -c 0; exec "$@"'
_LIMIT = 'ulimit -u "$1" 2>/dev/null; shift; exec "$@"'


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


def limit_processes(args: Sequence[str], shell: str, most: int) -> list[str]:
    """``args``, run by a shell that limits the processes of the user first. A limit that is lower already stays."""
    return [shell, "-p", "-c", _LIMIT, "handrail", str(most), *args]


@contextlib.contextmanager
def kill_on_failure(started: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a command that waits at its gate if the block fails, so that it never runs."""
    try:
        yield
    except BaseException:
        started.kill()
        started.wait()
        raise
