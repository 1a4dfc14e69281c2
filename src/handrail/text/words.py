"""Compare two versions of a line word by word, for marks in a diff; fast also where a line repeats its words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from rapidfuzz.distance import LCSseq

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_LONGEST = 1_000
"""Characters of a line whose words are compared."""
_ALIKE = 0.4
"""The part of the words that two versions have in common at least; others are different lines."""

Span = tuple[int, int]


def compare_words(old: str, new: str) -> tuple[list[Span], list[Span]] | None:
    """The parts of two lines that differ; None if the lines are too long or have little in common."""
    if max(len(old), len(new)) > _LONGEST:
        return None
    words = _WORD.findall(old), _WORD.findall(new)
    if 2 * LCSseq.similarity(*words) < _ALIKE * sum(map(len, words)):
        return None
    marks: tuple[list[Span], list[Span]] = [], []
    starts = [[0, *accumulate(map(len, side))] for side in words]
    for step in LCSseq.opcodes(*words):
        if step.tag == "equal":
            continue
        for side, (first, last) in enumerate(((step.src_start, step.src_end), (step.dest_start, step.dest_end))):
            if last > first:
                marks[side].append((starts[side][first], starts[side][last]))
    return marks


def mark_words(kinds: Sequence[str], texts: Sequence[str]) -> dict[int, list[Span]]:
    """By position, the changed words of a diff's lines: removed ones are compared with the added ones right behind."""
    marks: dict[int, list[Span]] = {}
    at = 0
    while at < len(kinds):
        removed = _count_run(kinds, at, "-")
        added = _count_run(kinds, at + removed, "+")
        if removed and removed == added:
            for first in range(at, at + removed):
                if pair := compare_words(texts[first], texts[first + removed]):
                    marks[first], marks[first + removed] = pair
        at += max(removed + added, 1)
    return marks


def _count_run(kinds: Sequence[str], start: int, kind: str) -> int:
    end = start
    while end < len(kinds) and kinds[end] == kind:
        end += 1
    return end - start
