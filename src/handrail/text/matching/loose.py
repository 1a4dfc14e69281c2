"""Loose matches: whole lines, compared without regard to blanks and typography.

A place must be the only one in the file, however loosely the lines are compared; its level is computed afterwards, for
the answer only. The texts are tried as they are, then with one habit undone: as whole lines, then without the blank
lines at their edges, and so on. The first texts that match anywhere decide, and all of them must mean the same change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from handrail.errors import ManyLoose, UnsureIndent
from handrail.text import lines
from handrail.text.document import EditPlan, Splice
from handrail.text.matching.completed import fits_part, match_but_blank_lines, match_parts
from handrail.text.matching.fold import CONTROL_BLANKS, drop_edges_of_no_width
from handrail.text.matching.habits import OF_PARTS, Variant, list_variants
from handrail.text.matching.indentation import MixedTypography, Unsure
from handrail.text.matching.omission import is_omission
from handrail.text.matching.places import (
    LOOSE_LEVELS,
    BlankEdges,
    FileLines,
    LineMatch,
    find_level,
    split_rows,
)

_NEARLY = ("line_endings", "trailing_blanks")
_COMMENT = re.compile(
    r"^\s*(#(?![!\[]|\s*(?:define|undef|include|import|if|ifn?def|elif|else|endif|pragma|error|line|region)\b)"
    r"|//+!?|/\*+|\*(?=\s|$)|--(?=\s)|;|%(?=\s|%)|<!--)"
)
_FENCE = re.compile(r"^\s*(```|~~~)")
_WORD = re.compile(r"[^\W\d_]+")
_NAME = re.compile(r"\w+[(_\d]\w*|\w+(?:\.|::|->)\w+|\w*[a-z][A-Z]\w*|`[^`]*`")
_PICTURES = frozenset(map(chr, range(0x2400, 0x2427)))
"""Of control characters."""
_ADDED = re.compile(r"\s*\+(?:[^\s+=]| {2,}|\t)")
"""A line with the sign of a diff; in code, a sum goes on behind a plus and one blank."""
_NEGATIONS = {"not", "no", "never", "none", "nor", "without", "cannot"}

Choose = Callable[[Sequence[int]], Sequence[int]]


@dataclass(frozen=True, slots=True)
class _VariantMatches:
    """All places of one variant; each is a list of parts, for an elided middle."""

    names: tuple[str, ...]
    places: list[list[LineMatch]]
    fits: bool = True
    """Whether blank lines at the edges, which one of the texts has, are nothing to the file there."""


class LooseSearch:
    """Searches a file for the old text of one edit, loosely."""

    def __init__(
        self,
        file: FileLines,
        replace_all: bool = False,
        prose: bool = False,
        choose: Choose | None = None,
    ) -> None:
        """``choose`` picks the places, by their first lines, that can be meant: those of a hunk, each letter of which
        counts."""
        self._file, self._replace_all, self._prose, self._choose = file, replace_all, prose, choose
        self.span = (0, 0)
        """The lines that the edit was matched with."""

    def run(self, old: str, new: str) -> EditPlan | None:
        """Plan the edit; None if it matches nowhere. Raises `ManyLoose` and `UnsureIndent`."""
        if any(char in old and char not in self._file.text for char in CONTROL_BLANKS):
            return None
        plain = Variant("", lines.to_feeds(old), lines.to_feeds(new))
        groups = [[plain], list(list_variants(plain.old, plain.new))]
        finders = (
            self._match_whole,
            self._match_trimmed,
            self._match_elided,
            self._match_but_blank_lines,
            self._match_part,
            *(() if self._choose else (self._match_but_one_word,)),
        )
        for find in finders:
            for group in groups:
                matches = [one for variant in group if (one := find(variant))]
                if any(one.fits for one in matches):
                    return self._make_plan(matches, "words" if find == self._match_but_one_word else "")
        return None

    def run_on_lines(self, old: str, new: str) -> EditPlan | None:
        """Plan the edit by whole lines without the blank ones at its edges, and try nothing else."""
        matches = self._match_trimmed(Variant("", lines.to_feeds(old), lines.to_feeds(new)))
        return self._make_plan([replace(matches, names=())], "") if matches else None

    def _match_whole(self, variant: Variant) -> _VariantMatches | None:
        old, new = _split(variant)
        places, bare = self._file.find_windows(old), BlankEdges(old, new).old
        if len(places) == 1 and not self._choose and len(others := self._file.find_windows(bare)) > 1:
            places = others  # only blank lines at its edges make it unique
        return self._collect(variant, [[LineMatch(at, old, new)] for at in places])

    def _collect(
        self, variant: Variant, places: list[list[LineMatch]], name: str = "", fits: bool = True
    ) -> _VariantMatches | None:
        return _VariantMatches(tuple(filter(None, (variant.name, name))), places, fits) if places else None

    def _match_trimmed(self, variant: Variant) -> _VariantMatches | None:
        """Without the blank lines at the edges: those between the other lines may be too many as well, then."""
        old, new = _split(variant)
        edges = BlankEdges(old, new)
        places = self._file.find_windows(edges.old)
        fits = len(places) != 1 or self._fits(edges, places[0], places[0] + len(edges.old))
        return self._collect(variant, [[LineMatch(at, edges.old, edges.new)] for at in places], "blank edges", fits)

    def _fits(self, edges: BlankEdges, at: int, end: int) -> bool:
        """Whether blank lines that only one text has at an edge are nothing to the file there."""
        above, below = self._file.keys[max(0, at - 1) : at], self._file.keys[end : end + 1]
        return not (edges.head and above == [""]) and not (edges.tail and below == [""])

    def _match_elided(self, variant: Variant) -> _VariantMatches | None:
        """Two or more anchors with "..." between them, and the same "..." in the new text: what lies between stays."""
        edges = BlankEdges(*_split(variant))
        old, new = edges.old, edges.new
        gaps, others = ([number for number, row in enumerate(rows) if is_omission(row)] for rows in (old, new))
        if not gaps or [old[gap] for gap in gaps] != [new[gap] for gap in others]:
            return None
        if any(map(is_omission, self._file.bodies)):
            return None  # they may be a line of the file itself, at another place or in other words
        parts: list[LineMatch] = []
        i = j = floor = 0
        for gap, other in zip([*gaps, len(old)], [*others, len(new)], strict=True):
            anchor = old[i:gap]
            places = [at for at in self._file.find_windows(anchor) if at >= floor]
            if len(places) > 1:
                raise self._report_ambiguous(places)
            if not places:
                return None
            parts.append(LineMatch(places[0], anchor, new[j:other]))
            floor, i, j = places[0] + len(anchor), gap + 1, other + 1
        evidence = [pair for part in parts for pair in zip(part.old, self._file.bodies[part.at :], strict=False)]
        parts = [replace(part, evidence=evidence) for part in parts]
        fits = self._fits(edges, parts[0].at, parts[-1].span[1])
        return self._collect(variant, [parts], "elided middle", fits)

    def _match_but_blank_lines(self, variant: Variant) -> _VariantMatches | None:
        edges = BlankEdges(*_split(variant))
        matches = match_but_blank_lines(self._file, edges.old, edges.new)
        places = [[match] for match in matches if match]
        fits = len(places) == len(matches) and (len(places) != 1 or self._fits(edges, *places[0][0].span))
        return self._collect(variant, places, "blank lines", fits)

    def _match_part(self, variant: Variant) -> _VariantMatches | None:
        old, new = variant.old, variant.new
        if self._replace_all or "\n" in old + new or variant.name not in OF_PARTS:
            return None
        matches = match_parts(self._file, old, new)
        fits = len(matches) != 1 or fits_part(self._file, matches[0], old, new)
        return self._collect(variant, [[match] for match in matches], "part of a line", fits)

    def _match_but_one_word(self, variant: Variant) -> _VariantMatches | None:
        """One other word in one comment or line of prose that the edit keeps; all other lines are equal."""
        edges = BlankEdges(*_split(variant))
        places = self._find_but_one_word(edges.old, edges.new)
        fits = len(places) != 1 or self._fits(edges, places[0], places[0] + len(edges.old))
        return self._collect(variant, [[LineMatch(at, edges.old, edges.new)] for at in places], fits=fits)

    def _find_but_one_word(self, old: Sequence[str], new: Sequence[str]) -> list[int]:
        soft = {
            number
            for number, row in enumerate(old)
            if (self._prose or _COMMENT.match(row)) and old.count(row) == new.count(row) == 1
        }
        keys = [self._file.key(row) for row in old]
        first, places = self._file.find_rarest(["" if number in soft else key for number, key in enumerate(keys)])
        return [at - first for at in places if soft and self._is_all_but_one_word(at - first, keys, soft)]

    def _is_all_but_one_word(self, start: int, keys: Sequence[str], soft: set[int]) -> bool:
        ours = self._file.keys[max(0, start) : start + len(keys)]
        if start < 0 or len(ours) < len(keys):
            return False
        odd = [number for number, (a, b) in enumerate(zip(ours, keys, strict=True)) if a != b]
        if len(odd) != 1 or odd[0] not in soft or keys[odd[0]] in self._file.key_counts:
            return False
        fences = sum(bool(_FENCE.match(body)) for body in self._file.bodies[: start + odd[0]])
        is_code = self._prose and fences % 2  # in a fence
        return not is_code and _differs_in_one_word(ours[odd[0]], keys[odd[0]])

    def _make_plan(self, matches: Sequence[_VariantMatches], level: str) -> EditPlan | None:
        if self._choose:
            matches = self._choose_strictest(matches, self._choose)
        starts = _list_starts(matches)
        if not starts:
            return None
        self.span = starts[0], max(parts[-1].span[1] for one in matches for parts in one.places)
        if len(starts) > 1 and not self._replace_all:
            raise self._report_ambiguous(starts)
        if any(len(one.places) != len(starts) for one in matches) or _do_overlap(matches[0].places):
            raise self._report_ambiguous(starts)
        levels = [self._find_loosest(one.places) for one in matches]
        strictest = min(levels, key=LOOSE_LEVELS.index)
        names = sorted({name for one in matches for name in one.names})
        plans = {tuple(self._compute_splices(one, starts[0] + 1)) for one in matches}
        if len(plans) > 1:
            raise UnsureIndent(line=starts[0] + 1, readings=names)
        splices = plans.pop()
        pictures = _PICTURES.intersection("".join(one.new for one in splices))
        if any(char not in self._file.text for char in pictures) or any(
            _adds_signs(part) for one in matches for place in one.places for part in place
        ):
            raise UnsureIndent(line=starts[0] + 1, readings=names, quotes=not names)
        return EditPlan(level or strictest, matches[levels.index(strictest)].names, splices, len(starts))

    def _choose_strictest(self, matches: Sequence[_VariantMatches], choose: Choose) -> list[_VariantMatches]:
        """The places of a hunk at the first level that has any which can be meant; blanks inside a line count."""
        for levels in (["line_endings"], ["trailing_blanks"], ["indentation"], ["punctuation"]):
            kept = [[parts for parts in one.places if self._find_loosest([parts]) in levels] for one in matches]
            there = [replace(one, places=places) for one, places in zip(matches, kept, strict=True)]
            starts = choose(_list_starts(there))
            kept = [[parts for parts in one.places if parts[0].at in starts] for one in there]
            if starts:
                return [replace(one, places=places) for one, places in zip(there, kept, strict=True) if places]
        return []

    def _find_loosest(self, places: Sequence[Sequence[LineMatch]]) -> str:
        """Return the strictest level at which all of these places match."""
        parts = [part for parts in places for part in parts]
        levels = [find_level(self._file.bodies[slice(*part.span)], part.old) for part in parts]
        return max(levels, key=LOOSE_LEVELS.index)

    def _compute_splices(self, matches: _VariantMatches, line: int) -> Iterator[Splice]:
        try:
            for parts in matches.places:
                yield from filter(None, map(self._file.splice, parts))
        except Unsure as error:
            quotes = isinstance(error, MixedTypography)
            raise UnsureIndent(line=line, indent=not quotes, quotes=quotes) from None

    def _report_ambiguous(self, places: Sequence[int]) -> ManyLoose:
        return ManyLoose(count=len(places), lines=[at + 1 for at in places[:10]])


def _list_starts(matches: Sequence[_VariantMatches]) -> list[int]:
    return sorted({parts[0].at for one in matches for parts in one.places})


def _adds_signs(place: LineMatch) -> bool:
    """Whether a new line begins with the sign of a diff, which would come into the file."""
    known = {row.strip() for row in place.old}
    return any(_ADDED.match(row) and row.strip() not in known for row in place.new)


def _split(variant: Variant) -> tuple[list[str], list[str]]:
    old, new = split_rows(variant.old, variant.new)
    return [drop_edges_of_no_width(row) for row in old], [drop_edges_of_no_width(row) for row in new]


def _do_overlap(places: Sequence[Sequence[LineMatch]]) -> bool:
    spans = [part.span for parts in places for part in parts]
    return any(after[0] < before[1] for before, after in pairwise(spans))


def _differs_in_one_word(ours: str, theirs: str) -> bool:
    """Whether two sentences differ in one plain word: no number, no name from code, none that turns the meaning."""
    a, b = _WORD.findall(ours), _WORD.findall(theirs)
    odd = [number for number, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
    return (
        len(a) == len(b) >= 3
        and len(odd) == 1
        and _WORD.split(ours) == _WORD.split(theirs)
        and _NAME.findall(ours) == _NAME.findall(theirs)
        and all(len(word) > 1 and word.lower() not in _NEGATIONS for word in (a[odd[0]], b[odd[0]]))
        and b[odd[0]].isascii() >= a[odd[0]].isascii()  # else the new text may be spoilt too
    )
