"""Put a file back as it was, in a tree in which a program is still running and may exchange directories for links."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from handrail.drafts.changes import How
from handrail.system_calls import DIRECTORY, open_beneath


@dataclass(frozen=True, slots=True)
class PutBack:
    """A protected file that a command changed, and that is as before now."""

    path: str
    change: How
    kept: str = ""
    """Where the new contents are; empty if there are none."""
    failed: str = ""
    """Why it could not be put back."""


@dataclass(frozen=True, slots=True)
class TreeRepair:
    """Puts files below a root back. No link below the root is followed."""

    root: str
    place: Callable[[str], str]
    """Where an entry goes that is taken out of the tree, by its name."""

    def remove(self, path: str, change: How = "created") -> PutBack:
        """Take an entry out of the tree, a directory with all that is in it."""
        try:
            place = self._remove_link_above(path)
            if not place and os.path.lexists(path):
                place = self._move_out(path)
        except OSError as error:
            if os.path.lexists(path):
                return PutBack(path, change, failed=error.strerror or str(error))
            place = ""
        return PutBack(path, change, place)

    def restore(self, path: str, change: How, raw: bytes | None, mode: int) -> PutBack:
        """Give a file or a link its old contents again; None: these were not saved."""
        if raw is None:
            return PutBack(path, change, failed="its old contents were not saved")
        taken = self.remove(path, change)
        if taken.failed:
            return taken
        try:
            with self._open_parent(path, make=True) as parent:
                _write(os.path.basename(path), parent, raw, mode)
        except OSError as error:
            return PutBack(path, change, taken.kept, failed=error.strerror or str(error))
        return taken

    def _remove_link_above(self, path: str) -> str:
        """Remove a link that has replaced a parent directory, and return its new place, or "" if there is none."""
        above = self.root
        for part in os.path.relpath(os.path.dirname(path), self.root).split("/"):
            above = os.path.normpath(os.path.join(above, part))
            if os.path.islink(above):
                return self._move_out(above)
        return ""

    def _move_out(self, path: str) -> str:
        name = os.path.basename(path)
        place = self.place(name)
        with self._open_parent(path) as parent:
            shutil.move(f"/proc/self/fd/{parent}/{name}", place)
        if os.path.isfile(place) and not os.path.islink(place):
            os.chmod(place, 0o600)
        return place

    @contextlib.contextmanager
    def _open_parent(self, path: str, make: bool = False) -> Iterator[int]:
        """The directory of a path, opened below the root without following any link."""
        name = os.path.relpath(os.path.dirname(path), self.root)
        with contextlib.ExitStack() as stack:
            fd = os.open(self.root, DIRECTORY)
            stack.callback(os.close, fd)
            if make:
                for part in [] if name == "." else name.split("/"):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                    fd = os.open(part, DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                    stack.callback(os.close, fd)
            else:
                fd = open_beneath(fd, name, DIRECTORY)
                stack.callback(os.close, fd)
            yield fd


def _write(name: str, parent: int, raw: bytes, mode: int) -> None:
    fresh = f"{name}.{secrets.token_hex(4)}"
    if stat.S_ISLNK(mode):
        os.symlink(raw, os.fsencode(fresh), dir_fd=parent)
    else:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
        with open(fd, "wb") as file:
            file.write(raw)
            os.fchmod(fd, stat.S_IMODE(mode))
    os.replace(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
