"""Process trees: whose a process is, and how a whole tree is ended without ever hitting a stranger.

A process group is not enough: `setsid`, a double fork or a daemon leaves it. What finds them all on Linux:

1. This process adopts orphans (`adoption`). Whatever a command started, however it forked, stays below this process,
   so only our own descendants are looked at while a command is remembered. What is below a child is its tree; the one
   question left is whose a *direct* child is: a program of the host, a shell of ours, or an orphan that came to us.
2. A mark answers it, set on the shell and inherited by everything below: the soft limit of real-time CPU time, which
   nothing ordinary uses, is set to an absurdly large number that names the registry and the run. It outlives `fork`,
   `exec` with an empty environment, new sessions and closed descriptors, and anybody may read it, of dead ones too.
   The shell waits until it is set (`run`).
3. An environment variable says the same, where the limit cannot be set (other kernels, a setuid sandbox).
4. The session of the shell, as long as the shell was not reaped, since its number cannot be given away before that.
5. Processes once found are remembered by pid and start time.

Who holds the output open is *not* a proof: `tail -f` of a log is nobody's child. A signal goes through a pidfd that
was compared with the start time, a zombie is reaped through one too, and never one that is not proven ours.
Where a process forks while it is being killed, all are stopped first and looked for again until no new one appears.
All processes are read one by one, which is no picture of one moment; that none is left is believed only when the list
of our own children, which is read at once, says so too.

The kernel has one switch for the adoption in a process (`PR_SET_CHILD_SUBREAPER`), so there is one count for all
sessions. It is on only as long as a command runs or has left something: orphans of the host's other programs come too,
and are not touched, since they look like the host's own children. They would stay as zombies for as long as the host
lives. A host that adopts orphans by itself keeps doing so. At the end of a session all processes that are younger than
it are asked for its mark, wherever they stand. Elsewhere than on Linux only the process group is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from handrail.frozen import frozen

LINUX = sys.platform == "linux"
VARIABLE = "HANDRAIL_RUN"
_BASE = 1 << 61
_RUNS = 1 << 24
LIMIT_LINE = "Max realtime timeout"
_KILL_SECONDS = 5.0
_MANY = 300
"""More processes than that get no time to end by themselves: in that time they may become ten times as many."""
_EXITING = 0x4  # PF_EXITING of the kernel's process flags
_EXEC_SECONDS = 0.05
_LINE = 300
"""Most characters of a command line."""


@frozen
class Process:
    """A process at one moment. Pid and start time together are its name: a pid alone is given out again."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    dead: bool
    """A zombie: gone but for its status."""
    exiting: bool = False
    """Dead, or about to be: nothing of its program runs any more."""

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.start


def look(pid: int) -> Process | None:
    """The process of that number; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096)
    except OSError:
        return None
    rest = text[text.rfind(b")") + 2 :].split()
    if len(rest) < 20:
        return None
    dead = rest[0] in (b"Z", b"X")
    exiting = dead or bool(int(rest[6]) & _EXITING)
    return Process(pid, int(rest[1]), int(rest[2]), int(rest[3]), int(rest[19]), dead, exiting)


def clock() -> int:
    """Now, as processes tell their start, or a little earlier."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 2 if LINUX else 0


def list_processes() -> dict[int, Process]:
    """All processes of the machine that can be seen."""
    if not LINUX:
        return {}
    processes = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := look(int(name))):
            processes[process.pid] = process
    return processes


