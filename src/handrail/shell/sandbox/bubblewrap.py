"""Commands under bubblewrap: namespaces of their own, in which the rest of the machine is not there to be reached.

The mounts hold what landlock cannot: paths that are hidden or read-only inside a writable tree, a private `/tmp` and
`/dev/shm`, other processes out of sight. Bubblewrap mounts, and landlock refuses all mounting, so the one cannot start
inside the other: commands stand under the namespaces and the filter on system calls, and the file tools, which run in
this process, under landlock.

Bubblewrap itself is started from one thread that lives as long as the boundary, because `--die-with-parent` means the
thread and not the process: the end of a short-lived thread would end the jobs that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, Unpack

from handrail.programs import find_program, get_program
from handrail.shell.private_directory import PrivateDirectory
from handrail.shell.sandbox import Network, seccomp
from handrail.shell.sandbox.confinement import (
    CREATED_LATE,
    Confinement,
    Protection,
    TooWide,
    choose_maskable,
    is_directory,
    is_inside,
)
from handrail.shell.sandbox.environment import redirect_temporary_files, require_program
from handrail.shell.sandbox.landlock import LEAST, ConfinedThreads, RulesetCache, forgo_privileges, get_version
from handrail.shell.sandbox.launcher import list_machine_entries
from handrail.shell.sandbox.logins import AGENT, NO_LOGINS, Logins
from handrail.shell.sandbox.loopback import Reach, Supervisor, works
from handrail.shell.sandbox.mount_plan import KEPT_IN_RUN, OVERLAID, Narrow, plan_narrow_view, plan_protections
from handrail.shell.sandbox.start_gate import StartGate, kill_on_failure, set_limits
from handrail.shell.start_process import ProcessOptions, start_process

T = TypeVar("T")

_START_SECONDS = 60.0
"""A bound for what never starts at all, not for a busy machine: a start that fails is noticed at once."""
_FOR_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")


class BubblewrapBoundary:
    """Commands in namespaces, file tools under landlock where there is one."""

    namespaced = True
    hides_own = True

    def __init__(self, confinement: Confinement) -> None:
        program = find_program("bwrap")
        if program is None:
            raise OSError("bubblewrap is not installed")
        self.confinement = confinement
        self._program = program
        self._filtered = seccomp.is_supported()
        self._tools: ConfinedThreads | None = None
        private = PrivateDirectory()
        self.tmp = private.path
        with contextlib.ExitStack() as undo:
            undo.callback(private.close)
            self._thread = undo.enter_context(ThreadPoolExecutor(1, "handrail-bwrap"))
            self._supervised = self._supervise(undo, "own") if confinement.network == "loopback" else None
            self.supervises = self._supervised is not None
            self._agents: dict[str, ThreadPoolExecutor | None] = {}
            self._choosing = threading.Lock()
            self._try()
            if get_version() >= LEAST:
                with contextlib.suppress(TooWide):  # commands are held all the same, and the description says the rest
                    self._tools = ConfinedThreads(lambda: RulesetCache(confinement, tmp=self.tmp, tools=True))
                    undo.callback(self._tools.close)
            self._close = undo.pop_all()
        self.name = "bwrap" + ("+seccomp" if self._filtered else "") + ("+landlock" if self._tools else "")
        self.description = _describe(confinement, self._filtered, self._tools is not None, self._supervised is not None)

    def _supervise(self, undo: contextlib.ExitStack, reach: Reach, agent: str = "") -> ThreadPoolExecutor | None:
        """A thread whose commands have their connections made by us; None where that cannot be had."""
        set_uid = os.stat(self._program).st_mode & stat.S_ISUID and os.geteuid() != 0  # which needs new privileges
        if set_uid or not works():
            return None
        thread = undo.enter_context(ThreadPoolExecutor(1, "handrail-bwrap-loopback"))

        def listen() -> int:
            forgo_privileges()
            return seccomp.install_listener(seccomp.build_connect_filter())

        supervisor = Supervisor(thread.submit(listen).result(), reach, self.confinement.services, agent)
        undo.callback(supervisor.close)
        return thread

    def _supervise_agent(self, agent: str) -> ThreadPoolExecutor | None:
        """A thread whose commands reach the ssh agent besides an open network; None where that cannot be had."""
        with self._choosing:
            if agent not in self._agents:
                self._agents[agent] = self._supervise(self._close, "all", agent)
            return self._agents[agent]

    def _try(self) -> None:
        """Whether it starts here, with this very confinement: user namespaces may be forbidden, or mounting `/proc`."""
        where = (
            self.confinement.writable[0] if self.confinement.writable else "/"
        )  # the host may stand where nothing is inside
        quiet = subprocess.DEVNULL
        tried = self.spawn([get_program("true")], cwd=where, stdin=quiet, stdout=quiet, stderr=subprocess.PIPE)
        try:
            _, errors = tried.communicate(timeout=_START_SECONDS)
        except subprocess.TimeoutExpired:
            tried.kill()
            tried.communicate()
            raise OSError(f"bubblewrap did not start within {_START_SECONDS:.0f} seconds") from None
        if tried.returncode != 0:
            raise OSError(f"bubblewrap does not start here: {errors.decode('utf-8', 'replace').strip()}")

    def serves(self, port: int) -> bool:  # noqa: ARG002 - each command has a network of its own
        return False

    def run(self, work: Callable[[], T]) -> T:
        return self._tools.run(work) if self._tools else work()

    def spawn(
        self,
        args: Sequence[str],
        *,
        network: Network | None = None,
        protection: Protection = "repositories",
        logins: Logins = NO_LOGINS,
        visible: Sequence[str] | None = None,
        **how: Unpack[ProcessOptions],
    ) -> subprocess.Popen[bytes]:
        given = redirect_temporary_files(how.get("env"), self.tmp)
        require_program(args[0], given)
        where = how.get("cwd") or os.getcwd()
        named = [alias for alias in self.confinement.aliases if any(alias[0] in arg for arg in args)]
        level: Network = network or self.confinement.network
        thread = self._supervised if self._supervised and level == "loopback" else self._thread
        with_agent = self._supervise_agent(logins.agent) if logins.agent and level == "on" and self._filtered else None
        if with_agent:
            thread, given[AGENT] = with_agent, logins.agent
        gate, (info, info_writer) = StartGate(), os.pipe()
        ours = [info_writer]
        options = ["--block-fd", str(gate.entry), "--info-fd", str(info_writer), "--chdir", os.path.realpath(where)]
        try:
            if self._filtered:
                code, filled = os.pipe()
                ours.append(code)
                os.write(filled, self._filter(level, with_agent is not None))  # well below what a pipe holds
                os.close(filled)
                options += ["--seccomp", str(code)]
            how |= {"cwd": where, "env": given, "pass_fds": (*how.get("pass_fds", ()), gate.entry, *ours)}

            def start() -> subprocess.Popen[bytes]:
                mounts = self._list_mounts(level, named, protection, logins, visible)
                return start_process([self._program, *mounts, *options, "--", *args], **how)

            started = thread.submit(start).result()
            while ours:
                os.close(ours.pop())
            with kill_on_failure(started):
                inner = _read_child(info)
                if inner:  # the process inside that waits at the gate; it starts the command
                    set_limits(inner, self.confinement.limits)
            gate.open()
            return started
        finally:
            gate.close()
            for fd in (*ours, info):
                os.close(fd)

    def _filter(self, network: Network, agent: bool) -> bytes:
        """The filter for one command. Only an open network by the settings includes sockets of other programs."""
        if agent:  # each connection is looked at, and of unix sockets only the agent's is reached
            return seccomp.build_program(network, private=True)
        if network == "loopback":
            supervised = self._supervised is not None
            return seccomp.build_program(network, families=seccomp.ALL if supervised else seccomp.IP, private=True)
        return seccomp.build_program(network, families=seccomp.ALL if self.confinement.network == "on" else seccomp.IP)

    def _list_mounts(
        self,
        network: Network,
        aliases: Sequence[tuple[str, str]],
        protection: Protection,
        logins: Logins,
        visible: Sequence[str] | None,
    ) -> Iterator[str]:
        confinement = self.confinement
        # A name at the top needs a place to be mounted on, and the real top must not get one: here it is made anew.
        whole = "/" in confinement.readable and "/" not in confinement.writable
        narrow = plan_narrow_view(confinement, self.tmp, (*visible, *logins.files)) if visible is not None else None
        anew = whole and bool(aliases or narrow)
        yield from ("--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL")
        if os.geteuid() == 0:  # who keeps all of root's powers can mount everything writable again
            for capability in _FOR_ROOT:
                yield from ("--cap-add", capability)
        if network != "on":
            yield "--unshare-net"
        if anew:
            yield from _list_top(narrow)
        elif "/" in (*confinement.readable, *confinement.writable):
            yield from ("--bind" if "/" in confinement.writable else "--ro-bind", "/", "/")
        else:
            yield from _list_links(confinement.readable)
        yield from ("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run")
        for path in list_machine_entries():
            yield from ("--ro-bind-try", path, path)
        for path in KEPT_IN_RUN:
            yield from ("--ro-bind-try", path, path)
        # Under both names, so that a path that a command prints is the path that the file tools know.
        yield from ("--bind", self.tmp, "/tmp", "--bind", self.tmp, self.tmp)  # noqa: S108 - that is the point
        trees = {**dict.fromkeys(confinement.readable, "--ro-bind"), **dict.fromkeys(confinement.writable, "--bind")}
        for prefix in (sys.prefix, sys.base_prefix):  # an interpreter that lies in /tmp is still there
            if os.path.isdir(prefix) and is_inside(os.path.realpath(prefix), os.path.realpath("/tmp")):  # noqa: S108
                trees.setdefault(os.path.realpath(prefix), "--ro-bind")
        for path in sorted(set(trees) - {"/"}):  # what lies deeper comes later, and is on top
            yield from (trees[path], path, path)
        for pin in plan_protections(confinement, protection):
            yield from ("--ro-bind" if pin.read_only else "--bind", pin.target, pin.target)
        for path in self._list_hidden(trees, logins):
            if anew and narrow and not any(is_inside(path, tree) for tree in narrow.visible):
                continue
            directory = is_directory(path)
            if directory:
                yield from ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
            elif directory is not None:
                yield from ("--ro-bind", "/dev/null", path)
        if anew:
            for alias, real in aliases:
                yield from ("--ro-bind-try", real, alias)
            yield from ("--remount-ro", "/")

    def _list_hidden(self, trees: Iterable[str], logins: Logins) -> Iterator[str]:
        """Options that hide the paths which would be visible otherwise."""
        confinement = self.confinement
        bound = [tree for tree in trees if tree != "/"]
        for path in choose_maskable((*confinement.hidden, *confinement.list_hidden(logins)), confinement.writable):
            elsewhere = any(is_inside(path, os.path.realpath(top)) for top in OVERLAID)
            if not elsewhere or any(is_inside(path, tree) for tree in bound):
                yield path

    def close(self) -> None:
        """Ends every command that still runs: with the thread goes what it started."""
        self._close.close()


def _list_top(narrow: Narrow | None) -> Iterator[str]:
    """Everything at the top of the tree, one by one, or the visible part of it."""
    with os.scandir("/") as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_symlink():
                yield from ("--symlink", os.readlink(entry.path), entry.path)
            elif entry.path not in OVERLAID and (narrow is None or entry.path in narrow.visible):
                yield from ("--ro-bind-try", entry.path, entry.path)
    if narrow:
        for path in narrow.visible:
            private = is_inside(path, "/tmp")  # noqa: S108 - the sandbox has one of its own
            if path.count("/") > 1 and not private and os.path.exists(path):  # a directory above may be closed to us
                yield from ("--ro-bind-try", path, path)
        for path, text in narrow.links:
            if path.count("/") > 1:
                yield from ("--symlink", text, path)


def _list_links(readable: Sequence[str]) -> Iterator[str]:
    """The links at the top, such as `/bin`, which lead into what is readable."""
    with os.scandir("/") as entries:
        for entry in entries:
            if entry.is_symlink() and any(is_inside(os.path.realpath(entry.path), tree) for tree in readable):
                yield from ("--symlink", os.readlink(entry.path), entry.path)


def _read_child(info: int) -> int | None:
    """The process inside, as bubblewrap tells it; None if it failed before it had one."""
    received = b""
    waiting = select.poll()
    waiting.register(info, select.POLLIN)
    while b"}" not in received:
        if not waiting.poll(_START_SECONDS * 1000):
            raise TimeoutError(f"bubblewrap did not start within {_START_SECONDS:.0f} seconds")
        piece = os.read(info, 4096)
        if not piece:
            return None
        received += piece
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return int(json.loads(received)["child-pid"])
    return None


def _describe(confinement: Confinement, filtered: bool, landlock: bool, supervised: bool) -> str:
    holds = ["writes outside the workspace and a private /tmp", "other processes"]
    lacks = [CREATED_LATE] if confinement.protected else []
    if confinement.network == "on":
        lacks.append("the network is open")
    else:
        own = "a loopback of its own" + (", and TCP services on the loopback of this machine" if supervised else "")
        holds.append("the network" + ("" if confinement.network == "off" else f" but for {own}"))
    if confinement.hidden or confinement.masked:
        holds.append("hidden paths")
    if confinement.protected:
        holds.append("changes of protected files")
    if confinement.network == "on":
        lacks.append("sockets of other programs outside /run and /tmp can be reached")
    if not filtered:
        lacks.append("system calls are not filtered")
    if not landlock:
        lacks.append("file tools are held by Handrail alone, since Landlock cannot be used for them")
    held = "Bubblewrap" + (" and seccomp" if filtered else "") + f" keep commands from {', '.join(holds)}"
    tools = "; Landlock confines the file tools" if landlock else ""
    return held + tools + (f"; not held: {', '.join(lacks)}." if lacks else ".")
