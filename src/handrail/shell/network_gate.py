"""What the commands of a session can reach: hosts behind a proxy, ports of this machine, remotes of the project."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence

from handrail.frozen import frozen
from handrail.programs import find_program, list_untrusted
from handrail.shell.git.remotes import KnownRemotes
from handrail.shell.sandbox import Network
from handrail.shell.sandbox.confinement import is_inside
from handrail.shell.sandbox.filter_proxy import FilterProxy
from handrail.shell.sandbox.local_services import is_served
from handrail.shell.session_sandbox import SessionSandbox


@frozen
class RefusedConnections:
    """What a command wanted to reach, and was not allowed to."""

    hosts: tuple[str, ...] = ()
    """Hosts that it asked its proxy for, each as `host:port`."""
    ports: tuple[int, ...] = ()
    """Ports of this machine that something outside of the sandbox serves."""


NOTHING_REFUSED = RefusedConnections()


class NetworkGate:
    """The way of commands to the network. Remotes are recorded before the first command runs."""

    def __init__(
        self, sandbox: SessionSandbox, network: Network, allows_host: Callable[[str], bool] | None, state: str
    ) -> None:
        self._sandbox = sandbox
        self._network = network
        self._allows_host = allows_host
        self._remotes = KnownRemotes(sandbox.roots, state)
        self.proxies: dict[str, FilterProxy] = {}
        """By the log of the command."""
        self.unreached: dict[str, str] = {}
        """Commands that failed without the network, each with the host that it could not reach, if that is known."""

    @property
    def offline(self) -> bool:
        """Whether a kernel boundary holds commands, and cuts them off from the network."""
        return self._sandbox.confined and self._network != "on"

    @property
    def has_loopback(self) -> bool:
        """Whether commands reach a loopback of their own."""
        return self._network == "loopback" and self._sandbox.confined

    @property
    def filters(self) -> bool:
        """Whether commands can have a proxy that reaches the hosts which the rules allow, and no others."""
        return self.has_loopback and self._sandbox.boundary.supervises

    def needs_port(self, port: int) -> bool:
        """Whether a port of this machine is served outside of the sandbox, and nobody has allowed it yet."""
        if not self.filters or self._sandbox.services.allows(port):
            return False
        return not self._sandbox.boundary.serves(port) and is_served("self", port)

    def trusts_fetch(self, service: str, addresses: Sequence[str]) -> bool:
        """Whether a program is not the project's own, and git contacts only remotes from before the first command."""
        program = find_program(service)
        tmp = os.path.realpath(tempfile.gettempdir())
        names = (program, os.path.realpath(program)) if program else ()
        if any(is_inside(name, tmp) for name in names) or any(map(_may_help_git, list_untrusted())):
            return False
        return service == "gh" or (bool(addresses) and self._remotes.addresses.issuperset(addresses))

    def open_proxy(self) -> FilterProxy | None:
        """A proxy for one command; None where there can be none."""
        if self._allows_host is None or not self.filters:
            return None
        proxy = FilterProxy(self._allows_host)
        self._sandbox.services.add_proxy(proxy.address, proxy.connect)
        return proxy

    def take_refused(self, log: str) -> RefusedConnections:
        """The connections of the command with this log that were refused. Returned once, when it has ended."""
        ports = tuple(self._sandbox.services.take_refused())
        proxy = self.proxies.pop(log, None)
        if proxy:
            self._sandbox.services.remove_proxy(proxy.address)
        return RefusedConnections(tuple(proxy.refused) if proxy else (), ports)


def _may_help_git(entry: str) -> bool:
    """Whether a directory on PATH has git, or a program that git runs while it fetches. A relative one may have any."""
    if not os.path.isabs(entry):
        return True
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return any(name.startswith(("git", "gh", "ssh", "gpg")) for name in os.listdir(entry))
    return False
