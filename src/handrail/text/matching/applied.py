"""Recognise an edit that was applied before: its new text stands where the old one would be."""

from __future__ import annotations

from collections.abc import Iterator

from handrail.text import lines

_SHORTEST = 12
"""Characters that a part of a line must have to be recognised."""
_CERTAIN = 3
"""Lines that are no chance if they stand together."""
_SHORTEST_LINE = 4
"""Characters that a line must have to count as one that the edit removes."""


def find_applied_around(text: str, old: str, new: str) -> int | None:
    """The line at which ``new`` stands, if every ``old`` in the text is a part of it already; None if one is not.

    Sent twice, an edit that adds something beside its old text would add it twice.
    """
    old, new = lines.to_feeds(old), lines.to_feeds(new)
    if old not in new:
        old, new = old.strip(), new.strip()  # quoted with indentation that goes before what is added
    if not old.strip() or old not in new:
        return None
    head, _, tail = new.partition(old)
    if not _has_word(head + tail):
        return None
    text = lines.to_feeds(text)
    places = _find_whole(text, new, head="\n" in head, tail="\n" in tail)
    first = place = next(places, None)
    start = text.find(old) if first is not None else -1
    while start >= 0:
        while place is not None and place + len(new) < start + len(old):
            place = next(places, None)
        if place is None or place > start:
            return None
        start = text.find(old, start + len(old))
    return None if first is None else text.count("\n", 0, first) + 1


def find_applied_instead(text: str, old: str, new: str) -> int | None:
    """The line at which ``new`` stands in a text that does not have ``old``; None if that may be by chance."""
    old, new, text = lines.to_feeds(old), lines.to_feeds(new).strip("\n"), lines.to_feeds(text)
    head, tail = lines.count_equal_edges(old, new)
    changed = new[head : len(new) - tail]
    if not _has_word(changed) and not (_has_word(new[:head]) and _has_word(new[len(new) - tail :])):
        return None  # what is left of a deletion proves something only by the text on both sides
    places = list(_find_whole(text, new, head="\n" in new, tail="\n" in new))
    if not places or (len(new.strip()) < _SHORTEST and not _is_line(text, places[0], len(new))):
        return None
    kept = {row.strip() for row in new.split("\n") if row.strip()}
    removed = {row.strip() for row in old.split("\n")} - kept
    removed = {row for row in removed if len(row) >= _SHORTEST_LINE}
    if len(kept) < _CERTAIN and removed and removed <= {row.strip() for row in text.split("\n")}:
        return None  # they are all there still
    return text.count("\n", 0, places[0]) + 1


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def _find_whole(text: str, new: str, *, head: bool, tail: bool) -> Iterator[int]:
    """Where ``new`` stands as whole words, and with whole lines at its head and its tail if these have other lines."""
    start = text.find(new) if new.strip() else -1
    while start >= 0:
        end = start + len(new)
        begins = not head or not text[lines.start_of_line(text, start) : start].strip()
        ends = not tail or new.endswith("\n") or not text[end : lines.end_of_line(text, end)].strip()
        if begins and ends and not lines.cuts_word(text, start) and not lines.cuts_word(text, end):
            yield start
        start = text.find(new, start + 1)


def _is_line(text: str, start: int, length: int) -> bool:
    end = start + length
    around = text[lines.start_of_line(text, start) : start] + text[end : lines.end_of_line(text, end)]
    return not around.strip()
