"""Other names by which a command reaches a file that may not be read: hard links, and paths through `/proc`.

A hard link is found by its inode: only a file with more than one name is compared, with the secrets that have more than
one name themselves.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Sequence

_MOST_IN_DIRECTORY = 1000

Identity = tuple[int, int]


def goes_through_process(path: str, *, glob: bool) -> bool:
    """Whether a path leads through the directory of a process, which is not that of this one: `/proc/self/cwd`."""
    if not path.startswith("/"):
        return False
    same = fnmatch.fnmatchcase if glob else _is_equal
    first, *names = posixpath.normpath(path).strip("/").split("/")
    if not same("proc", first):
        return False
    through_links = any(same(link, name) for name in names[1:] for link in ("cwd", "root"))
    return through_links or any(same("fd", name) for name in names[1:-2])


def _is_equal(name: str, other: str) -> bool:
    return name == other


class HardLinks:
    """Compares files with secrets that have more than one name."""

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        """``secrets``: the paths of files and directories that may not be read, as they are now."""
        self._secrets = secrets

    def find(self, path: str) -> str:
        """The secret that this path is another name of; empty if it is none."""
        try:
            status = os.lstat(path)
        except (OSError, ValueError):
            return ""
        if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
            return ""
        return self._linked_secrets().get((status.st_dev, status.st_ino), "")

    def other_names(self, directories: Sequence[str]) -> list[str]:
        """The files in these directories that are other names of secrets."""
        secrets = self._linked_secrets()
        if not secrets:  # nearly always
            return []
        numbers = {number for _, number in secrets}
        names: list[str] = []
        for directory in directories:
            try:
                with os.scandir(directory) as entries:
                    names += [entry.path for entry in entries if entry.inode() in numbers and self.find(entry.path)]
            except OSError:
                continue
        known = set(secrets.values())
        return [name for name in names if name not in known]

    def _linked_secrets(self) -> dict[Identity, str]:
        out: dict[Identity, str] = {}
        for path in self._secrets():
            for one in _files_of(path):
                try:
                    status = os.lstat(one)
                except OSError:
                    continue
                if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
                    out.setdefault((status.st_dev, status.st_ino), one)
        return out


def _files_of(path: str) -> list[str]:
    """The path itself, and the files in it if it is a directory."""
    if os.path.islink(path) or not os.path.isdir(path):
        return [path]
    try:
        return [os.path.join(path, name) for name in os.listdir(path)[:_MOST_IN_DIRECTORY]]
    except OSError:
        return []
