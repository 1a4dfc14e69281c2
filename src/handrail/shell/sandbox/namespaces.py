"""Commands in namespaces of our own making: the rest of the machine is not there to be reached.

A launcher builds the view once and starts every command of the boundary in it (`launcher.py`). Each command has its own
processes and `/proc`; all of them share one network with nothing but loopback, private shared memory, and `/tmp`. What
changes from one command to the next, such as a secret that was just created, is mounted for that command alone.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Unpack

from handrail.programs import get_program
from handrail.shell.private_directory import PrivateDirectory
from handrail.shell.sandbox import Network, seccomp
from handrail.shell.sandbox.confinement import (
    Confinement,
    Protection,
    choose_maskable,
)
from handrail.shell.sandbox.environment import AGENT, NO_LOGINS, Logins, redirect_temporary_files, require_program
from handrail.shell.sandbox.landlock import KEPT_CAPABILITIES
from handrail.shell.sandbox.launcher_client import Launcher, LauncherGone, NoNamespaces, SetUpFailed, Start, explain
from handrail.shell.sandbox.local_services import is_served
from handrail.shell.sandbox.loopback import Reach, Supervisor, works
from handrail.shell.sandbox.mount_plan import (
    HOME,
    PRIVATE,
    CommandMount,
    DraftLayers,
    Hide,
    NarrowViews,
    identify,
    plan_base_view,
    plan_draft_mounts,
    plan_protections,
)
from handrail.shell.sandbox.renames import name_calls
from handrail.shell.sandbox.system_call_numbers import get_call_number
from handrail.shell.start_process import ProcessOptions
from handrail.system_calls import is_shortage

_START_SECONDS = 60.0


class NamespaceBoundary:
    """Commands in namespaces."""

    name = "namespaces+seccomp"
    namespaced = True
    hides_own = True

    def __init__(self, confinement: Confinement) -> None:
        self._filtered = seccomp.is_supported()
        if not self._filtered:
            raise NoNamespaces("there is no table of system calls for this kind of machine", "x86_64 or arm64")
        self.confinement = confinement
        self._capabilities = sum(1 << bit for bit in KEPT_CAPABILITIES) if os.geteuid() == 0 else 0
        self._lock = threading.Lock()
        self._launchers: dict[tuple[bool, str], tuple[Launcher, list[tuple[int, ...]]]] = {}
        self._absent: tuple[str, ...] = ()
        self._past = contextlib.ExitStack()
        drafted = bool(confinement.drafts) or confinement.in_draft
        self._listens = works()
        listens = (confinement.network == "loopback" or drafted) and self._listens
        self.supervises = confinement.network == "loopback" and bool(listens)
        self.renames_directories = drafted and bool(listens)
        """Whether commands can rename the directories of a draft."""
        private = PrivateDirectory()
        self.tmp = private.path
        self._narrow = NarrowViews(confinement, self.tmp)
        with contextlib.ExitStack() as undo:
            undo.callback(private.close)
            undo.callback(self._remove_empty_aliases)
            undo.callback(self._close_launchers)
            self._try()
            self._close = undo.pop_all()
        self.description = _describe(confinement, self.supervises)

    def _try(self) -> None:
        """Start a command in this very view: user namespaces may be forbidden, or mounting `/proc`."""
        quiet = subprocess.DEVNULL
        where = self.confinement.writable[0] if self.confinement.writable else "/"
        try:
            tried = self.spawn([get_program("true")], cwd=where, stdin=quiet, stdout=quiet, stderr=quiet)
        except SetUpFailed as error:
            raise error if is_shortage(error) else explain(error) from None
        if tried.wait(_START_SECONDS) != 0:
            raise NoNamespaces(f"a trial command ended with {tried.returncode}", "")

    def serves(self, port: int) -> bool:
        with self._lock:
            known = self._launchers.get((True, ""))
        return known is not None and is_served(known[0].pid, port)

    def spawn(
        self,
        args: Sequence[str],
        *,
        network: Network | None = None,
        protection: Protection = "nothing",
        logins: Logins = NO_LOGINS,
        visible: Sequence[str] | None = None,
        draft: DraftLayers | None = None,
        **how: Unpack[ProcessOptions],
    ) -> subprocess.Popen[bytes]:
        """``draft``: the draft that the command sees in the place of the workspace."""
        given = redirect_temporary_files(how.get("env"), self.tmp)
        if visible and HOME in visible and self.confinement.home:
            given["XDG_CACHE_HOME"] = os.path.expanduser("~/.cache")
        require_program(args[0], given)
        level: Network = network or self.confinement.network
        agent = logins.agent if (self.supervises and level == "loopback") or (self._listens and level == "on") else ""
        if agent:
            given[AGENT] = agent
        narrow = None if visible is None else self._narrow.plan((*visible, *logins.files))
        start = Start(
            view=[narrow] if narrow else [],
            mounts=list(self._list_mounts(protection, logins, draft)),
            most_processes=self.confinement.most_processes,
            capabilities=self._capabilities,
            filter=self._filter(level, bool(agent)),
        )
        how |= {"env": given, "cwd": os.path.realpath(how.get("cwd") or os.getcwd())}
        try:
            return self._get_launcher(level != "on", agent).start(args, start, **how)
        except LauncherGone:  # somebody has ended it; whatever it started is gone too
            return self._get_launcher(level != "on", agent, anew=True).start(args, start, **how)

    def _filter(self, network: Network, agent: bool) -> bytes:
        """The filter for one command. Only an open network by the settings includes sockets of other programs."""
        if network == "loopback":
            return seccomp.build_program(network, private=True, families=seccomp.ALL if self.supervises else seccomp.IP)
        if agent:  # each connection is looked at, and of unix sockets only the agent's is reached
            return seccomp.build_program(network, private=True)
        shared = network == "on" and self.confinement.network == "on"
        return seccomp.build_program(network, families=seccomp.ALL if shared else seccomp.IP)

    def _get_launcher(self, own_network: bool, agent: str, anew: bool = False) -> Launcher:
        """The launcher for this kind of network; a new one where another directory stands at a writable path now.

        ``agent``: the only unix socket of this machine that its commands reach.
        """
        with self._lock:
            identities = [identify(path)[:2] for path in self.confinement.writable]
            known = self._launchers.get((own_network, agent))
            if known and known[1] == identities and not anew:
                return known[0]
            self._make_aliases()
            self._absent = tuple(path for path in self.confinement.hidden if not os.path.lexists(path))
            listen = self._make_listening_filter(own_network, agent)
            view = plan_base_view(self.confinement, self.tmp)
            launcher = Launcher(view, own_network=own_network, capabilities=self._capabilities, listen=listen)
            self._past.callback(launcher.close)  # an older one stays while its commands run
            if launcher.listener >= 0:
                reach: Reach = "own" if own_network else "all"
                supervisor = Supervisor(os.dup(launcher.listener), reach, self.confinement.services, agent)
                self._past.callback(supervisor.close)
            self._launchers[own_network, agent] = launcher, identities
            return launcher

    def _make_listening_filter(self, own_network: bool, agent: str) -> bytes:
        """The filter that hands calls of commands to us; empty if there is nothing to hand over."""
        calls = [get_call_number("connect")] if (own_network and self.supervises) or agent else []
        calls += name_calls() if self.renames_directories else []
        return seccomp.build_notify_filter(calls) if calls else b""

    def _close_launchers(self) -> None:
        with self._lock:
            self._launchers.clear()
            self._past.close()

    def _make_aliases(self) -> None:
        for _, real in self.confinement.aliases:
            with contextlib.suppress(OSError):  # it cannot be kept: then nothing will be there to be read
                os.makedirs(real, mode=0o700, exist_ok=True)

    def _remove_empty_aliases(self) -> None:
        for _, real in self.confinement.aliases:
            with contextlib.suppress(OSError):
                os.rmdir(real)

    def _list_mounts(self, protection: Protection, logins: Logins, draft: DraftLayers | None) -> Iterator[CommandMount]:
        """Mounts of one command: its draft, read-only protected files, hidden paths."""
        confinement = self.confinement
        if draft:
            yield from plan_draft_mounts(confinement, draft)
        yield from plan_protections(confinement, protection)
        for path in choose_maskable((*self._absent, *confinement.list_hidden(logins)), confinement.writable):
            yield Hide(path)
        yield Hide(PRIVATE)

    def close(self) -> None:
        """End every command that still runs."""
        self._close.close()


def _describe(confinement: Confinement, supervises: bool) -> str:
    is_open = confinement.network == "on"
    own = " but for a loopback that the commands of a session share" if confinement.network == "loopback" else ""
    services = ", and TCP services on the loopback of this machine" if supervises else ""
    holds = {
        "writes outside the workspace and a private /tmp, other processes": True,
        f"the network{own}{services}, sockets of other programs": not is_open,
        "hidden paths": confinement.hidden or confinement.masked,
        "changes of protected files": confinement.protected,
    }
    lacks = {
        "the network is open, sockets of other programs outside /run and /tmp can be reached": is_open,
        # A name that is not there cannot be mounted on without creating it.
        "protected files that a command creates are removed when it has ended, not before": confinement.protected,
    }
    held, not_held = (", ".join(text for text, applies in row.items() if applies) for row in (holds, lacks))
    return f"Namespaces and seccomp keep commands from {held}" + (f"; not held: {not_held}." if not_held else ".")
