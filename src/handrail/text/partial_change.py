"""Change a proposed edit as a person decides: keep some hunks only, or replace the text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, groupby

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
    starts = [0, *accumulate(map(len, lines.split(text)))]
    return [splice for number, hunk in enumerate(whole) if number in numbers for splice in _convert_hunk(hunk, starts)]


def replace_text(text: str, new: str) -> list[Splice]:
    """The splice that makes ``new`` of ``text``; the lines at both ends that are the same stay as they are."""
    if text == new:
        return []
    old_lines, new_lines = lines.split(text), lines.split(new)
    head, tail = lines.count_equal_edges(old_lines, new_lines)
    start, end = sum(map(len, old_lines[:head])), sum(map(len, old_lines[: len(old_lines) - tail]))
    return [Splice(start, end, "".join(new_lines[head : len(new_lines) - tail]))]


def _convert_hunk(hunk: Hunk, starts: Sequence[int]) -> Iterator[Splice]:
    line = hunk.old_first - 1
    for is_context, run in groupby(hunk.rows, key=lambda row: row[0] == " "):
        rows = list(run)
        last = line + sum(sign != "+" for sign, _ in rows)
        if not is_context:
            yield Splice(starts[line], starts[last], "".join(row for sign, row in rows if sign == "+"))
        line = last
