"""What commands reach on this machine beyond their own network: ports that were allowed, and their filtering proxies.

A supervisor (`loopback.py`) asks for each connection. A port of this machine that nobody has allowed is refused and
noted, so that the answer of the command can name it and a person can be asked.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable

Connect = Callable[[], socket.socket]
_LISTENING = "0A"


class LocalServices:
    """The services of this machine that the commands of one boundary may reach. By default all of them."""

    def __init__(self, permits: Callable[[int], bool] | None = None) -> None:
        """``permits``: whether the policy allows a port without a question; None allows every port."""
        self._permits = permits
        self._lock = threading.Lock()
        self._granted: Counter[int] = Counter()
        self._own: set[int] = set()
        self.refused: dict[int, None] = {}
        """Ports that were refused, and that nobody has asked about yet."""
        self._proxies: dict[tuple[str, int], Connect] = {}

    def allows(self, port: int) -> bool:
        """Whether commands may connect to a port of this machine."""
        with self._lock:
            if self._permits is None or self._granted[port] > 0 or port in self._own:
                return True
        return self._permits(port)

    def note_refused(self, port: int) -> None:
        """Remember that a command wanted to reach a port."""
        with self._lock:
            self.refused[port] = None

    def take_refused(self) -> list[int]:
        """The ports that were refused since the last time."""
        with self._lock:
            refused, self.refused = list(self.refused), {}
            return refused

    def note_own(self, port: int) -> None:
        """Remember that a command of the session serves a port of this machine."""
        with self._lock:
            self._own.add(port)

    def grant(self, ports: Iterable[int]) -> None:
        """Allow ports, until `withdraw` is called as often."""
        with self._lock:
            self._granted.update(ports)

    def withdraw(self, ports: Iterable[int]) -> None:
        with self._lock:
            self._granted.subtract(ports)

    def add_proxy(self, address: tuple[str, int], connect: Connect) -> None:
        """Have connections to an address made by ``connect``."""
        with self._lock:
            self._proxies[address] = connect

    def remove_proxy(self, address: tuple[str, int]) -> None:
        with self._lock:
            self._proxies.pop(address, None)

    def find_proxy(self, address: tuple[str, int]) -> Connect | None:
        """What makes the connections to an address; None for any ordinary one."""
        with self._lock:
            return self._proxies.get(address)


def is_served(process: int | str, port: int) -> bool:
    """Whether something listens on a TCP port in the network of a process."""
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{process}/net/{name}", encoding="ascii") as table:
                for line in table:
                    row = line.split()
                    if len(row) > 3 and row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port:
                        return True
        except OSError:
            continue
    return False
