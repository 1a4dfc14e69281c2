"""The commands of a session: all that it started, so that nothing outlives it.

While a command runs or has left something, this process adopts the orphans below it. The kernel has one switch for that
in a process (`PR_SET_CHILD_SUBREAPER`), so there is one count here for all sessions. It is on only as long as somebody
needs it: orphans of the host's other programs come too, nobody waits for them, and we may not take their status, since
they look like the host's own children. They would stay as zombies for as long as the host lives. A host that adopts
orphans by itself keeps doing so.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref

from handrail.shell.runner import process_tree
from handrail.shell.runner.death_watch import DeathWatch
from handrail.shell.runner.process_tree import LINUX, Mark, Tree
from handrail.shell.runner.run import CommandEnd, CommandOrder, Run, stop_all

_TIDY_SECONDS = 1.0


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
        adopting = adopt_orphans()
        try:
            run = Run(order, Mark(self._registry, number), adopting, self._shells)
        except BaseException:
            release_orphans()
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
            release_orphans()

    def _shells(self) -> set[int]:
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
            if not process_tree.living([run.tree]):
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
        release_orphans(len(runs))


_SET, _GET = 36, 37
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
