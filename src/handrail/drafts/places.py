"""Directories for drafts: private ones, and the mounts that they lie on."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from typing import NamedTuple

from handrail.system_calls import READABLE_DIRECTORY

OVERLAY = "overlay"
"""The kind of a mount."""
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_MOST_MOUNTS = 4 << 20


class MountRow(NamedTuple):
    """A mount of this machine."""

    number: str
    device: str
    root: str
    """The directory of the device that is mounted."""
    point: str
    is_writable: bool
    kind: str


def read_mounts(table: str = "/proc/self/mountinfo") -> list[MountRow]:
    """All mounts that this process sees, or the one whose ``table`` is given; raises `OSError`."""
    with open(table, "rb") as file:
        rows = [line.split(b" ") for line in file.read(_MOST_MOUNTS).splitlines()]
    return [
        MountRow(
            os.fsdecode(row[0]),
            os.fsdecode(row[2]),
            _unescape(row[3]),
            _unescape(row[4]),
            b"rw" in row[5].split(b","),
            os.fsdecode(row[row.index(b"-") + 1]),
        )
        for row in rows
    ]


def _unescape(raw: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8) & 0xFF]), raw))


def get_mount(path: str) -> str:
    """The number of the mount that a directory lies on; raises `OSError`."""
    fd = os.open(path, READABLE_DIRECTORY)
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
            return os.fsdecode(file.read(4096).partition(b"mnt_id:")[2].split(None, 1)[0])
    finally:
        os.close(fd)


def make_private(path: str) -> None:
    """Create a directory for this user alone, if it is not there; raises `OSError` if it belongs to another user."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(errno.EACCES, "it belongs to another user", path)
    if stat.S_IMODE(status.st_mode) != 0o700:
        os.chmod(path, 0o700)
