"""Files as of a call, and what changed between two: from the old contents in the journal, and from the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable

from handrail.files.versions import MOST_SAVED_BYTES, hash_bytes
from handrail.journal import BeforeImage
from handrail.journal.call_changes import find_state
from handrail.journal.queries import CallRow, JournalReader
from handrail.journal.records import ABSENT, DIRECTORY
from handrail.journal.undo_drafts import read_image
from handrail.text.diff import compute_hunks, format_unified
from handrail.text.display import escape
from handrail.text.document import Splice


class ContentsGone(LookupError):
    """The contents of a file are not in the journal, and not those on the disk; the text says why."""


def read_past(reader: JournalReader, path: str, seq: int) -> bytes | None:
    """The contents of a file right after a call; None if there was no file. Raises `ContentsGone`."""
    return _load(reader, path, find_state(reader, path, seq))


def _load(reader: JournalReader, path: str, digest: str | None) -> bytes | None:
    if digest == ABSENT:
        return None
    raw = reader.read_images([digest]).get(digest) if digest else None
    if raw is None:
        raw = _read_now(path)
        if raw is None or hash_bytes(raw) != digest:
            raise ContentsGone("it was a directory" if digest == DIRECTORY else "its contents are not in the journal")
    return raw


def make_net_diff(reader: JournalReader, changes: Iterable[CallRow], home: str, last: int | None = None) -> str:
    """All changes of these calls, given the newest first, as one diff: from before the first of them to after ``last``.

    Without ``last``, to the files as they are now. Names of files below ``home`` are relative to it.
    """
    first: dict[str, str] = {}
    for call in changes:
        first.update((one.path, one.before) for one in reversed(reader.read_files(call.seq)))
    return "".join(_diff_file(reader, path, digest, home, last) for path, digest in sorted(first.items()))


def _diff_file(reader: JournalReader, path: str, digest: str, home: str, last: int | None) -> str:
    name = escape(os.path.relpath(path, home) if path.startswith(home + os.sep) else path)
    try:
        before = _load(reader, path, digest)
        after = _read_now(path) if last is None else read_past(reader, path, last)
    except ContentsGone as error:
        return "" if digest == DIRECTORY else f"{name}: {error}\n"
    if before == after:
        return ""
    old, new = ((raw or b"").decode("utf-8", "replace") for raw in (before, after))
    if "\0" in old[:8192] + new[:8192]:
        return f"{name}: binary, {len(before or b'')} -> {len(after or b'')} bytes\n"
    hunks = compute_hunks(old, [Splice(0, len(old), new)])
    return format_unified(name, hunks, created=before is None, deleted=after is None)


def _read_now(path: str) -> bytes | None:
    """The current contents; None for no file, and also for a directory, a link or a pipe."""
    image = read_image(path, MOST_SAVED_BYTES)
    if image is None:
        raise ContentsGone("it cannot be read, or is too large")
    return image.before if isinstance(image, BeforeImage) else None
