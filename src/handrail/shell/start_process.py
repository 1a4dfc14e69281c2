"""Start a process: the one place that calls `subprocess.Popen` for commands."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Protocol, TypedDict, Unpack

from handrail.frozen import frozen

File = int | IO[bytes] | None


class ProcessOptions(TypedDict, total=False):
    """Arguments of `subprocess.Popen` other than the command."""

    cwd: str | None
    env: Mapping[str, str] | None
    stdin: File
    stdout: File
    stderr: File
    pass_fds: Sequence[int]
    start_new_session: bool


@frozen
class CommandStreams:
    """A command that another agent runs with its own tool: where its streams lead, and how its shell starts."""

    script: str
    """The words for the shell: the command, with what the agent puts around it."""
    env: Mapping[str, str]
    """The environment that the agent gives to the command."""
    stdin: int
    stdout: int
    stderr: int
    passed: Sequence[int] = ()
    """Further descriptors that the script uses."""
    read_only: Sequence[str] = ()
    """Real paths of the workspace that the agent's own sandbox does not let the command change."""
    offline: bool = False
    """Whether that sandbox has no network."""


class SweepingProcess(subprocess.Popen[bytes]):
    """A process with which everything ends that it has started."""

    left: Sequence[tuple[int, str]] = ()
    """What was still running at its end: numbers and command lines."""


class Spawn(Protocol):
    """Something that starts a process, and may put a sandbox around it."""

    def __call__(self, args: Sequence[str], **how: Unpack[ProcessOptions]) -> subprocess.Popen[bytes]: ...


def start_process(args: Sequence[str], **how: Unpack[ProcessOptions]) -> subprocess.Popen[bytes]:
    """No sandbox. Every signal has its default action and none is blocked, whatever this process has inherited."""
    # Only where it is needed: with a function to call, Python copies the process instead of borrowing it.
    reset = _reset_signals if _list_ignored_signals() or signal.pthread_sigmask(signal.SIG_BLOCK, ()) else None
    return subprocess.Popen(args, preexec_fn=reset, **how)  # noqa: S603 - what may be run was judged before


_RESET_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
"""Python ignores these itself, and `subprocess.Popen` gives them back to every child."""


def _list_ignored_signals() -> list[int]:
    return [
        number
        for number in signal.valid_signals()
        if number not in _RESET_BY_PYTHON and signal.getsignal(number) is signal.SIG_IGN
    ]


def _reset_signals() -> None:
    """In the child, before the command: only calls of the system are made here, since other threads are gone."""
    for number in _list_ignored_signals():
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


# `-p` makes this shell ignore what the environment would have it do first.
_LIMIT = 'ulimit -u "$1" 2>/dev/null; shift; exec "$@"'


def limit_processes(args: Sequence[str], shell: str, most: int) -> list[str]:
    """``args``, run by a shell that limits the processes of the user first. A limit that is lower already stays."""
    return [shell, "-p", "-c", _LIMIT, "handrail", str(most), *args]
