"""Attempts on sockets and on the process of Handrail from inside every boundary: each kind in many spellings.

All attempts of a kind run in one command, which prints those that succeed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import resource
import socket
import subprocess
import sys
from typing import Any

import pytest

from handrail.shell.sandbox import Mode
from handrail.shell.sandbox.choose import Boundary
from handrail.shell.sandbox.environment import NO_LOGINS, Logins
from handrail.shell.sandbox.landlock import get_version
from handrail.shell.sandbox.system_call_numbers import get_call_number
from tests.command import TIMEOUT
from tests.shell.boundaries import World, boundary_or_skip

MODES: tuple[Mode, ...] = ("namespaces", "landlock")

# Unix sockets of other programs

PLACES = ("work", "outside", "abstract")
SPELLINGS = ("plain", "dots", "slashes", "link", "linked directory", "hard link", "proc root", "proc cwd")
KINDS = ("STREAM", "DGRAM", "SEQPACKET", "RAW")
CALLS = ("connect", "sendto", "sendmsg", "connect at once")

SOCKETS = """
import json, os, socket, sys
places, attempts = json.load(sys.stdin)
def spell(path, spelling):
    directory, name = os.path.split(path)
    if spelling == "dots": return directory + "/./../" + os.path.basename(directory) + "/" + name
    if spelling == "slashes": return directory + "//" + name
    if spelling == "link":
        if not os.path.islink("way-" + name): os.symlink(path, "way-" + name)
        return "way-" + name
    if spelling == "linked directory":
        if not os.path.islink("dir-" + name): os.symlink(directory, "dir-" + name)
        return "dir-" + name + "/" + name
    if spelling == "hard link":
        if not os.path.exists("hard-" + name): os.link(path, "hard-" + name)
        return "hard-" + name
    if spelling == "proc root": return "/proc/self/root" + path
    if spelling == "proc cwd": return "/proc/self/cwd/" + os.path.relpath(path)
    return path
for place, spelling, kind, call in attempts:
    try:
        name = places[place][kind if kind != "RAW" else "DGRAM"]
        name = "\\0" + name if place == "abstract" else spell(name, spelling)
        flags = getattr(socket, "SOCK_" + kind) | (socket.SOCK_NONBLOCK if call == "connect at once" else 0)
        with socket.socket(socket.AF_UNIX, flags) as sock:
            if call.startswith("connect"):
                sock.connect(name)
                sock.send(b"attack")
            elif call == "sendto": sock.sendto(b"attack", name)
            else: sock.sendmsg([b"attack"], [], 0, name)
    except OSError: continue
    print("reached", place, spelling, kind, call)
"""


def socket_attempts() -> list[tuple[str, ...]]:
    named = [(place, way) for place in PLACES for way in (SPELLINGS if place != "abstract" else ("plain",))]
    return [(place, way, kind, call) for (place, way), kind, call in itertools.product(named, KINDS, CALLS)]


def run(boundary: Boundary, code: str, given: Any, world: World, **how: Any) -> str:
    words = [sys.executable, "-I", "-S", "-c", code]
    started = boundary.spawn(
        words,
        cwd=str(world.work),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **how,
    )
    return started.communicate(json.dumps(given).encode(), timeout=TIMEOUT)[0].decode("utf-8", "replace")


@pytest.mark.parametrize("opened", ["closed", "open", "open with an agent"])
@pytest.mark.parametrize("network", ["off", "loopback"])
@pytest.mark.parametrize("mode", MODES)
def test_no_spelling_reaches_the_socket_of_another_program(world: World, mode: Mode, network: Any, opened: str) -> None:
    attempts = socket_attempts()
    assert len(set(attempts)) >= 200
    with contextlib.ExitStack() as stack:
        listening: list[socket.socket] = []
        places: dict[str, dict[str, str]] = {}
        for place, kind in itertools.product(PLACES, KINDS[:3]):
            name = f"{kind.lower()}-{os.getpid()}-{world.work.name}"
            folder = {"work": world.work, "outside": world.outside}.get(place)
            path = str(folder / kind.lower()) if folder else name
            sock = stack.enter_context(socket.socket(socket.AF_UNIX, getattr(socket, f"SOCK_{kind}")))
            sock.bind(path if folder else f"\0{name}")
            if kind != "DGRAM":
                sock.listen()
            sock.setblocking(False)
            listening.append(sock)
            places.setdefault(place, {})[kind] = path
        boundary = boundary_or_skip(mode, world.confinement(network=network))
        stack.callback(boundary.close)
        agent = Logins(agent="/nonexistent/agent") if opened == "open with an agent" else NO_LOGINS
        how = {"network": "on", "logins": agent} if opened != "closed" else {}
        reached = run(boundary, SOCKETS, [places, attempts], world, **how)
        assert reached == "", reached
        for sock in listening:
            assert receive_all(sock) == b""


def receive_all(sock: socket.socket) -> bytes:
    """Everything that has arrived. A connection that was closed at once may be there: who serves is known only then."""
    received = b""
    with contextlib.suppress(BlockingIOError):
        while sock.type == socket.SOCK_DGRAM:
            received += sock.recv(100)
        while True:
            connection, _ = sock.accept()
            with connection:
                connection.settimeout(TIMEOUT)
                received += connection.recv(100)
    return received


# The process of Handrail

PROCESS = """
import ctypes, json, os, signal, sys
import resource
libc = ctypes.CDLL(None, use_errno=True)
pid, numbers, attempts = json.load(sys.stdin)
def call(number, *arguments):
    plain = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    if libc.syscall(ctypes.c_long(number), *plain) < 0:
        raise OSError(ctypes.get_errno(), "")
