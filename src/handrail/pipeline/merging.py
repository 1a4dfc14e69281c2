"""Merge a draft with other changes in the workspace, file by file, or explain what prevents it.

All conflicts are merged, or nothing is. Only files that git ignores are decided by themselves: where they cannot be
merged, the draft gives its version up.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Literal

from handrail.drafts.changes import DraftChange
from handrail.drafts.compare import ChangedOutside, Comparison, compare
from handrail.drafts.keep import DraftConflict
from handrail.drafts.layout import DraftDirectory, read_clock, remove_tree
from handrail.drafts.split import DATABASE_PARTS, find_unit, is_below
from handrail.drafts.three_way import Sides, read_sides, write_merged
from handrail.frozen import frozen
from handrail.shell.git.merging import (
    MergedText,
    MergeRule,
    OverlapSides,
    Parts,
    Unmerged,
    find_rules,
    merge_text,
    run_merge_tool,
    split_merge,
)
from handrail.text.display import escape

_MOST_MERGED = 200
"""With more conflicts, nothing is merged."""
_MOST_SHOWN = 12
"""Lines of an overlap in an answer."""
_MOST_CHARS = 200
"""Of one such line."""
_START, _END = b"<<<<<<< ", b">>>>>>> "


Side = Literal["ours", "theirs", "merge", "tool"]
Choice = Literal["ours", "theirs", "both"]


@frozen
class FileConflict:
    """What has to be resolved before a draft can be kept."""

    path: str
    """Of a file, or of the directory or repository around it that is resolved as a whole."""
    reason: str
    sides: Sides | None = None
    parts: Parts = ()
    """The merged file; nothing if it has no lines to merge."""

    @property
    def overlaps(self) -> list[OverlapSides]:
        return [part for part in self.parts if isinstance(part, OverlapSides)]


@frozen
class Merged:
    """What a merge has done to a draft."""

    paths: tuple[str, ...] = ()
    """Files that have the changes of both now."""
    dropped: tuple[str, ...] = ()
    """Ignored files that stay as the workspace has them."""


NOTHING_MERGED = Merged()


def merge_draft(draft: DraftDirectory, comparison: Comparison, changes: Sequence[DraftChange]) -> Merged:
    """Resolve the conflicts of a draft in its own files, where lines can be merged; raises `OSError`.

    Raises `DraftConflict` with the reasons where they cannot; then the draft is as before.
    """
    conflicts = comparison.conflicts
    if len(conflicts) > _MOST_MERGED:
        raise DraftConflict(conflicts)
    rules = find_rules(draft.info.workspace, [conflict.path for conflict in conflicts])
    merged: list[tuple[Sides, bytes]] = []
    dropped: list[str] = []
    failed: list[ChangedOutside] = []
    for conflict in conflicts:
        rule = rules[conflict.path]
        sides = _read_whole(draft, conflict.path, comparison)
        result = merge_sides(sides, rule) if sides else conflict
        if sides and isinstance(result, bytes):
            merged.append((sides, result))
        elif rule.ignored and _is_separate(draft, conflict.path, changes):
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


def _read_whole(draft: DraftDirectory, path: str, comparison: Comparison) -> Sides | None:
    """The sides of a file that can be merged by itself."""
    is_replaced = any(step.path == path and step.action == "replace" for step in comparison.steps)
    return read_sides(draft, path) if is_replaced and find_unit(path) == path else None


def resolve_conflicts(draft: DraftDirectory, side: Side, tops: Sequence[str] = (".",)) -> tuple[list[str], list[str]]:
    """Resolve the conflicts of a draft at and below some paths.

    Returns their paths, and the files in which lines still overlap: with `merge` they have markers now, with `tool` the
    person has not merged them. Raises `DraftConflict` for those that have no lines to merge, and `OSError`; then the
    draft is as before.
    """
    time = read_clock(draft.path)
    comparison = compare(draft)
    conflicts = [one.path for one in comparison.conflicts if is_below(tops, one.path)]
    if side in ("merge", "tool"):
        return conflicts, _merge_lines(draft, comparison, conflicts, with_tool=side == "tool")
    places = sorted({_find_top(path, comparison) for path in conflicts})
    if side == "ours":
        draft.notes.resolve(places, time)
    else:
        for path in places:
            _give_up(draft, path)
    return conflicts, []


def _merge_lines(
    draft: DraftDirectory, comparison: Comparison, conflicts: Sequence[str], *, with_tool: bool
) -> list[str]:
    """Write merged files, with markers around overlaps, or as the person merges them in a tool."""
    rules = find_rules(draft.info.workspace, conflicts)
    results: list[tuple[Sides, MergedText]] = []
    failed: list[ChangedOutside] = []
    for path in conflicts:
        sides = _read_whole(draft, path, comparison)
        text = merge_text(sides.base or b"", sides.ours, sides.theirs) if sides and rules[path].by_lines else None
        if sides and text:
            results.append((sides, text))
        else:
            failed.append(ChangedOutside(path, "not merged line by line: choose a side"))
    if failed:
        raise DraftConflict(failed)
    overlaps = {sides.path: (sides, text.raw) for sides, text in results if text.overlaps}
    if with_tool and overlaps:
        merged = run_merge_tool(
            {path: Unmerged(sides.base, sides.ours, sides.theirs, raw) for path, (sides, raw) in overlaps.items()}
        )
    else:
        merged = {path: raw for path, (_, raw) in overlaps.items()}
        draft.notes.mark(merged)
    for sides, text in results:
        if sides.path in merged or not text.overlaps:
            write_merged(draft, sides, merged.get(sides.path, text.raw))
    return [path for path in overlaps if path not in merged or not with_tool]


def read_conflicts(draft: DraftDirectory, comparison: Comparison) -> list[FileConflict]:
    """The conflicts of a draft, without the files that are merged when it is kept. Raises `OSError`."""
    rules = find_rules(draft.info.workspace, [one.path for one in comparison.conflicts[:_MOST_MERGED]])
    listed: dict[str, FileConflict] = {}
    for one in comparison.conflicts:
        path = _find_top(one.path, comparison)
        rule = rules.get(path, MergeRule(by_lines=False))
        sides = _read_whole(draft, path, comparison)
        if sides and isinstance(merge_sides(sides, rule), bytes):
            continue
        parts = split_merge(sides.base or b"", sides.ours, sides.theirs) if sides and rule.by_lines else ()
        listed[path] = FileConflict(path, one.reason, sides, parts)
    return list(listed.values())


def resolve_overlaps(draft: DraftDirectory, chosen: Sequence[tuple[FileConflict, Sequence[Choice]]], time: int) -> None:
    """Resolve conflicts by a choice for each overlap, or one for a file without any; raises `OSError`.

    ``time``: of the draft, before its conflicts were read.
    """
    for conflict, choices in chosen:
        if conflict.sides and conflict.overlaps:
            write_merged(draft, conflict.sides, _join(conflict.parts, choices))
        elif choices[0] == "theirs":
            _give_up(draft, conflict.path)
        else:
            draft.notes.resolve([conflict.path], time)


def _join(parts: Parts, choices: Sequence[Choice]) -> bytes:
    left = iter(choices)
    return b"".join(getattr(part, next(left)) if isinstance(part, OverlapSides) else part for part in parts)


def find_markers(draft: DraftDirectory, names: Sequence[str]) -> list[ChangedOutside]:
    """The files of a draft that still have markers of a merge. ``names``: those that had some."""
    left: list[ChangedOutside] = []
    for path in names:
        with contextlib.suppress(OSError), open(os.path.join(draft.upper, path), "rb") as file:
            if any(line.startswith((_START + b"draft", _END + b"workspace")) for line in file):
                left.append(ChangedOutside(path, "it still has the markers of a merge"))
    return left


def _find_top(path: str, comparison: Comparison) -> str:
    """The path that a conflict is about: a directory above it that was replaced, or the repository it is in."""
    steps = (step.path for step in comparison.steps if step.action != "set")
    return find_unit(next((top for top in steps if is_below([top], path)), path))


def _give_up(draft: DraftDirectory, path: str) -> None:
    """Take a path, and everything below it, out of a draft."""
    place = os.path.join(draft.upper, path)
    if os.path.isdir(place) and not os.path.islink(place):
        remove_tree(place)
    else:
        os.unlink(place)
    for ending in DATABASE_PARTS:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place + ending)


def merge_sides(sides: Sides, rule: MergeRule) -> bytes | ChangedOutside:
    """The merged contents, or why the sides cannot be merged."""
    base, ours, theirs = sides.base, sides.ours, sides.theirs
    if base is not None and rule.ignored and all(side.startswith(base) for side in (ours, theirs)):
        return theirs + ours[len(base) :]
    text = merge_text(base or b"", ours, theirs, *["--union"] * rule.union) if rule.by_lines else None
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


def _is_separate(draft: DraftDirectory, path: str, changes: Sequence[DraftChange]) -> bool:
    """Whether a changed file is no part of something larger, and not the new name of a file that the draft deletes."""
    members = [change for change in changes if find_unit(change.path) == path]
    if not members:  # deleted outside the draft: with a base it is no new name of another file
        upper = os.lstat(os.path.join(draft.upper, path))
        return stat.S_ISREG(upper.st_mode) and upper.st_nlink == 1 and os.path.lexists(os.path.join(draft.bases, path))
    before, after = (members[0].before, members[0].after) if len(members) == 1 else (None, None)
    if not (before and after and before.type == after.type == "file" and after.links == 1):
        return False
    deleted = {change.before.size for change in changes if change.after is None and change.before}
    return os.path.lexists(os.path.join(draft.bases, path)) or after.size not in deleted
