"""Loose matches: whole lines, compared without regard to blanks and typography.

A place must be the only one in the file, however loosely the lines are compared; its level is computed afterwards, for
the answer only. The texts are tried as they are, then without the blank lines at their edges, then in their other
variants. The first variants that match anywhere decide, and all of them must mean the same change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from handrail.errors import ManyLoose, Repetitive, UnsureIndent
from handrail.text import lines
from handrail.text.document import EditPlan, Splice
from handrail.text.matching.budget import spend
from handrail.text.matching.completed import fits_part, match_but_blank_lines, match_parts
from handrail.text.matching.fold import CONTROL_BLANKS, fold, squeeze
from handrail.text.matching.indentation import MixedTypography, TooRepetitive, Unsure, indent_of, with_plain_lead
from handrail.text.matching.omission import get_omission_words, is_omission
from handrail.text.matching.places import (
    LOOSE_LEVELS,
    BlankEdges,
    FileLines,
    LineMatch,
    find_level,
    split_rows,
)
from handrail.text.matching.spellings import find_spelled
from handrail.text.matching.variants import SIGNS, Variant, list_variants

_NEARLY = ("line_endings", "trailing_blanks")
_COMMENT = re.compile(
    r"^\s*(#(?![!\[]|\s*(?:define|undef|include|import|if|ifn?def|elif|else|endif|pragma|error|line|region)\b)"
    r"|//+!?|/\*+|\*(?=\s|$)|--(?=\s)|;|%(?=\s|%)|<!--)"
)
_PARTLY = frozenset(
    [
        "entities",
        "code points",
        "composed characters",
        "combining characters",
        "escaped slashes",
        "escapes",
        "escaped quotes",
    ]
)
"""The habits that a part of a line may have; all others go with whole lines."""
_FENCE = re.compile(r"^\s*(```|~~~)")
_WORD = re.compile(r"[^\W\d_]+")
_ADDED = re.compile(r"\s*\+(?:[^\s+=]| {2,}|\t)")
"""A line with the sign of a diff; in code, a sum goes on behind a plus and one blank."""
_ARROW = re.compile(r"\s*(?:[-=]*>+|\|)")
_NAME = re.compile(r"\w+[(_\d]\w*|\w+(?:\.|::|->)\w+|\w*[a-z][A-Z]\w*|`[^`]*`")
_BESIDE = 4
"""How many lines above and below a place may hold a line that the model moved."""
_NEGATIONS = {"not", "no", "never", "none", "nor", "without", "cannot"}


@dataclass(frozen=True, slots=True)
class _VariantMatches:
    """All places of one variant; each is a list of parts, for an elided middle."""

    names: tuple[str, ...]
    places: list[list[LineMatch]]
    fits: bool = True
    """Whether blank lines at the edges, which one of the texts has, are nothing to the file there."""


class LooseSearch:
    """Searches a file for the old text of one edit, loosely."""

    def __init__(self, file: FileLines, replace_all: bool, prose: bool) -> None:
        self._file, self._replace_all, self._prose = file, replace_all, prose
        self._foreign = frozenset[str]()
        """Signs and spelled characters that an old text has and the file does not, and pictures in a new text."""

    def run(self, old: str, new: str) -> EditPlan | None:
        """Plan the edit; None if it matches nowhere. Raises `ManyLoose` and `UnsureIndent`."""
        groups = list(list_variants(lines.to_feeds(old), lines.to_feeds(new)))
        self._foreign = frozenset(self._list_foreign([one for group in groups for one in group]))
        control = [char for char in CONTROL_BLANKS if char not in self._file.text]
        groups = [[one for one in group if not any(char in one.old for char in control)] for group in groups]
        if any(self._has_own_dots(one.old) for group in groups for one in group):
            groups = [[one for one in group if "dots around" not in one.names] for group in groups]
        finders = (
            self._match_whole,
            self._match_trimmed,
            self._match_elided,
            self._match_but_blank_lines,
            self._match_part,
        )
        for find in finders:
            for group in groups:
                matches = [one for reading in group if (one := find(reading)) and not self._may_be_own_dots(one)]
                if matches and find == self._match_whole and group is not groups[0]:
                    # What looks like a habit may be the file's own: then the text as it is stands there too.
                    matches += [one for reading in groups[0] if (one := self._match_trimmed(reading))]
                if any(one.fits for one in matches):
                    return self._make_plan(matches)
                if matches and find == self._match_but_blank_lines and group is groups[0]:
                    break  # the file has this text unchanged: there is no mistake to undo
        for group in groups:
            matches = [one for reading in group if (one := self._match_but_one_word(reading))]
            if matches:
                return self._make_plan(matches, "words")
        return None

    def _list_foreign(self, variants: Sequence[Variant]) -> Iterator[str]:
        """Yield the signs and spelled characters of old texts, and the pictures of new ones, that the file lacks."""
        olds, news = {one.old for one in variants}, {one.new for one in variants}
        spend(sum(map(len, olds)) + sum(map(len, news)))
        odd = {char for char in set[str]().union(*olds) if _is_odd(char)}
        odd |= {char for char in set[str]().union(*news) if "\u2400" <= char <= "\u2426"}
        yield from (part for part in odd.union(*map(find_spelled, olds)) if part not in self._file.text)

    def _match_whole(self, reading: Variant) -> _VariantMatches | None:
        old, new = _make_plain_rows(reading)
        places = self._file.find_windows(old)
        if len(places) == 1:
            places = self._require_unique(places, old, new)
        return _VariantMatches(reading.names, [[LineMatch(at, old, new)] for at in places]) if places else None

    def _require_unique(self, places: list[int], old: Sequence[str], new: Sequence[str]) -> list[int]:
        """A match that only blank lines at its edges make the only one is not; a worse one does not count beside one
        that is nearly by the letter."""
        bare = BlankEdges(old, new).old
        others = self._file.find_windows(bare)
        if find_level(self._file.bodies[places[0] :][: len(old)], old) in _NEARLY:
            others = [at for at in others if find_level(self._file.bodies[at:][: len(bare)], bare) in _NEARLY]
        return others if len(others) > 1 else places

    def _match_trimmed(self, reading: Variant) -> _VariantMatches | None:
        """Without the blank lines at the edges: those between the other lines may be too many as well, then."""
        old, new = _make_plain_rows(reading)
        edges = BlankEdges(old, new)
        places = self._file.find_windows(edges.old)
        fits = len(places) != 1 or self._fits(edges, places[0], places[0] + len(edges.old))
        if fits and len(places) == 1 and len(edges.old) < len(old) and not all(map(str.strip, edges.old)):
            fits = len(match_but_blank_lines(self._file, edges.old, edges.new)) == 1
        matches = [[LineMatch(at, edges.old, edges.new)] for at in places]
        return _VariantMatches((*reading.names, "blank edges"), matches, fits) if matches else None

    def _fits(self, edges: BlankEdges, at: int, end: int) -> bool:
        """Whether blank lines that only one text has at an edge are nothing to the file there."""
        if edges.unsure:
            return False
        above, below = self._file.keys[max(0, at - 1) : at], self._file.keys[end : end + 1]
        return not (edges.head and above == [""]) and not (edges.tail and below == [""])

    def _match_elided(self, reading: Variant) -> _VariantMatches | None:
        """Two or more anchors with "..." between them, and the same "..." in the new text: what lies between stays."""
        edges = BlankEdges(*_make_plain_rows(reading))
        old, new = edges.old, edges.new
        gaps = [number for number, row in enumerate(old) if is_omission(row)]
        others = [number for number, row in enumerate(new) if is_omission(row)]
        if len(gaps) == 1 and not others:
            return self._match_written_out(reading, edges, gaps[0])
        if not gaps or [old[gap] for gap in gaps] != [new[gap] for gap in others]:
            return None
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
        start, end = parts[0].at, parts[-1].span[1]
        around = map(get_omission_words, self._file.bodies[max(0, start - _BESIDE) : end + _BESIDE])
        kinds = {bool(words) for words in around if words is not None}
        if any(bool(get_omission_words(old[gap])) in kinds for gap in gaps):
            return None  # they may be a line of the file itself, at another place or in other words
        evidence = [pair for part in parts for pair in zip(part.old, self._file.bodies[part.at :], strict=False)]
        parts = [replace(part, evidence=evidence) for part in parts]
        fits = self._fits(edges, start, end)
        return _VariantMatches((*reading.names, "elided middle"), [parts]) if fits else None

    def _has_own_dots(self, old: str) -> bool:
        """Whether a line of dots is one of the file's own, but for its marks of a comment."""
        has_dots = "..." in old or "…" in old
        rows = [row for row in old.split("\n") if is_omission(row)] if has_dots else []
        return any(get_omission_words(row) in self._own_omissions for row in rows)

    @cached_property
    def _own_omissions(self) -> set[tuple[str, ...] | None]:
        """The words of the file's lines that look like omissions."""
        spend(len(self._file.bodies))
        return {*map(get_omission_words, self._file.bodies)} - {None}

    def _may_be_own_dots(self, matches: _VariantMatches) -> bool:
        """Whether the dots around the texts may stand for a line beside the place that looks like them."""
        if "dots around" not in matches.names:
            return False
        spans = [(parts[0].at, parts[-1].span[1]) for parts in matches.places]
        near = [self._file.bodies[max(0, at - _BESIDE) : end + _BESIDE] for at, end in spans]
        return any(is_omission(row) for rows in near for row in rows)

    def _match_written_out(self, reading: Variant, edges: BlankEdges, gap: int) -> _VariantMatches | None:
        """Two anchors by the letter with "..." between them, and a new text for all of it.

        If the new text keeps the lines beside the dots, it may have left out what they stand for as well. So it must
        keep neither of them, or write out the lines that are between them in the file.
        """
        old, new = edges.old, edges.new
        head, tail = list(old[:gap]), list(old[gap + 1 :])
        ends = [(self._find_letters(rows), rows) for rows in (head, tail)]
        if any(len(places) != 1 or len(self._file.find_windows(rows)) != 1 for places, rows in ends):
            return None
        start, stop = ends[0][0][0] + len(head), ends[1][0][0]
        between = [row for row in self._file.bodies[start:stop] if row.strip()]
        if not between or any(is_omission(row) for row in between):
            return None
        kept = [row.strip() for row in new]
        beside = head[-1].strip(), tail[0].strip()
        if any(row in kept for row in beside) and not _is_written_out(kept, beside, between):
            return None
        at = start - len(head)
        whole = [*head, *self._file.bodies[start:stop], *tail]
        names = (*reading.names, "elided middle")
        fits = self._fits(edges, at, at + len(whole))
        return _VariantMatches(names, [[LineMatch(at, whole, new)]]) if fits else None

    def _find_letters(self, rows: Sequence[str]) -> list[int]:
        """Where these lines stand by the letter, but for blanks at line ends; they must say something."""
        if not rows or not rows[0].strip() or not rows[-1].strip() or not any(_WORD.search(row) for row in rows):
            return []
        wanted = [row.rstrip() for row in rows]
        places = self._file.find_windows(rows)
        return [at for at in places if [row.rstrip() for row in self._file.bodies[at : at + len(rows)]] == wanted]

    def _match_but_blank_lines(self, reading: Variant) -> _VariantMatches | None:
        edges = BlankEdges(*_make_plain_rows(reading))
        matches = match_but_blank_lines(self._file, edges.old, edges.new)
        if not matches:
            return None
        places = [[match] for match in matches if match and not self._has_other_dots(match)]
        fits = len(places) == len(matches) and (len(places) > 1 or self._fits(edges, *places[0][0].span))
        return _VariantMatches((*reading.names, "blank lines"), places, fits)

    def _has_other_dots(self, match: LineMatch) -> bool:
        """Whether a line of dots that the file has there in another way may stand for other lines."""
        pairs = zip(match.old, self._file.bodies[match.at :], strict=False)
        return any(row.rstrip() != body.rstrip() and is_omission(row) for row, body in pairs)

    def _has_sign(self, matches: _VariantMatches) -> bool:
        """Whether the file has a sign of its own in a place where such signs were taken for a habit."""
        signs = "".join(SIGNS[name] for name in matches.names if name in SIGNS)
        rows = (row for parts in matches.places for part in parts for row in self._file.bodies[slice(*part.span)])
        return bool(signs) and any(char in row for row in rows for char in signs)

    def _may_own_fence(self, matches: _VariantMatches) -> bool:
        """Whether a fence that was taken for a habit may be the file's, which has one on one side of the place: then
        the old text lacks lines on the other side, and a line added there may belong beyond them."""
        return "code fence" in matches.names and any(
            self._adds_away_from_fence(part) for parts in matches.places for part in parts
        )

    def _adds_away_from_fence(self, place: LineMatch) -> bool:
        start, end = place.span
        beside = self._file.bodies[max(0, start - 1) : start], self._file.bodies[end : end + 1]
        above, below = (any(map(_FENCE.match, rows)) for rows in beside)
        old, new = ([squeeze(row) for row in rows if row.strip()] for rows in (place.old, place.new))
        edge = 0 if below else -1
        return above != below and len(new) > len(old) > 0 and old[edge] != new[edge]

    def _may_be_elided(self, place: LineMatch) -> bool:
        """Whether dots may stand for other lines: the file has them there, but not as deep, and other lines alike."""
        both = zip(place.old, self._file.bodies[place.at :], strict=False)
        pairs = [(row, body) for row, body in both if row.strip() and (indent_of(row) or indent_of(body))]
        moved = [indent_of(row) != indent_of(body) for row, body in pairs]
        dots = [is_omission(row) for row, _ in pairs]
        return any(a and b for a, b in zip(moved, dots, strict=True)) and not all(moved)

    def _match_part(self, reading: Variant) -> _VariantMatches | None:
        old, new = reading.old, reading.new
        if self._replace_all or "\n" in old + new or not _PARTLY.issuperset(reading.names):
            return None
        matches = match_parts(self._file, old, new)
        fits = len(matches) != 1 or fits_part(self._file, matches[0], old, new)
        names = (*reading.names, "part of a line")
        return _VariantMatches(names, [[match] for match in matches], fits) if matches else None

    def _match_but_one_word(self, reading: Variant) -> _VariantMatches | None:
        """One other word in one comment or line of prose that the edit keeps; all other lines are equal."""
        old, new = _make_plain_rows(reading)
        edges = BlankEdges(old, new)
        bare = self._find_but_one_word(edges.old, edges.new)
        places = [LineMatch(at, old, new) for at in self._find_but_one_word(old, new)]
        if not places or len(bare) > 1:
            fits = [at for at in bare if len(bare) > 1 or self._fits(edges, at, at + len(edges.old))]
            places = [LineMatch(at, edges.old, edges.new) for at in fits]
        return _VariantMatches(reading.names, [[place] for place in places]) if places else None

    def _find_but_one_word(self, old: Sequence[str], new: Sequence[str]) -> list[int]:
        soft = {
            number
            for number, row in enumerate(old)
            if (self._prose or _COMMENT.match(row)) and old.count(row) == new.count(row) == 1
        }
        keys = [self._file.key(row) for row in old]
        anchor = next((number for number, key in enumerate(keys) if len(key) > 3 and number not in soft), None)
        if anchor is None or not soft:
            return []
        starts = [at - anchor for at in self._file.find_equal(keys[anchor])]
        return [at for at in starts if self._is_all_but_one_word(at, keys, soft)]

    def _is_all_but_one_word(self, start: int, keys: Sequence[str], soft: set[int]) -> bool:
        ours = self._file.keys[max(0, start) : start + len(keys)]
        if start < 0 or len(ours) < len(keys):
            return False
        odd = [number for number, (a, b) in enumerate(zip(ours, keys, strict=True)) if a != b]
        if len(odd) != 1 or odd[0] not in soft or keys[odd[0]] in self._file.key_counts:
            return False
        if not _differs_in_one_word(ours[odd[0]], keys[odd[0]]):
            return False
        fences = sum(bool(_FENCE.match(body)) for body in self._file.bodies[: start + odd[0]])
        return not self._prose or fences % 2 == 0  # what is in a fence is code

    def _make_plan(self, matches: Sequence[_VariantMatches], level: str = "") -> EditPlan:
        starts = sorted({parts[0].at for one in matches for parts in one.places})
        if len(starts) > 1 and not self._replace_all:
            raise self._report_ambiguous(starts)
        if any(len(one.places) != len(starts) for one in matches) or _do_overlap(matches[0].places):
            raise self._report_ambiguous(starts)
        if not all(one.fits for one in matches):
            raise UnsureIndent(line=starts[0] + 1, readings=sorted({name for one in matches for name in one.names}))
        levels = [self._find_loosest(one) for one in matches]
        strictest = min(levels, key=LOOSE_LEVELS.index)
        plans: dict[tuple[Splice, ...], _VariantMatches] = {}
        for one in matches:
            try:
                plans.setdefault(tuple(self._compute_splices(one)), one)
            except TooRepetitive:
                raise Repetitive(line=starts[0] + 1) from None
            except Unsure as error:
                quotes = isinstance(error, MixedTypography)
                raise UnsureIndent(line=starts[0] + 1, indent=not quotes, quotes=quotes) from None
        if len(plans) > 1:
            raise UnsureIndent(
                line=starts[0] + 1, readings=sorted({name for one in plans.values() for name in one.names})
            )
        splices = plans.popitem()[0]
        best = matches[levels.index(strictest)]
        fresh = "".join(one.new for one in splices)
        if any(part in fresh for part in self._foreign):  # a part of what a habit strews
            raise UnsureIndent(line=starts[0] + 1, readings=sorted(best.names), quotes=not best.names)
        parts = [part for one in matches for parts in one.places for part in parts]
        if any(map(self._may_be_signed, parts)):
            raise UnsureIndent(line=starts[0] + 1, readings=["diff signs"])
        if any(self._has_sign(one) for one in matches):
            raise UnsureIndent(line=starts[0] + 1, readings=sorted(best.names))
        if any(map(_loses_fence, parts)) or any(map(self._may_own_fence, matches)):
            raise UnsureIndent(line=starts[0] + 1, readings=["code fence"])
        if any(map(self._may_be_elided, parts)):
            raise UnsureIndent(line=starts[0] + 1, readings=["elided middle"])
        return EditPlan(level or strictest, best.names, splices, len(starts))

    def _find_loosest(self, matches: _VariantMatches) -> str:
        """Return the strictest level at which all places of a variant match."""
        parts = [part for parts in matches.places for part in parts]
        levels = [find_level(self._file.bodies[slice(*part.span)], part.old) for part in parts]
        return max(levels, key=LOOSE_LEVELS.index)

    def _may_be_signed(self, place: LineMatch) -> bool:
        """Whether the new lines, and no old one, may have the signs of a diff: "+" where they are new, else a blank."""
        if any(row.lstrip().startswith("+") for row in place.old):
            return False
        rows = [fold(row) for row in place.new if row.strip()]
        known = {*map(fold, place.old), *map(fold, self._file.bodies[slice(*place.span)])}
        further = rows[1:] or rows  # the first line may have lost its sign together with its indentation
        is_moved = all(row.startswith((" ", "+")) for row in further) and any(
            row[1:] in known and row not in known for row in rows
        )
        return is_moved or any(map(_ADDED.match, rows)) or _is_quoted(rows, known)

    def _compute_splices(self, matches: _VariantMatches) -> Iterator[Splice]:
        for parts in matches.places:
            for place in parts:
                one = self._file.splice(place)
                if one:
                    yield one

    def _report_ambiguous(self, places: Sequence[int]) -> ManyLoose:
        return ManyLoose(count=len(places), lines=[at + 1 for at in places[:10]])


