"""Landlock, the kernel's access control for files: a thread gives up rights for good, and its children inherit that.

The rights belong to one thread, so the rest of the program stays as it was. `LandlockBoundary` starts each command from
a thread of its own. A command may look into the memory, the environment and the open files of every process under the
same restriction, so a thread of ours that stayed there would lay the whole program open, keys included. The command
waits at a gate until the thread that started it has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import sys
from collections.abc import Iterable

from handrail.shell.sandbox.confinement import Confinement, split_trees
from handrail.shell.sandbox.system_call_numbers import make_call

_VERSION = 1
_PATH_BENEATH = 1
_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

LEAST = 3
"""Before version 3 (Linux 6.2) a confined program could still empty any file by truncating it."""

_READING = EXECUTE | READ_FILE | READ_DIR
_WRITING = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
_WRITING |= REFER | TRUNCATE
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
KEPT_CAPABILITIES = (0, 1, 3, 4)  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID: what root needs for files of others


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def get_version() -> int:
    """The version of landlock that this kernel offers; 0 for none."""
    with contextlib.suppress(OSError):
        return make_call("landlock_create_ruleset", None, 0, _VERSION) if sys.platform == "linux" else 0
    return 0


def forgo_privileges() -> None:
    """This thread, and what it starts, gains nothing by running a set-uid program."""
    make_call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def drop_capabilities() -> None:
    """Of root's powers, this thread keeps those over the files that it can reach."""
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    make_call("capget", header, sets)  # effective, permitted, inheritable; low, then high
    kept = sum(1 << bit for bit in KEPT_CAPABILITIES) & sets[1]
    make_call("capset", header, (ctypes.c_uint32 * 6)(kept & sets[0], kept, 0, 0, 0, 0))


def create_ruleset(
    confinement: Confinement,
    tmp: str,
    *,
    network: bool = False,
    hidden: Iterable[str] = (),
    readable: Iterable[str] = (),
    files: Iterable[int] = (),
) -> int:
    """A descriptor for `restrict`, which the caller closes: the rights that a confinement leaves.

    ``network``: leaves TCP open. ``hidden``: further paths not to be read. ``readable``: further trees to read.
    ``files``: open files that may be opened again, as `/dev/stdout` does.
    """
    version = get_version()
    if version < LEAST:
        raise OSError(f"landlock version {LEAST} is needed, the kernel has {version}")
    known = (1 << (16 if version >= 5 else 15)) - 1
    # Raw disks are files too, so of the devices only the harmless ones are allowed.
    trees, split = split_trees(confinement.readable, {*confinement.hidden, *hidden, "/dev"})
    writable = (*confinement.writable, tmp)
    places = [
        *((tree, _READING, True) for tree in trees),
        *((directory, READ_DIR, True) for directory in split),
        ("/proc", READ_FILE | READ_DIR, False),
        *((f"/dev/{device}", _DEVICE, False) for device in _DEVICES),
        *((tree, _READING, False) for tree in readable),
        *((tree, _READING | _WRITING, False) for tree in writable),
    ]
    # Version 4 knows TCP: bind and connect. Version 6 knows abstract sockets and signals.
    handled = _Ruleset(known, 3 if version >= 4 and not network else 0, 3 if version >= 6 else 0)
    ruleset = make_call("landlock_create_ruleset", ctypes.byref(handled), ctypes.sizeof(handled), 0)
    try:
        for path, rights, itself in places:
            # Opened and closed one by one: a full home directory must not use up all descriptors.
            fd = _open_path(path, itself=itself)
            if fd >= 0:
                try:
                    _add_rule(ruleset, fd, rights & known)
                finally:
                    os.close(fd)
        for fd in files:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                _add_rule(ruleset, fd, READ_FILE | WRITE_FILE | TRUNCATE)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _add_rule(ruleset: int, fd: int, rights: int) -> None:
    mode = os.fstat(fd).st_mode
    if stat.S_ISLNK(mode):  # put there since the directory was listed: it gives no access of its own
        return
    place = _PathBeneath(rights if stat.S_ISDIR(mode) else rights & _OF_FILES, fd)
    make_call("landlock_add_rule", ruleset, _PATH_BENEATH, ctypes.byref(place), 0)


def restrict(ruleset: int) -> None:
    """Put a ruleset on this thread, for good. Each time is a restriction of its own, whatever was restricted before."""
    forgo_privileges()
    make_call("landlock_restrict_self", ruleset, 0)


def _open_path(path: str, *, itself: bool = False) -> int:
    """A descriptor that only names the file; -1 if it is not there, or not for us: then it needs no right."""
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if itself else 0))
    except OSError:
        return -1
