"""How much room index files may take."""

from __future__ import annotations

import contextlib
import os

SUFFIX = ".index"
MOST_INDEX_BYTES = 512 << 20
"""A larger index is not written."""
MOST_BYTES = 1 << 30
"""All indexes together; those not used for the longest time are deleted."""


def list_indexes(folder: str) -> list[str]:
    """The paths of all indexes in a folder."""
    with contextlib.suppress(OSError):
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(SUFFIX)]
    return []


def delete_oldest(keep: str) -> None:
    """Delete the indexes beside this one that were not used for the longest time, until the others fit."""
    used = []
    for path in list_indexes(os.path.dirname(keep)):
        with contextlib.suppress(OSError):
            status = os.stat(path)
            used.append((path == keep, max(status.st_atime_ns, status.st_mtime_ns), status.st_size, path))
    total = sum(size for _, _, size, _ in used)
    for kept, _, size, path in sorted(used):
        if total > MOST_BYTES and not kept:
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size
