"""Say at once that a change overlaps with lines that somebody has changed in another open draft."""

from __future__ import annotations

import contextlib
import os
import time
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
            base, other, when = read_side(draft, path, MOST_BYTES)
            base = old if base is None else base
            known = _list_overlaps(base, other, old) if base != old else set()
            if _list_overlaps(base, other, new) - known:
                who = escape(next(iter(group_by_worker(draft, [path])))) or "another program"
                minutes = max(0, time.time_ns() - when) // 60_000_000_000
                yield OverlapsDraft(path=escape(path), who=who, minutes=minutes, draft=draft.info.name)


def group_by_worker(draft: DraftDirectory, paths: Sequence[str]) -> dict[str, list[str]]:
    """The paths that a draft has changed, by the program that did that; "a or b" if several worked together."""
    worked, groups = draft.notes.read_work(), dict[str, list[str]]()
    for path in paths:
        place = os.path.join(draft.upper, path)
        last = os.lstat(place).st_ctime_ns if os.path.lexists(place) else 0
        first = last if os.path.isfile(place) or os.path.isdir(place) else 0  # of a deletion the time is not known
        names = dict.fromkeys(name for (name, start), end in worked.items() if start <= last and first <= end)
        groups.setdefault(" or ".join(names), []).append(path)
    return groups


def _list_overlaps(base: bytes, ours: bytes, theirs: bytes) -> set[OverlapSides]:
    return {part for part in split_merge(base, ours, theirs) if isinstance(part, OverlapSides)}
