"""The few system calls that Python does not offer: open below a directory, exchange two names, hold writers off.

`open_beneath` is the workspace boundary. The kernel walks the path below a directory descriptor and follows no link at
all (`openat2`), or, where that call is missing, this module walks it one component at a time with `O_NOFOLLOW`. Either
way the check and the open are one step, so a parent directory that is swapped in between cannot lead outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator, Sequence

_LINUX = sys.platform == "linux"
_OPENAT2 = 437  # the same number on every Linux architecture since 5.6
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "armv7l": 382, "i686": 353, "ppc64le": 357, "s390x": 347}
_RESOLVE = 0x02 | 0x04 | 0x08  # NO_MAGICLINKS | NO_SYMLINKS | BENEATH
_REMOTE = {0x6969, 0x517B, 0xFF534D42, 0xFE534D42, 0x01021997}  # NFS, SMB, CIFS, SMB2, 9P
_BEGIN_WRITING = 2  # SYNC_FILE_RANGE_WRITE
_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_COPIED_BYTES = 1 << 20
_NOREPLACE, _EXCHANGE = (1, 2) if _LINUX else (4, 2)  # RENAME_EXCL, RENAME_SWAP of renameatx_np

O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
DIRECTORY = O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
READABLE_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Close a descriptor at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def opened_beneath(root: int, path: str, flags: int) -> Iterator[int]:
    """A directory below another one until the end of the block; with an empty path that one itself."""
    with closing_fd(open_beneath(root, path, flags) if path else os.dup(root)) as fd:
        yield fd


TICK = 50_000_000
"""Nanoseconds within which two changes may get the same change time; no file system in use is coarser."""


_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


def is_shortage(error: OSError) -> bool:
    """Whether descriptors, memory or processes ran out. The next call may have them again."""
    return error.errno in _SHORTAGES


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


_libc = ctypes.CDLL(None, use_errno=True)


def _raise(path: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), path)


@functools.cache
def _how(flags: int, mode: int) -> object:
    """The last argument of openat2, which the kernel only reads."""
    return ctypes.byref(_How(flags | os.O_CLOEXEC, mode if flags & os.O_CREAT else 0, _RESOLVE))


_HOW_BYTES = ctypes.sizeof(_How)


def _openat2(root: int, path: str, flags: int, mode: int) -> int:
    how, raw = _how(flags, mode), os.fsencode(path)
    for _ in range(100):
        fd: int = _libc.syscall(_OPENAT2, root, raw, how, _HOW_BYTES)
        if fd >= 0:
            return fd
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    _raise(path)
    raise AssertionError("unreachable")


def walk_beneath(root: int, path: str, flags: int, mode: int = 0) -> int:
    """`open_beneath` without the kernel's help: one component at a time, never through a link."""
    *parents, name = path.split("/")
    here = os.dup(root)
    try:
        for part in parents:
            deeper = os.open(part, DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = deeper
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=here)
    finally:
        os.close(here)
    if stat.S_ISLNK(os.fstat(fd).st_mode):  # O_PATH opens a link itself
        os.close(fd)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return fd


def _has_openat2() -> bool:
    if not _LINUX:
        return False
    try:
        with closing_fd(os.open("/", DIRECTORY)) as root:
            os.close(_openat2(root, ".", DIRECTORY, 0))
    except OSError:  # an old kernel, or a container that filters the call
        return False
    return True


HAS_OPENAT2 = _has_openat2()


def open_beneath(root: int, path: str, flags: int, mode: int = 0) -> int:
    """Open ``path`` (relative, free of ``..``) below the directory ``root`` without passing any link."""
    opener = _openat2 if HAS_OPENAT2 else walk_beneath
    for _ in range(500):
        try:
            return opener(root, path, flags, mode)
        except BlockingIOError:  # the file is being exchanged at this very moment: see `lease`
            time.sleep(0.001)
    return opener(root, path, flags, mode)


def _rename(old: str, new: str, directory: int, flag: int, to: int | None = None) -> None:
    a, b = os.fsencode(old), os.fsencode(new)
    to = directory if to is None else to
    if not _LINUX:
        done = _libc.renameatx_np(directory, a, to, b, flag)
    elif hasattr(_libc, "renameat2"):
        done = _libc.renameat2(directory, a, to, b, flag)
    else:
        done = _libc.syscall(_RENAMEAT2.get(os.uname().machine, -1), directory, a, to, b, flag)
    if done != 0:
        _raise(new)


