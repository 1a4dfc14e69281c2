"""The directories and ignore files of a tree: as long as none of them changes, the same files are in it."""

from __future__ import annotations

import os
from typing import NamedTuple

Marks = dict[bytes, tuple[int, int]]
"""By path, the inode and the change time."""


class Structure(NamedTuple):
    """Directories and ignore files by their path below the root, which is empty for the root itself."""

    directories: Marks
    rules: Marks

    def holds(self, root: int) -> bool:
        """Whether nothing of it has changed."""
        try:
            for marks in self:
                for path, mark in marks.items():
                    status = os.stat(path or b".", dir_fd=root, follow_symlinks=False)
                    if (status.st_ino, status.st_ctime_ns) != mark:
                        return False
        except OSError:
            return False
        return True
