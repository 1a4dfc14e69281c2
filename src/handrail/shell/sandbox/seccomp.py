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

from handrail.shell.sandbox.confinement import Network

# Numbers on x86_64, and in the table that newer architectures share (arm64, riscv64, loongarch64).
_REFUSED: dict[str, tuple[int, int]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
_ONLY_X86 = (172, 173)  # iopl, ioperm
_CLONE, _CLONE3, _IOCTL, _SOCKET, _SOCKETPAIR = (56, 220), (435, 435), (16, 29), (41, 198), (53, 199)
_PRLIMIT = (302, 261)
_CONNECT, _BIND, _LISTEN = (42, 203), (49, 200), (50, 201)
_SENDING = (((44, 206), 3), ((46, 211), 2), ((307, 269), 3))  # sendto, sendmsg, sendmmsg: where their flags are
_FAST_OPEN = 0x20000000
_ARCHITECTURES = {  # the kernel's name for it, and the column above
    "x86_64": (0xC000003E, 0),
    "aarch64": (0xC00000B7, 1),
    "riscv64": (0xC00000F3, 1),
    "loongarch64": (0xC0000102, 1),
}
_X32 = 0x40000000  # the other way to call a 64 bit x86 kernel, with numbers of its own
_NEW_NAMESPACE = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_KEYSTROKES = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into somebody's terminal
ALL = (1, 2, 10, 16)
"""Families of sockets: unix, IPv4, IPv6, netlink: all that a program with a network needs."""
IP = (2, 10, 16)
"""The same without unix sockets, by which other programs of this machine could be made to act for the command."""
_DATAGRAM = 2

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
_ALLOW, _NOTIFY, _KILL, _ERROR = 0x7FFF0000, 0x7FC00000, 0x80000000, 0x00050000
_SET_SECCOMP, _MODE_FILTER = 22, 2
_SECCOMP = (317, 277)
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5

_libc = ctypes.CDLL(None, use_errno=True)
_Line = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def supported() -> bool:
    """Whether a filter can be written for this machine."""
    return sys.platform == "linux" and os.uname().machine in _ARCHITECTURES and sys.maxsize > 1 << 32


def program(
    network: Network,
    machine: str | None = None,
    families: Sequence[int] = ALL,
    spared: Sequence[int] = (),
    supervised: bool = False,
) -> bytes:
    """The filter, in the kernel's form. Network `off` refuses every socket but a connected pair.

    ``families``: the sockets that any other network allows. ``spared``: processes whose limits cannot be changed.
    ``supervised``: TCP alone, and whoever has the listener of `install_listener` does what has an address.
    """
    name, column = _ARCHITECTURES[machine or os.uname().machine]
    code: list[tuple[int, int, int, int]] = []

    def refuse(number: int) -> None:
        code.append((_RETURN, 0, 0, _ERROR | number))

    def when(number: tuple[int, int], *body: tuple[int, int, int, int]) -> None:
        """Run ``body``, which ends in a return, for one system call."""
        code.append((_JUMP_EQUAL, 0, len(body), number[column]))
        code.extend(body)

    allow = (_RETURN, 0, 0, _ALLOW)
    denied, not_permitted = (_RETURN, 0, 0, _ERROR | errno.EACCES), (_RETURN, 0, 0, _ERROR | errno.EPERM)
    code += [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_EQUAL, 1, 0, name), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    if column == 0:
        code.append((_JUMP_AT_LEAST, 0, 1, _X32))
        refuse(errno.ENOSYS)
        for number in _ONLY_X86:
            when((number, number), not_permitted)
    for numbers in _REFUSED.values():
        when(numbers, not_permitted)
    # Its flags lie behind a pointer. "Not there" makes the C library take `clone`, whose flags can be seen.
    when(_CLONE3, (_RETURN, 0, 0, _ERROR | errno.ENOSYS))
    when(_CLONE, (_LOAD, 0, 0, _ARGUMENT), (_JUMP_ANY, 0, 1, _NEW_NAMESPACE), not_permitted, allow)
    tests = [(_JUMP_EQUAL, len(_KEYSTROKES) - at, 0, request) for at, request in enumerate(_KEYSTROKES)]
    when(_IOCTL, (_LOAD, 0, 0, _ARGUMENT + 8), *tests, allow, not_permitted)
    if spared:  # a limit on CPU time ends a process as surely as a signal does
        tests = [(_JUMP_EQUAL, len(spared) - at, 0, pid) for at, pid in enumerate(spared)]
        when(_PRLIMIT, (_LOAD, 0, 0, _ARGUMENT), *tests, allow, not_permitted)
    if network == "off":
        when(_SOCKET, denied)
        # A pair of datagram sockets is not bound to itself: it can send to any address.
        kind = (_LOAD, 0, 0, _ARGUMENT + 8), (_AND, 0, 0, 0xF)
        when(_SOCKETPAIR, *kind, (_JUMP_EQUAL, 1, 0, _DATAGRAM), allow, denied)
    elif supervised:
        when(_SOCKET, *_tcp_alone(allow, denied))
        for numbers in (_CONNECT, _BIND, _LISTEN):
            when(numbers, (_RETURN, 0, 0, _NOTIFY))
        # Data with an address that opens a connection on its way: nobody would be asked.
        unsupported = (_RETURN, 0, 0, _ERROR | errno.EOPNOTSUPP)
        for numbers, flags in _SENDING:
            when(numbers, (_LOAD, 0, 0, _ARGUMENT + 8 * flags), (_JUMP_ANY, 0, 1, _FAST_OPEN), unsupported, allow)
    else:
        tests = [(_JUMP_EQUAL, len(families) - at, 0, family) for at, family in enumerate(families)]
        when(_SOCKET, (_LOAD, 0, 0, _ARGUMENT), *tests, denied, allow)
    code.append(allow)
    return b"".join(struct.pack("=HBBI", *line) for line in code)


def _tcp_alone(allow: _Line, denied: _Line) -> list[_Line]:
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


def connecting(machine: str | None = None) -> bytes:
    """A filter that allows all, and hands each `connect` to whoever has the listener."""
    name, column = _ARCHITECTURES[machine or os.uname().machine]
    allow = (_RETURN, 0, 0, _ALLOW)
    other = [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_EQUAL, 1, 0, name), allow, (_LOAD, 0, 0, _NUMBER)]
    code = [*other, (_JUMP_EQUAL, 0, 1, _CONNECT[column]), (_RETURN, 0, 0, _NOTIFY), allow]
    return b"".join(struct.pack("=HBBI", *line) for line in code)


def install_listener(code: bytes) -> int:
    """As `install`; returns the descriptor on which the calls arrive that the filter hands over. `OSError` if none can
    be had, as inside a command that another Handrail supervises."""
    filter_ = _Program(len(code) // 8, code)
    number = _SECCOMP[_ARCHITECTURES[os.uname().machine][1]]
    flags = ctypes.c_ulong(_NEW_LISTENER | _WAIT_KILLABLE)
    listener: int = _libc.syscall(ctypes.c_long(number), ctypes.c_ulong(1), flags, ctypes.byref(filter_))
    if listener < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, f"seccomp: {os.strerror(failed)}")
    return listener


def install(code: bytes) -> None:
    """Put a filter on this thread and what it starts, for good. It must have forgone new privileges before."""
    filter_ = _Program(len(code) // 8, code)
    zero = ctypes.c_ulong(0)
    mode = ctypes.c_ulong(_MODE_FILTER)
    if _libc.prctl(_SET_SECCOMP, mode, ctypes.byref(filter_), zero, zero) != 0:
        failed = ctypes.get_errno()
        raise OSError(failed, f"seccomp: {os.strerror(failed)}")
