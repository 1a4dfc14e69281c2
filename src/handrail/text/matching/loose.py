"""Loose matches: whole lines, compared without regard to blanks and typography.

A place must be the only one in the file, however loosely the lines are compared; its level is computed afterwards, for
the answer only. The texts are tried as they are, then with one habit undone: as whole lines, then without the blank
lines at their edges, and so on. The first texts that match anywhere decide, and all of them must mean the same change.

A part of a line, or lines with blank ones lost or added, are completed in both texts with what the file has there, so
that the merge sees whole lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from handrail.errors import ManyLoose, UnsureIndent
from handrail.text import lines
from handrail.text.document import EditPlan, Splice
from handrail.text.matching.fold import CONTROL_BLANKS, drop_edges_of_no_width, squeeze, squeeze_with_offsets
from handrail.text.matching.habits import BLANK_SIGNS, OF_PARTS, Variant, list_variants
from handrail.text.matching.indentation import MixedTypography, Unsure
from handrail.text.matching.merge import align_rows, are_alike
from handrail.text.matching.omission import is_omission
from handrail.text.matching.places import (
    LOOSE_LEVELS,
    BlankEdges,
    FileLines,
    LineMatch,
    find_level,
    split_rows,
)

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
_MOST_PLACES = 10
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
        plain = Variant((), lines.to_feeds(old), lines.to_feeds(new))
        groups = [[plain], list(list_variants(plain.old, plain.new))]
        finders = [
            self._match_whole,
            self._match_trimmed,
            self._match_elided,
            self._match_but_blank_lines,
            self._match_part,
            self._match_but_one_word,
        ]
        for find in finders[:-1] if self._choose else finders:
            for group in groups:
                matches = [one for variant in group if (one := find(variant)) and one.places]
                if any(one.fits for one in matches):
                    return self._make_plan(matches, "words" if find == self._match_but_one_word else "")
        return None

    def run_on_lines(self, old: str, new: str) -> EditPlan | None:
        """Plan the edit by whole lines without the blank ones at its edges, and try nothing else."""
        matches = self._match_trimmed(Variant((), lines.to_feeds(old), lines.to_feeds(new)))
        return self._make_plan([replace(matches, names=())], "") if matches.places else None

    def _match_whole(self, variant: Variant) -> _VariantMatches:
        old, new = _split(variant)
        places, bare = self._file.find_windows(old), BlankEdges(old, new).old
        if len(places) == 1 and not self._choose and len(others := self._file.find_windows(bare)) > 1:
            places = others  # only blank lines at its edges make it unique
        return _VariantMatches(variant.names, [[LineMatch(at, old, new)] for at in places])

    def _match_trimmed(self, variant: Variant) -> _VariantMatches:
        """Without the blank lines at the edges: those between the other lines may be too many as well, then."""
        edges = BlankEdges(*_split(variant))
        places = [[LineMatch(at, edges.old, edges.new)] for at in self._file.find_windows(edges.old)]
        return self._collect((*variant.names, "blank edges"), places, edges)

    def _collect(self, names: tuple[str, ...], places: list[list[LineMatch]], edges: BlankEdges) -> _VariantMatches:
        """The only place fits if blank lines that only one text has at an edge are nothing to the file there."""
        if len(places) != 1:
            return _VariantMatches(names, places)
        at, end = places[0][0].at, places[0][-1].span[1]
        above, below = self._file.keys[max(0, at - 1) : at], self._file.keys[end : end + 1]
        fits = not (edges.head and above == [""]) and not (edges.tail and below == [""])
        return _VariantMatches(names, places, fits)

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
        return self._collect((*variant.names, "elided middle"), [parts], edges)

    def _match_but_blank_lines(self, variant: Variant) -> _VariantMatches:
        edges = BlankEdges(*_split(variant))
        matches = _find_but_blank_lines(self._file, edges.old, edges.new)
        places = [[match] for match in matches if match]
        explained = self._collect((*variant.names, "blank lines"), places, edges)
        return replace(explained, fits=explained.fits and len(places) == len(matches))

    def _match_part(self, variant: Variant) -> _VariantMatches | None:
        old, new = variant.old, variant.new
        if self._replace_all or "\n" in old + new or not OF_PARTS.issuperset(variant.names):
            return None
        matches = _match_parts(self._file, old, new)
        fits = len(matches) != 1 or _fits_part(self._file, matches[0], old, new)
        return _VariantMatches((*variant.names, "part of a line"), [[match] for match in matches], fits)

    def _match_but_one_word(self, variant: Variant) -> _VariantMatches:
        """One other word in one comment or line of prose that the edit keeps; all other lines are equal."""
        edges = BlankEdges(*_split(variant))
        old, new = edges.old, edges.new
        soft = {
            number
            for number, row in enumerate(old)
            if (self._prose or _COMMENT.match(row)) and old.count(row) == new.count(row) == 1
        }
        keys = [self._file.key(row) for row in old]
        first, places = self._file.find_rarest(["" if number in soft else key for number, key in enumerate(keys)])
        starts = [at - first for at in places if soft and self._is_all_but_one_word(at - first, keys, soft)]
        return self._collect(variant.names, [[LineMatch(at, old, new)] for at in starts], edges)

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
        is_one = len(starts) == 1 or self._replace_all
        if not is_one or any(len(one.places) != len(starts) for one in matches) or _do_overlap(matches[0].places):
            raise self._report_ambiguous(starts)
        levels = [self._find_loosest(one.places) for one in matches]
        strictest = min(levels, key=LOOSE_LEVELS.index)
        names = sorted({name for one in matches for name in one.names})
        plans = {tuple(self._compute_splices(one, starts[0] + 1)) for one in matches}
        if len(plans) > 1:
            raise UnsureIndent(line=starts[0] + 1, readings=names)
        splices = plans.pop()
        pictures = _PICTURES.union(BLANK_SIGNS if "signs for blanks" in names else "")
        pictures = pictures.intersection("".join(one.new for one in splices))
        if any(char not in self._file.text for char in pictures) or any(
            _adds_signs(part) for one in matches for place in one.places for part in place
        ):
            raise UnsureIndent(line=starts[0] + 1, readings=names, quotes=not names)
        return EditPlan(level or strictest, matches[levels.index(strictest)].names, splices, len(starts))

    def _choose_strictest(self, matches: Sequence[_VariantMatches], choose: Choose) -> list[_VariantMatches]:
        """The places of a hunk at the first level that has any which can be meant; blanks inside a line count."""
        for level in LOOSE_LEVELS[:-1]:
            there = [
                replace(one, places=[parts for parts in one.places if self._find_loosest([parts]) == level])
                for one in matches
            ]
            if starts := choose(_list_starts(there)):
                kept = [[parts for parts in one.places if parts[0].at in starts] for one in there]
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


def _match_parts(file: FileLines, old: str, new: str) -> list[LineMatch]:
    """Where a text without line breaks stands inside a line, typography and runs of blanks aside."""
    target = squeeze(old)
    matches: list[LineMatch] = []
    at = file.joined_keys.find(target)
    while at >= 0 and len(matches) < _MOST_PLACES:
        number = bisect_right(file.key_starts, at) - 1
        matches.append(_complete(file.bodies[number], number, at - file.key_starts[number], old, new))
        at = file.joined_keys.find(target, at + 1)
    return matches


def _fits_part(file: FileLines, match: LineMatch, old: str, new: str) -> bool:
    """Whether the new text can take the place of that part: no word is cut, and the blanks around it are the same."""
    body, whole = file.bodies[match.at], match.old[0]
    start = len(whole[: whole.index(old.strip())])
    end = len(body) - (len(whole) - start - len(old.strip()))
    if lines.cuts_word(body, start) or lines.cuts_word(body, end) or not (body[:start].strip() or body[end:].strip()):
        return False
    return bool(new.strip()) and _list_edges(old) == _list_edges(new)


def _list_edges(text: str) -> tuple[str, str]:
    """The blanks before and behind a text."""
    return text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]


def _complete(body: str, number: int, column: int, old: str, new: str) -> LineMatch:
    """The match at a column of a squeezed line, with the rest of the line added to both texts."""
    plain, begins = squeeze_with_offsets(body)
    first = len(plain) - len(plain.lstrip()) + column
    head, tail = body[: begins[first]], body[begins[first + len(squeeze(old))] :]
    return LineMatch(number, [head + old.strip() + tail], [head + new.strip() + tail])


def _find_but_blank_lines(file: FileLines, old: Sequence[str], new: Sequence[str]) -> list[LineMatch | None]:
    """Where the lines of the old text that are not blank stand, with more or fewer blank lines between them; None for
    a place where the edit changes lines beside a blank one that differs."""
    filled = [number for number, row in enumerate(old) if row.strip()]
    if len(filled) < 2 or not new or not old[0].strip() or not old[-1].strip():
        return []
    targets = [squeeze(old[number]) for number in filled]
    matches: list[LineMatch | None] = []
    rarest, candidates = file.find_rarest(targets)
    for at in candidates:
        start = bisect_left(file.filled, at) - rarest
        places = file.filled[max(0, start) : start + len(targets)]
        if [file.keys[place] for place in places] == targets and len(matches) < _MOST_PLACES:
            matches.append(_restore_blank_lines(places, old, new, filled))
    return matches


def _restore_blank_lines(
    places: Sequence[int], old: Sequence[str], new: Sequence[str], filled: Sequence[int]
) -> LineMatch | None:
    """Both texts with the blank lines of the file; None where the edit changes lines beside one that differs."""
    kept = dict(_pair_lines(old, new))
    steps = list(pairwise(zip(filled, places, strict=False)))
    is_wider = any(after - number > place_after - place for (number, place), (after, place_after) in steps)
    if is_wider and not all(new[j].strip() for j in {*range(len(new))} - {*kept.values()}):
        return None  # blank lines too many: are those between the new lines too many as well?
    whole_old, whole_new = [old[0]], list[str]()
    done = 0
    for (number, place), (after, place_after) in steps:
        blank, blank_here = after - number - 1, place_after - place - 1
        whole_old += [""] * blank_here + [old[after]]
        if blank == blank_here:
            continue
        above, below = kept.get(number), kept.get(after)
        if above is None or below is None or below - above != after - number or any(new[above + 1 : below]):
            return None
        whole_new += [*new[done : above + 1], *[""] * blank_here]
        done = below
    return LineMatch(places[0], whole_old, [*whole_new, *new[done:]])


def _pair_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The lines of the old text that are still there in the new one, or there in another version."""
    for code, i1, i2, j1, j2 in align_rows([squeeze(row) for row in old], [squeeze(row) for row in new]):
        for i, j in zip(range(i1, i2), range(j1, j2), strict=False) if i2 - i1 == j2 - j1 else ():
            if code == "equal" or are_alike(old[i].strip(), new[j].strip()):
                yield i, j
