"""Files of other users and groups in the workspace of an ordinary user.

The user namespace of a draft does not know their owners, and the kernel then refuses to copy such a file to the upper
layer (`EOVERFLOW`): a command could not change it. So these files are copied to the upper layer before it is mounted,
with their group if this user is a member of it. A copy that no command has touched is no change.

Files of other users that this user may not write to are left out: commands may not write to them either. So are files
that this user may not read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from handrail.drafts.layout import FOREIGN, DraftDirectory, copy_owner, read_clock

MOST_LOOKED_AT = 50_000
_MOST_COPIED = 1_000
_MOST_BYTES = 32 << 20
_COPIED_KINDS = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK, stat.S_ISFIFO)


class ForeignCopy(NamedTuple):
    """A copy in the upper layer, and the owner of its original."""

    path: str
    change_time: int
    """Of the copy, in nanoseconds: it is later once a command has touched the copy."""
    owner: tuple[int, int]
    group: int
    """Of the copy; that of the original, if this user is a member of it."""

    def is_untouched(self, path: str, status: os.stat_result) -> bool:
        return (path, status.st_ctime_ns) == (self.path, self.change_time)

    def get_owner(self, status: os.stat_result) -> tuple[int, int]:
        """The owner of the original. A command may have given it another group."""
        return self.owner[0], self.owner[1] if status.st_gid == self.group else status.st_gid


def find_foreign_files(workspace: str) -> list[str]:
    """The paths below a workspace that must be copied for a draft, directories before their entries.

    Raises `OSError` if there are too many, or if they are too large. Of a very large workspace a part is looked at.
    """
    mine = os.geteuid(), os.getegid()
    paths: list[str] = []
    looked = size = 0
    stack = [workspace]
    while stack and looked < MOST_LOOKED_AT:
        with contextlib.suppress(PermissionError, FileNotFoundError), os.scandir(stack.pop()) as entries:
            for entry in entries:
                looked += 1
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    stack.append(entry.path)
                if (status.st_uid, status.st_gid) != mine and _is_needed(entry.path, status):
                    paths.append(os.path.relpath(entry.path, workspace))
                    size += status.st_size if stat.S_ISREG(status.st_mode) else 0
                if len(paths) > _MOST_COPIED or size > _MOST_BYTES:
                    why = f"more than {_MOST_COPIED} files, or {_MOST_BYTES >> 20} MB, belong to other users or groups"
                    raise OSError(errno.EOVERFLOW, f"{why}, such as {paths[-1]}", workspace)
    return paths


def _is_needed(path: str, status: os.stat_result) -> bool:
    if not any(is_kind(status.st_mode) for is_kind in _COPIED_KINDS):
        return False
    if stat.S_ISREG(status.st_mode) and not os.access(path, os.R_OK, effective_ids=True):
        return False
    if status.st_uid == os.geteuid():
        return True
    return not stat.S_ISLNK(status.st_mode) and os.access(path, os.W_OK, effective_ids=True)


def copy_foreign_files(draft: DraftDirectory, paths: Sequence[str]) -> None:
    """Copy files of other users and groups to the upper layer of a new draft; raises `OSError`.

    Those that have gone meanwhile are left out.
    """
    copied: dict[int, ForeignCopy] = {}
    directories: dict[str, None] = {}
    for path in paths:
        original, copy = os.path.join(draft.info.workspace, path), os.path.join(draft.upper, path)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(original)
            for above in _list_parents(path):
                _make_directory(os.path.join(draft.upper, above), directories, above)
            if stat.S_ISDIR(status.st_mode):
                _make_directory(copy, directories, path)
            elif stat.S_ISLNK(status.st_mode):
                os.symlink(os.readlink(original), copy)
                copy_owner(status, copy)
                os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
            elif stat.S_ISFIFO(status.st_mode):
                os.mkfifo(copy, 0o600)
                _copy_metadata(original, copy, status)
            elif stat.S_ISREG(status.st_mode):
                shutil.copyfile(original, copy, follow_symlinks=False)
                _copy_metadata(original, copy, status)
            else:
                continue
            _remember(copied, draft, path, status)
    for path in reversed(directories):
        original = os.path.join(draft.info.workspace, path)
        status = os.lstat(original)
        copy = os.path.join(draft.upper, path)
        # An unknown origin. The kernel would set one itself, and may not in a read-only directory.
        os.setxattr(copy, "user.overlay.origin", b"")
        _copy_metadata(original, copy, status)
        _remember(copied, draft, path, status)
    if copied:
        upper = os.lstat(draft.info.workspace)
        os.utime(draft.upper, ns=(upper.st_atime_ns, upper.st_mtime_ns))
        draft.write(FOREIGN, copied, sync=False)
        read_clock(os.path.dirname(draft.upper))  # so that whatever touches a copy gives it another change time


def read_foreign_copies(draft: DraftDirectory) -> dict[int, ForeignCopy]:
    """The copies in the upper layer of a draft by their inodes."""
    rows = draft.read(FOREIGN)
    return {
        int(inode): ForeignCopy(path, time, (owner[0], owner[1]), group)
        for inode, (path, time, owner, group) in rows.items()
    }


def adopt_foreign_copies(draft: DraftDirectory, other: DraftDirectory) -> None:
    """Have a draft know the copies of another one, of which it takes over changes."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(os.path.join(other.path, FOREIGN), os.path.join(draft.path, FOREIGN))


def _list_parents(path: str) -> Iterator[str]:
    parts = path.split("/")[:-1]
    for end in range(1, len(parts) + 1):
        yield "/".join(parts[:end])


def _make_directory(copy: str, directories: dict[str, None], path: str) -> None:
    if path not in directories:
        os.mkdir(copy, 0o700)
        directories[path] = None


def _copy_metadata(original: str, copy: str, status: os.stat_result) -> None:
    copy_owner(status, copy)
    shutil.copystat(original, copy)


def _remember(copied: dict[int, ForeignCopy], draft: DraftDirectory, path: str, original: os.stat_result) -> None:
    copy = os.lstat(os.path.join(draft.upper, path))
    owner = original.st_uid, original.st_gid
    copied[copy.st_ino] = ForeignCopy(path, copy.st_ctime_ns, owner, copy.st_gid)
