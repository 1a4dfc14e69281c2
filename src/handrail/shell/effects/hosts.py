"""Names of hosts in the words of a command: parsed strictly, so that two programs cannot read them differently."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

_LABELS = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*", re.ASCII)
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)", re.ASCII)
_URL = re.compile(
    r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?(?:[/?#][^\s{}\[\]\\]*)?",
    re.ASCII | re.IGNORECASE,
)
_BARE = re.compile(
    r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?(?:[/?#][^\s{}\[\]\\]*)?", re.ASCII | re.IGNORECASE
)
_PORTS = {"http": 80, "https": 443, "ftp": 21, "ssh": 22, "git": 9418}


class Host(NamedTuple):
    """A host and a port; 0 if the words name none, so that the program uses its own."""

    name: str
    port: int = 0

    def __str__(self) -> str:
        if not self.port:
            return self.name
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


def parse_name(text: str) -> str:
    """A host as every program reads it: in lower case, an address in its usual form. Empty for anything ambiguous."""
    name = text.lower()
    if name.startswith("[") and name.endswith("]"):
        try:
            wide = ipaddress.IPv6Address(name[1:-1])
        except ValueError:
            return ""
        return str(wide.ipv4_mapped or wide) if not wide.scope_id else ""
    name = name.removesuffix(".")
    if not name or len(name) > 253 or not _LABELS.fullmatch(name):
        return ""
    if _NUMERIC.fullmatch(name.rpartition(".")[2]):  # an address: programs also read 0177.1 and 2130706433 as one
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            return ""
    return name


def parse_url(text: str, schemes: str = "http https ftp") -> Host | None:
    """The host of an address with one of these schemes, without user and password; None for anything else."""
    match = _URL.fullmatch(text)
    if not match or match[1].lower() not in schemes.split():
        return None
    return _make_host(match[2], match[3], _PORTS.get(match[1].lower(), 0))


def parse_bare(text: str) -> Host | None:
    """The host of `host:port/path`."""
    match = _BARE.fullmatch(text)
    return _make_host(match[1], match[2]) if match else None


def _make_host(name: str, port: str | None, usual: int = 0) -> Host | None:
    parsed = parse_name(name)
    number = int(port or 0)
    if not parsed or number > 65535 or (port and not number):
        return None
    return Host(parsed, number or usual)


def is_loopback(name: str) -> bool:
    """Whether a host is this machine, by its name or as an address."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
