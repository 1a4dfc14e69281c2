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
import errno
import fcntl
import os
import select
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from handrail.frozen import frozen
from handrail.programs import find_program
from handrail.shell.runner import explain_exit, output, process_tree
from handrail.shell.runner.death_watch import DeathWatch
from handrail.shell.runner.output import OutputCopier
from handrail.shell.runner.process_tree import (
    HeldShell,
    HoldsInit,
    LeftoverProcess,
    Mark,
    Process,
    Tree,
)
from handrail.shell.start_process import CommandStreams, Spawn, start_process

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


SETTLE = 0.1
"""Seconds that the last words of a command may take to arrive when the shell has ended before the writer."""
_GATE = 180  # the least number of the gate's descriptor: none that a script uses by accident
_LONGEST_ARGUMENT = 120_000
_MOST_STRAYS = 50
_SLICE = 0.05
_FILL = 0.0002
_SMALL = 1 << 17
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
        self._closing = self._closed = self._followed = False
        self._waiting = 0
        self._namespace: HeldShell | None = None
        self._io = threading.Lock()
        self.ending = threading.RLock()
        self._done = threading.Event()
        with contextlib.ExitStack() as undo:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self._log = os.open(order.log, flags, 0o600)
            undo.callback(os.close, self._log)
            self._read, write = os.pipe()
            undo.callback(os.close, self._read)
            self._waker, self._wake = os.pipe()
            undo.callback(os.close, self._waker)
            undo.callback(os.close, self._wake)
            os.set_blocking(self._read, False)
            self._flow = OutputCopier(self._read, self._log, order.budget)
            self.stdin = -1
            self.started = time.monotonic()
            try:
                self._popen = self._start(write, mark, undo)
            finally:
                os.close(write)
            undo.pop_all()
        pid = self._popen.pid
        self.tree = Tree(mark, pid, adopting)
        self._pidfd = self._namespace.end if self._namespace else -1
        with contextlib.suppress(OSError, AttributeError):  # an old or another kernel: asked again and again instead
            self._pidfd = self._pidfd if self._namespace else os.pidfd_open(pid)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def _start(self, write: int, mark: Mark, undo: contextlib.ExitStack) -> subprocess.Popen[bytes]:
        order = self.order
        env = dict(order.env)
        env[process_tree.VARIABLE] = mark.variable(env.get(process_tree.VARIABLE, ""))
        args, passed, raw = [order.shell, "-c", order.command], list[int](), os.fsencode(order.command)
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
                given, self.stdin = os.pipe()
                ours.callback(os.close, given)
                undo.callback(os.close, self.stdin)
                os.set_blocking(self.stdin, False)
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
                stdout=order.streams.stdout if order.streams else write,
                stderr=order.streams.stderr if order.streams else write,
                pass_fds=passed,
                start_new_session=True,
            )
            mark.set(popen.pid)
            if isinstance(popen, HoldsInit):
                self._namespace = HeldShell(popen)
            return popen

    # Waiting.

    def wait(
        self, timeout: float | None = None, cancel: threading.Event | None = None, keep: bool = False
    ) -> CommandEnd | None:
        """Until the shell ends, the time is up, or it is cancelled; the output is moved meanwhile.

        None only with ``keep``: the time is up, and it runs on.
        """
        with self._hold_descriptors() as entered:
            return self._wait(timeout, cancel, keep) if entered else self.ended

    @contextlib.contextmanager
    def _hold_descriptors(self) -> Iterator[bool]:
        """While somebody waits on the descriptors nobody else closes them: their numbers would be given away."""
        with self._io:
            entered = not self._closed
            self._waiting += entered
        try:
            yield entered
        finally:
            with self._io:
                self._waiting -= entered
                if self._closing:
                    self._shut()

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
        with self._io:
            if self._followed:
                return
            self._followed = True
        threading.Thread(target=self._follow, args=(timeout,), name=f"run {self.pid}", daemon=True).start()

    def _follow(self, timeout: float | None) -> None:
        with self._hold_descriptors() as entered:
            if entered:
                self._wait(timeout, None, False)
            while entered and not (self._eof or self._closing):
                self._step(None)
                if self._reason and not self._closing:
                    self.end(self._reason)
                    break
        self._release()

    def cancel(self) -> None:
        """Ask for the end and return at once. Whoever waits brings it about."""
        self._reason = self._reason or "cancelled"
        with self._io:
            if not self._closed:
                os.write(self._wake, b"!")

    def feed(self, data: bytes, seconds: float) -> int:
        """Write to its stdin as much as it takes in that time. Raises `BrokenPipeError` if that is closed."""
        sent, until = 0, time.monotonic() + seconds
        while True:
            with self._io:
                if self.stdin < 0 or self.ended is not None:
                    raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
                with contextlib.suppress(BlockingIOError):
                    sent += os.write(self.stdin, data[sent : sent + (1 << 16)])
            if sent >= len(data) or time.monotonic() >= until:
                return sent
            with contextlib.suppress(OSError, ValueError):  # closed meanwhile: seen above
                select.select([], [self.stdin], [], 0.02)

    def close_stdin(self) -> None:
        """Say that no more is coming."""
        with self._io:
            if self.stdin >= 0:
                os.close(self.stdin)
                self.stdin = -1

    def _step(self, seconds: float | None) -> bool:
        """Wait for something to happen, and move output. True if the shell has ended."""
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        if not self._eof:
            poll.register(self._read, select.POLLIN)
        if self._pidfd >= 0 and self.ended is None:
            poll.register(self._pidfd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(None if seconds is None else int(seconds * 1000) + 1)}
        if self._read in ready:
            if self._flow.wide and self._flow.last < _SMALL:
                time.sleep(_FILL)  # a fuller pipe is a larger block, and fewer of them
            self._pump()
        if self._reason and self.ended is None:
            self.end(self._reason)
            return False
        return self._pidfd in ready or (self._pidfd < 0 and self._popen.poll() is not None)

    def _pump(self) -> bool:
        """Move a block from the pipe to the log; False if there is none now."""
        with self._io:
            moved = not self._closed and self._flow.move()
            if self._flow.bytes > self.order.budget and not self._reason:
                self._reason = "output"
            return moved

    @property
    def bytes(self) -> int:
        """All that was printed so far."""
        return self._flow.bytes

    @property
    def _eof(self) -> bool:
        return self._flow.eof

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
        self._release()

    def idle(self, seconds: float) -> None:
        """Let time pass, and take what the dying still write, so that none of them waits for it."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._eof or self._closed:
                time.sleep(left)
            elif not self._pump():
                with contextlib.suppress(OSError, ValueError):
                    select.select([self._read], [], [], left)

    def _finish(self) -> None:
        with self.ending:
            if self.ended is not None:
                return
            duration = time.monotonic() - self.started
            swept = self._namespace.leave(self.tree, SETTLE, self.idle) if self._namespace else ()
            self._settle()
            strays = self._list_strays()  # before the status is taken: so long the shell's number is its own
            code = self._popen.wait()
            self.tree.reaped = True
            line, number = self.order.command, (code if code >= 0 else 128 - code)
            self.ended = CommandEnd(
                exit_code=code if code >= 0 else None,
                signal=explain_exit.name_signal(-code) if code < 0 else "",
                reason=self._reason,
                duration=duration,
                output_bytes=self.bytes,
                lost_bytes=self._flow.lost,
                log=self.order.log,
                strays=strays,
                swept=() if self._reason else swept,
                survivors=self._survivors,
                meaning=explain_exit.explain_exit_code(line, number) if number and not self._reason else "",
                interactive=explain_exit.find_interactive_program(line) if number or self._reason else "",
            )
            if self._eof:
                self._release()
            self._done.set()
        if self.on_end:
            self.on_end()

    @property
    def running(self) -> bool:
        return self.ended is None

    def _settle(self) -> None:
        """Take what is in the pipe; if somebody still holds it, give last words a moment to arrive."""
        until = time.monotonic() + SETTLE
        self._flow.wide = False  # one reading takes all that a pipe can hold, however late it is
        while self._pump() and time.monotonic() < until:
            pass
        if not self._eof and not self._survivors:
            while not self._eof and (left := until - time.monotonic()) > 0:
                self.idle(min(left, 0.005))

    def _list_strays(self) -> tuple[LeftoverProcess, ...]:
        if not process_tree.LINUX or (self._eof and (self._namespace or not self._has_orphans())):
            return ()
        return self._name_processes(
            [process for process in process_tree.list_living([self.tree]) if process.pid != self.pid]
        )

    def _has_orphans(self) -> bool:
        """Whether an orphan of this command came to us: cheap, since nearly no command leaves one."""
        orphans = process_tree.list_adopted() if self.tree.adopting else None
        if orphans is None:
            return True
        skipped = self._list_shells() if orphans else ()
        processes = (process_tree.look(pid) for pid in orphans if pid not in skipped and pid != self.pid)
        ours = [process for process in processes if process is not None and self.tree.owns(process)]
        # What is dead has left nothing: its own orphans have come to us as well, and stand in the same list.
        return not all(process.dead and process_tree.reap(process) for process in ours)

    def _name_processes(self, processes: Sequence[Process]) -> tuple[LeftoverProcess, ...]:
        if not processes:
            return ()
        with self._io:
            pipe = "" if self._closed else f"pipe:[{os.fstat(self._read).st_ino}]"
        return tuple(
            LeftoverProcess(pid, command, bool(pipe) and process_tree.holds(pid, pipe))
            for pid, command in process_tree.name_running(processes)[:_MOST_STRAYS]
        )

    @property
    def silent(self) -> bool:
        """Whether nothing can be printed any more."""
        return self._eof or self._closing

    def lingers(self) -> bool:
        """Whether something may still be there that has to be ended with the session."""
        return self.ended is None or bool(self.ended.strays) or not self.silent

    def _release(self) -> None:
        """Give the descriptors back, as soon as nobody waits on them."""
        with self._io:
            if not self._closed:
                self._closing = True
                os.write(self._wake, b"!")
                self._shut()

    def _shut(self) -> None:
        if self._closed or self._waiting:
            return
        self._closed = True
        for fd in (self._log, self._read, self._waker, self._wake, self._pidfd, self.stdin):
            if fd >= 0:
                os.close(fd)
        self.stdin = -1

    def view(self, head: int, tail: int) -> output.OutputView:
        """The output so far."""
        fd = os.open(self.order.log, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return output.view(fd, head, tail)
        finally:
            os.close(fd)


def _take_shorter(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else min(one, other)


def stop_all(runs: Sequence[Run], reason: Reason, also: Sequence[Tree] = ()) -> None:
    """End these trees together: the seconds of grace pass once for all of them."""
    with contextlib.ExitStack() as held:
        for run in runs:
            held.enter_context(run.ending)  # no shell is reaped meanwhile, so that its number stays its own

        def idle(seconds: float) -> None:
            for run in runs:
                run.idle(seconds / len(runs))
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
                raise RuntimeError("no command is started after the end of the session")
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
        ended = run.wait(timeout, cancel)
        assert ended is not None
        self.done(run)
        return ended

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