_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def rename_new(old: str, new: str, directory: int, to: int | None = None) -> None:
    """Rename within ``directory``, or into ``to``; `FileExistsError` if ``new`` is there.

    ``old`` may stay as a second name.
    """
    try:
        _rename(old, new, directory, _NOREPLACE, to)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        there = directory if to is None else to
        os.link(old, new, src_dir_fd=directory, dst_dir_fd=there, follow_symlinks=False)


def exchange(one: str, other: str, directory: int, to: int | None = None) -> bool:
    """Swap a name of ``directory`` with another of it, or of ``to``, in one act; False where the file system cannot."""
    try:
        _rename(one, other, directory, _EXCHANGE, to)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def stat_at(name: str, directory: int) -> os.stat_result | None:
    """The status of an entry of ``directory``, without following a link; None if it is not there."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def sync_directory(directory: int) -> None:
    """The names in ``directory`` survive a power cut."""
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in (errno.EBADF, errno.EINVAL):  # a descriptor that cannot be synced
            raise


def sync_files(paths: Sequence[str]) -> None:
    """The contents of files survive a power cut. Those that cannot be read are left out."""
    with contextlib.ExitStack() as stack:
        files: list[int] = []
        for path in paths:
            with contextlib.suppress(PermissionError):
                files.append(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
                stack.callback(os.close, files[-1])
        if _LINUX and len(files) > 1:
            for fd in files:  # all are on their way before one is waited for
                _libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), _BEGIN_WRITING)
        for fd in files:
            os.fsync(fd)


def sync_file_system(directory: str) -> None:
    """Everything on the file system of ``directory`` survives a power cut."""
    with closing_fd(os.open(directory, READABLE_DIRECTORY)) as fd:
        if not _LINUX or _libc.syncfs(fd) != 0:
            if _LINUX and ctypes.get_errno() in _LOST:  # a full disk may only be noticed now
                _raise(directory)
            os.sync()


def find_data(fd: int, offset: int, size: int) -> int:
    """Where the next data of a file begins that is no hole, at ``offset`` or later; ``size`` if there is none."""
    try:
        return min(os.lseek(fd, offset, os.SEEK_DATA), size)
    except OSError as error:
        return size if error.errno == errno.ENXIO else offset  # a file system that knows nothing of holes


def copy_contents(source: int, target: int) -> None:
    """Copy a file to an empty one. Holes stay holes: a file may be larger than the disk."""
    size = os.fstat(source).st_size
    offset = 0
    while (offset := find_data(source, offset, size)) < size:
        block = os.pread(source, min(_COPIED_BYTES, size - offset), offset)
        if not block:  # it was truncated meanwhile
            break
        offset += os.pwrite(target, block, offset)
    os.ftruncate(target, size)


def lease(fd: int, alone: bool = False) -> bool | None:
    """Take a lease: a program that opens this file for writing waits until `release`, or until ``fd`` is closed.

    ``alone``: whoever opens it at all. False if somebody has it open that way already; None where leases are not to be
    had. Without ``alone``, ``fd`` must be read-only.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # Whoever waits sends us a signal; the default one would end the process.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK if alone else fcntl.F_RDLCK)
    except OSError as error:
        return False if error.errno == errno.EAGAIN and not is_remote(fd) else None
    return True


def is_remote(fd: int) -> bool:
    """Whether a file lies on a network file system: these refuse leases in the words of "somebody writes"."""
    buffer = ctypes.create_string_buffer(256)
    if _libc.fstatfs(fd, buffer) != 0:
        return False
    kind = int.from_bytes(buffer.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder) & 0xFFFFFFFF
    return kind in _REMOTE


def lease_wanted(fd: int, alone: bool = False) -> bool:
    """Whether somebody waits for the lease on ``fd`` to end."""
    return fcntl.fcntl(fd, fcntl.F_GETLEASE) != (fcntl.F_WRLCK if alone else fcntl.F_RDLCK)


def release(fd: int) -> None:
    """End a lease."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def hide_argument(text: str) -> bool:
    """Overwrite a word of this process's command line, which every process of this user can read; False if it cannot.

    The system shows that memory as it is now. Python has its own copy of the words.
    """
    raw = text.encode("utf-8", "surrogateescape")
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        if not raw or not 0 < start < end:
            return False
        at = ctypes.string_at(start, end - start).find(raw)
        while at >= 0:
            ctypes.memset(start + at, ord("*"), len(raw))
            at = ctypes.string_at(start, end - start).find(raw)
    except (OSError, ValueError, IndexError):
        return False
    return True
