"""Compare git index files without the file times and inodes that `git status` refreshes in them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_HEADER = struct.Struct(">4sII")
_STAT_BYTES = 24  # change time, modification time, device, inode
_OWNER_AND_SIZE = 12
_ID_BYTES = 20
_EXTENDED = 0x4000
_LONG_NAME = 0xFFF


def is_same_index(one: bytes, other: bytes) -> bool:
    """Whether two index files list the same paths with the same modes and contents; False if one cannot be read."""
    try:
        return one == other or list(_entries(one)) == list(_entries(other))
    except (struct.error, ValueError, IndexError):
        return False


def _entries(raw: bytes) -> Iterator[tuple[bytes, ...]]:
    """The mode, object id, flags and name of each entry. Versions 2 and 3, with SHA-1 ids."""
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
        yield mode, identity, struct.pack(">H", flags), extended, raw[name_at:end]
        at += (end - at + 8) & ~7
