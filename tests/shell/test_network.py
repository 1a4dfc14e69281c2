"""What commands reach over the network, in each boundary of this machine: real sockets, and none outside of it."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from handrail.shell.sandbox import Mode
from handrail.shell.sandbox.choose import Boundary
from tests.shell.boundaries import MakeBoundary, World, bash, boundary_or_skip, python

_TRIED = """
import errno, socket
def tried(family, kind, address, data=None, flags=0):
    try:
        with socket.socket(family, kind) as made:
            made.settimeout(10)
            if data is None:
                made.connect(address)
            else:
                made.sendto(data, flags, address)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "reached"
"""


@contextmanager
def server(host: str, family: int = socket.AF_INET) -> Iterator[tuple[int, list[bytes]]]:
    """A server that says hello; its port, and what has arrived."""
    arrived: list[bytes] = []
    server = socket.create_server((host, 0), family=family)

    def serve() -> None:
        while True:
            try:
                line, _ = server.accept()
            except OSError:
                return
            with line:
                arrived.append(b"connection")
                line.sendall(b"hello\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1], arrived
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(30)


def other_address() -> str:
    """An address of this machine that is not of loopback. Asking for it sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as result:
        try:
            result.connect(("192.0.2.1", 9))
        except OSError as error:
            pytest.skip(f"this machine has no address but loopback: {error}")
        actual: str = result.getsockname()[0]
    if actual.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return actual


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def supervised(boundary: Boundary) -> Boundary:
    if "TCP" not in boundary.description:
        pytest.skip(f"this kernel cannot hand over the calls of a command: {boundary.description}")
    return boundary


def test_loopback_reaches_the_services_of_this_machine(make_boundary: MakeBoundary, world: World) -> None:
    boundary = supervised(make_boundary(network="loopback"))
    with server("127.0.0.1") as (port, arrived):
        ways = [
            f"socket.create_connection(('127.0.0.1', {port}), 10)",
            f"socket.create_connection(('localhost', {port}), 10)",
            f"socket.create_connection(('127.0.0.1', {port}))",
        ]
        for way in ways:
            assert python(boundary, f"import socket; print({way}.recv(9).decode(), end='')", world.work) == "hello\n"
        assert bash(boundary, f"exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3", world.work) == (0, "hello\n")
        assert len(arrived) == 4


def test_loopback_reaches_ipv6(make_boundary: MakeBoundary, world: World) -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    boundary = supervised(make_boundary(network="loopback"))
    with server("::1", socket.AF_INET6) as (port, _):
        code = f"import socket; print(socket.create_connection(('::1', {port}), 10).recv(9).decode(), end='')"
        assert python(boundary, code, world.work) == "hello\n"
    with server("127.0.0.1") as (port, _):
        code = f"import socket; s = socket.socket(socket.AF_INET6); s.connect(('::ffff:127.0.0.1', {port}));"
        assert python(boundary, f"{code} print(s.recv(9).decode(), end='')", world.work) == "hello\n"


def test_loopback_reaches_no_other_address(make_boundary: MakeBoundary, world: World) -> None:
    boundary = make_boundary(network="loopback")
    other = other_address()
    with server(other) as (port, arrived):
        code = f"""{_TRIED}
for host in ({other!r}, "192.0.2.1"):
    print(tried(socket.AF_INET, socket.SOCK_STREAM, (host, {port})))
    print(tried(socket.AF_INET, socket.SOCK_DGRAM, (host, {port})))
    print(tried(socket.AF_INET, socket.SOCK_DGRAM, (host, {port}), b"x"))
    print(tried(socket.AF_INET, socket.SOCK_STREAM, (host, {port}), b"x", 0x20000000))
    print(tried(socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:" + host, {port})))
"""
        output = python(boundary, code, world.work).split()
        assert len(output) == 10
        allowed = {"EACCES", "ENETUNREACH", "EOPNOTSUPP", "ENOTSUP", "EHOSTUNREACH", "ECONNREFUSED", "EAFNOSUPPORT"}
        assert set(output) <= allowed, output
        assert arrived == []


def test_an_address_that_is_exchanged_while_it_is_looked_at_reaches_nobody(
    make_boundary: MakeBoundary, world: World
) -> None:
    boundary = supervised(make_boundary(network="loopback"))
    other = other_address()
    with server(other) as (port, arrived):
        code = f"""
import ctypes, socket, struct, threading, time
libc = ctypes.CDLL(None, use_errno=True)
near = struct.pack("=H", 2) + struct.pack("!H4s8x", {port}, socket.inet_aton("127.0.0.1"))
far = struct.pack("=H", 2) + struct.pack("!H4s8x", {port}, socket.inet_aton({other!r}))
place = ctypes.create_string_buffer(near, 16)
over = False
def exchange():
    while not over:
        ctypes.memmove(place, far, 16)
        ctypes.memmove(place, near, 16)
thread = threading.Thread(target=exchange)
thread.start()
for _ in range(200):
    made = socket.socket()
    libc.connect(made.fileno(), place, 16)
    made.close()
over = True
thread.join()
print("over")
"""
        assert python(boundary, code, world.work) == "over\n"
        assert arrived == []


