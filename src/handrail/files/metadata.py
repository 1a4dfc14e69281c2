"""Copy owner, mode and attributes of a file to its replacement."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from handrail.errors import PermissionDenied


def keep_metadata(old: int, new: int, named: str) -> None:
    """Owner where permitted, extended attributes and ACLs, then the mode (changing the owner clears bits of it)."""
    found, fresh = os.fstat(old), os.fstat(new)
    if (found.st_uid, found.st_gid) != (fresh.st_uid, fresh.st_gid):
        try:
            os.fchown(new, found.st_uid, found.st_gid)
        except PermissionError:
            with contextlib.suppress(PermissionError):
                os.fchown(new, -1, found.st_gid)
    _keep_attributes(old, new, named)
    os.fchmod(new, stat.S_IMODE(found.st_mode))


def keep_times(old: int, new: int) -> None:
    """A move keeps the modification time."""
    found = os.fstat(old)
    os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))


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
