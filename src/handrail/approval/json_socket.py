"""JSON lines between processes of one user, over Unix sockets in a private directory.

Each attached approver listens on a socket of its own, named by its process. A client removes sockets that nobody
listens on any more. The kernel says which user and process is on the other side; other users are refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import stat
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator

from handrail.json_types import JsonObject
from handrail.shell.runner import ancestry

VERSION = 2
MOST_BYTES = 16 << 20
"""The longest line that is sent or taken."""
PATIENCE = 10.0
"""Seconds in which the other side must accept sent data."""

_BLOCK = 1 << 16
_SUFFIX = ".sock"
_PEER_PIDFD = 77
_MOST_ADDRESS = 100
"""Longer addresses of sockets are not understood everywhere."""


class Disconnected(Exception):
    """The other side has gone, is not who it must be, or does not speak as we do."""


class JsonSocket:
    """A connection that carries JSON objects, one a line. One thread takes from it; any may send."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._begun = bytearray()
        self._taken: deque[dict[str, object]] = deque()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        with self._sending:  # nobody may write to a number that the system has given to another file
            self._connection.close()

    def shut(self) -> None:
        """End it for both sides, also for a thread that waits; whoever has it closes it."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def send(self, value: dict[str, object]) -> None:
        """Send a message; raises `Disconnected`, or `ValueError` if it is too long."""
        data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        if len(data) > MOST_BYTES:
            raise ValueError(f"{len(data)} bytes are more than {MOST_BYTES}")
        deadline = time.monotonic() + PATIENCE
        rest = memoryview(data)
        with self._sending:
            while rest:
                if self._connection.fileno() < 0 or not is_ready(self, deadline - time.monotonic(), writing=True):
                    raise Disconnected
                with _raise_disconnected(), contextlib.suppress(BlockingIOError):
                    rest = rest[self._connection.send(rest[:_BLOCK]) :]

    def wait(self, seconds: float) -> JsonObject:
        """The next object; raises `TimeoutError` if none comes, and `Disconnected`."""
        deadline = time.monotonic() + seconds
        while not self._taken:
            if not is_ready(self, deadline - time.monotonic()):
                raise TimeoutError
            self._take()
        return self._taken.popleft()

    def _take(self) -> None:
        with _raise_disconnected():
            try:
                block = self._connection.recv(_BLOCK)
            except BlockingIOError:
                return
        if not block:
            raise Disconnected
        *ended, begun = block.split(b"\n")
        for part in ended:
            self._taken.append(_parse_line(bytes(self._begun + part)))
            self._begun.clear()
        self._begun += begun
        if len(self._begun) > MOST_BYTES:
            raise Disconnected


def _parse_line(line: bytes) -> dict[str, object]:
    try:
        value = json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        raise Disconnected from None
    if not isinstance(value, dict):
        raise Disconnected
    return value


@contextlib.contextmanager
def _raise_disconnected() -> Iterator[None]:
    try:
        yield
    except BlockingIOError:
        raise
    except OSError:
        raise Disconnected from None


def is_ready(line: JsonSocket | int, seconds: float, writing: bool = False) -> bool:
    """Whether something can be taken, or sent, before the time is over."""
    poll = select.poll()
    poll.register(line, select.POLLOUT if writing else select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def get_peer(connection: socket.socket) -> int:
    """The process on the other side; raises `Disconnected` if it is not one of this user, or cannot be known."""
    with _raise_disconnected():
        if sys.platform == "linux":
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            pid, uid, _ = struct.unpack("3i", raw)
        elif sys.platform == "darwin":  # LOCAL_PEERCRED and LOCAL_PEERPID at the level SOL_LOCAL
            _, uid = struct.unpack("2I", connection.getsockopt(0, 1, 76)[:8])
            (pid,) = struct.unpack("i", connection.getsockopt(0, 2, 4))
        else:
            raise Disconnected
    if uid != os.getuid() or pid <= 0:
        raise Disconnected
    return int(pid)


def require_apart(connection: socket.socket, *, answers: bool) -> int:
    """The process on the other side; raises `Disconnected` if it is, or may be, a command that Handrail runs.

    ``answers``: the other side is to answer. Then it may not be a process that this one has started, nor one that is
    confined where this one is not, as a command inside a boundary is.
    """
    pid, own = get_peer(connection), os.getpid()
    if sys.platform != "linux":  # who was started by whom is not known here
        return pid
    with _require_alive(connection, pid):
        if answers and (pid == own or own in ancestry.iterate_ancestors(pid)):
            raise Disconnected
        if not ancestry.runs_above(pid) <= ancestry.runs_above(own):
            raise Disconnected
        if answers and ancestry.has_given_up_privileges(pid) and not ancestry.has_given_up_privileges(own):
            raise Disconnected
    return pid


@contextlib.contextmanager
def _require_alive(connection: socket.socket, pid: int) -> Iterator[None]:
    """Make sure that facts read about the process are about the connected one; raises `Disconnected` otherwise."""
    try:
        fd = struct.unpack("i", connection.getsockopt(socket.SOL_SOCKET, _PEER_PIDFD, 4))[0]
    except OSError:  # before Linux 6.5: the number has to do
        with _raise_disconnected():
            fd = os.pidfd_open(pid)
    try:
        yield
        if is_ready(fd, 0):  # it has ended: its number may have been another process's when it was looked at
            raise Disconnected
    finally:
        os.close(fd)


def get_directory(state: str) -> str:
    """Where the sockets are."""
    return os.path.join(state, "approvers")


def is_private(place: str) -> bool:
    """Whether a directory is this user's, and nobody else can go into it."""
    try:
        status = os.lstat(place)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def listen(state: str) -> tuple[socket.socket, str]:
    """A socket on which others of this user find us, and its path; raises `OSError`."""
    place = get_directory(state)
    os.makedirs(place, mode=0o700, exist_ok=True)
    if not os.path.islink(place) and os.lstat(place).st_uid == os.getuid():
        os.chmod(place, 0o700)
    if not is_private(place):
        raise PermissionError(0, "other users can write to it", place)
    name = f"{os.getpid()}-{os.urandom(4).hex()}"
    path = os.path.join(place, name + _SUFFIX)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _open_address(place, name + ".new") as address:
            listening.bind(address)
        os.chmod(os.path.join(place, name + ".new"), 0o600)
        listening.listen(64)
        # Only now under its name: one that is found and does not listen is one that was left behind.
        os.rename(os.path.join(place, name + ".new"), path)
    except OSError:
        listening.close()
        raise
    return listening, path


def connect_to_listeners(state: str) -> Iterator[socket.socket]:
    """Connect to each approver of this user; sockets of approvers that have ended are removed."""
    place = get_directory(state)
    if not is_private(place):
        return
    for name in sorted(os.listdir(place)):
        if not name.endswith(_SUFFIX):
            continue
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)  # one that takes nobody any more must not be waited for
        try:
            with _open_address(place, name) as address:
                connection.connect(address)
        except ConnectionRefusedError:
            connection.close()
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(place, name))
        except OSError:
            connection.close()
        else:
            yield connection


@contextlib.contextmanager
def _open_address(place: str, name: str) -> Iterator[str]:
    """The address of a socket. One that is too long is shortened by way of the open directory, where that is known."""
    path = os.path.join(place, name)
    if len(os.fsencode(path)) <= _MOST_ADDRESS or not os.path.isdir("/proc/self/fd"):
        yield path
        return
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)
