"""The hash chain: every entry has the hash of the one before, so that changed, missing and added entries are detected.

The last hash is also in the table `head` and in a small file next to the database, the anchor. This detects changed
rows, rows deleted or added in the middle, and rows deleted at the end, with or without a reset of `head`. It does not
detect somebody who can write all of these and recomputes every hash, because there is no secret in it, or who deletes
both database and anchor. A power failure may lose the newest rows if the anchor was written to the disk before them;
this is reported as a loss, too.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

GENESIS = "0" * 64
_ANCHOR = re.compile(rb"([0-9]{20}) ([0-9a-f]{64})\n")
_LENGTH = 86
_encoder = json.JSONEncoder(separators=(",", ":"), default=bytes.hex)


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """One entry of the chain: its place and its hash."""

    n: int
    hash: str


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """A place where the journal was changed."""

    seq: int
    """The number of the first call that is wrong or missing; 0 if it is none."""
    why: str


def entry_hash(before: str, n: int, seq: int, stage: str, content: Sequence[Any]) -> str:
    """Hash an entry: the hash before it, its number, and its contents."""
    text = _encoder.encode([before, n, seq, stage, content])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class Anchor:
    """The newest entry, kept outside the database. Never ahead of it: it is written after the commit."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    def read(self) -> ChainEntry | None:
        """The newest entry that is known; None if there is no anchor. One that cannot be read counts as a wrong one."""
        try:
            with open(self.path, "rb") as file:
                raw = file.read(_LENGTH + 1)
        except FileNotFoundError:
            return None
        return _parse_entry(raw)

    def move(self, to: ChainEntry) -> None:
        """Remember ``to``, unless another process has gone further."""
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            raw = os.pread(self._fd, _LENGTH, 0)
            match = _ANCHOR.fullmatch(raw)
            if not match or int(match[1]) < to.n:
                os.pwrite(self._fd, f"{to.n:020d} {to.hash}\n".encode("ascii"), 0)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _parse_entry(raw: bytes) -> ChainEntry:
    match = _ANCHOR.fullmatch(raw)
    return ChainEntry(int(match[1]), match[2].decode("ascii")) if match else ChainEntry(0, "unreadable")
