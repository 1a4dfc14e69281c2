"""Exchange an old file for a new one without losing writes of programs that ignore our locks.

Two leases protect the exchange. A lease on the old file: a program that has it open for writing finishes first, and a
program that wants to open it waits. A lease on the new file: a program that opens the name before the exchange is
confirmed waits as well. If the exchange is not good (the name belongs to another file now, or a program waits for the
old one), it is undone, and a program that waits for the new file gets the current contents.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from handrail import system_calls
from handrail.errors import PermissionDenied
from handrail.files.versions import BLOCK, read_all

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITERS_WAIT = 2.0
_COMPARED = 1 << 17


class Exchange:
    """The new file under a temporary name (open for writing), the old one under the name (open for reading)."""

    def __init__(self, directory: int, temp: str, name: str, new: int, old: int) -> None:
        self._directory = directory
        self._temp = temp
        self._name = name
        self._old = old
        self.new = new
        self.made = False
        """Whether the new file has the name."""
        self._expected: tuple[int, int] | None = _number(os.fstat(new))
        self._leased = False
        self._unseen = False

    def hold_writers_off(self) -> bool:
        """Wait until nobody writes to the old file, and let nobody begin; False if that takes too long."""
        answer = _lease(self._old)
        self._leased = answer is True
        return answer is not False

    def forth(self, before: bytes) -> bool | None:
        """The new file under the name. False: it is, and must go `back`. None: this file system cannot exchange.

        Raises `FileNotFoundError` and does nothing if the old file is not there, or does not hold ``before``.
        """
        if not holds(self._old, before) or self._identify(self._name) != _number(os.fstat(self._old)):
            raise FileNotFoundError(self._name)
        self._unseen = system_calls.lease(self.new, alone=True) is True
        if not system_calls.exchange(self._temp, self._name, self._directory):
            return None
        self.made = True
        good = self._identify(self._temp) == _number(os.fstat(self._old)) and not self.wanted()
        if good and not self._leased:
            good = holds(self._old, before)
        if good and self._unseen:
            self._unseen = False
            system_calls.release(self.new)
        return good

    def wanted(self) -> bool:
        """Whether somebody who found the old file before we took it away waits to write to it."""
        return self._leased and system_calls.lease_wanted(self._old)

    def back(self, after: bytes) -> str:
        """The names as they were. Answers with the name under which a version is kept that a stranger made of ours."""
        for _ in range(100):
            mine = self._identify(self._temp)
            system_calls.exchange(self._temp, self._name, self._directory)
            identity = self._identify(self._temp)
            if identity == self._expected:
                break
            self._expected = mine  # a stranger has put a file of its own there: that one is the newest, and goes back
        if self._unseen and not system_calls.lease_wanted(self.new, alone=True):
            return ""
        if self._unseen:
            after = self._copy_what_stands(after)
        if identity != _number(os.fstat(self.new)) or self.untouched(self._temp, after):
            return ""
        return keep(self._temp, self._name, self._directory)

    def _copy_what_stands(self, after: bytes) -> bytes:
        """Give the new file the contents of the one under the name, for those who wait to open it, and let them."""
        with contextlib.suppress(OSError):
            fd = os.open(self._name, READ, dir_fd=self._directory)
            try:
                size = os.fstat(fd).st_size
                contents = read_all(fd, size, size)
                if contents is not None:
                    write_all(self.new, contents)
                    os.ftruncate(self.new, len(contents))
                    after = contents
            finally:
                os.close(fd)
        self._unseen = False
        system_calls.release(self.new)
        return after

    def untouched(self, name: str, after: bytes) -> bool:
        """Whether ``name`` is the new file and holds ``after``: nobody replaced it, wrote to it or is about to."""
        if self._identify(name) != _number(os.fstat(self.new)):
            return False
        fd = os.open(name, READ, dir_fd=self._directory)
        os.close(self.new)  # it can write, and would count as a writer
        self.new = fd
        return _lease(fd) is not False and holds(fd, after)

    def _identify(self, name: str) -> tuple[int, int] | None:
        try:
            return _number(os.stat(name, dir_fd=self._directory, follow_symlinks=False))
        except FileNotFoundError:
            return None


def keep(temp: str, name: str, directory: int) -> str:
    """A version that is not ours to delete gets a name that people see."""
    visible = f"{name}.kept{temp.removeprefix('.handrail')}"
    system_calls.rename_new(temp, visible, directory)
    return visible


def _lease(fd: int) -> bool | None:
    deadline = time.monotonic() + _WRITERS_WAIT
    while (answer := system_calls.lease(fd)) is False and time.monotonic() < deadline:
        time.sleep(0.002)
    return answer


def _number(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def write_all(fd: int, data: bytes) -> None:
    view, offset = memoryview(data), 0
    while offset < len(view):
        offset += os.pwrite(fd, view[offset : offset + (BLOCK << 4)], offset)


def holds(fd: int, data: bytes) -> bool:
    """Whether the file holds exactly ``data``; read in pieces."""
    if os.fstat(fd).st_size != len(data):
        return False
    offset = 0
    while block := os.pread(fd, _COMPARED, offset):
        if not data.startswith(block, offset):  # without a copy; small blocks, which stay in the processor's cache
            return False
        offset += len(block)
    return offset == len(data)


def keep_metadata(old: int, new: int, named: str) -> None:
    """Owner where permitted, extended attributes and ACLs, then the mode (changing the owner clears bits of it)."""
    status, fresh = os.fstat(old), os.fstat(new)
    if (status.st_uid, status.st_gid) != (fresh.st_uid, fresh.st_gid):
        try:
            os.fchown(new, status.st_uid, status.st_gid)
        except PermissionError:
            with contextlib.suppress(PermissionError):
                os.fchown(new, -1, status.st_gid)
    _keep_attributes(old, new, named)
    os.fchmod(new, stat.S_IMODE(status.st_mode))


def keep_times(old: int, new: int) -> None:
    """A move keeps the modification time."""
    status = os.fstat(old)
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))


def _keep_attributes(old: int, new: int, named: str) -> None:
    if not hasattr(os, "listxattr"):
        return
    try:
        wanted, have = os.listxattr(old), os.listxattr(new)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            return
        raise
    for attribute in have:
        if attribute not in wanted:  # an ACL that the directory hands to new files
            with contextlib.suppress(OSError):
                os.removexattr(new, attribute)
    for attribute in wanted:
        try:
            os.setxattr(new, attribute, os.getxattr(old, attribute))
        except PermissionError:
            # Labels and capabilities belong to the system; losing an attribute of the user's would be a silent loss.
            if not attribute.startswith(("security.", "trusted.")):
                raise PermissionDenied(path=named, why=f"the attribute {attribute} cannot be preserved") from None