def list_children(pid: int) -> list[int] | None:
    """The children of the first thread of a process, where orphans go; None where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb", buffering=0) as file:
            return [int(pid) for pid in (file.readall() or b"").split()]
    except OSError:
        return None


def read_command_line(pid: int) -> str:
    """The command line of a process, or its name in brackets if there is none."""
    for name in ("cmdline", "comm"):
        try:
            with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
                text = file.read(4 * _LINE).rstrip(b"\0\n").replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            return ""
        if text:
            line = " ".join(text.split())
            return (line if name == "cmdline" else f"[{line}]")[:_LINE]
    return ""


def name_running(processes: Iterable[Process]) -> list[tuple[int, str]]:
    """The pids and command lines of those that still run their program, in the order of their pids.

    In the middle of `exec` a process has no command line; it is given a moment to get one.
    """
    until, named = time.monotonic() + _EXEC_SECONDS, list[tuple[int, str]]()
    for pid in sorted(process.pid for process in processes):
        while (now := look(pid)) and not now.exiting:
            line = read_command_line(pid)
            if not line.startswith("[") or time.monotonic() > until:
                named.append((pid, line))
                break
            time.sleep(0.001)
    return named


def _open_verified(process: Process) -> int:
    """A descriptor of that very process. Raises `ProcessLookupError` if it is gone."""
    fd = os.pidfd_open(process.pid)
    now = look(process.pid)
    if now is None or now.start != process.start:
        os.close(fd)
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return fd


def send(process: Process, number: int) -> bool:
    """Signal that very process; False if it is gone or not ours to signal."""
    try:
        fd = _open_verified(process)
    except ProcessLookupError:
        return False
    except OSError:  # no pidfd, or no descriptor left: the start time was looked at a moment ago
        with contextlib.suppress(OSError):
            now = look(process.pid)
            if now and now.start == process.start:
                os.kill(process.pid, number)
                return True
        return False
    try:
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def reap(process: Process) -> bool:
    """Take the status of a dead child, so that it vanishes; False if that very process is not a dead child."""
    try:
        fd = _open_verified(process)
    except OSError:
        return False
    try:
        return os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG) is not None
    except OSError:
        return False
    finally:
        os.close(fd)


class Mark:
    """The name of a run in its processes; without a run, of all runs of a registry."""

    def __init__(self, registry: int, run: int | None = None) -> None:
        self._first = _BASE + registry * _RUNS + (run or 0)
        self._last = self._first + (_RUNS - 1 if run is None else 0)

    @property
    def range(self) -> tuple[int, int]:
        """The first and the last of its numbers."""
        return self._first, self._last

    @staticmethod
    def new_registry() -> int:
        return secrets.randbelow(1 << 36)

    def variable(self, outer: str) -> str:
        """The value of the environment variable. The marks of enclosing runs stay in it."""
        return f"{outer}:{self._first}" if outer else str(self._first)

    def set(self, pid: int) -> bool:
        """Mark a process that was just started, and what it has started already; False where that cannot be done."""
        if sys.platform != "linux":
            return False
        try:
            hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]
            resource.prlimit(pid, resource.RLIMIT_RTTIME, (self._first, hard))
        except (OSError, ValueError):
            return False
        for child in list_children(pid) or ():  # such as of a sandbox; the shell itself is still waiting at its gate
            self.set(child)
        return True

    def on(self, pid: int) -> bool:
        """Whether the process carries this mark."""
        return any(self._first <= number <= self._last for find in (limit_mark, read_marks) for number in find(pid))


def limit_mark(pid: int) -> set[int]:
    """The mark that a process carries as a limit; at most one."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/limits", "rb", buffering=0) as file:
        line = file.read(8192).partition(LIMIT_LINE.encode())[2].split(None, 1)
        return {int(line[0])} if line and line[0].isdigit() and int(line[0]) >= _BASE else set()
    return set()


def read_marks(pid: int) -> set[int]:
    """The marks that a process was given in its environment: of the run, and of those around it."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        start = f"{VARIABLE}=".encode()
        for entry in file.read().split(b"\0"):
            if entry.startswith(start):
                return {int(number) for number in entry[len(start) :].split(b":") if number.isdigit()}
    return set()


@dataclass(slots=True)
class Tree:
    """A command and everything that it started."""

    mark: Mark
    shell: int = 0
    """Its pid; 0 for whatever carries the mark."""
    adopting: bool = True
    """Whether orphans come to us; otherwise all processes are asked for the mark."""
    since: int = 0
    """When the first of them can have started: older ones are not asked."""
    reaped: bool = False
    """Whether the shell's status was taken: from then on its number may belong to somebody else."""
    _ours: set[tuple[int, int]] = field(default_factory=set)
    _strangers: set[tuple[int, int]] = field(default_factory=set)

    def is_shell(self, process: Process) -> bool:
        return process.pid == self.shell and not self.reaped

    def owns(self, process: Process) -> bool:
        """Whether a direct child of ours, or an orphan, belongs to this tree."""
        key = process.key
        if key in self._ours or self.is_shell(process):
            return True
        if self.shell and not self.reaped and process.session == self.shell:
            return True
        if key in self._strangers:
            return False
        if self.mark.on(process.pid):
            return True
        self._strangers.add(key)
        return False

    def members(self, now: dict[int, Process]) -> list[Process]:
        """All processes of this tree, dead ones too."""
        own, below = os.getpid(), dict[int, list[Process]]()
        for process in now.values():
            below.setdefault(process.parent, []).append(process)
        if self.adopting:  # a parent that is not there has died while we looked: its children are coming to us
            asked = [process for process in now.values() if process.parent == own or process.parent not in now]
        else:
            asked = [process for process in now.values() if process.pid != own and process.start >= self.since]
        members = {process.pid: process for process in asked if self.owns(process)}
        # Those that were found before and now stand below a process that is not ours to ask.
        members.update((process.pid, process) for process in now.values() if process.key in self._ours)
        queue = list(members.values())
        while queue:
            for process in below.get(queue.pop().pid, ()):
                if process.pid not in members:
                    members[process.pid] = process
                    queue.append(process)
        self._ours.update(process.key for process in members.values())
        return list(members.values())

    def group(self, number: int) -> None:
        """Signal the shell's process group, in one act that no fork escapes, while the number is surely its own."""
        if self.shell and not self.reaped:
            with contextlib.suppress(OSError):
                os.killpg(self.shell, number)


