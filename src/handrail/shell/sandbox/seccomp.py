"""The filter on system calls: what neither landlock nor a namespace can see, refused by the kernel before it happens.

A filter is a small program that the kernel runs at each call; it sees the number and the plain arguments, never what a
pointer leads to. So it can refuse sockets by family, but not by address.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence
from functools import lru_cache

from handrail.shell.sandbox import Network
from handrail.shell.sandbox.system_call_numbers import ARCHITECTURES, NUMBERS, get_call_number, make_call

_REFUSED = tuple(
    """
    acct add_key bpf clock_settime delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick
    init_module io_uring_enter io_uring_register io_uring_setup kcmp kexec_file_load kexec_load keyctl mount
    mount_setattr move_mount open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_vm_readv
    process_vm_writev ptrace quotactl reboot request_key setdomainname sethostname setns settimeofday swapoff
    swapon syslog umount2 unshare userfaultfd vhangup
    """.split()  # noqa: SIM905 - a list of words is a line each
)
_ONLY_X86 = (172, 173)  # iopl, ioperm
_SENDING = (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))  # where their flags are
_FAST_OPEN = 0x20000000
_X32 = 0x40000000  # the other way to call a 64 bit x86 kernel, with numbers of its own
_NEW_NAMESPACE = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_KEYSTROKES = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into somebody's terminal
ALL = (1, 2, 10, 16)
"""Families of sockets: unix, IPv4, IPv6, netlink: all that a program with a network needs."""
IP = (2, 10, 16)
"""The same without unix sockets, by which other programs of this machine could be made to act for the command."""
_UNIX = 1
_STREAM, _PACKETS = 1, 5

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
_ALLOW, _NOTIFY, _KILL, _ERROR = 0x7FFF0000, 0x7FC00000, 0x80000000, 0x00050000
_SET_SECCOMP, _MODE_FILTER = 22, 2
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5

_Line = tuple[int, int, int, int]


class _FilterProgram(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def is_supported() -> bool:
    """Whether a filter can be written for this machine."""
    return sys.platform == "linux" and os.uname().machine in ARCHITECTURES and sys.maxsize > 1 << 32


@lru_cache(maxsize=16)
def build_program(
    network: Network,
    machine: str | None = None,
    families: tuple[int, ...] = ALL,
    spared: tuple[int, ...] = (),
    supervised: bool = False,
    private: bool = False,
) -> bytes:
    """The filter, in the kernel's form. Network `off` refuses every socket but a connected pair.

    ``families``: the sockets that any other network allows. ``spared``: processes whose limits cannot be changed.
    ``supervised``: TCP alone, and whoever has the listener of `install_listener` does what has an address.
    ``private``: a network of the session's own, in which whoever has the listener of `build_connect_filter` tells which
    unix sockets are of the session; those that send to an address without `connect` are refused.
    """
    name, column = ARCHITECTURES[machine or os.uname().machine]
    code: list[tuple[int, int, int, int]] = []

    def refuse(number: int) -> None:
        code.append((_RETURN, 0, 0, _ERROR | number))

    def when(call: str | int, *body: tuple[int, int, int, int]) -> None:
        """Run ``body``, which ends in a return, for one system call."""
        code.append((_JUMP_EQUAL, 0, len(body), call if isinstance(call, int) else NUMBERS[call][column]))
        code.extend(body)

    allow = (_RETURN, 0, 0, _ALLOW)
    denied, not_permitted = (_RETURN, 0, 0, _ERROR | errno.EACCES), (_RETURN, 0, 0, _ERROR | errno.EPERM)
    code += [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_EQUAL, 1, 0, name), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    if column == 0:
        code.append((_JUMP_AT_LEAST, 0, 1, _X32))
        refuse(errno.ENOSYS)
        for number in _ONLY_X86:
            when(number, not_permitted)
    for call in _REFUSED:
        when(call, not_permitted)
    # Its flags lie behind a pointer. "Not there" makes the C library take `clone`, whose flags can be seen.
    when("clone3", (_RETURN, 0, 0, _ERROR | errno.ENOSYS))
    when("clone", (_LOAD, 0, 0, _ARGUMENT), (_JUMP_ANY, 0, 1, _NEW_NAMESPACE), not_permitted, allow)
    tests = [(_JUMP_EQUAL, len(_KEYSTROKES) - at, 0, request) for at, request in enumerate(_KEYSTROKES)]
    when("ioctl", (_LOAD, 0, 0, _ARGUMENT + 8), *tests, allow, not_permitted)
    if spared:  # a limit on CPU time ends a process as surely as a signal does
        tests = [(_JUMP_EQUAL, len(spared) - at, 0, pid) for at, pid in enumerate(spared)]
        when("prlimit64", (_LOAD, 0, 0, _ARGUMENT), *tests, allow, not_permitted)
    if network == "off" or private or _UNIX not in families:
        when("socketpair", *_allow_connected_kinds(allow, denied))
    if network == "off":
        when("socket", denied)
    elif supervised:
        when("socket", *_allow_only_tcp(allow, denied))
        for call in ("connect", "bind", "listen"):
            when(call, (_RETURN, 0, 0, _NOTIFY))
        # Data with an address that opens a connection on its way: nobody would be asked.
        unsupported = (_RETURN, 0, 0, _ERROR | errno.EOPNOTSUPP)
        for call, flags in _SENDING:
            when(call, (_LOAD, 0, 0, _ARGUMENT + 8 * flags), (_JUMP_ANY, 0, 1, _FAST_OPEN), unsupported, allow)
    elif private and _UNIX in families:
        tests = [(_JUMP_EQUAL, len(IP) + 6 - at, 0, family) for at, family in enumerate(IP)]
        unix = (_JUMP_EQUAL, len(IP) + 1, 0, _UNIX)
        when("socket", (_LOAD, 0, 0, _ARGUMENT), unix, *tests, denied, *_allow_connected_kinds(allow, denied))
    else:
        tests = [(_JUMP_EQUAL, len(families) - at, 0, family) for at, family in enumerate(families)]
        when("socket", (_LOAD, 0, 0, _ARGUMENT), *tests, denied, allow)
    code.append(allow)
    return b"".join(struct.pack("=HBBI", *line) for line in code)


def _allow_connected_kinds(allow: _Line, denied: _Line) -> list[_Line]:
    """For unix sockets: streams and packets, which must connect. Datagrams, and the raw kind that the kernel takes for
    them, can be sent to any address."""
    kind = (_LOAD, 0, 0, _ARGUMENT + 8), (_AND, 0, 0, 0xF)
    return [*kind, (_JUMP_EQUAL, 2, 0, _STREAM), (_JUMP_EQUAL, 1, 0, _PACKETS), denied, allow]


def _allow_only_tcp(allow: _Line, denied: _Line) -> list[_Line]:
    """For `socket`: TCP over IPv4 and IPv6, and the netlink by which a program asks for its own addresses."""
    family, kind, protocol = (_LOAD, 0, 0, _ARGUMENT), (_LOAD, 0, 0, _ARGUMENT + 8), (_LOAD, 0, 0, _ARGUMENT + 16)
    return [
        family,
        (_JUMP_EQUAL, 11, 0, 16),
        (_JUMP_EQUAL, 2, 0, 2),
        (_JUMP_EQUAL, 1, 0, 10),
        denied,
        kind,
        (_AND, 0, 0, 0xF),
        (_JUMP_EQUAL, 0, 3, 1),
        protocol,
        (_JUMP_EQUAL, 2, 0, 0),
        (_JUMP_EQUAL, 1, 0, 6),
        denied,
        allow,
        protocol,
        (_JUMP_EQUAL, 1, 0, 0),
        denied,
        allow,
    ]


def build_connect_filter(machine: str | None = None) -> bytes:
    """A filter that allows all, and hands each `connect` to whoever has the listener."""
    return build_notify_filter([get_call_number("connect", machine)], machine)


def build_notify_filter(calls: Sequence[int], machine: str | None = None) -> bytes:
    """A filter that allows all, and hands the calls with these numbers to whoever has the listener."""
    name, _ = ARCHITECTURES[machine or os.uname().machine]
    allow = (_RETURN, 0, 0, _ALLOW)
    code = [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_EQUAL, 1, 0, name), allow, (_LOAD, 0, 0, _NUMBER)]
    for number in calls:
        code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
    return b"".join(struct.pack("=HBBI", *line) for line in [*code, allow])


def install_listener(code: bytes) -> int:
    """As `install`; returns the descriptor on which the calls arrive that the filter hands over. `OSError` if none can
    be had, as inside a command that another Handrail supervises."""
    filter_ = _FilterProgram(len(code) // 8, code)
    return make_call("seccomp", 1, _NEW_LISTENER | _WAIT_KILLABLE, ctypes.byref(filter_))


def install(code: bytes) -> None:
    """Put a filter on this thread and what it starts, for good. It must have forgone new privileges before."""
    filter_ = _FilterProgram(len(code) // 8, code)
    make_call("prctl", _SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_), 0, 0)
