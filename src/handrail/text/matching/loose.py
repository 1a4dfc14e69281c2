"""The looser rungs of the ladder: whole lines, compared without regard to blanks and typography.

A place must be the only one in the file, however loosely the lines are compared: which rung it stands on is found out
afterwards, and only said. The texts are tried as they are, then without the blank lines at their edges, then in their
other readings; the first that fit anywhere decide, and all of them must mean the same change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from handrail.errors import ManyLoose, UnsureIndent
from handrail.text import lines
from handrail.text.document import Splice
from handrail.text.matching.indentation import Unsure, with_plain_lead
from handrail.text.matching.omission import is_omission
from handrail.text.matching.places import LOOSE, Edges, Lines, Place, Plan, rows, rung_of
from handrail.text.matching.variants import Reading, readings

_NEARLY = ("line_endings", "trailing_blanks")
_COMMENT = re.compile(r"^\s*(#(?!!)|//+!?|/\*+|\*(?!/)|--|;|%|<!--)")
_FENCE = re.compile(r"^\s*(```|~~~)")
_WORD = re.compile(r"[^\W\d_]+")
_NAME = re.compile(r"\w+[(_\d]\w*|\w+(?:\.|::|->)\w+|\w*[a-z][A-Z]\w*|`[^`]*`")
_NEGATIONS = {"not", "no", "never", "none", "nor", "without", "cannot"}


@dataclass(frozen=True, slots=True)
class _Found:
    """All places of one reading; each is a list of parts, for an elided middle."""

    names: tuple[str, ...]
    places: list[list[Place]]
    fits: bool = True
    """Whether blank lines at the edges, which one of the texts has, are nothing to the file there."""


class Search:
    """The places of one edit, loosely."""

    def __init__(self, file: Lines, replace_all: bool, prose: bool) -> None:
        self._file, self._replace_all, self._prose = file, replace_all, prose

    def run(self, old: str, new: str) -> Plan | None:
        """The change, or None if it fits nowhere; raises `ManyLoose` and `UnsureIndent`."""
        groups = list(readings(lines.to_feeds(old), lines.to_feeds(new)))
        for find in (self._whole, self._trimmed, self._elided):
            for group in groups:
                found = [one for reading in group if (one := find(reading))]
                if found and find == self._whole and group is not groups[0]:
                    # What looks like a habit may be the file's own: then the text as it is stands there too.
                    found += [one for reading in groups[0] if (one := self._trimmed(reading))]
                if any(one.fits for one in found):
                    return self._plan(found)
        for group in groups:
            found = [one for reading in group if (one := self._worded(reading))]
            if found:
                return self._plan(found, "words")
        return None

    def _whole(self, reading: Reading) -> _Found | None:
        old, new = _rows(reading)
        places = self._file.windows(old)
        if len(places) == 1:
            places = self._again(places, old, new)
        return _Found(reading.names, [[Place(at, old, new)] for at in places]) if places else None

    def _again(self, places: list[int], old: Sequence[str], new: Sequence[str]) -> list[int]:
        """A match that only blank lines at its edges make the only one is not; a worse one does not count beside one
        that is nearly by the letter."""
        bare = Edges(old, new).old
        others = self._file.windows(bare)
        if rung_of(self._file.bodies[places[0] :][: len(old)], old) in _NEARLY:
            others = [at for at in others if rung_of(self._file.bodies[at:][: len(bare)], bare) in _NEARLY]
        return others if len(others) > 1 else places

    def _trimmed(self, reading: Reading) -> _Found | None:
        """Without the blank lines at the edges."""
        edges = Edges(*_rows(reading))
        places = self._file.windows(edges.old)
        fits = len(places) != 1 or self._fits(edges, places[0], places[0] + len(edges.old))
        found = [[Place(at, edges.old, edges.new)] for at in places]
        return _Found((*reading.names, "blank edges"), found, fits) if found else None

    def _fits(self, edges: Edges, at: int, end: int) -> bool:
        """Whether blank lines that only one text has at an edge are nothing to the file there."""
        if edges.unsure:
            return False
        above, below = self._file.keys[max(0, at - 1) : at], self._file.keys[end : end + 1]
        return not (edges.head and above == [""]) and not (edges.tail and below == [""])

    def _elided(self, reading: Reading) -> _Found | None:
        """Two or more anchors with "..." between them, and the same "..." in the new text: what lies between stays."""
        edges = Edges(*_rows(reading))
        old, new = edges.old, edges.new
        gaps = [number for number, row in enumerate(old) if is_omission(row)]
        others = [number for number, row in enumerate(new) if is_omission(row)]
        if not gaps or [old[gap] for gap in gaps] != [new[gap] for gap in others]:
            return None
        parts: list[Place] = []
        i = j = floor = 0
        for gap, other in zip([*gaps, len(old)], [*others, len(new)], strict=True):
            anchor = old[i:gap]
            places = [at for at in self._file.windows(anchor) if at >= floor]
            if len(places) > 1:
                raise self._many(places)
            if not places:
                return None
            parts.append(Place(places[0], anchor, new[j:other]))
            floor, i, j = places[0] + len(anchor), gap + 1, other + 1
        evidence = [pair for part in parts for pair in zip(part.old, self._file.bodies[part.at :], strict=False)]
        parts = [replace(part, evidence=evidence) for part in parts]
        fits = self._fits(edges, parts[0].at, parts[-1].span[1])
        return _Found((*reading.names, "elided middle"), [parts]) if fits else None

    def _worded(self, reading: Reading) -> _Found | None:
        """One other word in one comment or line of prose that the edit keeps; all other lines are equal."""
        old, new = _rows(reading)
        edges = Edges(old, new)
        bare = self._but_a_word(edges.old, edges.new)
        places = [Place(at, old, new) for at in self._but_a_word(old, new)]
        if not places or len(bare) > 1:
            fits = [at for at in bare if len(bare) > 1 or self._fits(edges, at, at + len(edges.old))]
            places = [Place(at, edges.old, edges.new) for at in fits]
        return _Found(reading.names, [[place] for place in places]) if places else None

    def _but_a_word(self, old: Sequence[str], new: Sequence[str]) -> list[int]:
        soft = {number for number, row in enumerate(old) if row in new and (self._prose or _COMMENT.match(row))}
        keys = [self._file.key(row) for row in old]
        anchor = next((number for number, key in enumerate(keys) if len(key) > 3 and number not in soft), None)
        if anchor is None or not soft:
            return []
        starts = [at - anchor for at in self._file.equal(keys[anchor])]
        return [at for at in starts if self._all_but_a_word(at, keys, soft)]

    def _all_but_a_word(self, start: int, wanted: Sequence[str], soft: set[int]) -> bool:
        ours = self._file.keys[max(0, start) : start + len(wanted)]
        if start < 0 or len(ours) < len(wanted):
            return False
        odd = [number for number, (a, b) in enumerate(zip(ours, wanted, strict=True)) if a != b]
        if len(odd) != 1 or odd[0] not in soft or not _one_word(ours[odd[0]], wanted[odd[0]]):
            return False
        fences = sum(bool(_FENCE.match(body)) for body in self._file.bodies[: start + odd[0]])
        return not self._prose or fences % 2 == 0  # what is in a fence is code

    def _plan(self, found: Sequence[_Found], rung: str = "") -> Plan:
        starts = sorted({parts[0].at for one in found for parts in one.places})
        if len(starts) > 1 and not self._replace_all:
            raise self._many(starts)
        if any(len(one.places) != len(starts) for one in found) or _overlap(found[0].places):
            raise self._many(starts)
        if not all(one.fits for one in found):
            raise UnsureIndent(line=starts[0] + 1, readings=sorted({name for one in found for name in one.names}))
        rungs = [self._rung(one) for one in found]
        strictest = min(rungs, key=LOOSE.index)
        plans: dict[tuple[Splice, ...], _Found] = {}
        for one in found:
            try:
                plans.setdefault(tuple(self._splices(one)), one)
            except Unsure:
                raise UnsureIndent(line=starts[0] + 1, indent=True) from None
        if len(plans) > 1:
            raise UnsureIndent(
                line=starts[0] + 1, readings=sorted({name for one in plans.values() for name in one.names})
            )
        splices = plans.popitem()[0]
        best = found[rungs.index(strictest)]
        return Plan(rung or strictest, best.names, splices, len(starts))

    def _rung(self, found: _Found) -> str:
        """The strictest rung on which all places of a reading stand."""
        parts = [part for parts in found.places for part in parts]
        rungs = [rung_of(self._file.bodies[slice(*part.span)], part.old) for part in parts]
        return max(rungs, key=LOOSE.index)

    def _splices(self, found: _Found) -> Iterator[Splice]:
        for parts in found.places:
            for place in parts:
                one = self._file.splice(place)
                if one:
                    yield one

    def _many(self, places: Sequence[int]) -> ManyLoose:
        return ManyLoose(count=len(places), lines=[at + 1 for at in places[:10]])


def _rows(reading: Reading) -> tuple[list[str], list[str]]:
    old, new = rows(reading.old, reading.new)
    return [with_plain_lead(row) for row in old], [with_plain_lead(row) for row in new]


def _overlap(places: Sequence[Sequence[Place]]) -> bool:
    spans = [part.span for parts in places for part in parts]
    return any(after[0] < before[1] for before, after in pairwise(spans))


def _one_word(ours: str, theirs: str) -> bool:
    """Whether two sentences differ in one plain word: no number, no name from code, none that turns the meaning."""
    a, b = _WORD.findall(ours), _WORD.findall(theirs)
    odd = [number for number, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
    return (
        len(a) == len(b) >= 3
        and len(odd) == 1
        and _WORD.split(ours) == _WORD.split(theirs)
        and _NAME.findall(ours) == _NAME.findall(theirs)
        and all(len(word) > 1 and word.lower() not in _NEGATIONS for word in (a[odd[0]], b[odd[0]]))
    )
