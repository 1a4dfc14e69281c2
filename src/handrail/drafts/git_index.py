"""Read git index files: compare two without the times that `git status` refreshes, and find unchanged files."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

_HEADER = struct.Struct(">4sII")
_TIME = struct.Struct(">8xII")
_SIZE = struct.Struct(">36xI")
_STAT_BYTES = 24  # change time, modification time, device, inode
_OWNER_AND_SIZE = 12
_ID_BYTES = 20
_EXTENDED = 0x4000
_LONG_NAME = 0xFFF


def is_same_index(one: bytes, other: bytes) -> bool:
    """Whether two index files list the same paths with the same modes and contents; False if one cannot be read."""
    try:
        return one == other or [rest for _, *rest in _entries(one)] == [rest for _, *rest in _entries(other)]
    except (struct.error, ValueError, IndexError):
        return False


def list_blobs(raw: bytes) -> dict[str, tuple[int, int, str]]:
    """The files of an index: modification time in nanoseconds, size, and object id. Empty if it cannot be read."""
    blobs: dict[str, tuple[int, int, str]] = {}
    try:
        for at, _, identity, _, _, name in _entries(raw):
            seconds, nanoseconds = _TIME.unpack_from(raw, at)
            (size,) = _SIZE.unpack_from(raw, at)
            blobs[os.fsdecode(name)] = seconds * 1_000_000_000 + nanoseconds, size, identity.hex()
    except (struct.error, ValueError, IndexError):
        return {}
    return blobs


def _entries(raw: bytes) -> Iterator[tuple[int, bytes, bytes, bytes, bytes, bytes]]:
    """The offset, mode, object id, flags and name of each entry. Versions 2 and 3, with SHA-1 ids."""
    signature, version, count = _HEADER.unpack_from(raw)
    if signature != b"DIRC" or version not in (2, 3):
        raise ValueError("another version of the index")
    at = _HEADER.size
    for _ in range(count):
        mode = raw[at + _STAT_BYTES : at + _STAT_BYTES + 4]
        fixed = at + _STAT_BYTES + 4 + _OWNER_AND_SIZE
        identity = raw[fixed : fixed + _ID_BYTES]
        (flags,) = struct.unpack_from(">H", raw, fixed + _ID_BYTES)
        name_at = fixed + _ID_BYTES + 2
        extended = b""
        if flags & _EXTENDED:
            extended = raw[name_at : name_at + 2]
            name_at += 2
        end = raw.index(b"\0", name_at)
        if flags & _LONG_NAME != min(end - name_at, _LONG_NAME):
            raise ValueError("an index with other object ids")
        yield at, mode, identity, struct.pack(">H", flags), extended, raw[name_at:end]
        at += (end - at + 8) & ~7
