"""Commands under landlock and seccomp: each is started from a thread that is made for it and ends at once."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache
from typing import Unpack

from handrail.programs import find_program, get_program
from handrail.shell.private_directory import PrivateDirectory
from handrail.shell.runner.ancestry import iterate_ancestors
from handrail.shell.sandbox import Network, seccomp
from handrail.shell.sandbox.confinement import Confinement, Protection, choose_maskable, find_all_names, is_inside
from handrail.shell.sandbox.environment import AGENT, NO_LOGINS, Logins, redirect_temporary_files, require_program
from handrail.shell.sandbox.landlock import (
    LEAST,
    create_ruleset,
    drop_capabilities,
    get_version,
    restrict,
)
from handrail.shell.sandbox.loopback import Reach, Supervisor, works
from handrail.shell.sandbox.mount_plan import OVERLAID
from handrail.shell.sandbox.namespaces import NamespaceBoundary
from handrail.shell.start_process import (
    File,
    ProcessOptions,
    limit_processes,
    start_process,
)

_START_SECONDS = 60.0
_LEAVE_SECONDS = 60.0
_MOST_SPARED = 60
# The command waits at a pipe. `-p` makes this shell ignore what the environment would have it do first.
_WAIT = 'gate=$1; shift; read -r -u "$gate" _ || exit 126; exec {gate}<&-; ulimit -c 0; exec "$@"'


class LandlockBoundary:
    """Commands, held by the kernel without namespaces."""

    name = "landlock+seccomp"
    namespaced = False

    def __init__(self, confinement: Confinement) -> None:
        if not seccomp.is_supported():
            raise OSError("there is no filter on system calls for this kind of machine")
        self._shell = find_program("bash") or ""
        if not self._shell:
            raise OSError("bash is not installed")
        self.confinement = confinement
        private = PrivateDirectory()
        self.tmp = private.path
        with contextlib.ExitStack() as undo:
            undo.callback(private.close)
            # Before version 4 of Landlock a command could connect by itself, between our look and the kernel's.
            self._listens = works()
            version = get_version()
            self.supervises = confinement.network == "loopback" and version >= 4 and self._listens
            self._try()
            self._close = undo.pop_all()
        places = {*confinement.own, *confinement.hidden}
        self.hides_own = not any(is_inside(path, root) for path in places for root in confinement.writable)
        self.description = _describe(confinement, version, self.hides_own, self.supervises)

    def _try(self) -> None:
        """Start a command under this very confinement: the kernel may have Landlock switched off."""
        quiet = subprocess.DEVNULL
        tried = self.spawn([get_program("true")], stdin=quiet, stdout=quiet, stderr=quiet)
        if code := tried.wait(_START_SECONDS):
            raise OSError(f"a trial command ended with {code}")

    def serves(self, port: int) -> bool:  # noqa: ARG002 - commands share the network of this machine
        return False

    def _list_denied(self, logins: Logins) -> list[str]:
        """Paths that policy denies to read, as far as this boundary can hide them: outside writable directories."""
        confinement = self.confinement
        denied = [*(confinement.denied() if confinement.denied else ())]
        if confinement.credentials:
            # Not single files, such as .npmrc: programs fail on what they may not read, and a mask is not to be had.
            denied += (path for path in confinement.credentials() if os.path.isdir(path) and not logins.shows(path))
        paths = find_all_names(choose_maskable(denied, confinement.writable))
        return [path for path in paths if not any(is_inside(path, root) for root in self.confinement.writable)]

    def spawn(
        self,
        args: Sequence[str],
        *,
        network: Network | None = None,
        protection: Protection = "nothing",
        logins: Logins = NO_LOGINS,
        visible: Sequence[str] | None = None,  # noqa: ARG002
        **how: Unpack[ProcessOptions],
    ) -> subprocess.Popen[bytes]:
        given = redirect_temporary_files(how.get("env"), self.tmp)
        require_program(args[0], given)
        outputs = map(_number, (how.get("stdout"), how.get("stderr")))
        written = [file for file in outputs if file is not None and file >= 0]
        how |= {"env": given}
        level: Network = network or self.confinement.network
        reach: Reach | None = "shared" if level == "loopback" and self.supervises else None
        if level == "on" and logins.agent and self._listens:
            reach, given[AGENT] = "all", logins.agent
        aliases = [real for _, real in self.confinement.aliases if any(real in arg for arg in args)]
        confinement = self.confinement
        if protection == "workspace":  # all of it: Landlock cannot take away a part of a tree
            confinement = replace(confinement, writable=(), readable=(*confinement.readable, *confinement.writable))
        ruleset = create_ruleset(
            confinement,
            self.tmp,
            network=level == "on",
            hidden=self._list_denied(logins),
            readable=aliases,
            files=written,
        )
        most = self.confinement.most_processes
        limited = limit_processes(args, self._shell, most) if most else args
        listeners: list[int] = []

        def confine() -> None:
            restrict(ruleset)
            if reach == "all":  # two filters: the second one hands over, and the first one still refuses
                seccomp.install(self._filter(level, agent=True))
                listeners.append(seccomp.install_listener(seccomp.build_connect_filter()))
            elif reach:
                listeners.append(seccomp.install_listener(self._filter(level)))
            else:
                seccomp.install(self._filter(level))

        def supervise() -> None:
            for listener in listeners:  # in a thread of this one's, which nothing confines
                assert reach
                Supervisor(listener, reach, self.confinement.services, logins.agent)
            listeners.clear()

        try:
            return _start_confined(limited, self._shell, confine, supervise, how)
        finally:
            for listener in listeners:
                os.close(listener)
            os.close(ruleset)

    def _filter(self, network: Network, *, agent: bool = False) -> bytes:
        """The filter for one command. Only an open network by the settings includes sockets of other programs."""
        families = seccomp.ALL if self.confinement.network == "on" else seccomp.IP
        spared = (os.getpid(), *itertools.islice(iterate_ancestors(os.getpid()), _MOST_SPARED))
        if agent:  # each connection is looked at, and of unix sockets only the agent's is reached
            return seccomp.build_program(network, private=True, spared=spared)
        if network == "loopback" and not self.supervises:
            network = "off"
        return seccomp.build_program(network, families=families, spared=spared, supervised=network == "loopback")

    def close(self) -> None:
        self._close.close()


def start_helper(
    args: Sequence[str], *, writable: tuple[str, ...] = (), **how: Unpack[ProcessOptions]
) -> subprocess.Popen[bytes]:
    """Start a program of ours that works on the user's tree: it writes only below ``writable``, and cannot connect.

    It is not the sandbox of commands: what runs here reads what this process reads. Where there is neither Landlock nor
    a namespace, nothing confines it.
    """
    shell = find_program("bash")
    if not shell or not seccomp.is_supported() or get_version() < LEAST:
        boundary = _open_namespaces(writable)
        return boundary.spawn(args, **how) if boundary else start_process(args, **how)
    ruleset = create_ruleset(Confinement(writable), tmp="")

    def confine() -> None:
        restrict(ruleset)
        seccomp.install(seccomp.build_program("off"))

    try:
        return _start_confined(args, shell, confine, lambda: None, how)
    finally:
        os.close(ruleset)


@lru_cache(8)
def _open_namespaces(writable: tuple[str, ...]) -> NamespaceBoundary | None:
    """A boundary for programs of ours on a machine without Landlock; None if there is none either."""
    shown = [path for path in OVERLAID[2:] if path not in writable]  # the user's tree may be below these
    try:
        boundary = NamespaceBoundary(Confinement(writable, ("/", *shown)))
    except OSError:
        return None
    atexit.register(boundary.close)
    return boundary


def _start_confined(
    args: Sequence[str], shell: str, confine: Callable[[], None], begun: Callable[[], None], how: ProcessOptions
) -> subprocess.Popen[bytes]:
    """Start a program from a thread of its own that gives up its rights by ``confine``.

    ``begun`` is called when it has started, and waits at its gate until that thread has ended.
    """
    waiting, opening = os.pipe()
    words = [shell, "-p", "-c", _WAIT, "handrail", str(waiting), *args]
    how |= {"pass_fds": (*how.get("pass_fds", ()), waiting)}
    outcome: Future[subprocess.Popen[bytes]] = Future()

    def start() -> None:
        try:
            drop_capabilities()
            confine()
            outcome.set_result(start_process(words, **how))
        except BaseException as error:  # noqa: BLE001 - handed to who waits
            outcome.set_exception(error)

    try:
        starter = threading.Thread(target=start, name="handrail-start", daemon=True)
        starter.start()
        thread = starter.native_id or 0
        started = outcome.result()
        begun()
        starter.join()
        _wait_for_end(thread)
        with contextlib.suppress(BrokenPipeError):
            os.write(opening, b"\n")
        return started
    finally:  # a gate that closes without having opened lets nobody through
        os.close(waiting)
        os.close(opening)


def _number(file: File) -> int | None:
    return file if file is None or isinstance(file, int) else file.fileno()


def _wait_for_end(thread: int) -> None:
    """Python is done with a thread a moment before the kernel is."""
    until = time.monotonic() + _LEAVE_SECONDS
    with contextlib.suppress(FileNotFoundError):
        while time.monotonic() < until:
            os.stat(f"/proc/self/task/{thread}")
            time.sleep(0)
        raise TimeoutError("the thread that started a command does not end")


def _describe(confinement: Confinement, version: int, hides_own: bool, supervises: bool) -> str:
    def list_inside(paths: Sequence[str]) -> str:
        return ", ".join(path for path in paths if any(is_inside(path, root) for root in confinement.writable))

    network = (
        " but for TCP on loopback" if supervises else " (loopback too)" if confinement.network == "loopback" else ""
    )
    where = "inside the workspace, " if confinement.denied else ""
    is_open = confinement.network == "on"
    hidden, changed = list_inside(confinement.hidden), list_inside(confinement.readable)
    holds = {
        "writes outside the workspace and a private temporary directory": True,
        f"the network and all sockets{network}": not is_open,
        "other processes, mounts, shared memory by name": True,
        "reading hidden paths": confinement.hidden,
    }
    lacks = {
        "the mode, owner and times of outside files can be changed": True,
        "processes are visible": True,
        "the network is open, also to sockets of other programs": is_open,
        "the names in hidden directories can be listed": confinement.hidden,
        f"{hidden} cannot be hidden inside a writable tree": hidden,
        "Handrail's own files lie inside the workspace, so every command is asked about": not hides_own,
        f"{changed} can be changed, being inside a writable tree": changed,
        f"{where}what policy denies to read is refused where the command names it, and open to programs": (
            confinement.masked
        ),
        "single files with tokens in the home directory (.npmrc, .netrc) can be read": confinement.credentials,
        "protected files are not read-only inside the workspace, and only put back when a command has ended": (
            confinement.protected
        ),
        "signals reach other processes": version < 6,
    }
    held, not_held = ([text for text, applies in row.items() if applies] for row in (holds, lacks))
    return f"Landlock and seccomp refuse {', '.join(held)}; not held: {', '.join(not_held)}."