def list_living(trees: Iterable[Tree]) -> list[Process]:
    """The live processes of these trees. Dead ones are reaped, except shells, whose status somebody waits for."""
    trees, now, alive = list(trees), list_processes(), dict[int, Process]()
    for tree in trees:
        for process in tree.members(now):
            if not process.dead:
                alive[process.pid] = process
            elif process.parent == os.getpid() and not any(tree.is_shell(process) for tree in trees):
                reap(process)
    return list(alive.values()) or _find_overlooked(trees)


def _find_overlooked(trees: Sequence[Tree]) -> list[Process]:
    """Orphans that came to us while all processes were looked through one by one: forked, and their parent gone.

    That takes milliseconds, the list of our children only microseconds.
    """
    for _ in range(2):
        orphans = [process for pid in list_children(os.getpid()) or () if (process := look(pid)) and not process.dead]
        alive = [process for process in orphans if any(tree.owns(process) for tree in trees)]
        if alive:
            return alive
    return []


def end(trees: Sequence[Tree], grace: float, idle: Callable[[float], None] = time.sleep) -> list[Process]:
    """TERM, then KILL, to everything in these trees. Returns what could not be ended.

    ``idle`` is called to let time pass; it may read what the dying still write.
    """
    if not LINUX:
        return _end_groups(trees, grace, idle)
    reported, own = set[tuple[int, int]](), os.getpid()
    until, pause = time.monotonic() + grace, 0.002
    while alive := list_living(trees):
        if len(alive) > _MANY:
            break
        first = not reported
        for process in alive:
            # What appears later below one that was told may be its way to clean up; an orphan is not.
            if process.key not in reported and (first or process.parent == own):
                reported.add(process.key)
                send(process, signal.SIGTERM)
                send(process, signal.SIGCONT)
        left = until - time.monotonic()
        if left <= 0:
            break
        idle(min(pause, left))
        pause = min(2 * pause, 0.05)
    else:
        return []
    return _kill(trees, idle)


def _kill(trees: Sequence[Tree], idle: Callable[[float], None]) -> list[Process]:
    for tree in trees:  # before anything is looked at: whoever forks without end would outgrow the looking
        tree.group(signal.SIGSTOP)
    until, pause = time.monotonic() + _KILL_SECONDS, 0.001
    alive = list_living(trees)
    while alive and time.monotonic() < until:
        stopped = set[tuple[int, int]]()
        while fresh := [process for process in alive if process.key not in stopped]:
            for tree in trees:
                tree.group(signal.SIGSTOP)
            for process in fresh:
                send(process, signal.SIGSTOP)
                stopped.add(process.key)
            alive = list_living(trees)
            if time.monotonic() > until:
                break
        for tree in trees:
            tree.group(signal.SIGKILL)
        for process in alive:
            send(process, signal.SIGKILL)
        idle(pause)
        pause = min(2 * pause, 0.05)
        alive = list_living(trees)
    return alive


def _end_groups(trees: Sequence[Tree], grace: float, idle: Callable[[float], None]) -> list[Process]:
    for tree in trees:
        tree.group(signal.SIGTERM)
    until = time.monotonic() + grace
    while time.monotonic() < until and any(_group_lives(tree) for tree in trees):
        idle(0.02)
    for tree in trees:
        tree.group(signal.SIGKILL)
    return []


def _group_lives(tree: Tree) -> bool:
    if not tree.shell or tree.reaped:
        return False
    try:
        os.killpg(tree.shell, 0)
    except OSError:
        return False
    return True


@frozen
class LeftoverProcess:
    """A process that a command left running."""

    pid: int
    command: str


_SET, _GET = 36, 37  # PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER
_ZERO = ctypes.c_ulong(0)
_libc = ctypes.CDLL(None)


class _Adoption:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.holders = 0
        self.before = False
        self.works = False


_adoption = _Adoption()


def _of_this_process() -> _Adoption:
    global _adoption
    if _adoption.process != os.getpid():  # a fork begins without the switch
        _adoption = _Adoption()
    return _adoption


def adopt_orphans() -> bool:
    """From now on orphans below this process become its children; False where that is not to be had."""
    if not LINUX:
        return False
    ours = _of_this_process()
    with ours.lock:
        if ours.holders == 0:
            ours.before = _read_adoption()
            ours.works = ours.before or _set_adoption(True)
        ours.holders += 1
        return ours.works


def release_orphans(holders: int = 1) -> None:
    """As many as that need it no more."""
    if not LINUX:
        return
    ours = _of_this_process()
    with ours.lock:
        held, ours.holders = ours.holders, max(0, ours.holders - holders)
        if held and not ours.holders and ours.works and not ours.before:
            _set_adoption(False)


def _set_adoption(on: bool) -> bool:
    return int(_libc.prctl(_SET, ctypes.c_ulong(on), _ZERO, _ZERO, _ZERO)) == 0


def _read_adoption() -> bool:
    answer = ctypes.c_int(0)
    return int(_libc.prctl(_GET, ctypes.byref(answer), _ZERO, _ZERO, _ZERO)) == 0 and bool(answer.value)
