"""Which hosts are reached: by an address as it is given, or by a command, as far as its words tell.

A refusal holds for every host that a command mentions, in whatever spelling. An allowance holds only where all hosts
are known (`shell/effects/destinations.py`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from handrail.model import NetworkAccess
from handrail.text.globs import Glob

if TYPE_CHECKING:
    from handrail.shell.parser.script import Script

_PORT = re.compile(r"(\[[0-9a-f:.]+\]|[^:]*):([0-9]{1,5})")
_MENTIONED = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^\s/@'\"]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/:?#'\"\\]+)"
    r"|/dev/(?:tcp|udp)/([^/\s'\"]+)"
    r"|(?:[\w.-]+@)([\w.-]+)"
    r"|(?<![\w./@-])([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|localhost)(?=[:/?#\s'\"]|$)"
)
_USUAL_PORTS = ("80", "443", "22")
_DOTS = {0x3002: ".", 0xFF0E: ".", 0xFF61: "."}


def find_mentioned_hosts(access: NetworkAccess, script: Script | None) -> Iterator[str]:
    """Every host that a refusal may be about, and the text itself; of a command with its ``script``."""
    yield display_host(access.target)
    yield from access.hosts.split()
    if script:
        words = [word.fixed for run in script.runs for word in run.words]
        text = "\n".join([access.target, *(word for word in words if word)])
        for match in _MENTIONED.finditer(_normalize(text)):
            yield next(filter(None, match.groups())).strip("[]")


def display_host(target: str) -> str:
    return (urlsplit(target).hostname or target) if "://" in target else target.partition("/")[0]


def display_hosts(access: NetworkAccess) -> str:
    """The hosts that a command names, for a sentence: ` (example.org)`; empty if it names none."""
    return f" ({', '.join(map(strip_usual_port, access.hosts.split()))})" if access.hosts else ""


def strip_usual_port(host: str) -> str:
    """A host, and its port unless it is that of the web or of ssh."""
    name, port = split_port(host)
    return name if port in _USUAL_PORTS else host


def _normalize(text: str) -> str:
    """The text in one spelling: programs take `bad%2eorg`, and letters and dots of other scripts, for the same host."""
    return unicodedata.normalize("NFKC", unquote(text)).translate(_DOTS)


def list_reached_hosts(access: NetworkAccess) -> tuple[str, ...]:
    """All hosts that are reached; empty if they are not known."""
    if not access.by_command:
        return (display_host(access.target),)
    return tuple(access.hosts.split()) if access.proven else ()


def matches_host(pattern: str, host: str, *, wide: bool) -> bool:
    """Whether a pattern of a rule is about a host: `name` is about every port, `name:port` about that one.

    ``wide``: a host without a port may be meant with any.
    """
    wanted, wanted_port = split_port(pattern.lower())
    name, port = split_port(host.lower())
    if wanted_port and wanted_port != port and not (wide and not port):
        return False
    return Glob(wanted, hidden=True).match(name.removesuffix("."))


def split_port(host: str) -> tuple[str, str]:
    """A host and its port, without the brackets of an address; the port is empty if there is none."""
    match = _PORT.fullmatch(host)
    name, port = (match[1], match[2]) if match else (host, "")
    return (name[1:-1] if name.startswith("[") and name.endswith("]") else name), port
