"""Landlock, the kernel's access control for files: a thread gives up rights for good, and its children inherit that.

The rights belong to one thread, so the rest of the program stays as it was. Two uses: `Confined` runs the file tools in
threads that can reach nothing but the workspace, and `LandlockBoundary` starts a command from a thread made for
it and ends before the command begins.

That second thread is not an economy to be made. A command may look into the memory, the environment and the open files
of every process that stands under the same restriction, and a thread of ours that stood there would be the door to the
whole program, keys included. So each command gets a restriction of its own, and waits at a gate until the thread that
started it is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from handrail.shell.sandbox.confinement import Confinement, iterate_parents, split_trees
from handrail.shell.sandbox.system_call_numbers import NUMBERS

T = TypeVar("T")

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = (
    NUMBERS[name][0] for name in ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
)  # the same on every architecture
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


_libc = ctypes.CDLL(None, use_errno=True)


def _call(what: str, number: int, *arguments: object) -> int:
    result: int = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, f"{what}: {os.strerror(failed)}")
    return result


def get_version() -> int:
    """The version of landlock that this kernel offers; 0 for none."""
    if sys.platform != "linux":
        return 0
    version: int = _libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(0, version)


def forgo_privileges() -> None:
    """This thread, and what it starts, gains nothing by running a set-uid program."""
    one, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if _libc.prctl(_SET_NO_NEW_PRIVS, one, zero, zero, zero) != 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))


def drop_capabilities() -> None:
    """Of root's powers, this thread keeps those over the files that it can reach."""

    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]

    header, sets = Header(0x20080522, 0), (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; low, then high
    if _libc.capget(ctypes.byref(header), sets) != 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))
    kept = sum(1 << bit for bit in KEPT_CAPABILITIES) & sets[1]
    if list(sets) == [kept & sets[0], kept, 0, 0, 0, 0]:
        return
    left = (ctypes.c_uint32 * 6)(kept & sets[0], kept, 0, 0, 0, 0)
    if _libc.capset(ctypes.byref(header), left) != 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))


