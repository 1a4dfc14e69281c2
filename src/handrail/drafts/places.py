"""Directories for drafts: private ones, the mounts that they lie on, and places for layers.

An overlay cannot be an upper layer, so the layers of drafts whose workspace lies on one need a volume or a tmpfs. The
state directory is tried first, then the usual directories for temporary files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from typing import NamedTuple

from handrail.system_calls import READABLE_DIRECTORY, closing_fd

OVERLAY = "overlay"
"""The kind of a mount."""
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_MOST_MOUNTS = 4 << 20
_KEY = "layers-key"
"""A file in a store with the name of its directory among those of others in the same place."""
_LEAST_FREE_BYTES = 16 << 20


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
    with closing_fd(os.open(path, READABLE_DIRECTORY)) as fd, open(f"/proc/self/fdinfo/{fd}", "rb") as file:
        return os.fsdecode(file.read(4096).partition(b"mnt_id:")[2].split(None, 1)[0])


def make_private(path: str) -> None:
    """Create a directory for this user alone, if it is not there; raises `OSError` if it belongs to another user."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(errno.EACCES, "it belongs to another user", path)
    if stat.S_IMODE(status.st_mode) != 0o700:
        os.chmod(path, 0o700)


def find_layers_place(state: str, store: str, workspace: str) -> str:
    """The directory for the layers of the drafts in ``store``; raises `OSError` if there is no place for it."""
    overlays = {mount.number for mount in read_mounts() if mount.kind == OVERLAY}
    for place in _list_places(os.path.realpath(state)):
        if f"{place}/".startswith(f"{workspace}/"):
            continue
        with contextlib.suppress(OSError):
            if get_mount(os.path.dirname(place)) in overlays:
                continue
            make_private(place)
            _try_place(place)
            layers = os.path.join(place, _read_key(store))
            make_private(layers)
            return layers
    raise OSError(
        errno.EINVAL,
        "the workspace lies on an overlay, as in a container, and no directory for its changes is on a volume or tmpfs",
        workspace,
    )


def _list_places(state: str) -> Iterator[str]:
    yield os.path.join(state, "layers")
    for above in ("/var/tmp", "/tmp", os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm"):  # noqa: S108 - made private
        if above:
            yield os.path.join(os.path.realpath(above), f".handrail-layers-{os.geteuid()}")


def _try_place(place: str) -> None:
    """Raise `OSError` if a directory cannot hold the marks of an upper layer, or next to nothing."""
    free = os.statvfs(place)
    if free.f_bavail * free.f_frsize < _LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, "too little space is free", place)
    name = os.path.join(place, f"trial-{secrets.token_hex(8)}")
    os.mkdir(name, 0o700)
    try:
        os.setxattr(name, "user.overlay.opaque", b"y")
        os.mknod(os.path.join(name, "whiteout"), stat.S_IFCHR, 0)
        os.unlink(os.path.join(name, "whiteout"))
    finally:
        os.rmdir(name)


def _read_key(store: str) -> str:
    """The key of a store, made once: two containers may share a place, and have stores of the same path."""
    path = os.path.join(store, _KEY)
    if not os.path.exists(path):
        key = secrets.token_hex(8)
        new = f"{path}-{key}"
        with open(new, "x", encoding="ascii") as file:
            file.write(key)
        try:
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
        finally:
            os.unlink(new)
    with open(path, encoding="ascii") as file:
        return file.read(64)
