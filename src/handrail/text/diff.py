"""Local diffs: what changed around some splices, without comparing whole files.

The places that changed are known, so only they and three lines around them are looked at: one line of a file of 50,000
costs as much as one line of a file of 50.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handrail.text import lines
from handrail.text.document import Splice

CONTEXT = 3
_COMPARED = 4_000


@dataclass(frozen=True, slots=True)
class Hunk:
    """Neighbouring lines of both texts; each row is a sign (space, `-`, `+`) and a line with its ending."""

    old_first: int
    new_first: int
    rows: tuple[tuple[str, str], ...]


def hunks(text: str, splices: Sequence[Splice]) -> list[Hunk]:
    """The changed places of ``text``, each with three lines of context; places that touch are one."""
    found = []
    line, position, grown = 1, 0, 0
    for group in _groups(text, splices):
        start = _back(text, lines.start_of_line(text, group[0].start))
        end = _forth(text, _whole(text, group[-1].end))
        old, new, last = text[start:end], [], start
        for splice in group:
            new += [text[last : splice.start], splice.new]
            last = splice.end
        line += lines.count_ends(text[position:start])
        position = start
        before, after = lines.split(old), lines.split("".join([*new, text[last:end]]))
        found += _between(before, after, line, line + grown)
        grown += len(after) - len(before)
    return found


def _groups(text: str, splices: Sequence[Splice]) -> Iterator[list[Splice]]:
    group: list[Splice] = []
    for splice in splices:
        if group and _forth(text, _whole(text, group[-1].end), 2 * CONTEXT + 1) < splice.start:
            yield group
            group = []
        group.append(splice)
    if group:
        yield group


def _whole(text: str, position: int) -> int:
    """The end of the line that a span reaches into; the next line too if the span ends with an ending."""
    return lines.end_of_line(text, position)


def _back(text: str, start: int, number: int = CONTEXT) -> int:
    for _ in range(number):
        start = lines.start_of_line(text, start - 1) if start else 0
    return start


def _forth(text: str, end: int, number: int = CONTEXT) -> int:
    for _ in range(number):
        end = lines.end_of_line(text, end)
    return end


def _between(before: list[str], after: list[str], old_line: int, new_line: int) -> list[Hunk]:
    if len(before) + len(after) > _COMPARED:
        head = _common(before, after)
        tail = _common(before[head:][::-1], after[head:][::-1])
        codes = [
            ("equal", 0, head, 0, head),
            ("replace", head, len(before) - tail, head, len(after) - tail),
            ("equal", len(before) - tail, len(before), len(after) - tail, len(after)),
        ]
        groups = [
            [
                ("equal", max(0, head - CONTEXT), head, max(0, head - CONTEXT), head),
                codes[1],
                ("equal", codes[2][1], min(len(before), codes[2][1] + CONTEXT), codes[2][3], codes[2][3] + CONTEXT),
            ]
        ]
    else:
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        groups = [list(group) for group in matcher.get_grouped_opcodes(CONTEXT)]
    found = []
    for group in groups:
        rows: list[tuple[str, str]] = []
        for code, i1, i2, j1, j2 in group:
            if code == "equal":
                rows += [(" ", row) for row in before[i1:i2]]
            else:
                rows += [("-", row) for row in before[i1:i2]] + [("+", row) for row in after[j1:j2]]
        found.append(Hunk(old_line + group[0][1], new_line + group[0][3], tuple(rows)))
    return found


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        same += 1
    return same


def unified(name: str, found: Sequence[Hunk], created: bool = False) -> str:
    """Hunks as a unified diff, in the form of `difflib.unified_diff`."""
    if not found:
        return ""
    parts = [f"--- {'/dev/null' if created else name}\n", f"+++ {name}\n"]
    for hunk in found:
        old = sum(sign != "+" for sign, _ in hunk.rows)
        new = sum(sign != "-" for sign, _ in hunk.rows)
        parts.append(f"@@ -{_range(hunk.old_first, old)} +{_range(hunk.new_first, new)} @@\n")
        for sign, row in hunk.rows:
            parts.append(sign + row)
            if not row.endswith("\n"):
                parts.append("\n" if row.endswith("\r") else "\n\\ No newline at end of file\n")
    return "".join(parts)


def _range(first: int, count: int) -> str:
    return f"{first}" if count == 1 else f"{first - (count == 0)},{count}"


def snippet(found: Sequence[Hunk]) -> list[tuple[int, str]]:
    """The new text of the hunks as numbered lines without endings."""
    rows = []
    for hunk in found:
        number = hunk.new_first
        for sign, row in hunk.rows:
            if sign != "-":
                rows.append((number, lines.body(row)))
                number += 1
    return rows
