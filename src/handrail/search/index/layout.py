"""Layout of an index file, shared by the process that writes it and those that read it.

The trigrams of a file (ASCII letters in lower case) set bits of its signature, which has 2^10 to 2^16 bits depending on
its size. Signatures are stored transposed, in blocks of at most 32,768 columns: a row for each bit, a column for each
file, so that a query reads one row for each trigram. A large file is cut at line ends into several columns.

A file consists of the blocks, the names and stamps of files, directories and ignore files, the numbers of the files by
age, and a description (JSON), whose place is in its first bytes. The name of a file is stored as its last component and
the number of its directory.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from typing import TypedDict

from handrail.json_types import JsonObject

MAGIC = b"HRINDEX4"
HEAD = struct.Struct("<8sQQ")
"""Magic bytes; offset and length of the description."""
BLOCK = struct.Struct("<IIQQ")
"""Log2 of the rows, bytes of a row, offset of the rows, offset of the numbers of the files in the columns."""
NO_FILE = 0xFFFFFFFF
"""The number of a column without a file."""
MOST_COLUMNS = 32_768
MULTIPLIER = (2654435761 << 8) & 0xFFFFFFFF
"""Hashes four bytes; the shift drops the fourth."""
SIZES = ((350, 10), (1_200, 11), (4_000, 12), (12_000, 13), (48_000, 14), (200_000, 15))
"""Bytes of a column, at most, and log2 of the bits of its signature."""
LARGEST = 16
PART = 64 << 10
"""Files above this size are cut."""
MOST_FILE = 32 << 20
"""Text files above this size are not indexed, and searched each time."""
BOMS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")
"""Files that begin so are decoded by ripgrep before it searches them."""

HAS_NUL, ALWAYS, LINKED = 1, 2, 4
"""Flags of a file: it contains a NUL byte; it is searched each time; it has several names."""

Stamp = tuple[int, int, int, int]
"""Modification time, change time, size, inode."""
NEVER: Stamp = (0, 0, 0, 0)
"""Equals no stamp of a file."""


class Task(TypedDict):
    """What to index, and what to store with it."""

    root: str
    identity: tuple[int, int]
    """Device and inode of the root."""
    path: str
    """Where the index is written."""
    most_bytes: int
    directories: list[tuple[str, int, int]]
    rules: list[tuple[str, int, int]]
    description: JsonObject


def make_stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def order_of_paths(name: bytes) -> bytes:
    """The key by which files are sorted: component by component."""
    return name.replace(b"/", b"\0")


_MOST = tuple(most for most, _ in SIZES)
_BITS = (*(bits for _, bits in SIZES), LARGEST)


def signature_bits(length: int) -> int:
    """Log2 of the bits of the signature for so many bytes."""
    return _BITS[bisect_left(_MOST, length)]
