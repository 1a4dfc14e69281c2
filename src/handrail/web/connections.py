"""Find out who is at the other side of a TCP connection on this machine: another user, or a command of Handrail.

Browsers send a cookie to every port of a host. A server that a model has started could so get hold of the cookie of
the page; it is refused because of the process that it is. Another user of the machine may see the address with the
token in the list of processes, while a browser starts. Linux only: elsewhere token and cookie have to do.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys

from handrail.shell.runner import ancestry


def is_stranger(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether the other side is another user, or part of a run that this process is not in."""
    if sys.platform != "linux":
        return False
    inode, user = _find_socket(client, server)
    if not inode:
        return False
    if user not in (0, os.getuid()) and os.getuid():
        return True
    own = ancestry.runs_above(os.getpid())
    return any(not ancestry.runs_above(pid) <= own for pid in _find_holders(inode))


def _find_socket(client: tuple[str, int], server: tuple[str, int]) -> tuple[str, int]:
    """The number of the client's socket and its user; the number is empty if there is none any more."""
    local, remote = _format_address(client), _format_address(server)
    with contextlib.suppress(OSError), open("/proc/net/tcp", encoding="ascii") as table:
        for line in table:
            row = line.split()
            if row[1:3] == [local, remote]:
                return row[9], int(row[7])
    return "", 0


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
