"""Before-images: the old contents of changed files, by hash, compressed, within a budget of bytes.

They are in the journal's database, so that a record and its images are written in one transaction. Equal contents are
stored once. When the budget is used up, the least recently used images are removed; a call without its images cannot
be undone, and undo reports that. Images are true copies: a secret in a file is in its image too, so the journal is
readable by its owner only.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from handrail.files.versions import hash_bytes

SCHEMA = """
CREATE TABLE IF NOT EXISTS images (
    hash TEXT PRIMARY KEY, size INTEGER NOT NULL, stored INTEGER NOT NULL, used INTEGER NOT NULL,
    packed INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS images_used ON images (used);
"""
_FAST = 1


@dataclass(frozen=True, slots=True)
class Packed:
    """Contents on their way into the journal."""

    hash: str
    size: int
    data: bytes
    packed: bool


@dataclass(frozen=True, slots=True)
class StorageUse:
    """The size of the images."""

    count: int
    size: int
    """Of the contents."""
    stored: int
    """The original size."""


def pack(digest: str, raw: bytes) -> Packed:
    """Compressed, if that makes it smaller."""
    small = zlib.compress(raw, _FAST) if len(raw) > 64 else raw
    return Packed(digest, len(raw), small, True) if len(small) < len(raw) else Packed(digest, len(raw), raw, False)


def missing(db: sqlite3.Connection, hashes: Iterable[str]) -> list[str]:
    """Return the hashes that are not stored yet."""
    return [
        digest for digest in hashes if db.execute("SELECT 1 FROM images WHERE hash = ?", (digest,)).fetchone() is None
    ]


def keep(
    db: sqlite3.Connection, seq: int, contents: Mapping[str, bytes], ready: Mapping[str, Packed], most: int
) -> int:
    """Inside a transaction: store the images; return the added bytes. Images beyond ``most`` are skipped."""
    added = 0
    for digest, raw in contents.items():
        if db.execute("UPDATE images SET used = ? WHERE hash = ?", (seq, digest)).rowcount:
            continue
        one = ready.get(digest) or pack(digest, raw)  # gone since we looked
        if len(one.data) > most:
            continue
        row = (digest, one.size, len(one.data), seq, one.packed, one.data)
        db.execute("INSERT INTO images VALUES (?, ?, ?, ?, ?, ?)", row)
        added += len(one.data)
    return added


def trim(db: sqlite3.Connection, over: int, seq: int) -> int:
    """Inside a transaction: let the oldest go until ``over`` bytes are free; how many were freed."""
    freed = 0
    while freed < over:
        oldest = db.execute("SELECT hash, stored FROM images WHERE used < ? ORDER BY used LIMIT 16", (seq,)).fetchall()
        if not oldest:
            break
        for digest, stored in oldest:
            if freed >= over:
                break
            db.execute("DELETE FROM images WHERE hash = ?", (digest,))
            freed += stored
    return freed


def load(db: sqlite3.Connection, digests: Iterable[str]) -> dict[str, bytes]:
    """Load the contents that are still stored and unchanged."""
    contents: dict[str, bytes] = {}
    for digest in digests:
        row = db.execute("SELECT packed, data FROM images WHERE hash = ?", (digest,)).fetchone()
        if row is None:
            continue
        try:
            raw = zlib.decompress(row[1]) if row[0] else bytes(row[1])
        except (zlib.error, TypeError):
            continue
        if hash_bytes(raw) == digest:
            contents[digest] = raw
    return contents


def storage_use(db: sqlite3.Connection) -> StorageUse:
    return StorageUse(
        *db.execute("SELECT count(*), coalesce(sum(size), 0), coalesce(sum(stored), 0) FROM images").fetchone()
    )
