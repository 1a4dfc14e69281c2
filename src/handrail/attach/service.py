"""The resident helper: one process per user, which keeps sessions warm for the hooks of attached agents.

A hook connects to its Unix socket, sends one request and gets one answer. The helper starts with the first hook, ends
when no agent has needed it for a while, and gives way to the helper of another installation once its calls are over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import sys
import threading
import time
import traceback

from handrail.attach import wrapped
from handrail.attach.agents import AttachedAgent
from handrail.attach.client.handrail_run import get_directory, version
from handrail.attach.contracts import CONTRACTS, HookEvent, tell
from handrail.attach.processes import find_agent, read_start

_MOST_REQUEST = 256 << 20
_UNUSED = 1800.0
"""Seconds after which the session of a silent agent is closed."""
_TICK = 1.0
_PEER = struct.Struct("3i")
_MOST_LOG = 1 << 20


class AlreadyRunning(Exception):
    """Another helper of this user serves the socket."""


class Service:
    """The helper; a context manager that holds the socket."""

    def __init__(self, state: str, idle: float) -> None:
        """``idle``: seconds without an agent after which the helper ends."""
        self._directory = get_directory(state)
        self._calls = os.path.join(self._directory, "calls")
        self._socket_path = os.path.join(self._directory, "socket")
        self._idle = idle
        self._version = version([sys.executable])
        self._agents: dict[tuple[str, str], tuple[AttachedAgent, str]] = {}
        self._lock = threading.Lock()
        self._answering = 0
        self._is_old = False

    def __enter__(self) -> Service:
        for path in (self._directory, self._calls):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self._held = os.open(os.path.join(self._directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._held)
            raise AlreadyRunning from None
        os.ftruncate(self._held, 0)
        os.write(self._held, b"%d\n" % os.getpid())
        wrapped.sweep(self._calls)
        new = f"{self._socket_path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        place = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._socket.bind(f"/proc/self/fd/{place}/{os.path.basename(new)}")  # its path may be too long for a socket
        os.close(place)
        os.chmod(new, 0o600)
        self._socket.listen(64)
        os.replace(new, self._socket_path)  # nobody finds a socket that does not listen yet
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        for agent, _start in self._agents.values():
            agent.close()
        os.close(self._held)

    def serve(self) -> None:
        """Answer hooks until nobody needs this helper any more."""
        threading.excepthook = lambda fault: self._note_failure(fault.exc_value)
        self._socket.settimeout(_TICK)
        needed = time.monotonic()
        while True:
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                connection = None
            except OSError:  # it gave way to another version
                time.sleep(_TICK)
                connection = None
            if connection:
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
                needed = time.monotonic()
                continue
            if self._close_unused():
                needed = time.monotonic()
            elif time.monotonic() - needed >= (0 if self._is_old else self._idle):
                return

    def _close_unused(self) -> bool:
        """Close the sessions of agents that are gone; whether any is left, or a hook waits for its answer."""
        now = time.monotonic()
        with self._lock:
            for key, (agent, start) in list(self._agents.items()):
                is_gone = read_start(agent.pid) != start
                is_unused = (self._is_old or now - agent.used > _UNUSED) and not agent.is_waiting
                if (is_gone or is_unused) and not agent.is_busy:
                    del self._agents[key]
                    agent.close()
            return bool(self._agents) or self._answering > 0

    def _answer(self, connection: socket.socket) -> None:
        with self._lock:
            self._answering += 1
        try:
            with connection:
                connection.settimeout(60)
                pid, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
                if user != os.getuid():
                    return
                request = _read_request(connection)
                answer = tell(f"handrail: this call is not recorded; {self._directory}/service.log says why")
                try:
                    answer = self._handle(pid, request)
                finally:  # a fault of ours must not stop the agent
                    connection.sendall(b"\n" + answer)
        finally:
            with self._lock:
                self._answering -= 1

    def _handle(self, hook: int, request: bytes) -> bytes:
        head, _, body = request.partition(b"\n")
        name, client, *facts = head.decode("utf-8", "surrogateescape").split("\0")
        if client != self._version:
            self._give_way()
            return b"old"
        given = dict(fact.split("=", 1) for fact in facts if "=" in fact)
        event = HookEvent.parse(name, body)
        return self._find_agent(name, event, hook, given).handle(event)

    def _give_way(self) -> None:
        """Leave the socket to the helper of another version; commands that run here end here."""
        with self._lock:
            if not self._is_old:
                self._is_old = True
                with contextlib.suppress(OSError):
                    os.unlink(self._socket_path)
                self._socket.close()
                fcntl.flock(self._held, fcntl.LOCK_UN)

    def _find_agent(self, name: str, event: HookEvent, hook: int, given: dict[str, str]) -> AttachedAgent:
        """The agent that an event comes from; a new one gets a session in its project."""
        pid = find_agent(hook, int(given.get("CLAUDE_PID") or 0))
        key = name, event.session
        with self._lock:
            known = self._agents.get(key)
            if known and known[0].pid == pid:
                return known[0]
            root = given.get("CLAUDE_PROJECT_DIR") or event.cwd or "/"
            agent = AttachedAgent(CONTRACTS[name], root, pid, self._calls)
            self._agents[key] = agent, read_start(pid)
        if known:
            known[0].close()
        return agent

    def _note_failure(self, fault: BaseException | None) -> None:
        """Write a fault of ours down."""
        path = os.path.join(self._directory, "service.log")
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            if file.tell() < _MOST_LOG:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {''.join(traceback.format_exception(fault))}\n")


def _read_request(connection: socket.socket) -> bytes:
    """One request, whose length comes first; raises `ValueError` if it is cut off or too long."""
    with connection.makefile("rb") as file:
        length = int.from_bytes(file.read(8), "big")
        if length > _MOST_REQUEST:
            raise ValueError("the request is too long")
        request = file.read(length)
    if len(request) != length or not request:
        raise ValueError("the request is cut off")
    return request
