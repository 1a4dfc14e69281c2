"""The connections of a command are made by this process, which can tell addresses apart.

A filter on system calls hands each `connect` of a command to us (seccomp's user notification). We read the address, and
if it may be reached we do what was asked, on the command's own socket or on one that takes its place. The command
cannot exchange the address meanwhile, since it is never looked at again.

Under Landlock the command shares the network of this machine, and the kernel refuses all TCP that it tries by itself.
In a namespace it has a network of its own, in which it reaches itself first; a connection to a port that nobody serves
in there is made from here. Unix sockets have no network: the kernel would connect to those of any program that can be
seen. So these are connected from here as well, and only to commands of the same network.

A command for which the network was opened reaches every address, and of unix sockets only that of the ssh agent.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import select
import socket
import struct
import sys
import threading
from typing import Literal

from handrail.shell.sandbox import seccomp
from handrail.shell.sandbox.landlock import forgo_privileges
from handrail.shell.sandbox.local_services import LocalServices, is_served
from handrail.shell.sandbox.renames import links_git_object, name_calls, open_in_root, prepare_rename
from handrail.shell.sandbox.system_call_numbers import NUMBERS, make_call
from handrail.system_calls import is_shortage

_RECEIVE, _SEND, _VALID, _ADD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_CONTINUE, _AT_NUMBER = 1, 1
_CALLS = {number: name for name in ("connect", "bind", "listen") for number in NUMBERS[name]}
_LONGEST_ADDRESS = 128
_MOST_AT_ONCE = 64
_CONNECT_SECONDS = 30.0
_COPIED = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_NODELAY))

_Address = tuple[str, int] | tuple[str, int, int, int]
Reach = Literal["own", "shared", "all"]
"""What commands reach: a network of their own and loopback ports of this machine; loopback ports alone, in the network
of this machine; or everything, with one unix socket."""


class _Unhandled(Exception):
    """The kernel is to do what the command asked for."""


class Supervisor:
    """Answers the calls of all commands behind one listener, until the last of them has ended or it is closed."""

    def __init__(self, listener: int, reach: Reach, services: LocalServices, agent: str = "") -> None:
        """``agent``: the unix socket of this machine that commands reach which reach "all"."""
        self._listener = listener
        self._reach = reach
        self._services = services
        self._agent = os.fsencode(agent)
        self._free = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._woken, self._wake = os.pipe()
        threading.Thread(target=self._serve, name="handrail-loopback", daemon=True).start()

    def close(self) -> None:
        """From now on such calls fail."""
        with contextlib.suppress(OSError):
            os.write(self._wake, b"!")

    def _serve(self) -> None:
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        waiting.register(self._woken, select.POLLIN)
        try:
            while True:
                ready = dict(waiting.poll())
                if self._woken in ready or not ready.get(self._listener, 0) & select.POLLIN:
                    return  # closed, or nobody is left
                self._take()
        finally:
            for _ in range(_MOST_AT_ONCE):  # those that are under way still use the descriptor
                self._free.acquire()
            for fd in (self._listener, self._woken, self._wake):
                os.close(fd)

    def _take(self) -> None:
        notice = bytearray(80)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, notice)
        except OSError:  # whoever asked has ended
            return
        call = _Call(self._listener, bytes(notice), self._reach, self._services, self._agent)
        self._free.acquire()
        threading.Thread(target=self._answer, args=(call,), name="handrail-connect", daemon=True).start()

    def _answer(self, call: _Call) -> None:
        try:
            call.answer()
        finally:
            self._free.release()


class _Call:
    """One call of a command."""

    def __init__(self, listener: int, notice: bytes, reach: Reach, services: LocalServices, agent: bytes) -> None:
        self._listener = listener
        self._reach = reach
        self._services = services
        self._agent = agent
        self._id, self._thread, _, number, _, _ = struct.unpack_from("=QIIiIQ", notice)
        self._arguments = struct.unpack_from("=6Q", notice, 32)
        self._name = _CALLS.get(number) or name_calls()[number]

    def answer(self) -> None:
        error, flags = 0, 0
        try:
            self._do()
        except _Unhandled:
            flags = _CONTINUE
        except OSError as failed:
            error = -(failed.errno or errno.EACCES)
        with contextlib.suppress(OSError):  # it did not wait for the answer
            fcntl.ioctl(self._listener, _SEND, struct.pack("=QqiI", self._id, 0, error, flags))

    def _do(self) -> None:
        if self._name.startswith("link"):
            is_object = False
            with contextlib.suppress(OSError):
                is_object = links_git_object(self._thread, self._name, self._arguments, self._require_waiting)
            raise _refuse(errno.EXDEV) if is_object else _Unhandled
        if self._name.startswith("rename"):
            # What fails here fails in the kernel too, which says why.
            with contextlib.suppress(OSError):
                prepare_rename(self._thread, self._name, self._arguments, self._require_waiting)
            raise _Unhandled
        wanted = self._read_address() if self._name != "listen" else b""
        with _as_socket(self._get_descriptor()) as asked:
            is_tcp = asked.family in (socket.AF_INET, socket.AF_INET6) and asked.type == socket.SOCK_STREAM
            address = _parse_loopback(wanted, bind=self._name == "bind", sock=asked) if wanted and is_tcp else None
            if self._reach == "all":
                self._connect_anywhere(asked, wanted)
            elif self._reach == "own":
                self._connect_inside(asked, wanted, address)
            elif not is_tcp:
                raise _Unhandled  # a pair, or netlink: it leads nowhere
            elif self._name == "connect":
                self._connect_shared(asked, address or _make_disallowed())
            elif self._name == "bind":
                asked.bind(_make_unprivileged(address or _make_disallowed()))
            else:
                if asked.getsockname()[1] == 0:  # the kernel would choose a port on every address
                    asked.bind(("127.0.0.1", 0) if asked.family == socket.AF_INET else ("::1", 0))
                asked.listen(min(self._arguments[1] & 0x7FFFFFFF, 4096))
                self._services.note_own(asked.getsockname()[1])

    def _connect_anywhere(self, asked: socket.socket, wanted: bytes) -> None:
        """Connect for a command with an open network, which reaches no unix socket but the agent's."""
        if asked.family != socket.AF_UNIX:
            _connect(asked, wanted)
        elif not self._is_agent(wanted[2:].partition(b"\0")[0]):
            raise _refuse(errno.EACCES)
        else:
            self._connect_agent(asked)

    def _is_agent(self, name: bytes) -> bool:
        """Whether a program means the agent. gpg looks for its own in its home directory, wherever it really is."""
        own = os.path.basename(name)
        return bool(self._agent and own) and os.path.basename(self._agent).startswith(own)

    def _connect_agent(self, asked: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX, asked.type) as replacement:
            replacement.settimeout(_CONNECT_SECONDS)
            replacement.connect(self._agent)
            self._replace(asked, replacement)

    def _connect_shared(self, asked: socket.socket, address: _Address) -> None:
        """Connect for a command in the network of this machine."""
        if connect := self._services.find_proxy(address[:2]):
            with connect() as replacement:
                self._replace(asked, replacement)
        else:
            self._require_allowed(address[1])
            asked.connect(address)

    def _require_allowed(self, port: int) -> None:
        """Refuse a port of this machine that nobody has allowed."""
        if self._services.allows(port):
            return
        if not is_served("self", port):
            raise _refuse(errno.ECONNREFUSED)
        self._services.note_refused(port)
        raise _refuse(errno.EACCES)

    def _connect_inside(self, asked: socket.socket, wanted: bytes, address: _Address | None) -> None:
        """Connect for a command with a network of its own. The kernel never looks at the command's memory again, which
        another thread of the command could have changed."""
        if asked.family == socket.AF_UNIX and len(wanted) > 2 and wanted[2]:
            name = wanted[2:].partition(b"\0")[0]
            if self._is_agent(name):
                self._connect_agent(asked)
            else:
                self._connect_unix(asked, name)
        elif address is not None and (connect := self._services.find_proxy(address[:2])):
            with connect() as replacement:
                self._replace(asked, replacement)
        elif address is None or is_served(self._thread, address[1]):
            _connect(asked, wanted)  # in the command's own network, to which its socket belongs
        else:
            self._require_allowed(address[1])
            with socket.socket(asked.family, socket.SOCK_STREAM) as replacement:
                for option in _COPIED:
                    replacement.setsockopt(*option, asked.getsockopt(*option))
                replacement.settimeout(_CONNECT_SECONDS)
                replacement.connect(address)
                self._replace(asked, replacement)

    def _connect_unix(self, asked: socket.socket, name: bytes) -> None:
        """Connect to a socket that a command of the same session serves; those of other programs are refused."""
        place = name if name.startswith(b"/") else os.fsencode(os.readlink(f"/proc/{self._thread}/cwd")) + b"/" + name
        network = os.readlink(f"/proc/{self._thread}/ns/net")
        target = open_in_root(self._thread, place, os.O_PATH, self._require_waiting)
        try:
            with socket.socket(socket.AF_UNIX, asked.type) as replacement:
                replacement.settimeout(_CONNECT_SECONDS)
                replacement.connect(f"/proc/self/fd/{target}")
                peer = replacement.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                if not _is_in_network(struct.unpack("=iII", peer)[0], network):
                    raise _refuse(errno.EACCES)
                self._replace(asked, replacement)
        finally:
            os.close(target)

    def _replace(self, asked: socket.socket, replacement: socket.socket) -> None:
        """Put a socket of ours in the place of the command's."""
        flags = fcntl.fcntl(asked, fcntl.F_GETFL)
        replacement.setblocking(not flags & os.O_NONBLOCK)
        number = self._arguments[0] & 0xFFFFFFFF
        closes = _closes_on_exec(self._thread, number)
        request = struct.pack(
            "=QIIII", self._id, _AT_NUMBER, replacement.fileno(), number, os.O_CLOEXEC if closes else 0
        )
        fcntl.ioctl(self._listener, _ADD, request)

    def _read_address(self) -> bytes:
        _, place, length = self._arguments[:3]
        size = min(length & 0xFFFFFFFF, _LONGEST_ADDRESS)
        with open(f"/proc/{self._thread}/mem", "rb", buffering=0) as memory:
            self._require_waiting()
            read = os.pread(memory.fileno(), size, place)
        if len(read) < 2:
            raise _refuse(errno.EINVAL)
        return read

    def _get_descriptor(self) -> int:
        """The socket of the command, as a descriptor of ours."""
        with open(f"/proc/{self._thread}/status", "rb", buffering=0) as file:
            process = int(file.read(4096).partition(b"\nTgid:")[2].split(None, 1)[0])
        held = os.pidfd_open(process)
        try:
            self._require_waiting()
            return make_call("pidfd_getfd", held, self._arguments[0] & 0xFFFFFFFF, 0)
        finally:
            os.close(held)

    def _require_waiting(self) -> None:
        """Raises `OSError` if the thread that asked is gone: its number may belong to another one."""
        fcntl.ioctl(self._listener, _VALID, struct.pack("=Q", self._id))


