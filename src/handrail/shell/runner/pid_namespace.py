"""A shell in a PID namespace of its own: when it ends, and what it leaves behind there.

With our own launcher the init of the shell is asked to stay until we have looked (`HeldShell`). With bubblewrap, two
processes stand between us and the shell: the outer one, which we started, and the first of the namespace. When the
shell ends the outer one ends, and with it, without a word, all that is left inside. So that this can be told, the outer
one is stopped while the command runs (all it would do is wait), the end of the shell itself is waited for, what is left
is looked at, and only then the outer one goes on, to say how the shell ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from handrail.shell.runner import process_tree
from handrail.shell.runner.process_tree import LeftoverProcess, Tree

_PAGE = 4096
_START_SECONDS = 60.0
_DYING_MILLISECONDS = 1000
_FIRST_FORK = 2
"""The number that the shell has inside: the first process of a namespace is 1, and it starts nothing but the shell."""


def pad_to_pipe_size(gate: int, preamble: str) -> bytes:
    """``preamble`` made so long that the gate is full, so that it can be seen when the shell has read it."""
    room = fcntl.fcntl(gate, fcntl.F_SETPIPE_SZ, _PAGE)
    raw = f"{preamble}\n".encode()
    return raw + b"#" * (room - len(raw))


@runtime_checkable
class HoldsInit(Protocol):
    """A started process that can be kept in place when its command has ended."""

    @property
    def pid(self) -> int: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def take_command_end(self) -> int: ...


class NamespacedShell:
    """The shell inside, and the two processes between us and it. Closed by `leave`, or by the end of its owner."""

    def __init__(self, outer: int, first: int, shell: int) -> None:
        self.outer = outer
        self._first = first
        self._shell = shell
        self.end = os.pidfd_open(shell)
        """Becomes readable when the shell has ended; belongs to the caller."""
        try:
            self._first_end = os.pidfd_open(first)
        except BaseException:
            os.close(self.end)
            raise
        self._go(signal.SIGSTOP)

    @classmethod
    def find(cls, outer: int, gate: int) -> NamespacedShell | None:
        """The shell that waits at a full gate below ``outer``; None where it cannot be found: then all is as usual."""
        first = (process_tree.children(outer) or [0])[0]
        try:
            over = os.pidfd_open(outer)
        except OSError:
            return None
        try:
            waiting = select.poll()
            waiting.register(gate, select.POLLOUT)
            waiting.register(over, select.POLLIN)
            waiting.poll(_START_SECONDS * 1000)
            below = [pid for pid in process_tree.children(first) or () if number_inside(pid) == _FIRST_FORK]
            return cls(outer, first, below[0]) if first and below else None
        except OSError:
            return None
        finally:
            os.close(over)

    def _go(self, number: int) -> None:
        with contextlib.suppress(OSError):  # its status is not taken yet, so that its number is its own
            os.kill(self.outer, number)

    def leave(self, tree: Tree, seconds: float, idle: Callable[[float], None]) -> tuple[LeftoverProcess, ...]:
        """Let the outer one end, and say what ends with it: what did not end by itself within ``seconds``."""
        until, pause = time.monotonic() + seconds, 0.001
        while (living := self._list_living()) and (left := until - time.monotonic()) > 0:
            idle(min(left, pause))
            pause = min(2 * pause, 0.01)
        swept: tuple[LeftoverProcess, ...] = ()
        if living:
            known = (self.outer, self._first, self._shell)
            alive = [
                each for each in tree.members(process_tree.everything()) if not each.dead and each.pid not in known
            ]
            stragglers = sorted((number_inside(pid), line) for pid, line in process_tree.name_running(alive))
            swept = tuple(LeftoverProcess(number, line) for number, line in stragglers if number)
        self._go(signal.SIGCONT)
        return swept

    def _list_living(self) -> bool:
        """Whether anything but the shell is left. What has lost its parent inside is a child of the first process."""
        below = (process_tree.look(pid) for pid in process_tree.children(self._first) or () if pid != self._shell)
        return any(process is not None and not process.dead for process in below)

    def over(self) -> None:
        """The outer one has ended: the first process comes to us when everything inside is gone, and is reaped."""
        waiting = select.poll()
        waiting.register(self._first_end, select.POLLIN)
        if waiting.poll(_DYING_MILLISECONDS):
            with contextlib.suppress(OSError):
                os.waitid(os.P_PIDFD, self._first_end, os.WEXITED | os.WNOHANG)
        os.close(self._first_end)


class HeldShell(NamespacedShell):
    """A shell whose init is our own child: it stays after the end of the shell until it is released."""

    def __init__(self, process: HoldsInit) -> None:
        self._process = process
        self.outer = self._first = process.pid
        self.end = process.take_command_end()
        self._shell = pid_of(self.end)
        process.hold()

    def _go(self, number: int) -> None:
        if number == signal.SIGCONT:
            self._process.release()

    def over(self) -> None:
        """The init was waited for, and nothing is left."""


def pid_of(pidfd: int) -> int:
    """The process that a descriptor stands for; 0 if it was reaped."""
    with open(f"/proc/self/fdinfo/{pidfd}", "rb", buffering=0) as file:
        numbers = file.read(4096).partition(b"\nPid:")[2].split(None, 1)
    return max(0, int(numbers[0])) if numbers else 0


def number_inside(pid: int) -> int:
    """The number of a process in its innermost namespace; 0 if it cannot be told, or it has no namespace of its own."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            numbers = file.read(4096).partition(b"\nNSpid:")[2].partition(b"\n")[0].split()
    except OSError:
        return 0
    return int(numbers[-1]) if len(numbers) > 1 else 0
