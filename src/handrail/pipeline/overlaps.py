"""Say at once that a change overlaps with lines that somebody has changed in another open draft."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from handrail.drafts.layout import DraftDirectory
from handrail.drafts.neighbours import read_side
from handrail.drafts.three_way import MOST_BYTES
from handrail.shell.git.merging import OverlapSides, split_merge
from handrail.text.display import escape
from handrail.tools.notes import OverlapsDraft


def find_overlaps(drafts: Sequence[DraftDirectory], path: str, old: bytes, new: bytes) -> Iterator[OverlapsDraft]:
    """A note for each draft in which lines of this change were changed, too.

    ``path``: below the workspace; ``old``, ``new``: the contents of the file before and after the change.
    """
    for draft in drafts:
        with contextlib.suppress(OSError):
            base, other, minutes = read_side(draft, path, MOST_BYTES)
            base = old if base is None else base
            known = _list_overlaps(base, other, old) if base != old else set()
            if _list_overlaps(base, other, new) - known:
                who = (draft.notes.read_workers() or ["another program"])[-1]
                yield OverlapsDraft(path=escape(path), who=escape(who), minutes=minutes, draft=draft.info.name)


def _list_overlaps(base: bytes, ours: bytes, theirs: bytes) -> set[OverlapSides]:
    return {part for part in split_merge(base, ours, theirs) if isinstance(part, OverlapSides)}
