"""Other names of a directory: a bind mount shows the same files at a second place, which must be hidden as well."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from handrail.shell.sandbox.confinement import is_inside

_MOUNTS = "/proc/self/mountinfo"
_MOST_BYTES = 4 << 20
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def find_all_names(paths: Iterable[str], mounts: str = _MOUNTS) -> tuple[str, ...]:
    """``paths``, and every further path by which another mount shows the same files."""
    names = dict.fromkeys(paths)
    table = _read_table(mounts)
    for path in list(names):
        holding = [mount for mount in table if is_inside(path, mount[2])]
        if not holding:
            continue
        # Of mounts on one directory the last one covers the others.
        length = max(len(mount[2]) for mount in holding)
        device, root, point = [mount for mount in holding if len(mount[2]) == length][-1]
        on_device = os.path.normpath(os.path.join(root, os.path.relpath(path, point)))
        for other, other_root, other_point in table:
            if other == device and is_inside(on_device, other_root):
                names[os.path.normpath(os.path.join(other_point, os.path.relpath(on_device, other_root)))] = None
    return tuple(names)


def _read_table(mounts: str) -> list[tuple[str, str, str]]:
    """Device, root on the device, and mount point of every mount; empty where the kernel has no such table."""
    try:
        with open(mounts, "rb") as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except OSError:
        return []
    rows = [line.split(b" ", 5) for line in lines]
    return [(row[2].decode("ascii", "replace"), _unescape(row[3]), _unescape(row[4])) for row in rows if len(row) > 5]


def _unescape(field: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8) & 0xFF]), field))