def _parse_loopback(raw: bytes, *, bind: bool, sock: socket.socket) -> _Address | None:
    """An address of loopback; None for any other. To be bound, "every address" means every address of loopback."""
    (family,) = struct.unpack_from("=H", raw)
    if family == socket.AF_INET and len(raw) >= 8:
        port, packed = struct.unpack_from("!H4s", raw, 2)
        place = ipaddress.IPv4Address(packed)
        if bind and place.is_unspecified:
            place = ipaddress.IPv4Address("127.0.0.1")
        return (str(place), port) if place.is_loopback else None
    if family == socket.AF_INET6 and len(raw) >= 24:
        port, _, packed = struct.unpack_from("!HI16s", raw, 2)
        wide = ipaddress.IPv6Address(packed)
        if bind and wide.is_unspecified:
            both = not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            wide = ipaddress.IPv6Address("::ffff:127.0.0.1" if both else "::1")
        mapped = wide.ipv4_mapped
        return (
            (str(wide), port, 0, 0) if wide == ipaddress.IPv6Address("::1") or (mapped and mapped.is_loopback) else None
        )
    return None


def _connect(sock: socket.socket, address: bytes) -> None:
    """Connect to an address in the kernel's form."""
    make_call("connect", sock.fileno(), address, len(address))


