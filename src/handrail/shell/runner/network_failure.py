"""Recognise from the output of a failed command that it could not reach the network, and which host it wanted."""

from __future__ import annotations

import re

_WITH_HOST = re.compile(
    r"(?:Could not resolve (?:host|hostname|proxy):?|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|dial tcp:? lookup"
    r"|unable to resolve host(?: address)?|Failed to (?:resolve|connect to)|connect to host|UnknownHostException:)"
    r" [\"'`\u2018]?([A-Za-z0-9][\w.-]*\w)"
)
_WITHOUT_HOST = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable|nodename nor servname"
    r"|failed to lookup address information|EAI_AGAIN|ENETUNREACH"
)
_OWN = re.compile(r"localhost|127\..*|::1|0\.0\.0\.0")


def find_unreachable(output: str) -> str | None:
    """The host that a command could not reach; empty if it is not known which, None if that is not why it failed."""
    hosts: list[str] = _WITH_HOST.findall(output)
    outside = [host for host in hosts if not _OWN.fullmatch(host)]
    if outside:
        return outside[0]
    return "" if not hosts and _WITHOUT_HOST.search(output) else None
