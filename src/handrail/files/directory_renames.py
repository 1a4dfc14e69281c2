"""Make directories of an overlay renamable, as in a draft or in a container.

Overlayfs refuses to rename a directory that the lower layer has (`EXDEV`) unless it may store where the directory came
from, which it may not for users. A directory that lies in the upper layer alone can be renamed. So the directory is
replaced by one of the upper layer, with the same entries, right before the rename.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable

from handrail.system_calls import READABLE_DIRECTORY


def rename_directory(rename: Callable[[], None], parent: int, name: str) -> None:
    """Carry out the rename of an entry of ``parent``; once more if it is a directory that an overlay refuses to rename.

    Raises `OSError` as ``rename`` does.
    """
    try:
        rename()
    except OSError as error:
        if error.errno != errno.EXDEV or not make_renamable(parent, name):
            raise
        rename()


def make_renamable(parent: int, name: str) -> bool:
    """Make the directory ``name`` in ``parent``, both inside a draft's view, renamable; False if it was already.

    Raises `OSError` if that fails; then the directory is as it was, and its rename fails with `EXDEV`.
    """
    if not _is_refused(parent, name):
        return False
    times = os.fstat(parent)
    try:
        _replace_by_upper(parent, name)
    finally:
        os.utime(parent, ns=(times.st_atime_ns, times.st_mtime_ns))
    return True


def _is_refused(parent: int, name: str) -> bool:
    """Whether the kernel refuses to rename a directory: try it, and rename it back."""
    times = os.fstat(parent)
    aside = _make_temporary_name()
    try:
        os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
        os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError as error:
        if error.errno == errno.EXDEV:
            return True
        raise
    finally:
        os.utime(parent, ns=(times.st_atime_ns, times.st_mtime_ns))
    return False


def _replace_by_upper(parent: int, name: str) -> None:
    """Move the entries of a directory into a new one, the inner directories first, and give it the old one's name."""
    new_name = _make_temporary_name()
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    os.mkdir(new_name, 0o700, dir_fd=parent)
    with contextlib.ExitStack() as stack:
        old = os.open(name, READABLE_DIRECTORY, dir_fd=parent)
        stack.callback(os.close, old)
        new = os.open(new_name, READABLE_DIRECTORY, dir_fd=parent)
        stack.callback(os.close, new)
        try:
            _move_entries(old, new)
            _copy_metadata(old, status, new)
        except OSError:
            for entry in os.listdir(new):
                os.rename(entry, entry, src_dir_fd=new, dst_dir_fd=old)
            os.rmdir(new_name, dir_fd=parent)
            raise
        os.rmdir(name, dir_fd=parent)
        os.rename(new_name, name, src_dir_fd=parent, dst_dir_fd=parent)
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))


def _move_entries(old: int, new: int) -> None:
    for entry in os.listdir(old):
        try:
            os.rename(entry, entry, src_dir_fd=old, dst_dir_fd=new)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _replace_by_upper(old, entry)
            os.rename(entry, entry, src_dir_fd=old, dst_dir_fd=new)


def _copy_metadata(old: int, status: os.stat_result, new: int) -> None:
    for attribute in os.listxattr(old):
        os.setxattr(new, attribute, os.getxattr(old, attribute))
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(new, status.st_uid, status.st_gid)
    os.chmod(new, stat.S_IMODE(status.st_mode))


def _make_temporary_name() -> str:
    return f".handrail-{secrets.token_hex(8)}"
