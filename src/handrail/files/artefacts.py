"""Artefacts: outputs that are too long for an answer, saved in files that the session's tools can read and search.

Each session has one directory in the user's state. Answers call the files `/large_tool_results/...`, not by path.
Files older than a week are deleted, and the oldest ones when the byte budget is exceeded.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
import time
from collections.abc import Collection

ALIAS = "/large_tool_results"
_WEEK = 7 * 24 * 3600
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class Artefacts:
    """The artefacts of one session. The directory is created with the first one."""

    def __init__(self, above: str, budget: int) -> None:
        self.above = above
        self._budget = budget
        self._lock = threading.Lock()
        self._taken: dict[str, int] = {}
        """Names that were given, each with the last number that was put behind it."""
        self.directory = os.path.join(above, f"{int(time.time())}-{os.getpid()}-{os.urandom(4).hex()}")

    def path(self, name: str) -> tuple[str, str]:
        """Return the real path of a new file and its name in answers, similar to ``name``."""
        with self._lock:
            if not os.path.isdir(self.directory):
                os.makedirs(self.above, mode=0o700, exist_ok=True)
                self._sweep()
                os.makedirs(self.directory, mode=0o700, exist_ok=True)
            wish = _UNSAFE.sub("_", name).lstrip(".")[:80] or "result"
            number = self._taken.get(wish, 0) + 1
            free = wish if number == 1 else f"{wish}-{number}"
            while free in self._taken or os.path.lexists(os.path.join(self.directory, free)):
                number += 1
                free = f"{wish}-{number}"
            self._taken[free] = 1
            self._taken[wish] = number
        return os.path.join(self.directory, free), f"{ALIAS}/{free}"

    def keep(self, name: str, text: str) -> str:
        """Save a text and return its name in answers. Raises `OSError` if it cannot be saved, and leaves nothing."""
        real, called = self.path(name)
        raw = text.encode("utf-8", "replace")
        try:
            fd = os.open(real, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(raw)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(real)
            raise
        self.trim()
        return called

    def trim(self, spared: Collection[str] = ()) -> None:
        """Remove the oldest ones until the rest is within the budget; never the newest one, nor those in ``spared``."""
        with self._lock, contextlib.suppress(OSError):
            artefacts = []
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):  # gone meanwhile
                        about = entry.stat(follow_symlinks=False)
                        artefacts.append((about.st_mtime_ns, about.st_blocks * 512, entry.path))
            over = sum(size for _, size, _ in artefacts) - self._budget
            for _, size, path in sorted(artefacts)[:-1]:  # an answer has just named the newest one
                if over <= 0:
                    break
                if path not in spared:
                    with contextlib.suppress(OSError):
                        os.unlink(path)
                        over -= size

    def close(self) -> None:
        """Nothing was kept: nothing is left. Otherwise the files stay for a week, to be looked at."""
        self.trim()
        with contextlib.suppress(OSError):
            os.rmdir(self.directory)

    def _sweep(self) -> None:
        before = time.time() - _WEEK
        with contextlib.suppress(OSError), os.scandir(self.above) as entries:
            for entry in entries:
                started = entry.name.split("-", 1)[0]
                with contextlib.suppress(OSError):
                    # A session may live for weeks: what counts is when it last kept something.
                    if started.isdigit() and int(started) < before and entry.stat().st_mtime < before:
                        shutil.rmtree(entry.path, ignore_errors=True)
