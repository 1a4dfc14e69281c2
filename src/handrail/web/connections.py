"""Find out whether the other side of a TCP connection on this machine is a command that Handrail runs.

Browsers send a cookie to every port of a host. A server that a model has started could so get hold of the cookie of
the page; it is refused because of the process that it is. Linux only: elsewhere the cookie has to do.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys

from handrail.shell.runner import ancestry


def is_command(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether the process behind the connection from ``client`` to ``server`` is part of a run that this one is not."""
    if sys.platform != "linux":
        return False
    inode = _find_socket(client, server)
    if not inode:
        return False
    own = ancestry.runs_above(os.getpid())
    return any(not ancestry.runs_above(pid) <= own for pid in _find_holders(inode))


def _find_socket(client: tuple[str, int], server: tuple[str, int]) -> str:
    """The number of the client's socket; empty if there is none any more."""
    local, remote = _format_address(client), _format_address(server)
    with contextlib.suppress(OSError), open("/proc/net/tcp", encoding="ascii") as table:
        for line in table:
            row = line.split()
            if row[1:3] == [local, remote]:
                return row[9]
    return ""


def _format_address(place: tuple[str, int]) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(place[0]))
    return f"{number:08X}:{place[1]:04X}"


def _find_holders(inode: str) -> list[int]:
    """The processes that have this socket open, as far as this user may look into them."""
    target, holders = f"socket:[{inode}]", []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{fd}") == target:
                        holders.append(int(pid))
                        break
    return holders
