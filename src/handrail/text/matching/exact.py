"""Where an edit applies: the places in a text that an `old_string` stands for.

Levels, each tried only if the one before found nothing: the text as it is; then the text with line endings taken as
equal, which is the text as a model was shown it. A place never begins inside a "\\r\\n".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from handrail.text import lines

_END = "(?>\r\n|\n|\r)"
MOST_PLACES = 100_000
"""A text that is nearly everywhere is not collected."""
Level = Literal["exact", "line_endings"]


@dataclass(frozen=True, slots=True)
class Match:
    """All places of one level, as spans of characters, in order and apart; no more than one above `MOST_PLACES`."""

    level: Level
    spans: tuple[tuple[int, int], ...]


def find(text: str, old: str) -> Match:
    """The places of ``old`` in ``text`` at the first level that has any."""
    if "\r" in old or "\n" not in old or "\r" not in text:
        spans = _spans(text, old)
        if old.startswith("\n") and "\r" in text:  # half of a "\r\n" is no place
            spans = tuple(span for span in spans if not text.startswith("\r\n", span[0] - 1))
        if spans or ("\r" not in text and "\r" not in old):
            return Match("exact", spans)
    # An `old` that does not spell out "\r" is what a model was shown, where all line endings look alike: it is not
    # unique if it is elsewhere with other endings.
    spans = _in_feeds(text, lines.to_feeds(old))
    return Match("exact" if all(text[start:end] == old for start, end in spans) else "line_endings", spans)


def overlaps(text: str, old: str, span: tuple[int, int]) -> bool:
    """Whether ``old`` is there a second time that overlaps with the first: "aba" in "ababa" is two places."""
    again = text.find(old, span[0] + 1, span[1] + len(old) - 1)
    return again >= 0 and not (old.startswith("\n") and text.startswith("\r\n", again - 1))


def _spans(text: str, old: str) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    start = text.find(old) if old else -1
    while start >= 0 and len(found) <= MOST_PLACES:
        found.append((start, start + len(old)))
        start = text.find(old, start + len(old))
    return tuple(found)


def _in_feeds(text: str, old: str) -> tuple[tuple[int, int], ...]:
    """Search with every line ending taken as one character, and map the spans back."""
    if not old.startswith("\n"):  # a pattern that begins with letters is found fast
        pattern = re.compile(_END.join(map(re.escape, old.split("\n"))))
        return tuple(match.span() for match in islice(pattern.finditer(text), MOST_PLACES + 1))
    pairs: list[int] = []
    start = text.find("\r\n")
    while start >= 0:
        pairs.append(start - len(pairs))  # where this pair's single character stands in the folded text
        start = text.find("\r\n", start + 2)

    def back(position: int) -> int:
        # Pairs that lie before the position have one character more in the real text.
        return position + bisect_right(pairs, position - 1)

    return tuple((back(start), back(end)) for start, end in _spans(lines.to_feeds(text), old))