def _is_in_network(pid: int, network: str) -> bool:
    """Whether a process is in that network, by the name of the kernel's."""
    with contextlib.suppress(OSError):
        return pid > 0 and os.readlink(f"/proc/{pid}/ns/net") == network
    return False


def _refuse(number: int) -> OSError:
    """The error that the command gets."""
    return OSError(number, os.strerror(number))


def _make_disallowed() -> _Address:
    raise _refuse(errno.EACCES)


def _make_unprivileged(address: _Address) -> _Address:
    """An address that the command may bind to by itself: this process may be root's."""
    first = 1024
    with contextlib.suppress(OSError, ValueError), open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "rb") as file:
        first = int(file.read())
    if 0 < address[1] < first:
        raise _refuse(errno.EACCES)
    return address


def _closes_on_exec(thread: int, number: int) -> bool:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{thread}/fdinfo/{number}", "rb") as file:
        return bool(int(file.read(4096).partition(b"flags:")[2].split(None, 1)[0], 8) & os.O_CLOEXEC)
    return True


def _as_socket(fd: int) -> socket.socket:
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        replacement = socket.socket(fileno=fd)
    except BaseException:
        os.close(fd)
        raise
    fcntl.fcntl(fd, fcntl.F_SETFL, flags)  # a default timeout of the host's would change them for the command
    return replacement


def works() -> bool:
    """Whether calls of commands can be answered here; tried in a thread that ends at once."""
    if sys.platform != "linux" or not seccomp.is_supported() or not _may_look_into_children():
        return False
    failed: list[OSError] = []

    def attempt() -> None:
        try:
            forgo_privileges()
            os.close(seccomp.install_listener(seccomp.build_connect_filter()))
        except OSError as error:  # an old kernel, or a Handrail around us that answers already
            failed.append(error)

    thread = threading.Thread(target=attempt, name="handrail-trial")
    thread.start()
    thread.join()
    if failed and is_shortage(failed[0]):
        raise failed[0]
    return not failed


def _may_look_into_children() -> bool:
    with contextlib.suppress(OSError, ValueError), open("/proc/sys/kernel/yama/ptrace_scope", "rb") as file:
        scope = int(file.read())
        return scope < 2 or (scope == 2 and os.geteuid() == 0)
    return True
