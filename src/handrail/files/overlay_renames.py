"""Make entries of an overlay renamable, as in a draft or in a container.

Overlayfs refuses to rename a directory that the lower layer has (`EXDEV`) unless it may store where the directory came
from, which it may not for users. A directory that lies in the upper layer alone can be renamed. So the directory is
replaced by one of the upper layer, with the same entries, right before the rename.

It also refuses to rename a file of a user or group that its user namespace does not know (`EOVERFLOW`). Such a file is
replaced by a copy, which belongs to this user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable

from handrail.system_calls import READABLE_DIRECTORY, copy_contents
from handrail.workspace import make_temporary_name

_REFUSALS = (errno.EXDEV, errno.EOVERFLOW)
_SET_IDS = stat.S_ISUID | stat.S_ISGID
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def rename_entry(rename: Callable[[], None], parent: int, name: str) -> None:
    """Carry out the rename of an entry of ``parent``; once more if an overlay refuses it for such a reason.

    Raises `OSError` as ``rename`` does.
    """
    try:
        rename()
    except OSError as error:
        if error.errno not in _REFUSALS or not make_renamable(parent, name):
            raise
        rename()


def make_renamable(parent: int, name: str) -> bool:
    """Make the entry ``name`` of ``parent``, both inside a draft's view, renamable; False if it was already.

    Raises `OSError` if that fails; then the entry is as it was, and its rename fails.
    """
    refusal = _find_refusal(parent, name)
    if not refusal:
        return False
    times = os.fstat(parent)
    try:
        _replace(parent, name, refusal)
    finally:
        os.utime(parent, ns=(times.st_atime_ns, times.st_mtime_ns))
    return True


def _find_refusal(parent: int, name: str) -> int:
    """The error with which the kernel refuses to rename an entry, or 0: try it, and rename it back."""
    times = os.fstat(parent)
    aside = make_temporary_name()
    try:
        os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
        os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError as error:
        if error.errno in _REFUSALS:
            return error.errno
        raise
    finally:
        os.utime(parent, ns=(times.st_atime_ns, times.st_mtime_ns))
    return 0


def _replace(parent: int, name: str, refusal: int) -> None:
    if refusal == errno.EXDEV:
        _replace_by_upper(parent, name)
    else:
        _replace_by_copy(parent, name)


def _replace_by_upper(parent: int, name: str) -> None:
    """Move the entries of a directory into a new one, the inner directories first, and give it the old one's name."""
    new_name = make_temporary_name()
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    os.mkdir(new_name, 0o700, dir_fd=parent)
    with contextlib.ExitStack() as stack:
        old = os.open(name, READABLE_DIRECTORY, dir_fd=parent)
        stack.callback(os.close, old)
        new = os.open(new_name, READABLE_DIRECTORY, dir_fd=parent)
        stack.callback(os.close, new)
        try:
            _move_entries(old, new)
            _copy_attributes(old, new)
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(new, status.st_uid, status.st_gid)
            os.chmod(new, stat.S_IMODE(status.st_mode))
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
            if error.errno not in _REFUSALS:
                raise
            _replace(old, entry, error.errno)
            os.rename(entry, entry, src_dir_fd=old, dst_dir_fd=new)


def _replace_by_copy(parent: int, name: str) -> None:
    """Put a copy in the place of a file, a link or a pipe; raises `OSError` for what a copy cannot stand for."""
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    new_name = make_temporary_name()
    try:
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=parent), new_name, dir_fd=parent)
        elif stat.S_ISFIFO(status.st_mode):
            os.mkfifo(new_name, 0o600, dir_fd=parent)
            os.chmod(new_name, stat.S_IMODE(status.st_mode), dir_fd=parent)
        elif stat.S_ISREG(status.st_mode) and not status.st_mode & _SET_IDS:  # these would be of another user
            _copy_file(parent, name, new_name)
        else:
            raise OSError(errno.EOVERFLOW, os.strerror(errno.EOVERFLOW), name)
        times = status.st_atime_ns, status.st_mtime_ns
        os.utime(new_name, ns=times, dir_fd=parent, follow_symlinks=False)
        os.rename(new_name, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new_name, dir_fd=parent)
        raise


def _copy_file(parent: int, name: str, new_name: str) -> None:
    with (
        open(os.open(name, _READ, dir_fd=parent), "rb") as old,
        open(os.open(new_name, _CREATE, 0o600, dir_fd=parent), "wb") as new,
    ):
        copy_contents(old.fileno(), new.fileno())
        _copy_attributes(old.fileno(), new.fileno())
        os.chmod(new.fileno(), stat.S_IMODE(os.fstat(old.fileno()).st_mode))


def _copy_attributes(old: int, new: int) -> None:
    for attribute in os.listxattr(old):
        os.setxattr(new, attribute, os.getxattr(old, attribute))
