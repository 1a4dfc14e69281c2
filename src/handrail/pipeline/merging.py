"""Merge a draft with what else has changed in the workspace, file by file, or say what stands in the way.

All conflicts are merged, or nothing is. Only files that git ignores are decided by themselves: where they cannot be
merged, the draft gives its version up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from handrail.drafts.changes import DraftChange
from handrail.drafts.compare import ChangedOutside, Comparison
from handrail.drafts.keep import DraftConflict
from handrail.drafts.layout import DraftDirectory
from handrail.drafts.split import find_unit
from handrail.drafts.three_way import Sides, read_sides, write_merged
from handrail.frozen import frozen
from handrail.shell.git.merging import MergeRule, find_rules, merge_text
from handrail.text.display import escape

_MOST_MERGED = 200
"""With more conflicts, nothing is merged."""
_MOST_SHOWN = 12
"""Lines of an overlap in an answer."""
_MOST_CHARS = 200
"""Of one such line."""
_START, _END = b"<<<<<<< ", b">>>>>>> "


@frozen
class Merged:
    """What a merge has done to a draft."""

    paths: tuple[str, ...] = ()
    """Files that have the changes of both now."""
    dropped: tuple[str, ...] = ()
    """Ignored files of which the workspace's version stays."""


def merge_draft(draft: DraftDirectory, comparison: Comparison, changes: Sequence[DraftChange]) -> Merged:
    """Resolve the conflicts of a draft in its own files, where lines can be merged; raises `OSError`.

    Raises `DraftConflict` with the reasons where they cannot; then the draft is as before.
    """
    conflicts = comparison.conflicts
    if len(conflicts) > _MOST_MERGED:
        raise DraftConflict(conflicts)
    rules = find_rules(draft.info.workspace, [conflict.path for conflict in conflicts])
    replaced = {
        step.path for step in comparison.steps if step.action == "replace" and find_unit(step.path) == step.path
    }
    merged: list[tuple[Sides, bytes]] = []
    dropped: list[str] = []
    failed: list[ChangedOutside] = []
    for conflict in conflicts:
        rule = rules[conflict.path]
        is_whole = conflict.path in replaced and find_unit(conflict.path) == conflict.path
        sides = read_sides(draft, conflict.path) if is_whole else None
        result = merge_sides(sides, rule) if sides else conflict
        if sides and isinstance(result, bytes):
            merged.append((sides, result))
        elif sides and rule.ignored and _is_separate(sides, changes):
            dropped.append(conflict.path)
        elif isinstance(result, ChangedOutside):
            failed.append(result)
    if failed:
        raise DraftConflict(failed)
    for sides, raw in merged:
        write_merged(draft, sides, raw)
    for path in dropped:
        os.unlink(os.path.join(draft.upper, path))
    return Merged(tuple(sides.path for sides, _ in merged), tuple(dropped))


def merge_sides(sides: Sides, rule: MergeRule) -> bytes | ChangedOutside:
    """The merged contents, or why the sides cannot be merged."""
    base, ours, theirs = sides.base, sides.ours, sides.theirs
    if base is not None and rule.ignored and all(side.startswith(base) for side in (ours, theirs)):
        return theirs + ours[len(base) :]
    text = merge_text(base or b"", ours, theirs, union=rule.union) if rule.by_lines else None
    if text is None:
        return ChangedOutside(sides.path, "changed outside the draft, and not merged line by line")
    if not text.overlaps and base is not None:
        return text.raw
    shown = "\n".join(_list_overlaps(text.raw))
    return ChangedOutside(sides.path, "changed on both sides" if base is None else "both changed these lines", shown)


def _list_overlaps(raw: bytes) -> Iterator[str]:
    """The lines of both sides where they overlap, with their markers; the first of them."""
    shown, inside = 0, False
    for line in raw.splitlines():
        inside = inside or line.startswith(_START)
        if inside:
            shown += 1
            yield escape(line[:_MOST_CHARS].decode("utf-8", "replace"))
        inside = inside and not line.startswith(_END)
        if shown >= _MOST_SHOWN:
            yield "..."
            return


def _is_separate(sides: Sides, changes: Sequence[DraftChange]) -> bool:
    """Whether a file is neither a part of something larger nor the new name of a file that the draft deletes."""
    members = [change for change in changes if find_unit(change.path) == sides.path]
    deleted = (change.before for change in changes if change.after is None and change.before)
    return len(members) == 1 and (sides.base is not None or all(one.size != len(sides.ours) for one in deleted))