def _loses_fence(place: LineMatch) -> bool:
    """Whether the old text is between fences that the file has there, and the new one, which keeps a line, has none."""
    rows = [row for row in place.old if row.strip()]
    if len(rows) < 3 or not _FENCE.match(rows[0]) or not _FENCE.match(rows[-1]) or any(map(_FENCE.match, place.new)):
        return False
    return not {squeeze(row) for row in rows[1:-1]}.isdisjoint(map(squeeze, place.new))


def _is_quoted(rows: Sequence[str], known: Collection[str]) -> bool:
    """Whether all lines begin with one sign such as an arrow, which no known line has, and one is known without it."""
    match = _ARROW.match(rows[0]) if rows else None
    sign = match[0].strip() if match else ""
    if not sign or any(row.lstrip().startswith(sign) for row in known):
        return False
    bare = {row.strip() for row in known}
    return all(row.lstrip().startswith(sign) for row in rows) and any(
        row.lstrip().removeprefix(sign).strip() in bare for row in rows
    )


def _is_odd(char: str) -> bool:
    """Whether a character is no letter, digit or blank, and not one of those on every keyboard."""
    if char in CONTROL_BLANKS:
        return True
    return not (char.isascii() and char.isprintable()) and not char.isalnum() and not char.isspace()


def _is_written_out(new: Sequence[str], beside: tuple[str, str], between: Sequence[str]) -> bool:
    """Whether ``new`` has the first and the last line between two others, and most of the rest, in their order."""
    if any(new.count(row) != 1 for row in beside):
        return False
    inner = list(new[new.index(beside[0]) + 1 : new.index(beside[1])])
    middle = [row.strip() for row in between]
    same = sum(i2 - i1 for code, i1, i2, _, _ in lines.get_opcodes(middle, inner) if code == "equal")
    return middle[0] in inner and middle[-1] in inner and 2 * same > len(middle)


def _make_plain_rows(reading: Variant) -> tuple[list[str], list[str]]:
    old, new = split_rows(reading.old, reading.new)
    return [with_plain_lead(row) for row in old], [with_plain_lead(row) for row in new]


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