def test_a_command_serves_itself_on_loopback_and_nobody_else(make_boundary: MakeBoundary, world: World) -> None:
    boundary = supervised(make_boundary(network="loopback"))
    other = other_address()
    code = f"""
import socket
for bound in ("127.0.0.1", "0.0.0.0", None):
    made = socket.socket()
    if bound:
        made.bind((bound, 0))
    made.listen()
    port = made.getsockname()[1]
    print(socket.create_connection(("127.0.0.1", port), 10).getpeername()[0])
    with socket.socket() as outside:
        outside.settimeout(10)
        try:
            outside.connect(({other!r}, port))
            print("reached")
        except OSError:
            print("refused")
    print(made.getsockname()[0] if bound != "127.0.0.1" else "-")
"""
    output = python(boundary, code, world.work).split()
    assert output[0::3] == ["127.0.0.1"] * 3
    assert output[1::3] == ["refused"] * 3
    if not boundary.namespaced:  # with a network of its own it may be bound to all of it
        assert output[2::3] == ["-", "127.0.0.1", "127.0.0.1"]


def test_connections_without_blocking_in_threads_and_across_exec_work(
    make_boundary: MakeBoundary, world: World
) -> None:
    boundary = supervised(make_boundary(network="loopback"))
    with server("127.0.0.1") as (port, _):
        code = f"""
import asyncio, os, socket, subprocess, sys, threading
async def one():
    reader, writer = await asyncio.open_connection("127.0.0.1", {port})
    said = await reader.read(9)
    writer.close()
    return said
async def many():
    return await asyncio.gather(*(one() for _ in range(30)))
assert set(asyncio.run(many())) == {{b"hello\\n"}}
got = []
def blocking():
    got.append(socket.create_connection(("127.0.0.1", {port})).recv(9))
threads = [threading.Thread(target=blocking) for _ in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert got == [b"hello\\n"] * 20
made = socket.create_connection(("127.0.0.1", {port}))
assert not os.get_inheritable(made.fileno())
os.set_inheritable(made.fileno(), True)
child = [sys.executable, "-c", "import os, sys; print(os.read(int(sys.argv[1]), 9))", str(made.fileno())]
print(subprocess.run(child, close_fds=False, capture_output=True, text=True).stdout, end="")
"""
        assert python(boundary, code, world.work) == "b'hello\\n'\n"


def test_a_port_that_nobody_serves_is_refused_as_usual(make_boundary: MakeBoundary, world: World) -> None:
    boundary = supervised(make_boundary(network="loopback"))
    with socket.create_server(("127.0.0.1", 0)) as result:
        port = result.getsockname()[1]
    code = f"{_TRIED}\nprint(tried(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', {port})))"
    assert python(boundary, code, world.work) == "ECONNREFUSED\n"


def test_a_port_of_the_system_is_not_bound_with_our_rights(make_boundary: MakeBoundary, world: World) -> None:
    boundary = supervised(make_boundary(network="loopback"))
    if boundary.namespaced:
        pytest.skip("in a network of its own a command has the ports for itself")
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
        if int(file.read()) <= 1:
            pytest.skip("everybody may bind to every port of this machine")
    code = "import socket\ntry:\n    socket.socket().bind(('127.0.0.1', 1))\nexcept OSError as e:\n    print(e.errno)"
    assert python(boundary, code, world.work) == f"{errno.EACCES}\n"


def test_sockets_of_other_programs_are_not_reached_by_an_opened_network(
    make_boundary: MakeBoundary, world: World
) -> None:
    """A command that may use the network once gets IP; a session bus or an agent is another matter."""
    boundary = make_boundary(network="off")
    name = f"\0handrail-test-{os.getpid()}"
    path = str(world.work / "socket")
    with (
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as file,
        server("127.0.0.1") as (p, _),
    ):
        abstract.bind(name)
        file.bind(path)
        abstract.listen()
        file.listen()
        code = f"""{_TRIED}
print(tried(socket.AF_UNIX, socket.SOCK_STREAM, {name!r}), tried(socket.AF_UNIX, socket.SOCK_STREAM, {path!r}))
print(tried(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {p})))
"""
        started = boundary.spawn(
            [sys.executable, "-I", "-c", code], network="on", cwd=str(world.work), stdout=subprocess.PIPE
        )
        output = started.communicate(timeout=60)[0].decode()
    assert output == "EACCES EACCES\nreached\n"


