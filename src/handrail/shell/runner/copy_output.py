"""The way of the output from the pipe to the log: a block at a time, by the kernel itself where it is much."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys

BLOCK = 1 << 20
_MUCH = 1 << 16


class OutputCopier:
    """Moves what arrives in a pipe that does not block into a log, up to ``budget`` bytes."""

    def __init__(self, pipe: int, log: int, budget: int) -> None:
        self._pipe = pipe
        self._log = log
        self._budget = budget
        self.bytes = 0
        """All that arrived."""
        self.lost = 0
        """What of it is not in the log: over the budget, or the disk is full."""
        self.eof = False
        """Whether nothing more can come."""
        self.wide = False
        """Whether it is much: then the pipe is larger, and the kernel moves the blocks."""
        self.last = 0
        """The size of the last block of many: a small one says that the writer is the slower."""

    def move(self) -> bool:
        """Move a block; False if there is none now."""
        if self.eof:
            return False
        if self.wide and self._splice():
            return True
        try:
            block = os.read(self._pipe, BLOCK)
        except BlockingIOError:
            return False
        if not block:
            self.eof = True
            return False
        self.bytes += len(block)
        self._keep(block)
        if len(block) >= _MUCH and not self.wide:
            self.wide = True
            with contextlib.suppress(OSError, AttributeError):
                fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, BLOCK)
        return True

    def _splice(self) -> bool:
        """Let the kernel move a block, which saves the way through this process; False if it did not."""
        room = min(BLOCK, self._budget - self.bytes)
        if room <= 0 or sys.platform != "linux":
            return False
        try:
            moved = os.splice(self._pipe, self._log, room, flags=os.SPLICE_F_NONBLOCK)
        except OSError:  # nothing there now, a file system that cannot, a full disk: whoever reads will see
            return False
        self.bytes += moved
        self.last = moved
        return moved > 0

    def _keep(self, block: bytes) -> None:
        at = 0
        room = max(0, self._budget - (self.bytes - len(block)))
        if room < len(block):
            self.lost += len(block) - room
            block = block[:room]
        try:
            while at < len(block):
                at += os.write(self._log, memoryview(block)[at:])
        except OSError:  # the disk is full: go on, so that the command is not stuck, and say so
            self.lost += len(block) - at
