"""Rename and exchange entries between a draft and its workspace, read-only ones too, without marks of overlayfs."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping

from handrail import system_calls
from handrail.drafts.compare import MARKS, Entry, is_whiteout, read_attributes
from handrail.system_calls import stat_at


def rename(name: str, directory: int, new_name: str, new_directory: int) -> None:
    """Rename to a name that is free, also from and into directories that their owner made read-only."""
    with make_writable((directory, "."), (new_directory, "."), (directory, name)):
        system_calls.rename_new(name, new_name, directory, new_directory)


def exchange(name: str, one: int, other: int) -> None:
    """Exchange the entries of one name in two directories."""
    with make_writable((one, "."), (other, "."), (one, name), (other, name)):
        if not system_calls.exchange(name, name, one, other):
            raise OSError("this file system cannot exchange two names")


@contextlib.contextmanager
def make_writable(*places: tuple[int, str]) -> Iterator[None]:
    """Give this user the right to write to directories that it owns; a rename needs it.

    Directories in which names change get their mode back here, and those that move in `restore_directory`.
    """
    changed: list[tuple[int, str, int]] = []
    if os.geteuid() != 0:
        for directory, name in places:
            status = stat_at(name, directory)
            if status and stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_IWUSR:
                os.chmod(name, stat.S_IMODE(status.st_mode) | stat.S_IRWXU, dir_fd=directory)
                if name == ".":
                    changed.append((directory, name, stat.S_IMODE(status.st_mode)))
    try:
        yield
    finally:
        for directory, name, mode in changed:
            os.chmod(name, mode, dir_fd=directory)


def set_attributes(path: str, attributes: Mapping[str, str]) -> None:
    now = read_attributes(path)
    for name in now.keys() - attributes.keys():
        os.removexattr(path, name)
    for name, value in attributes.items():
        if now.get(name) != bytes.fromhex(value):
            os.setxattr(path, name, bytes.fromhex(value))


def restore_directory(name: str, directory: int, entry: Entry | None) -> None:
    """Give a directory that was moved its mode and times back. To move one changes its time on some file systems."""
    status = stat_at(name, directory)
    if entry is None or status is None or not stat.S_ISDIR(status.st_mode):
        return
    if status.st_mode != entry.mode:
        os.chmod(name, stat.S_IMODE(entry.mode), dir_fd=directory)
    if status.st_mtime_ns != entry.mtime:
        os.utime(name, ns=(entry.atime, entry.mtime), dir_fd=directory)


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
