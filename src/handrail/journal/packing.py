"""Compress old contents for the journal, and restore them.

Compressing is the dearest part of an edit of a large file, and one edit leaves most of a file as it was. So contents of
some size are compressed in segments that do not depend on each other, and the segments of the newest contents stay in
memory: those that begin or end the next contents too are taken over. The result is an ordinary stream of zlib.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from handrail.files.versions import hash_bytes

_FAST = 1
_SEGMENT = 32 << 10
_LEAST = 4 * _SEGMENT
"""Contents below this size are compressed as a whole."""
_MOST_REMEMBERED = 4 << 20
"""Bytes of contents whose segments stay in memory, all together."""
_ADLER = 65521
_HEADER = b"\x78\x01"
_END = b"\x03\x00"
"""An empty block that is marked as the last one."""


class Packed(NamedTuple):
    """Contents on their way into the journal."""

    hash: str
    size: int
    data: bytes
    packed: bool


class _Segment(NamedTuple):
    raw: bytes
    packed: bytes
    checksum: int


class ImagePacker:
    """Compresses contents, each with the help of those before it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remembered: list[list[_Segment]] = []
        """The segments of contents, the newest last."""

    def pack(self, digest: str, raw: bytes) -> Packed:
        """Compress contents, if that makes them smaller."""
        small = self._compress(raw) if len(raw) > 64 else raw
        return Packed(digest, len(raw), small, True) if len(small) < len(raw) else Packed(digest, len(raw), raw, False)

    def _compress(self, raw: bytes) -> bytes:
        if not _LEAST <= len(raw) <= _MOST_REMEMBERED:
            return zlib.compress(raw, _FAST)
        with self._lock:
            similar = next((one for one in reversed(self._remembered) if _is_similar(one, raw)), [])
        segments = _divide(raw, similar)
        with self._lock:
            self._remembered = [one for one in self._remembered if one is not similar]
            self._remembered.append(segments)
            while sum(len(one.raw) for known in self._remembered for one in known) > _MOST_REMEMBERED:
                del self._remembered[0]
        return b"".join([_HEADER, *(one.packed for one in segments), _END, _combine_checksums(segments)])


def _is_similar(segments: Sequence[_Segment], raw: bytes) -> bool:
    return raw.startswith(segments[0].raw) or raw.endswith(segments[-1].raw)


def _divide(raw: bytes, known: Sequence[_Segment]) -> list[_Segment]:
    """Divide contents into segments, of which those at the beginning and the end are taken over from similar ones."""
    start, first = 0, 0
    while first < len(known) and raw.startswith(known[first].raw, start):
        start += len(known[first].raw)
        first += 1
    end, last = len(raw), len(known)
    while last > first and raw.endswith(known[last - 1].raw, start, end):
        last -= 1
        end -= len(known[last].raw)
    count = max(1, round((end - start) / _SEGMENT)) if end > start else 0
    edges = [start + (end - start) * n // count for n in range(count + 1)] if count else []
    between = [_compress_segment(raw[a:b]) for a, b in pairwise(edges)]
    return [*known[:first], *between, *known[last:]]


def _compress_segment(raw: bytes) -> _Segment:
    compressor = zlib.compressobj(_FAST, zlib.DEFLATED, -zlib.MAX_WBITS)
    return _Segment(raw, compressor.compress(raw) + compressor.flush(zlib.Z_FULL_FLUSH), zlib.adler32(raw))


def _combine_checksums(segments: Sequence[_Segment]) -> bytes:
    """Adler-32 of all segments: the sum of the bytes plus 1, and the sum of these sums, both modulo a prime."""
    low, high = 1, 0
    for raw, _, checksum in segments:
        high = (high + (checksum >> 16) + len(raw) * (low - 1)) % _ADLER
        low = (low + (checksum & 0xFFFF) - 1) % _ADLER
    return (high << 16 | low).to_bytes(4, "big")


def unpack_image(digest: str, data: bytes, packed: bool) -> bytes | None:
    """The contents of an image; None if they are not those of its hash."""
    try:
        raw = zlib.decompress(data) if packed else bytes(data)
    except (zlib.error, TypeError):
        return None
    return raw if hash_bytes(raw) == digest else None
