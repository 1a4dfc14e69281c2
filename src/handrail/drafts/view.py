"""Show a draft to processes in the place of the workspace.

A view is one mount, however many processes work in it: the kernel does not allow two mounts of the same layers. The
first process mounts the draft in namespaces of its own, with a user namespace if it is not root's, and further ones
enter these. A process that works in nothing else holds the view, and has it look at the workspace again from time to
time. It ends with the last worker, and so does everything that is left in the view.

All of that happens between fork and exec: a process with several threads cannot enter a user namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import struct

from handrail.drafts.layout import DraftDirectory
from handrail.system_calls import closing_fd

_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000
_PRIVATE, _RECURSIVE, _REMOUNT, _BIND, _NO_SET_USER = 1 << 18, 1 << 14, 32, 4096, 2
_MOUNT_SETATTR, _HERE, _ATTR_READ_ONLY = 442, -100, 1
_REFRESH_SECONDS = 0.5
_END_SECONDS = 10.0
_DIE_WITH_PARENT = 1
_HOLDER = "view"
"""A file with the process that holds the view. Workers share a lock on it."""

_libc = ctypes.CDLL(None, use_errno=True)


def share_view(draft: DraftDirectory) -> int:
    """A descriptor that keeps the view of a draft until it is closed; waits for an earlier view to end."""
    fd = _open_holder(draft)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def end_view(draft: DraftDirectory) -> None:
    """End what is left in the view of a draft, on which no worker holds a descriptor any more."""
    if os.path.lexists(os.path.join(draft.path, _HOLDER)):
        with closing_fd(_open_holder(draft)) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if holder := _read_holder(fd):
                _end_processes(holder)
            os.ftruncate(fd, 0)


def enter_view(draft: DraftDirectory, die_with_parent: bool = True) -> None:
    """Show the draft to this process in the place of its workspace; raises `OSError` with the step that failed.

    The directory of all drafts is read-only in it, so that nothing changes the layers below the mount.
    """
    if die_with_parent:
        _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    with closing_fd(_open_holder(draft)) as fd:
        fcntl.lockf(fd, fcntl.LOCK_EX)  # not `flock`: workers share that
        if os.fstat(fd).st_size == 0:
            _mount_view(draft)
            os.chdir(draft.info.workspace)
            _start_holder(fd)
        elif holder := _read_holder(fd):
            _enter_namespaces(holder)
        else:
            raise OSError(errno.ESRCH, "the process that holds the view of this draft was killed")
    os.chdir(draft.info.workspace)


def _open_holder(draft: DraftDirectory) -> int:
    return os.open(os.path.join(draft.path, _HOLDER), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _read_holder(fd: int) -> int:
    """The process that holds a view; 0 if there is none, or another process has its number now."""
    process, *facts = os.pread(fd, 200, 0).split() or [b"0"]
    with contextlib.suppress(OSError):
        return int(process) if facts == _identify(int(process)) else 0
    return 0


def _identify(process: int) -> list[bytes]:
    """What tells a process from a later one with its number: its start, and its mounts."""
    with open(f"/proc/{process}/stat", "rb") as file:
        start = file.read(4096).rpartition(b")")[2].split()[19]
    return [start, b"%d" % os.stat(f"/proc/{process}/ns/mnt").st_ino]


def _enter_namespaces(process: int) -> None:
    names = [name for name in ("user", "mnt") if not _shares_namespace("self", process, name)]
    numbers = [os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
    for number in numbers:  # opened before any of them is entered
        _check(_libc.setns(number, 0), "enter the view")
        os.close(number)


def _end_processes(holder: int) -> None:
    """Kill the processes in the view of this one, which is the last, and wait until they have ended."""
    others = {int(name) for name in os.listdir("/proc") if name.isdecimal()} - {holder, os.getpid()}
    for process in [*others, holder]:
        with contextlib.suppress(ProcessLookupError), closing_fd(os.pidfd_open(process)) as number:
            if process == holder or _shares_namespace(process, holder, "mnt"):
                signal.pidfd_send_signal(number, signal.SIGKILL)
                ended = select.poll()
                ended.register(number, select.POLLIN)
                ended.poll(_END_SECONDS * 1000)


def _shares_namespace(process: int | str, other: int, name: str) -> bool:
    with contextlib.suppress(OSError):  # it has ended, or belongs to another user
        return os.stat(f"/proc/{process}/ns/{name}").st_ino == os.stat(f"/proc/{other}/ns/{name}").st_ino
    return False


def _mount_view(draft: DraftDirectory) -> None:
    workspace = draft.info.workspace
    user, group = os.geteuid(), os.getegid()
    if user != 0 or _libc.unshare(_NEW_MOUNTS) != 0:  # real root needs no user namespace
        _check(_libc.unshare(_NEW_MOUNTS | _NEW_USERS), "new namespaces")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _mount("none", "/", "", _PRIVATE | _RECURSIVE, "")
    layers = (("lowerdir", workspace), ("upperdir", draft.upper), ("workdir", draft.work))
    options = ",".join(f"{name}={_escape(path)}" for name, path in layers)
    _mount("overlay", workspace, "overlay", _NO_SET_USER, f"{options},userxattr")
    for place in {os.path.dirname(draft.path), *([os.path.dirname(draft.info.layers)] if draft.copies else [])}:
        _mount(place, place, "", _BIND, "")
        attributes = ctypes.create_string_buffer(struct.pack("=QQQQ", _ATTR_READ_ONLY, 0, 0, 0))
        words = [ctypes.c_long(_MOUNT_SETATTR), ctypes.c_long(_HERE), os.fsencode(place), ctypes.c_long(0)]
        _check(_libc.syscall(*words, attributes, ctypes.c_long(32)), "mount_setattr")


def _start_holder(fd: int) -> None:
    """Start the process that holds this view, and note it. It is no child of this one, which may wait for its own."""
    child = os.fork()
    if child == 0:
        try:
            if holder := os.fork():
                os.pwrite(fd, b" ".join([b"%d" % holder, *_identify(holder)]), 0)
            else:
                _hold_view(os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    if os.fstat(fd).st_size == 0:
        raise OSError(errno.EAGAIN, "the process that holds the view of this draft cannot be started")


def _hold_view(fd: int) -> None:
    """Refresh the mount on the working directory until no worker shares the view, then end what is left in it.

    So the view shows what others create, replace and delete in the workspace, as with `_refresh` of a launcher.
    """
    os.setsid()
    os.closerange(0, fd)  # who reads from a pipe sees its end with the worker
    os.closerange(fd + 1, os.sysconf("SC_OPEN_MAX"))

    def refresh(*_: object) -> None:
        _libc.mount(b"none", b".", None, ctypes.c_ulong(_REMOUNT | _NO_SET_USER), None)

    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, refresh)
    signal.setitimer(signal.ITIMER_REAL, _REFRESH_SECONDS, _REFRESH_SECONDS)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.ftruncate(fd, 0)
    _end_processes(os.getpid())


def _mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    what = [os.fsencode(text) if text else None for text in (source, target, kind, options)]
    _check(_libc.mount(what[0], what[1], what[2], ctypes.c_ulong(flags), what[3]), f"mount {kind or 'private'}")


def _check(result: int, step: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")


def _escape(path: str) -> str:
    return "".join("\\" + sign if sign in "\\:," else sign for sign in path)
