"""Change a proposed edit as a person decides: keep some hunks only, or replace the text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from handrail.text import lines
from handrail.text.diff import Hunk, compute_hunks
from handrail.text.document import Splice

_ALL = 1 << 40


def keep_hunks(text: str, splices: Sequence[Splice], numbers: Collection[int]) -> list[Splice]:
    """Of a change of ``text``, what the hunks with these numbers (from 0) stand for; the other lines stay.

    The rest of a very long diff, which is shown as one hunk without rows, goes with its own number.
    """
    shown, whole = compute_hunks(text, splices), compute_hunks(text, splices, _ALL)
    if shown and shown[-1].left_out:
        last = len(shown) - 1
        rest = range(last, len(whole)) if last in numbers else ()
        numbers = {*(number for number in numbers if number < last), *rest}
    starts = _find_line_starts(text)
    return [splice for number, hunk in enumerate(whole) if number in numbers for splice in _convert_hunk(hunk, starts)]


def replace_text(text: str, new: str) -> list[Splice]:
    """The splice that makes ``new`` of ``text``; the lines at both ends that are the same stay as they are."""
    if text == new:
        return []
    old_lines, new_lines = lines.split(text), lines.split(new)
    most = min(len(old_lines), len(new_lines))
    head = next((n for n in range(most) if old_lines[n] != new_lines[n]), most)
    tail = next((n for n in range(most - head) if old_lines[-1 - n] != new_lines[-1 - n]), most - head)
    start, end = sum(map(len, old_lines[:head])), sum(map(len, old_lines[: len(old_lines) - tail]))
    return [Splice(start, end, "".join(new_lines[head : len(new_lines) - tail]))]


def _find_line_starts(text: str) -> list[int]:
    """Where each line begins, and where the text ends."""
    starts = [0]
    for line in lines.split(text):
        starts.append(starts[-1] + len(line))
    return starts


def _convert_hunk(hunk: Hunk, starts: Sequence[int]) -> list[Splice]:
    splices: list[Splice] = []
    line = hunk.old_first - 1
    first, new, changing = line, "", False
    for sign, row in (*hunk.rows, (" ", "")):
        if sign == " ":
            if changing:
                splices.append(Splice(starts[first], starts[line], new))
            line += 1
            first, new, changing = line, "", False
            continue
        changing = True
        if sign == "-":
            line += 1
        else:
            new += row
    return splices
