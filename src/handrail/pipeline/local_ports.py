"""The ports of this machine that an access to the network names."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.model import NetworkAccess
from handrail.policy.hosts import split_port
from handrail.shell.effects.hosts import is_loopback


def is_local(access: NetworkAccess) -> bool:
    """Whether an access to the network names hosts, and all of them are this machine."""
    hosts = [split_port(host)[0] for host in access.hosts.split()]
    return bool(hosts) and all(map(is_loopback, hosts))


def find_ports(accesses: Sequence[NetworkAccess]) -> tuple[int, ...]:
    """The ports that accesses name."""
    ports = (split_port(host)[1] for access in accesses for host in access.hosts.split())
    return tuple(dict.fromkeys(int(port) for port in ports if port))
