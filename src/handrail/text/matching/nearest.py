"""Find the text nearest to one that does not match, for the error message.

Lines of the text that occur in the file vote for a place; frequent lines do not vote. If none occurs, the longest line
is compared with every line of the file by its first characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from rapidfuzz import fuzz, process

from handrail.text import lines
from handrail.text.matching.fold import squeeze
from handrail.text.matching.places import FileLines

_BLANKS = re.compile(r"^[ \t]+|[ \t]+$|[ \t]{2,}|\t")
_FREQUENT = 20
_PLACES = 3
_WIDTH = 160
_ALIKE = 70
_MOST_SHOWN = 20
_MOST_CHARS = 300


class NearestFacts(TypedDict, total=False):
    """The facts of `NoMatch` about the nearest place."""

    near: int
    others: Sequence[int]
    line: int
    theirs: str
    ours: str
    sent: str
    there: str
    current: str


def find_nearest(file: FileLines, old: str) -> NearestFacts:
    """Facts for `NoMatch`: the place most like ``old``, the first line that differs there, and other such places.

    Empty if nothing is alike.
    """
    bodies, keys = file.bodies, file.keys
    rows = lines.to_feeds(old).strip("\n").split("\n")
    squeezed = [squeeze(row) for row in rows]
    starts = [max(0, start) for start in _find_by_vote(file, squeezed) or _find_alike(keys, squeezed)]
    if not starts:
        return {}
    at = starts[0]
    odd = next((k for k, key in enumerate(squeezed) if at + k >= len(keys) or keys[at + k] != key), 0)
    there_now = bodies[at + odd] if at + odd < len(bodies) else "(the end of the file)"
    theirs, ours = show_difference(rows[odd], there_now)
    return NearestFacts(
        near=at + 1,
        others=[start + 1 for start in starts[1:]],
        line=at + odd + 1,
        theirs=theirs,
        ours=ours,
        **name_characters(rows[odd], there_now),
        current=number_rows(bodies, at, at + len(rows)),
    )


def number_rows(bodies: Sequence[str], start: int, end: int) -> str:
    """The lines of the place with their numbers, so that the next call can be right without a read."""
    shown = bodies[start : min(end, start + _MOST_SHOWN)]
    return "\n".join(f"{number:>6}\t{body[:_MOST_CHARS]}" for number, body in enumerate(shown, start + 1))


def name_characters(theirs: str, ours: str) -> NearestFacts:
    """The first characters that differ, by their code points, where the eye may not tell them apart."""
    sent, there = next(((a, b) for a, b in zip(theirs, ours, strict=False) if a != b), ("", ""))
    if (sent + there).isascii():
        return {}
    return {"sent": f"U+{ord(sent):04X}", "there": f"U+{ord(there):04X}"}


def _find_by_vote(file: FileLines, squeezed: Sequence[str]) -> list[int]:
    """Where most lines of the text stand, the best first."""
    places: dict[str, list[int]] = {
        key: [] for key in squeezed if 0 < file.key_counts[key] <= _FREQUENT and len(key) > 3
    }
    for at, key in enumerate(file.keys) if places else ():
        if key in places:
            places[key].append(at)
    votes = Counter(at - number for number, key in enumerate(squeezed) for at in places.get(key, ()))
    most = max(votes.values(), default=0)
    best = [start for start, count in votes.items() if 2 * count >= most]
    return sorted(best, key=lambda start: (-votes[start], start))[:_PLACES]


def _find_alike(keys: Sequence[str], squeezed: Sequence[str]) -> list[int]:
    """Where the longest line of the text is nearly."""
    longest = max(squeezed, key=len)
    similar = process.extract(longest[:_WIDTH], keys, scorer=fuzz.ratio, score_cutoff=_ALIKE, limit=_PLACES)
    return [at - squeezed.index(longest) for _, _, at in similar if len(longest) > 3]


def show_difference(theirs: str, ours: str) -> tuple[str, str]:
    """Two lines that differ, cut to where they do, with tabs and blanks that are easily overlooked as signs."""
    head, _ = lines.count_equal_edges(theirs, ours)
    skip = max(0, head - _WIDTH // 2) if max(len(theirs), len(ours)) > _WIDTH else 0
    return _show_row(theirs, skip), _show_row(ours, skip)


def _show_row(row: str, skip: int) -> str:
    shown = _BLANKS.sub(lambda match: match[0].replace(" ", "·").replace("\t", "→"), row)[skip:]
    return "…" * bool(skip) + shown[:_WIDTH] + "…" * (len(shown) > _WIDTH)
