"""Remove what overlayfs leaves in a layer from a tree that is no layer any more."""

from __future__ import annotations

import os
import stat

from handrail.drafts.compare import MARKS, is_whiteout


def remove_marks(path: str) -> None:
    """Remove the attributes and whiteouts of overlayfs from a tree that is no longer a layer.

    Each file is looked at. The kernel marks directories with such files too, but not always for an ordinary user.
    """
    stack = [path]
    while stack:
        here = stack.pop()
        status = os.lstat(here)
        if stat.S_ISDIR(status.st_mode):
            stack += _remove_marks_of_files(here)
        _remove_attributes(here, status)
        if stat.S_ISDIR(status.st_mode) and os.lstat(here).st_mtime_ns != status.st_mtime_ns:
            os.utime(here, ns=(status.st_atime_ns, status.st_mtime_ns))


def _remove_marks_of_files(directory: str) -> list[str]:
    """Remove the marks and whiteouts in a directory; returns the directories in it."""
    directories: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.path)
            elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()) and is_whiteout(os.lstat(entry.path)):
                os.unlink(entry.path)
            else:
                _remove_attributes(entry.path)
    return directories


def _remove_attributes(path: str, status: os.stat_result | None = None) -> None:
    marks = [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith(MARKS)]
    if not marks:
        return
    mode = stat.S_IMODE((status or os.lstat(path)).st_mode)
    for name in marks:
        try:
            os.removexattr(path, name, follow_symlinks=False)
        except PermissionError:  # attributes of users need the right to write, even from the owner
            os.chmod(path, mode | stat.S_IWUSR)
            try:
                os.removexattr(path, name, follow_symlinks=False)
            finally:
                os.chmod(path, mode)