@pytest.mark.parametrize("mode", ["namespaces"])
def test_a_session_reaches_its_own_unix_sockets_and_no_others(world: World, mode: Mode) -> None:
    boundary = boundary_or_skip(mode, world.confinement(network="loopback"))
    theirs, abstract = str(world.work / "docker.sock"), f"\0handrail-test-{os.getpid()}"
    try:
        supervised(boundary)
        with socket.socket(socket.AF_UNIX) as file, socket.socket(socket.AF_UNIX) as named:
            for server_, address in ((file, theirs), (named, abstract)):
                server_.bind(address)
                server_.listen()
            os.symlink(theirs, world.work / "link.sock")
            code = f"""{_TRIED}
import os, threading
with socket.socket(socket.AF_UNIX) as own:
    own.bind("own.sock")
    own.listen()
    for name in ("own.sock", os.path.abspath("own.sock"), {theirs!r}, "docker.sock", "link.sock", {abstract!r}, "none"):
        print(tried(socket.AF_UNIX, socket.SOCK_STREAM, name))
    with socket.socket(socket.AF_UNIX) as line:
        line.connect("own.sock")
        line.sendall(b"hello")
        print([own.accept()[0].recv(9) for _ in range(3)][-1])
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    print(tried(socket.AF_UNIX, kind, {theirs!r}))
    try:
        print(socket.socketpair(socket.AF_UNIX, kind))
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
            output = python(boundary, code, world.work).split()
    finally:
        boundary.close()
    assert output[:6] == ["reached", "reached", "EACCES", "EACCES", "EACCES", "ECONNREFUSED"]
    assert output[6:] == ["ENOENT", "b'hello'", *["EACCES"] * 4]


def test_an_address_that_changes_while_it_is_looked_at_opens_no_other_socket(world: World) -> None:
    """Two threads: one connects, the other swaps the address and the descriptor under it."""
    boundary = boundary_or_skip("namespaces", world.confinement(network="loopback"))
    theirs = str(world.work / "docker.sock")
    try:
        supervised(boundary)
        with socket.socket(socket.AF_UNIX) as file:
            file.bind(theirs)
            file.listen(64)
            file.settimeout(0.2)
            code = f"""
import ctypes, os, socket, struct, threading, time
libc = ctypes.CDLL(None)
own = socket.socket(socket.AF_UNIX); own.bind("own.sock"); own.listen(4096)
good = struct.pack("H108s", 1, b"own.sock"); bad = struct.pack("H108s", 1, {theirs.encode()!r})
buffer = ctypes.create_string_buffer(good, 110)
until = time.monotonic() + 1.5
def swap():
    while time.monotonic() < until:
        ctypes.memmove(buffer, bad, 110); ctypes.memmove(buffer, good, 110)
threading.Thread(target=swap).start()
while time.monotonic() < until:
    with socket.socket(socket.AF_UNIX) as made:
        if libc.connect(made.fileno(), buffer, 110) == 0:
            made.send(b"x")
"""
            python(boundary, code, world.work)
            sent = b""
            try:
                while True:
                    line, _ = file.accept()
                    with line:
                        sent += line.recv(9)
            except TimeoutError:
                pass
            assert sent == b""
    finally:
        boundary.close()


def test_commands_of_a_session_share_one_loopback(make_boundary: MakeBoundary, world: World) -> None:
    boundary = make_boundary(network="loopback")
    if not boundary.name.startswith("namespaces"):
        pytest.skip("only our own namespaces share a network between commands")
    code = """
import socket
with socket.create_server(("127.0.0.1", 3000)) as made:
    print("up", flush=True)
    made.accept()[0].send(b"hi")
"""
    with boundary.spawn([sys.executable, "-I", "-c", code], cwd=str(world.work), stdout=subprocess.PIPE) as dev_server:
        assert dev_server.stdout is not None and dev_server.stdout.readline() == b"up\n"
        assert bash(boundary, "exec 3<>/dev/tcp/127.0.0.1/3000; cat <&3", world.work) == (0, "hi")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", 3000), 5)


def test_descriptors_are_given_back_when_commands_end(make_boundary: MakeBoundary, world: World) -> None:
    boundary = make_boundary(network="loopback")
    bash(boundary, "true", world.work)
    before = _descriptors()
    for _ in range(5):
        bash(boundary, "true", world.work)
    for _ in range(500):
        if _descriptors() <= before:
            break
        threading.Event().wait(0.01)
    assert _descriptors() <= before


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