class RulesetCache:
    """The rights that a confinement leaves, as a ruleset of the kernel, ready to be put on threads."""

    def __init__(self, confinement: Confinement, *, tmp: str, tools: bool, also_hidden: Iterable[str] = ()) -> None:
        """``tools``: for the file tools, which have directories of their own and use no network.

        ``also_hidden``: further paths that must not be readable, besides those of the confinement.
        """
        self.version = get_version()
        if self.version < LEAST:
            raise OSError(f"landlock version {LEAST} is needed, the kernel has {self.version}")
        known = (1 << (16 if self.version >= 5 else 15)) - 1
        # Version 4 knows TCP: bind and connect. Version 6 knows abstract sockets and signals.
        self._known = known, 3 if self.version >= 4 else 0, 3 if self.version >= 6 else 0
        self._closed = tools or confinement.network != "on"
        self.hidden = frozenset((*confinement.hidden, *also_hidden))
        self._held: dict[str, int] = {}
        self._shared: dict[bool, int] = {}
        self._making = threading.Lock()
        # Raw disks are files too, so of the devices only the harmless ones are allowed.
        hidden = {*self.hidden, "/dev"}
        before = {above: _get_change_time(above) for path in hidden for above in iterate_parents(path)}
        trees, split = split_trees(confinement.readable, hidden)
        self._split = {path: before[path] for path in split}
        self._places = [
            *((tree, _READING, True) for tree in trees),
            *((directory, READ_DIR, True) for directory in split),
            ("/proc", READ_FILE | READ_DIR, False),
            *((f"/dev/{device}", _DEVICE, False) for device in _DEVICES),
        ]
        for tree in (*confinement.writable, tmp, *(confinement.own if tools else ())):
            self._held[tree] = _open_path(tree)

    def outdated(self) -> bool:
        """Whether another directory stands where one may be written: rights belong to files, not to names."""
        for tree, fd in self._held.items():
            try:
                now = os.stat(tree)
            except OSError:
                continue  # there is none: nothing can be written there, whatever the rights
            if fd < 0 or not os.path.samestat(now, os.fstat(fd)):
                return True
        return False

    def stale(self) -> bool:
        """Whether a directory that holds a hidden path has changed: its new entries have no rights yet."""
        return self.outdated() or any(_get_change_time(path) != then for path, then in self._split.items())

    def close(self) -> None:
        for fd in (*self._held.values(), *self._shared.values()):
            if fd >= 0:
                os.close(fd)
        self._held.clear()
        self._shared.clear()

    def ruleset(self, open_files: Iterable[int] = (), readable: Iterable[str] = (), *, network: bool = False) -> int:
        """A descriptor for `restrict`, which the caller closes.

        ``open_files`` may be opened again, as `/dev/stdout` does; ``readable`` are further trees to read;
        ``network`` leaves TCP open.
        """
        files = [fd for fd in open_files if stat.S_ISREG(os.fstat(fd).st_mode)]
        trees = tuple(readable)
        if files or trees:
            return self._new(files, trees, network)
        with self._making:
            if network not in self._shared:
                self._shared[network] = self._new((), (), network)
            return os.dup(self._shared[network])

    def restrict(self, open_files: Iterable[int] = ()) -> None:
        """Put the rules on this thread, for good."""
        ruleset = self.ruleset(open_files)
        try:
            restrict(ruleset)
        finally:
            os.close(ruleset)

    def _new(self, files: Iterable[int], trees: Iterable[str], network: bool) -> int:
        fs, net, scoped = self._known
        handled = _Ruleset(fs, net if self._closed and not network else 0, scoped)
        ruleset = _call(
            "landlock_create_ruleset",
            _CREATE_RULESET,
            ctypes.byref(handled),
            ctypes.c_size_t(ctypes.sizeof(handled)),
            ctypes.c_uint32(0),
        )
        try:
            for path, rights, itself in (*self._places, *((tree, _READING, False) for tree in trees)):
                # Opened and closed one by one: a full home directory must not use up all descriptors.
                fd = _open_path(path, itself=itself)
                if fd >= 0:
                    try:
                        self._add(ruleset, fd, rights)
                    finally:
                        os.close(fd)
            for fd in self._held.values():
                if fd >= 0:
                    self._add(ruleset, fd, _READING | _WRITING)
            for fd in files:
                self._add(ruleset, fd, READ_FILE | WRITE_FILE | TRUNCATE)
        except BaseException:
            os.close(ruleset)
            raise
        return ruleset

    def _add(self, ruleset: int, fd: int, rights: int) -> None:
        mode = os.fstat(fd).st_mode
        if stat.S_ISLNK(mode):  # put there since the directory was listed: it gives no access of its own
            return
        if not stat.S_ISDIR(mode):
            rights &= _OF_FILES
        place = _PathBeneath(rights & self._known[0], fd)
        _call(
            "landlock_add_rule",
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.byref(place),
            ctypes.c_uint32(0),
        )


def restrict(ruleset: int) -> None:
    """Put a ruleset on this thread, for good. Each time is a restriction of its own, whatever was restricted before."""
    forgo_privileges()
    _call("landlock_restrict_self", _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))


def _open_path(path: str, *, itself: bool = False) -> int:
    """A descriptor that only names the file; -1 if it is not there, or not for us: then it needs no right."""
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if itself else 0))
    except OSError:
        return -1


def _get_change_time(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return -1


class ConfinedThreads:
    """Threads that have given up all but what a confinement allows, and run what they are handed.

    They are made as they are needed, and made anew when a directory that may be written is another one by now.
    What ``work`` starts is confined for good, threads too: it must not be the first to use a pool that others share.
    """

    def __init__(self, make: Callable[[], RulesetCache], threads: int = 32) -> None:
        self._make = make
        self._most = threads
        self._here = threading.local()
        self._lock = threading.Lock()
        self._past = contextlib.ExitStack()
        self._rules, self._threads = self._begin()

    def _begin(self) -> tuple[RulesetCache, ThreadPoolExecutor]:
        rules = self._make()
        self._past.callback(rules.close)
        pool = ThreadPoolExecutor(self._most, "handrail-confined", self._restrict, (rules,))
        self._past.callback(pool.shutdown, wait=True, cancel_futures=True)  # before its rules are closed
        return rules, pool

    def _restrict(self, rules: RulesetCache) -> None:
        rules.restrict()
        self._here.confined = True

    def run(self, work: Callable[[], T]) -> T:
        """The outcome of ``work``, done inside; a thread that could not be confined runs nothing."""
        if getattr(self._here, "confined", False):
            return work()
        with self._lock:
            if self._rules.outdated():
                self._threads.shutdown(wait=False)  # what runs there goes on to its end
                self._rules, self._threads = self._begin()
            waiting = self._threads.submit(copy_context().run, work)
        return waiting.result()

    def close(self) -> None:
        with self._lock:
            self._past.close()
