"""Run a command: it always comes back, says how it ended, and leaves nothing behind that is not named.

Stdout and stderr are one pipe, so that their order is kept. Whoever waits for the command moves what arrives there into
the log, a block at a time: memory stays flat and no thread is needed. The log itself is not given to the command:
`echo x > /dev/stderr` would empty it, since opening `/dev/stderr` opens, and truncates, whatever file stands there.

The shell starts at a gate: `BASH_ENV` names a pipe that bash reads to its end before anything else, and that ends when
the shell carries the mark of its run. So nothing that it starts can be without it.

The end of the shell is what is waited for, not the end of the pipe. What the shell leaves running is named, keeps
writing to the log, and lives until `Runs.close`. A timeout, a cancel and the close end the whole tree
(`process_tree.py`). `Runs` are the commands of a session: all that it started, so that nothing outlives it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from handrail.errors import BadCommand
from handrail.frozen import frozen
from handrail.programs import find_program
from handrail.shell.runner import explain_exit, process_tree
from handrail.shell.runner.death_watch import DeathWatch
from handrail.shell.runner.output import Pipes
from handrail.shell.runner.process_tree import (
    LeftoverProcess,
    Mark,
    Process,
    Tree,
)
from handrail.shell.start_process import CommandStreams, Spawn, SweepingProcess, start_process

BUDGET = 4 << 30
"""Bytes of output; a command that prints more is ended."""
GRACE = 2.0
"""Seconds between TERM and KILL."""

Reason = Literal["", "timeout", "cancelled", "closed", "output"]


def find_shell() -> str:
    """The shell that runs commands: bash if there is one."""
    return find_program("bash") or next(
        (path for path in ("/bin/bash", "/usr/bin/bash") if os.path.exists(path)), "/bin/sh"
    )


@frozen
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
    """Bytes that could not be written to the log, because the disk is full."""
    log: str
    strays: tuple[LeftoverProcess, ...] = ()
    """Left running in the background."""
    swept: tuple[LeftoverProcess, ...] = ()
    """Were still running when the shell ended, and ended with it, as the sandbox has it; by their numbers inside."""
    survivors: tuple[LeftoverProcess, ...] = ()
    """Could not be ended: not ours to signal, or stuck in the kernel."""
    meaning: str = ""
    """Explanation of a well-known exit code."""
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


@frozen
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
    """Whether something will be written to it; otherwise its stdin is `input`."""
    namespaced: bool = False
    """Whether it is started in a PID namespace of its own, which ends with the shell."""
    budget: int = BUDGET
    grace: float = GRACE
    input: bytes = b""
    streams: CommandStreams | None = None
    """Where its streams lead instead of the log."""
    passed: tuple[int, ...] = ()
    """Further descriptors that it inherits."""


_GATE = 180  # the least number of the gate's descriptor: none that a script uses by accident
_LONGEST_ARGUMENT = 120_000
_MOST_STRAYS = 50
_SLICE = 0.05
_TIDY_SECONDS = 1.0


class Run:
    """A command that was started. All methods may be called from any thread."""

    def __init__(self, order: CommandOrder, mark: Mark, adopting: bool, shells: Callable[[], set[int]]) -> None:
        self.order = order
        self.ended: CommandEnd | None = None
        self.on_end: Callable[[], None] | None = None
        """Called once when it has ended."""
        self._list_shells = shells
        self._reason: Reason = ""
        self._survivors: tuple[LeftoverProcess, ...] = ()
        self._followed = threading.Lock()
        self.ending = threading.RLock()
        self._done = threading.Event()
        self.pipes = Pipes(order.log, order.budget)
        self.started = time.monotonic()
        try:
            self._popen = self._start(mark)
        except BaseException:
            self.pipes.release()
            raise
        finally:
            os.close(self.pipes.write)
        pid = self._popen.pid
        self.tree = Tree(mark, pid, adopting)
        self._pidfd = -1
        with contextlib.suppress(OSError, AttributeError):  # an old or another kernel: asked again and again instead
            self._pidfd = os.pidfd_open(pid)
        self.pipes.own(self._pidfd)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def _start(self, mark: Mark) -> subprocess.Popen[bytes]:
        order = self.order
        env = dict(order.env)
        env[process_tree.VARIABLE] = mark.variable(env.get(process_tree.VARIABLE, ""))
        args, passed, raw = [order.shell, "-c", order.command], [*order.passed], os.fsencode(order.command)
        with contextlib.ExitStack() as ours:
            given = subprocess.DEVNULL
            if order.input:  # from a file: nobody has to write while the command runs
                source = ours.enter_context(tempfile.TemporaryFile())
                source.write(order.input)
                source.seek(0)
                given = source.fileno()
            elif order.streams:
                given = order.streams.stdin
                passed += order.streams.passed
            elif order.stdin:
                given, self.pipes.stdin = os.pipe()
                ours.callback(os.close, given)
                os.set_blocking(self.pipes.stdin, False)
            if len(raw) > _LONGEST_ARGUMENT and b"\0" not in raw and hasattr(os, "memfd_create"):
                # Longer than the kernel lets an argument be: the shell reads it from a file in memory.
                script = os.memfd_create("command")
                ours.callback(os.close, script)
                with open(script, "wb", closefd=False) as file:
                    file.write(raw)
                args, passed = [order.shell, f"/proc/self/fd/{script}"], [*passed, script]
            if process_tree.LINUX:  # bash reads this file first, and it does not end before the mark is set
                opened, gate = os.pipe()
                ours.callback(os.close, gate)
                ours.callback(os.close, opened)
                key = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _GATE)
                ours.callback(os.close, key)
                env["BASH_ENV"] = f"/proc/self/fd/{key}"
                passed.append(key)
                preamble = f"unset BASH_ENV; exec {key}<&-"
                os.write(gate, preamble.encode())
            popen = order.spawn(
                args,
                cwd=order.cwd,
                env=env,
                stdin=given,
                stdout=order.streams.stdout if order.streams else self.pipes.write,
                stderr=order.streams.stderr if order.streams else self.pipes.write,
                pass_fds=passed,
                start_new_session=True,
            )
            mark.set(popen.pid)
            return popen

    # Waiting.

    def wait(
        self, timeout: float | None = None, cancel: threading.Event | None = None, keep: bool = False
    ) -> CommandEnd | None:
        """Until the shell ends, the time is up, or it is cancelled; the output is moved meanwhile.

        None only with ``keep``: the time is up, and it runs on.
        """
        with self.pipes.hold() as entered:
            return self._wait(timeout, cancel, keep) if entered else self.ended

    def _wait(self, timeout: float | None, cancel: threading.Event | None, keep: bool) -> CommandEnd | None:
        until = None if timeout is None else self.started + timeout
        while self.ended is None:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                if keep:
                    return None
                self.end("timeout")
            elif cancel is not None and cancel.is_set():
                self.end("cancelled")
            elif self._step(_take_shorter(left, _SLICE if cancel or self._pidfd < 0 else None)):
                self._finish()
        self._done.wait()
        return self.ended

    def follow(self, timeout: float | None = None) -> None:
        """Wait in a thread of its own, and move what strays print after the end."""
        if not self._followed.acquire(blocking=False):
            return
        threading.Thread(target=self._follow, args=(timeout,), name=f"run {self.pid}", daemon=True).start()

    def _follow(self, timeout: float | None) -> None:
        with self.pipes.hold() as entered:
            if entered:
                self._wait(timeout, None, False)
            while entered and not self.silent:
                self._step(None)
                if self._reason and not self.pipes.closing:
                    self.end(self._reason)
                    break
        self.pipes.release()

    def _step(self, seconds: float | None) -> bool:
        """Wait for something to happen, and move output. True if the shell has ended."""
        poll = select.poll()
        poll.register(self.pipes.waker, select.POLLIN)
        if not self.pipes.eof:
            poll.register(self.pipes.read, select.POLLIN)
        if self._pidfd >= 0 and self.ended is None:
            poll.register(self._pidfd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(None if seconds is None else int(seconds * 1000) + 1)}
        if self.pipes.read in ready:
            self.pipes.pump()
            if self.pipes.bytes > self.order.budget and not self._reason:
                self._reason = "output"
        if self._reason and self.ended is None:
            self.end(self._reason)
            return False
        return self._pidfd in ready or (self._pidfd < 0 and self._popen.poll() is not None)

    # Ending.

    def end(self, reason: Reason = "cancelled") -> CommandEnd | None:
        """End the whole tree, now, and wait for that."""
        stop_all([self], reason)
        return self.ended

    def over(self, survivors: Sequence[Process], reason: Reason) -> None:
        """The tree was ended, but for these."""
        self._survivors = self._name_processes(self.tree.members({process.pid: process for process in survivors}))
        self._reason = self._reason or reason
        if self.ended is None:
            self._finish()
        self.pipes.release()

    def _finish(self) -> None:
        with self.ending:
            if self.ended is not None:
                return
            duration = time.monotonic() - self.started
            self.pipes.settle(wait=not self._survivors)
            self.pipes.close_stdin()
            if self.pipes.bytes > self.order.budget:
                self._reason = self._reason or "output"
            strays = self._list_strays()  # before the status is taken: so long the shell's number is its own
            code = self._popen.wait()
            self.tree.reaped = True
            left = self._popen.left if isinstance(self._popen, SweepingProcess) and not self._reason else ()
            line, number = self.order.command, (code if code >= 0 else 128 - code)
            self.ended = CommandEnd(
                exit_code=code if code >= 0 else None,
                signal=explain_exit.name_signal(-code) if code < 0 else "",
                reason=self._reason,
                duration=duration,
                output_bytes=self.pipes.bytes,
                lost_bytes=self.pipes.lost,
                log=self.order.log,
                strays=strays,
                swept=tuple(LeftoverProcess(*one) for one in left),
                survivors=self._survivors,
                meaning=explain_exit.explain_exit_code(line, number) if number and not self._reason else "",
                interactive=explain_exit.find_interactive_program(line) if number or self._reason else "",
            )
            if self.pipes.eof:
                self.pipes.release()
            self._done.set()
        if self.on_end:
            self.on_end()

    @property
    def running(self) -> bool:
        return self.ended is None

    def _list_strays(self) -> tuple[LeftoverProcess, ...]:
        if not process_tree.LINUX or (self.pipes.eof and (self.order.namespaced or not self._has_orphans())):
            return ()
        return self._name_processes(
            [process for process in process_tree.list_living([self.tree]) if process.pid != self.pid]
        )

    def _has_orphans(self) -> bool:
        """Whether an orphan of this command came to us: cheap, since nearly no command leaves one."""
        orphans = process_tree.list_children(os.getpid()) if self.tree.adopting else None
        if orphans is None:
            return True
        skipped = self._list_shells() if orphans else ()
        processes = (process_tree.look(pid) for pid in orphans if pid not in skipped and pid != self.pid)
        ours = [process for process in processes if process is not None and self.tree.owns(process)]
        # What is dead has left nothing: its own orphans have come to us as well, and stand in the same list.
        return not all(process.dead and process_tree.reap(process) for process in ours)

    def _name_processes(self, processes: Sequence[Process]) -> tuple[LeftoverProcess, ...]:
        named = process_tree.name_running(processes) if processes else []
        return tuple(LeftoverProcess(pid, command) for pid, command in named[:_MOST_STRAYS])

    @property
    def silent(self) -> bool:
        """Whether nothing can be printed any more."""
        return self.pipes.eof or self.pipes.closing

    def lingers(self) -> bool:
        """Whether something may still be there that has to be ended with the session."""
        return self.ended is None or bool(self.ended.strays) or not self.silent


def _take_shorter(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else min(one, other)


def stop_all(runs: Sequence[Run], reason: Reason, also: Sequence[Tree] = ()) -> None:
    """End these trees together: the seconds of grace pass once for all of them."""
    with contextlib.ExitStack() as held:
        for run in runs:
            held.enter_context(run.ending)  # no shell is reaped meanwhile, so that its number stays its own

        def idle(seconds: float) -> None:
            for run in runs:
                run.pipes.idle(seconds / len(runs))
            if not runs:
                time.sleep(seconds)

        grace = max((run.order.grace for run in runs), default=0.0)
        survivors = process_tree.end([*(run.tree for run in runs), *also], grace, idle)
        for run in runs:
            run.over(survivors, reason)


class Runs:
    """Starts commands and remembers those that may have left something; `close` ends them all.

    If nobody calls `close`, that happens when this object is collected, or when the program ends.
    """

    def __init__(self) -> None:
        self._registry = Mark.new_registry()
        self._count = 0
        self._held: dict[int, Run] = {}
        self._lock = threading.Lock()
        self._tidied = time.monotonic()
        everything = Tree(Mark(self._registry), adopting=False, since=process_tree.clock())
        self._watch = DeathWatch(everything.mark)
        self._close = weakref.finalize(self, _end_held, self._held, self._lock, everything, self._watch, os.getpid())

    def start(self, order: CommandOrder) -> Run:
        """Start a command. Somebody must then `wait` for it or let it `follow` itself."""
        with self._lock:
            if not self._close.alive:
                raise BadCommand(why="the session has ended", line=None, near=None)
            self._count += 1
            number = self._count
        if not order.namespaced:  # the processes of a PID namespace end with it
            self._watch.start(order.shell)
        adopting = process_tree.adopt_orphans()
        try:
            run = Run(order, Mark(self._registry, number), adopting, self._list_shells)
        except BaseException:
            process_tree.release_orphans()
            raise
        with self._lock:
            self._held[number] = run
            late = not self._close.alive
        if late:  # the session ended while it was being started
            run.end("closed")
            self._forget(number)
        return run

    def run(
        self,
        order: CommandOrder,
        timeout: float | None = None,
        cancel: threading.Event | None = None,
    ) -> CommandEnd:
        """Start a command and wait for its end."""
        run = self.start(order)
        try:
            ended = run.wait(timeout, cancel)
            assert ended is not None
            return ended
        finally:
            self.done(run)

    def done(self, run: Run) -> None:
        """A command was waited for: forget it, unless it left something."""
        if not run.lingers():
            with self._lock:
                numbers = [number for number, other in self._held.items() if other is run]
            for number in numbers:
                self._forget(number)
        elif run.ended is not None and not run.silent:
            run.follow()
        self._tidy()

    def _forget(self, number: int) -> None:
        with self._lock:
            known = self._held.pop(number, None)
        if known is not None:
            process_tree.release_orphans()

    def _list_shells(self) -> set[int]:
        with self._lock:
            return {run.pid for run in self._held.values()}

    def _tidy(self) -> None:
        """Now and then reap the strays that have died, and forget the runs that have no others."""
        now = time.monotonic()
        with self._lock:
            if now - self._tidied < _TIDY_SECONDS:
                return
            self._tidied = now
            ended = [(number, run) for number, run in self._held.items() if run.ended is not None and run.silent]
        for number, run in ended:
            if not process_tree.list_living([run.tree]):
                self._forget(number)

    def close(self) -> None:
        """End everything that was ever started here. May be called again."""
        self._close()


def _end_held(held: dict[int, Run], lock: threading.Lock, everything: Tree, watch: DeathWatch, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the host: what it inherited belongs to its parent
        return
    with lock:
        runs = list(held.values())
        held.clear()
    # Whatever carries the mark of this registry, also where no run is remembered any more.
    try:
        stop_all(runs, "closed", [everything])
    finally:
        watch.close()
        process_tree.release_orphans(len(runs))
