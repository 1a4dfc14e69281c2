"""Carrying new text into a file: as few bytes as possible, with the line endings that are there.

What `old` and `new` have in common is left alone, byte for byte. A line that stays keeps its ending, a changed line
takes the ending of the line it replaces, an added line that of its neighbour.
"""

from __future__ import annotations

import difflib

from handrail.text import lines
from handrail.text.document import Splice

_COMPARED = 2_000


def splice(text: str, start: int, end: int, old: str, new: str) -> Splice | None:
    """Replace ``start:end``, matched by ``old``, with what ``new`` means there; None if nothing would change."""
    if "\r" not in old or text[start:end] != old:  # who spells out "\r" and hits exactly means the endings literally
        new = with_endings(text, start, end, new)
    return narrowed(text, start, end, new)


def narrowed(text: str, start: int, end: int, new: str) -> Splice | None:
    """Replace ``start:end`` with ``new``, leaving alone what both have in common; None if that is everything."""
    there = text[start:end]
    head = _common_head(there, new)
    tail = _common_tail(there[head:], new[head:])
    if head + tail == len(there) == len(new):
        return None
    return Splice(start + head, end - tail, new[head : len(new) - tail])


def with_endings(text: str, start: int, end: int, new: str) -> str:
    """``new`` with the line endings of the part of the file that it replaces."""
    wanted = lines.split(lines.to_feeds(new))
    if not any(line.endswith("\n") for line in wanted):
        return new
    there = lines.split(text[start:end])
    neighbour = _ending_before(text, start) or _ending_after(text, end) or "\n"
    endings = _carried(there, wanted, neighbour)
    return "".join(lines.body(line) + end for line, end in zip(wanted, endings, strict=True))


def _carried(there: list[str], wanted: list[str], neighbour: str) -> list[str]:
    """An ending for each wanted line, found by aligning them with the lines that are there."""
    kinds = {lines.ending(line) for line in there} - {""}
    if len(kinds) <= 1 or len(there) + len(wanted) > _COMPARED:
        main = max(kinds, key=[lines.ending(line) for line in there].count) if kinds else neighbour
        return [main if line.endswith("\n") else "" for line in wanted]
    bodies = [lines.body(line) for line in there]
    matcher = difflib.SequenceMatcher(None, bodies, [lines.body(line) for line in wanted], autojunk=False)
    found: list[str] = []
    last = neighbour
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        for number, line in enumerate(wanted[j1:j2]):
            own = lines.ending(there[i1 + number]) if i1 + number < i2 else ""
            last = own or last
            found.append(last if line.endswith("\n") else "")
        if i2 > i1:
            last = lines.ending(there[i2 - 1]) or last
    return found


def _ending_before(text: str, start: int) -> str:
    begin = lines.start_of_line(text, start)
    return lines.ending(text[max(0, begin - 2) : begin])


def _ending_after(text: str, end: int) -> str:
    return lines.ending(text[end : lines.end_of_line(text, end)])


def _common_head(one: str, other: str) -> int:
    length = _common(one, other, forward=True)
    # Never part a "\r\n": a cut between its halves would leave a line ending that neither text has.
    return (
        length - 1
        if length and one[length - 1] == "\r" and "\n" in (one[length : length + 1], other[length : length + 1])
        else length
    )


def _common_tail(one: str, other: str) -> int:
    length = _common(one, other, forward=False)
    if length and one[len(one) - length] == "\n":
        before = (one[len(one) - length - 1 : len(one) - length], other[len(other) - length - 1 : len(other) - length])
        return length - 1 if "\r" in before else length
    return length


def _common(one: str, other: str, forward: bool) -> int:
    """The length of the longest common prefix, or suffix, by halving: compares slices, not characters."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        same = (
            one[low:middle] == other[low:middle]
            if forward
            else one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]
        )
        if same:
            low = middle
        else:
            high = middle - 1
    return low
