"""Other names of a directory: a bind mount shows the same files at a second place, which must be hidden as well."""

from __future__ import annotations

import os
from collections.abc import Iterable

from handrail.drafts.places import read_mounts
from handrail.shell.sandbox.confinement import is_inside


def find_all_names(paths: Iterable[str], table: str = "/proc/self/mountinfo") -> tuple[str, ...]:
    """``paths``, and every further path by which another mount shows the same files."""
    names = dict.fromkeys(paths)
    try:
        mounts = read_mounts(table)
    except OSError:  # the kernel has no such table
        mounts = []
    for path in list(names):
        holding = [mount for mount in mounts if is_inside(path, mount.point)]
        if not holding:
            continue
        # Of mounts on one directory the last one covers the others.
        length = max(len(mount.point) for mount in holding)
        own = [mount for mount in holding if len(mount.point) == length][-1]
        on_device = os.path.normpath(os.path.join(own.root, os.path.relpath(path, own.point)))
        for other in mounts:
            if other.device == own.device and is_inside(on_device, other.root):
                names[os.path.normpath(os.path.join(other.point, os.path.relpath(on_device, other.root)))] = None
    return tuple(names)
