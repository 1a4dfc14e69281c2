"""An old text that is in the file by the letter: what replacing it means.

It is replaced literally. Three things are not taken for a match by the letter, or not only:

- A place that begins or ends inside a word is refused, unless every occurrence is meant.
- A place that begins inside the indentation of a line is one of whole lines, quoted with a part of their indentation.
- One line quoted without its indentation, with several in its place, says too little of where those belong: they are
  literal where they fit the lines around, indented like that line where only this fits, and refused otherwise.

Deleting whole lines takes their line end along. Whatever is not literal is named in the answer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from handrail.errors import InsideWord, ManyLoose, ManyMatches, TooManyPlaces, UnsureIndent
from handrail.text import lines
from handrail.text.document import Splice
from handrail.text.matching.depths import Around, choose
from handrail.text.matching.exact import MOST_PLACES, Match, find, overlaps
from handrail.text.matching.indentation import Unsure, indent_of
from handrail.text.matching.places import Lines, Plan
from handrail.text.splice import keep_endings, minimize, splice

_NEAR = 400_000
"""How many characters on either side of a place may tell how deep its lines belong; of several, a part each."""
_MOST_JUDGED = 1000
"""Where a line of more places is replaced by several, none of them is judged."""
_ESCAPED = frozenset("abefnrtv0")
_WORD_SHOWN = 60


def find_literal(text: str, old: str, replace_all: bool) -> Match | None:
    """Where ``old`` is by the letter, line endings taken as equal; raises if that is not one place, or too many."""
    match = find(text, old)
    if not match.spans:
        return None
    if len(match.spans) > MOST_PLACES:
        count = max(len(match.spans), text.count(old))
        if replace_all:
            raise TooManyPlaces(old=old, count=count, most=MOST_PLACES)
        raise ManyMatches(old=old, count=count, lines=[])
    first = match.spans[0]
    if (len(match.spans) > 1 or overlaps(text, text[slice(*first)], first)) and not replace_all:
        places = [_count_line(text, start) for start, _ in match.spans[:10]]
        raise ManyMatches(old=old, count=max(2, len(match.spans)), lines=places)
    return match


def plan_as_written(text: str, match: Match, old: str, new: str) -> Plan:
    """Every place replaced as it is written, as the documents of some dialects want it."""
    found = [splice(text, start, end, old, new) for start, end in match.spans]
    return Plan(match.level, (), tuple(one for one in found if one), len(match.spans))


def plan_literal(text: str, match: Match, old: str, new: str, replace_all: bool) -> Plan | None:
    """What the edit means at the places of ``match``; None if it has to be read by whole lines.

    Raises `InsideWord`, and `UnsureIndent` where the new lines may be meant in two ways.
    """
    made: list[Splice | None] = []
    said: list[str] = []
    inside = 0
    for start, end in match.spans:
        if _cuts_word(text, start) or _cuts_word(text, end):
            if not replace_all:
                raise InsideWord(old=old, line=_count_line(text, start), word=_word_at(text, start, end))
            inside += 1
        place = _Place.at(text, start, end, old, new, _NEAR // len(match.spans))
        if place.is_cut and replace_all:
            return None
        try:
            one = place.read()
        except Unsure:
            raise UnsureIndent(old=old, line=_count_line(text, start), indent=True, cut=True) from None
        made.append(one.splice)
        said += [one.said] if one.said and one.said not in said else []
    if inside:
        said.append(f"{inside} inside longer words")
    level = "indentation" if said == [_CUT] else match.level
    return Plan(level, tuple(name for name in said if name != _CUT), tuple(one for one in made if one), len(made))


_CUT = "cut"


@dataclass(frozen=True, slots=True)
class _Reading:
    splice: Splice | None
    said: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place by the letter, both texts without the line ends that they end in alike."""

    text: str
    start: int
    end: int
    old: str
    new: str
    begin: int
    """Where the line begins that the place begins in, if only blanks are between."""
    inside: bool
    """Whether there is text of the line right before the place."""
    near: int
    """How many characters on either side may be looked at."""

    @classmethod
    def at(cls, text: str, start: int, end: int, old: str, new: str, near: int) -> _Place:
        # What has text right before it is no beginning of a line: then nobody asks where that is.
        inside = start > 0 and not text[start - 1].isspace()
        return cls(text, start, end, old, new, start if inside else lines.start_of_line(text, start), inside, near)

    @property
    def missing(self) -> str:
        """The part of the indentation above the place that is not in it; empty if there is more than indentation."""
        lead = self.text[self.begin : self.start]
        return lead if not lead.strip() else ""

    @property
    def is_cut(self) -> bool:
        """Whether the place begins inside the indentation of a line that has more than blanks."""
        first = lines.to_feeds(self.old).partition("\n")[0]
        return bool(self.missing) and indent_of(first) != "" and bool(first.strip())

    def read(self) -> _Reading:
        if not self.new and self._deletes_lines():
            return self._delete_lines()
        if self.is_cut:
            return self._replace_cut()
        if self.missing and not self.old[:1].isspace():
            old, new = self._strip_ends()
            if "\n" not in old and "\n" in new:
                return self._add_further(old, new)
        return _Reading(splice(self.text, self.start, self.end, self.old, self.new))

    def _deletes_lines(self) -> bool:
        """Whether whole lines go, and more of them than the place covers: their last end, or their indentation."""
        if self.text[self.end - 1] in "\r\n":
            return self.is_cut
        whole = self.is_cut or (self.start == self.begin and not self.inside)
        return whole and self.text[self.end : self.end + 1] in ("\r", "\n")

    def _delete_lines(self) -> _Reading:
        end = self.end if self.text[self.end - 1] in "\r\n" else lines.end_of_line(self.text, self.end)
        return _Reading(Splice(self.begin, end, ""), _CUT if self.is_cut else "line end removed as well")

    def _strip_ends(self) -> tuple[str, str]:
        """Both texts without the line ends that both end in."""
        old, new = lines.to_feeds(self.old), lines.to_feeds(self.new)
        while old.endswith("\n") and new.endswith("\n"):
            old, new = old[:-1], new[:-1]
        return old, new

    def _find_body_end(self, old: str) -> int:
        """Where the place ends without the line ends that were taken off."""
        end = self.end
        for _ in range(lines.to_feeds(self.old).count("\n") - old.count("\n")):
            end -= 2 if self.text[end - 2 : end] == "\r\n" else 1
        return end

    def _add_further(self, old: str, new: str) -> _Reading:
        """One line without its indentation, and several in its place."""
        rows, _ = self._place_rows(old, new)
        if "\n".join(rows)[len(self.missing) :] == new:
            return _Reading(splice(self.text, self.start, self.end, self.old, self.new))
        line = _count_line(self.text, self.start)
        return _Reading(self._replace(old, rows), f"new lines indented like line {line}")

    def _replace_cut(self) -> _Reading:
        """Lines of which the first is quoted with a part of its indentation."""
        old, new = self._strip_ends()
        if "\n" not in old:
            rows, row = self._place_rows(old, new)
            places = Lines(self.text).windows([row])
            if len(places) > 1:
                raise ManyLoose(old=self.old, count=len(places), lines=[at + 1 for at in places[:10]])
            return _Reading(self._replace(old, rows), _CUT)
        # The further lines are as the file has them, so only the first one can have lost something.
        rows = new.split("\n")
        first, whole = indent_of(rows[0]), self.missing + indent_of(old)
        if not rows[0].strip() or first not in (indent_of(old), whole):
            raise Unsure
        rows[0] = rows[0] if first == whole else self.missing + rows[0]
        return _Reading(self._replace(old, rows), _CUT)

    def _place_rows(self, old: str, new: str) -> tuple[list[str], str]:
        """The new rows as they belong in the file, for one line of it; and that line."""
        if self.near < _NEAR // _MOST_JUDGED:
            raise Unsure
        end = self._find_body_end(old)
        stop = lines.end_of_line(self.text, end)
        tail = lines.body(self.text[end:stop])
        above = lines.to_feeds(self.text[max(0, self.begin - self.near) : self.begin]).split("\n")
        below = lines.to_feeds(self.text[stop : stop + self.near]).split("\n")
        around = Around(above[1 if self.begin > self.near else 0 : -1], self.missing + old + tail, below)
        rows = new.split("\n")
        rows[-1] += tail
        found = choose(around, indent_of(old), rows)
        found[-1] = found[-1][: len(found[-1]) - len(tail)]
        return found, around.row

    def _replace(self, old: str, rows: Sequence[str]) -> Splice | None:
        end = self._find_body_end(old)
        return minimize(self.text, self.begin, end, keep_endings(self.text, self.begin, end, "\n".join(rows)))


def _count_line(text: str, position: int) -> int:
    return lines.count_ends(text, 0, position) + 1


def _cuts_word(text: str, at: int) -> bool:
    """Whether a place that begins or ends at ``at`` parts a word. Scripts without capitals often have no blanks
    between words, so they are left alone."""
    if not 0 < at < len(text) or (text[max(0, at - 2)] == "\\" and text[at - 1] in _ESCAPED):
        return False
    return unicodedata.combining(text[at]) > 0 or (_is_of_word(text[at - 1]) and _is_of_word(text[at]))


def _is_of_word(char: str) -> bool:
    return char == "_" or char.isdigit() or char.lower() != char.upper()


def _word_at(text: str, start: int, end: int) -> str:
    """The whole word that the place parts."""
    at = end if _cuts_word(text, end) else start
    first = last = at
    while first and at - first < _WORD_SHOWN and _is_of_word(text[first - 1]):
        first -= 1
    while last < len(text) and last - at < _WORD_SHOWN and _is_of_word(text[last]):
        last += 1
    return text[first:last]
