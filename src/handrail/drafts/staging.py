"""Copy the changes of a draft to the mount of its workspace, so that they can be renamed into place.

This is needed where the layers lie on another file system. Copies have the contents, types, modes, owners, attributes,
times and links of the originals, and none of the marks of overlayfs.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from handrail.drafts.compare import Entry, Step, is_whiteout, read_attributes
from handrail.drafts.layout import DraftDirectory, copy_owner, remove_tree
from handrail.system_calls import copy_contents

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LABELS = "security."
"""Attributes that the system gives to a file by itself, but for this one."""
_CAPABILITIES = "security.capability"


def stage_changes(draft: DraftDirectory, steps: Sequence[Step]) -> list[Step]:
    """Copy all new entries to `stage`; returns the steps with these copies. Raises `OSError`, and nothing is left."""
    if os.path.lexists(draft.stage):  # of a keep that was killed or given up
        remove_tree(draft.stage)
    os.mkdir(draft.stage, 0o700)
    copier = _Copier(draft.upper, draft.stage)
    try:
        return [copier.stage(step) for step in steps]
    except BaseException:
        remove_tree(draft.stage)
        raise


@dataclass(slots=True)
class _Copier:
    source: str
    target: str
    _links: dict[int, str] = field(default_factory=dict)
    """Copies of files that have several names, by the inode of the original."""

    def stage(self, step: Step) -> Step:
        if step.action not in ("create", "replace"):
            return step
        os.makedirs(os.path.join(self.target, os.path.dirname(step.path)), 0o700, exist_ok=True)
        self._copy_tree(step.path)
        return replace(step, after=Entry.of(os.lstat(os.path.join(self.target, step.path))))

    def _copy_tree(self, path: str) -> None:
        directories: list[str] = []
        stack = [path]
        while stack:
            here = stack.pop()
            original, copy = os.path.join(self.source, here), os.path.join(self.target, here)
            status = os.lstat(original)
            if stat.S_ISDIR(status.st_mode):
                os.mkdir(copy, 0o700)
                directories.append(here)
                stack += (os.path.join(here, name) for name in os.listdir(original))
            elif not is_whiteout(status):
                self._copy_entry(original, copy, status)
        for here in reversed(directories):  # the deepest first: a new entry changes the times of its directory
            original, copy = os.path.join(self.source, here), os.path.join(self.target, here)
            copy_metadata(original, copy, os.lstat(original))

    def _copy_entry(self, original: str, copy: str, status: os.stat_result) -> None:
        if status.st_nlink > 1:
            first = self._links.setdefault(status.st_ino, copy)
            if first != copy:
                os.link(first, copy, follow_symlinks=False)
                return
        if stat.S_ISREG(status.st_mode):
            with _readable(original, status):
                _copy_file(original, copy)
                copy_metadata(original, copy, status)
            return
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(original), copy)
        else:
            os.mknod(copy, stat.S_IFMT(status.st_mode) | 0o600, status.st_rdev)
        copy_metadata(original, copy, status)


def _copy_file(original: str, copy: str) -> None:
    with open(os.open(original, _READ), "rb") as source, open(copy, "xb") as target:
        copy_contents(source.fileno(), target.fileno())


@contextlib.contextmanager
def _readable(path: str, status: os.stat_result) -> Iterator[None]:
    """Let this user read a file of its own that it took the right to read away from."""
    mode = stat.S_IMODE(status.st_mode)
    if mode & stat.S_IRUSR or os.geteuid() == 0:
        yield
        return
    os.chmod(path, mode | stat.S_IRUSR)
    try:
        yield
    finally:
        os.chmod(path, mode)


def copy_metadata(original: str, copy: str, status: os.stat_result) -> None:
    """Give a copy the owner, attributes, mode and times of the original."""
    copy_owner(status, copy)
    if not stat.S_ISLNK(status.st_mode):
        for name, value in read_attributes(original).items():
            if not name.startswith(_LABELS) or name == _CAPABILITIES:
                os.setxattr(copy, name, value)
        os.chmod(copy, stat.S_IMODE(status.st_mode))
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