def read(path):
    with open(path, "rb", buffering=0) as file: file.read(1)
for kind, value in attempts:
    try:
        if kind == "limit":
            soft, hard = resource.prlimit(pid, value)
            resource.prlimit(pid, value, (soft, hard))
        elif kind == "signal": os.kill(pid, value)
        elif kind == "pidfd signal": signal.pidfd_send_signal(os.pidfd_open(pid), value)
        elif kind == "file": read(f"/proc/{pid}/{value}")
        elif kind == "list": os.listdir(f"/proc/{pid}/{value}")
        elif kind == "link": os.readlink(f"/proc/{pid}/{value}")
        elif kind == "descriptor": call(numbers["pidfd_getfd"], os.pidfd_open(pid), value, 0)
        elif kind == "reopen": os.close(os.open(f"/proc/{pid}/fd/{value}", os.O_RDONLY | os.O_NONBLOCK))
        elif kind == "ptrace": call(numbers["ptrace"], value, pid, 0, 0)
        elif kind == "memory":
            word = ctypes.create_string_buffer(8)
            pair = (ctypes.c_void_p * 2)(ctypes.addressof(word), 8)
            there = (ctypes.c_void_p * 2)(value, 8)
            call(numbers["process_vm_readv"], pid, ctypes.byref(pair), 1, ctypes.byref(there), 1, 0)
    except (OSError, ValueError): continue
    print("did", kind, value)
"""


def process_attempts(signals: bool) -> list[tuple[str, object]]:
    limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    harmless = (18, 23, 28, 17) if signals else ()  # CONT, URG, WINCH, CHLD: nothing happens if one arrives
    return [
        *(("limit", number) for number in sorted(set(limits))),
        *(("signal", number) for number in harmless),
        *(("pidfd signal", number) for number in harmless),
        *(("file", name) for name in ("environ", "mem", "maps", "smaps", "auxv", "pagemap", "task/{pid}/environ")),
        *(("list", name) for name in ("map_files", "cwd/.", "root/.")),
        *(("link", name) for name in ("cwd", "root", "exe", "fd/0", "fd/1", "fd/2", "ns/mnt", "ns/pid")),
        *(("descriptor", number) for number in range(90)),
        *(("reopen", number) for number in range(90)),
        *(("ptrace", number) for number in (16, 0x4206)),  # attach, seize
        *(("memory", number) for number in (0x400000, 0x10000, id(resource))),
    ]


@pytest.mark.parametrize("network", ["off", "loopback"])
@pytest.mark.parametrize("mode", MODES)
def test_no_attempt_touches_the_process_of_handrail(world: World, mode: Mode, network: Any) -> None:
    signals = mode != "landlock" or get_version() >= 6
    pid = os.getpid()
    attempts = [
        (kind, value.replace("{pid}", str(pid)) if isinstance(value, str) else value)
        for kind, value in process_attempts(signals)
    ]
    assert len(set(attempts)) >= 200
    boundary = boundary_or_skip(mode, world.confinement(network=network))
    numbers = {name: get_call_number(name) for name in ("pidfd_getfd", "ptrace", "process_vm_readv")}
    try:
        for target in {pid, os.getppid()} - {1}:  # 1 is the machine's first process, or that of the sandbox itself
            assert run(boundary, PROCESS, [target, numbers, attempts], world) == ""
    finally:
        boundary.close()
