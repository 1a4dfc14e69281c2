"""Reading the spool of the journal: a file to which the records of calls that change nothing are appended.

Such a record is one `write`, a tenth of the work of a transaction, and it is there before the answer is handed out. The
rows are moved into the database before anything else is written to it or read from it, and when there are many. The
transaction that moves them also notes the hash of the last one: whoever is killed before the spool is emptied leaves
rows that the next one recognises as moved. A line that was not written to its end belongs to a call that was not
answered, and is dropped.

Every line has the hash of the line before in its own, across emptied spools. The last hash is also in a file of its
own, so that lines which are changed or taken away are detected, within the limits that `database.py` describes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, NamedTuple

from handrail.journal.records import CALL_COLUMNS, Queries, as_stored

START = "0" * 64
KEY = "spool"
"""In the table `meta`: the hash of the last line that was moved."""
_LINE = re.compile(rb"([0-9a-f]{64}) (.*)")
_HASH = re.compile(rb"[0-9a-f]{64}")
WORKSPACE = 2
"""The one column of bytes."""
_COLUMNS = len(CALL_COLUMNS) - 1


class Spooled(NamedTuple):
    """The rows that are not in the database yet."""

    rows: list[tuple[Any, ...]]
    last: str
    """The hash of the newest line."""
    intact: bool
    """Whether no line was changed or taken away."""


def get_spool_path(path: str) -> str:
    """Where the spool of the journal at ``path`` lies."""
    return path + ".spool"


def has_spooled(path: str) -> bool:
    """Whether rows wait in the spool of the journal at ``path``."""
    try:
        return os.stat(get_spool_path(path)).st_size > 0
    except OSError:
        return False


def parse_spool(raw: bytes, moved: str, anchor: str, *, begins: bool = False) -> Spooled:
    """The lines behind the one with the hash ``moved``, and whether they are those that were written.

    ``begins``: the line before the first is not known.
    """
    lines = raw.split(b"\n")[:-1]
    matches = [match for match in map(_LINE.fullmatch, lines) if match]
    intact = len(matches) == len(lines)
    digests = [match[1].decode("ascii") for match in matches]
    behind = digests.index(moved) + 1 if moved in digests else 0
    rows, last = [], moved
    for digest, match in zip(digests[behind:], matches[behind:], strict=True):
        text = match[2]
        intact = intact and (hash_line(last, text) == digest or (begins and last == START))
        last = digest
        row = _parse_row(text)
        if row is None:
            intact = False
        else:
            rows.append(row)
    return Spooled(rows, last, intact and anchor in {moved, "", *digests})


def hash_line(before: str, text: bytes) -> str:
    """The hash of a line: of the one before it, and its contents."""
    return hashlib.sha256(before.encode("ascii") + text).hexdigest()


def parse_hash(raw: bytes) -> str:
    """A hash as it is written in a file; empty if it is none."""
    return raw.decode("ascii") if _HASH.fullmatch(raw) else ""


def read_moved(db: Queries) -> str:
    """The hash of the last line that was moved into the database."""
    row = db.execute("SELECT value FROM main.meta WHERE key = ?", (KEY,)).fetchone()
    return row[0] if row and isinstance(row[0], str) else START


def _parse_row(text: bytes) -> tuple[Any, ...] | None:
    try:
        row = json.loads(text.decode("ascii"))
        row[WORKSPACE] = row[WORKSPACE].encode("latin-1")
    except (ValueError, TypeError, IndexError, KeyError, AttributeError):
        return None
    return tuple(row) if len(row) == _COLUMNS and as_stored(row) else None
