"""The three sides of a file that a draft and something else have changed: its base, the draft's and the workspace's.

The base is the workspace's file as it was when the draft was created. An overlay does not keep it, so it is copied as
soon as the draft has changed the file, while the workspace still has it: while a program runs in the draft, at growing
intervals, and whenever a draft is left. A file that something else changes before that has no base, and is not merged.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from handrail.drafts.layout import DraftDirectory, Version, copy_owner, read_clock
from handrail.system_calls import READABLE_DIRECTORY, closing_fd, open_beneath, opened_beneath, stat_at

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MOST_BYTES = 4 << 20
"""Larger files are not merged."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_REST = 20
"""The saver rests this many times longer than it has worked."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The contents of one file."""

    path: str
    base: bytes | None
    """None: it is not known."""
    ours: bytes
    """In the draft."""
    theirs: bytes
    """In the workspace."""
    version: Version
    """Of the workspace's file."""
    mode: int
    """For a merged file: the draft's mode, or the workspace's if only that was changed."""


class BaseSaver:
    """Saves the bases of a draft while a program works in it."""

    def __init__(self, draft: DraftDirectory) -> None:
        self._draft = draft
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._over.wait(pause):
            start = time.thread_time()
            save_bases(self._draft)
            pause = max(min(2 * pause, _LONGEST_PAUSE), _REST * (time.thread_time() - start))

    def stop(self) -> None:
        """End it. May be called again."""
        self._over.set()
        self._thread.join()


@contextlib.contextmanager
def saving_bases(draft: DraftDirectory) -> Iterator[None]:
    """Save the bases of a draft while a program works in it, and when it has ended."""
    saver = BaseSaver(draft)
    try:
        yield
    finally:
        saver.stop()
        save_bases(draft)


def save_bases(draft: DraftDirectory) -> None:
    """Save the base of each file that the draft has changed and nothing else has; what cannot be read has none."""
    with contextlib.suppress(OSError), closing_fd(draft.open_workspace()) as root:
        stack = [""]
        while stack:
            with contextlib.suppress(OSError):  # a directory that only the draft has, or that is just deleted
                stack += _save_in_directory(draft, root, stack.pop())


def _save_in_directory(draft: DraftDirectory, root: int, path: str) -> list[str]:
    """Save the bases of files in one directory; returns the directories in it."""
    inner: list[str] = []
    with (
        opened_beneath(root, path, READABLE_DIRECTORY) as directory,
        os.scandir(os.path.join(draft.upper, path)) as entries,
    ):
        for entry in entries:
            name = os.path.join(path, entry.name)
            if entry.is_dir(follow_symlinks=False):
                inner.append(name)
            elif entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _save(draft, directory, entry.name, name)
    return inner


def _save(draft: DraftDirectory, directory: int, name: str, path: str) -> None:
    status = stat_at(name, directory)
    if status is None or not stat.S_ISREG(status.st_mode) or status.st_ctime_ns >= draft.info.start:
        return
    if status.st_size <= MOST_BYTES and not os.path.lexists(os.path.join(draft.bases, path)):
        raw, now = _read(directory, name)
        if now.st_ctime_ns < draft.info.start:
            _write_base(draft, path, raw, now.st_mode)


def _read(directory: int, name: str) -> tuple[bytes, os.stat_result]:
    """The contents of a file, and its status after they were read."""
    with open(open_beneath(directory, name, _READ), "rb") as file:
        return file.read(MOST_BYTES + 1), os.fstat(file.fileno())


def _write_base(draft: DraftDirectory, path: str, raw: bytes, mode: int) -> None:
    place = os.path.join(draft.bases, path)
    os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
    os.replace(_write(draft, raw, mode), place)


def _write(draft: DraftDirectory, raw: bytes, mode: int, like: str = "") -> str:
    """Write a file that a rename then puts into its place; returns its path. ``like``: with this one's owner."""
    new = f"{draft.upper}.{os.getpid()}.new"  # on the mount of the layers; other processes may save bases, too
    with open(new, "wb") as file:
        file.write(raw)
    if like:
        shutil.copystat(like, new)
        copy_owner(os.stat(like), new)
        os.utime(new)
    os.chmod(new, stat.S_IMODE(mode))
    return new


def read_sides(draft: DraftDirectory, path: str) -> Sides | None:
    """The sides of a file that both have changed; None unless it is a file of moderate size on both.

    Raises `OSError`, and `BlockingIOError` if it is being changed at this moment.
    """
    upper = os.path.join(draft.upper, path)
    mine = os.lstat(upper)
    clock = read_clock(draft.path)
    root = draft.open_workspace()
    try:
        raw, status = _read(root, path)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    finally:
        os.close(root)
    if not all(stat.S_ISREG(one.st_mode) and one.st_size <= MOST_BYTES for one in (mine, status)) or mine.st_nlink > 1:
        return None
    if status.st_ctime_ns >= clock:
        raise BlockingIOError(0, "it is being changed", path)
    with open(os.open(upper, _READ), "rb") as file:
        ours = file.read(MOST_BYTES + 1)
    base, mode = None, mine.st_mode
    with contextlib.suppress(OSError), open(os.path.join(draft.bases, path), "rb") as file:
        base = file.read()
        mode = status.st_mode if stat.S_IMODE(os.fstat(file.fileno()).st_mode) == stat.S_IMODE(mode) else mode
    version = status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns
    return Sides(path, base, ours, raw, version, mode)


def write_merged(draft: DraftDirectory, sides: Sides, raw: bytes) -> None:
    """Give the draft's file merged contents, with the workspace's as its new base.

    Whole or not at all: what is noted first counts for no other file of the draft than the merged one.
    """
    upper = os.path.join(draft.upper, sides.path)
    new = _write(draft, raw, sides.mode, like=upper)
    draft.notes.accept((sides.path, (*sides.version, os.stat(new).st_ino)))
    os.replace(new, upper)
    _write_base(draft, sides.path, sides.theirs, sides.version[1])
    draft.notes.accept((sides.path, sides.version))
