"""Readings: what a model may have meant by a text that is not in the file as it stands.

A model pastes line numbers, wraps code in a fence, escapes a string once too often, or writes entities. Each step here
undoes one such habit in `old` and, where `new` has it too, in `new`; up to two of them are tried together.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Reading:
    """A pair of texts, and the names of the habits that were undone to get it."""

    names: tuple[str, ...]
    old: str
    new: str


_Pair = tuple[str, str]

# The gutters of our own dialects and of others: `12<tab>`, `12→`, `12 | `, `12: `.
_GUTTERS = [re.compile(rf"^ *(\d+){mark}") for mark in (r"\t", "→", r" ?\| ?", ": ?")]
_FENCE = re.compile(r"^(`{3,}|~{3,})[^\n`]*\n(.*?)\n?\1[ \t]*\n?$", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "`": "`", "\\": "\\"}


def _without_numbers(text: str, some: bool) -> str | None:
    """``text`` without a gutter of ascending line numbers: on every line, or with ``some`` on most of them."""
    rows = text.split("\n")
    filled = sum(bool(row.strip()) for row in rows)
    for gutter in _GUTTERS:
        found = [gutter.match(row) for row in rows]
        numbers = [int(match[1]) for match in found if match]
        steps = {after - before for before, after in pairwise(numbers)}
        every = len(numbers) >= filled and steps <= {1}
        if numbers and (every or (some and 2 * len(numbers) >= filled and all(step > 0 for step in steps))):
            return "\n".join(row[match.end() :] if match else row for row, match in zip(rows, found, strict=True))
    return None


def _gutter(old: str, new: str) -> _Pair | None:
    bare = _without_numbers(old, some=False)
    if bare is None:
        return None
    # What the model added itself has no number.
    other = _without_numbers(new, some=True)
    return bare, new if other is None else other


def _fence(old: str, new: str) -> _Pair | None:
    match, other = _FENCE.match(old), _FENCE.match(new)
    return (match[2], other[2] if other else new) if match else None


def _entities(old: str, new: str) -> _Pair | None:
    bare = html.unescape(old)
    return (bare, html.unescape(new)) if bare != old else None


def _escapes(marks: str, both: bool = True) -> Callable[[str, str], _Pair | None]:
    pattern = re.compile(rf"\\([{re.escape(marks)}])")

    def read(old: str, new: str) -> _Pair | None:
        bare = pattern.sub(lambda match: _ESCAPES[match[1]], old)
        if bare == old:
            return None
        return bare, pattern.sub(lambda match: _ESCAPES[match[1]], new) if both else new

    return read


_STEPS: tuple[tuple[str, Callable[[str, str], _Pair | None]], ...] = (
    ("code fence", _fence),
    ("line numbers", _gutter),
    ("entities", _entities),
    ("escapes", _escapes("ntr\"'`\\")),
    ("escaped line breaks", _escapes("n")),
    ("escaped tabs", _escapes("t")),
    ("escaped quotes", _escapes("\"'`")),
    ("escaped line breaks and tabs", _escapes("nt")),
    ("escapes in old_string", _escapes("ntr\"'`\\", both=False)),
)


def readings(old: str, new: str) -> Iterator[Reading]:
    """The texts as they are, then with one habit undone, then with two."""
    last = [Reading((), old, new)]
    seen = {(old, new)}
    yield last[0]
    for _ in range(2):
        deeper = []
        for reading in last:
            for name, step in _STEPS:
                pair = step(reading.old, reading.new)
                if pair and pair not in seen and pair[0].strip():
                    seen.add(pair)
                    deeper.append(Reading((*reading.names, name), *pair))
        yield from deeper
        last = deeper
