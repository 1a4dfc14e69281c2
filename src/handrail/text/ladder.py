"""The ladder: where an edit applies, and what it changes there. Forgives what models get wrong, and never guesses.

Rungs, from strict to loose; the first that fits at all decides, and it must fit exactly one place:

    exact            the text as it is
    line_endings     line endings taken as equal
    trailing_blanks  blanks at line ends ignored
    indentation      one consistent shift of the indentation
    depth            indentation ignored: tabs for spaces, lost indentation
    punctuation      typographic punctuation and spaces folded
    inner_blanks     runs of blanks taken as one
    words            one other word in a comment or a line of prose that the edit keeps

On every rung but the first the text is also tried in its other *readings* (line numbers, fences, escapes, entities,
blank edges, an elided middle). No rung ignores a letter, a digit or an operator of code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from handrail.errors import (
    ManyLoose,
    ManyMatches,
    NoChange,
    NoMatch,
    Placeholder,
    TooManyPlaces,
    UnsureIndent,
)
from handrail.text import lines
from handrail.text.document import Splice
from handrail.text.fold import fold, squeeze
from handrail.text.match import find, overlaps
from handrail.text.merge import Row, merge
from handrail.text.readings import Reading, readings
from handrail.text.reindent import Unsure, indent_of
from handrail.text.splice import narrowed, splice

_LITERAL = ("exact", "line_endings")
RUNGS = {
    "exact": _LITERAL,
    "ladder": (*_LITERAL, "trailing_blanks", "indentation", "depth", "punctuation", "inner_blanks", "words"),
}
"""The rungs that a dialect may choose, by name."""
_MOST_PLACES = 100_000
_KEYS: dict[str, Callable[[str], str]] = {
    "line_endings": lambda row: row,
    "trailing_blanks": str.rstrip,
    "indentation": str.strip,
    "depth": str.strip,
    "punctuation": lambda row: fold(row).strip(),
    "inner_blanks": squeeze,
}
_MARK = r"(?:#|//|/\*|<!--|--|;|%|\*|\{/\*)?"
_DOTS = r"(?:\.\.\.|…)"
_ELLIPSIS = re.compile(rf"^\s*{_MARK}\s*{_DOTS}\s*(?:\*/\}}?|-->)?\s*$")
_OMISSION = re.compile(rf"^\s*{_MARK}\s*[\[(]?\s*(?:{_DOTS}.*|.*{_DOTS})\s*[\])]?\s*(?:\*/\}}?|-->)?\s*$")
_OMITTED = re.compile(r"\b(existing|rest|unchanged|remain\w*|same|omitted|previous|other|snip)\b", re.IGNORECASE)
_COMMENT = re.compile(r"^\s*(#(?!!)|//+!?|/\*+|\*(?!/)|--|;|%|<!--)")


@dataclass(frozen=True, slots=True)
class Plan:
    """An edit that is known to apply: what it changes, and how it was understood."""

    rung: str
    readings: tuple[str, ...]
    splices: tuple[Splice, ...]
    places: int = 1


def plan(
    text: str, old: str, new: str, replace_all: bool = False, matching: str = "ladder", prose: bool = False
) -> Plan:
    """What replacing ``old`` by ``new`` means in ``text``; raises why it means nothing, or more than one thing."""
    if old == new:
        raise NoChange(old=old)
    _refuse_too_many(text, old, replace_all)
    rungs = RUNGS[matching]
    forgiving = len(rungs) > len(_LITERAL)
    if forgiving:
        _refuse_omissions(text, old, new)
    found = _literal(text, old, new, replace_all, forgiving)
    if found is None and forgiving:
        found = _Search(text, replace_all, rungs, prose).run(old, new)
    if found is None:
        raise NoMatch(old=old)
    if not found.splices:
        raise NoChange(old=old)
    return found


def _refuse_too_many(text: str, old: str, replace_all: bool) -> None:
    """A text that is nearly everywhere: counted, but not collected."""
    count = text.count(old)
    if count > _MOST_PLACES and replace_all:
        raise TooManyPlaces(old=old, count=count, most=_MOST_PLACES)
    if count > _MOST_PLACES:
        raise ManyMatches(old=old, count=count, lines=[])


def _refuse_omissions(text: str, old: str, new: str) -> None:
    """A new text that says "... rest of code ..." would delete what it stands for."""
    known = set(lines.to_feeds(old).split("\n"))
    for row in lines.to_feeds(new).split("\n"):
        if _is_omission(row) and not _ELLIPSIS.match(row) and row not in known and row not in text:
            raise Placeholder(line=row.strip())


def _is_omission(row: str) -> bool:
    return bool(_ELLIPSIS.match(row)) or (len(row) < 100 and bool(_OMISSION.match(row) and _OMITTED.search(row)))


def _literal(text: str, old: str, new: str, replace_all: bool, forgiving: bool) -> Plan | None:
    """The first two rungs, on characters: a part of a line will do."""
    match = find(text, old)
    if not match.spans:
        return None
    if (len(match.spans) > 1 or overlaps(text, old, match.spans[0])) and not replace_all:
        places = [lines.count_ends(text[:start]) + 1 for start, _ in match.spans[:10]]
        raise ManyMatches(old=old, count=max(2, len(match.spans)), lines=places)
    found = []
    for start, end in match.spans:
        meant = _indented(text, start, old, new) if forgiving else new
        found.append(splice(text, start, end, old, meant))
    return Plan(match.level, (), tuple(one for one in found if one), len(match.spans))


def _indented(text: str, start: int, old: str, new: str) -> str:
    """One line given without its indentation, several in its place: the others get the indentation too."""
    lead = text[lines.start_of_line(text, start) : start]
    first, *others = new.split("\n")
    filled = [row for row in others if row.strip()]
    bare = lead and not lead.strip() and "\n" not in old and not old[:1].isspace()
    if not bare or not filled or all(row.startswith(lead) for row in filled):
        return new
    return "\n".join([first, *(lead + row if row.strip() else row for row in others)])


@dataclass(slots=True)
class _Place:
    """Matched lines of the file, and the lines of the model's that matched them and that replace them."""

    at: int
    old: list[str]
    new: list[str]


@dataclass
class _Search:
    """The looser rungs, on whole lines."""

    text: str
    replace_all: bool
    rungs: Sequence[str]
    prose: bool
    bodies: list[str] = field(init=False)
    rows: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = lines.split(self.text)
        self.bodies = [lines.body(row) for row in self.rows]

    def run(self, old: str, new: str) -> Plan | None:
        tried = list(readings(lines.to_feeds(old), lines.to_feeds(new)))
        for rung in self.rungs[1:]:  # line endings once more: whole lines, and other readings
            found = self._words(tried) if rung == "words" else self._rung(rung, tried)
            if found:
                return found
        return None

    def _rung(self, rung: str, tried: Sequence[Reading]) -> Plan | None:
        key = _KEYS[rung]
        keys = [key(body) for body in self.bodies]
        for reading in tried:
            for name, before, after in _edges(reading):
                places = self._places(rung, keys, before)
                if places:
                    names = (*reading.names, name) if name else reading.names
                    return self._plan(rung, names, [[_Place(at, before, after)] for at in places])
        for reading in tried:
            parts = self._elided(rung, keys, reading)
            if parts:
                return self._plan(rung, (*reading.names, "elided middle"), [parts])
        return None

    def _places(self, rung: str, keys: list[str], wanted: list[str]) -> list[int]:
        key = _KEYS[rung]
        found = _windows(keys, [key(row) for row in wanted])
        if rung == "indentation":
            found = [at for at in found if _shifted(self.bodies[at : at + len(wanted)], wanted)]
        return found

    def _elided(self, rung: str, keys: list[str], reading: Reading) -> list[_Place] | None:
        """Two or more anchors with "..." between them, and the same "..." in the new text: what lies between stays."""
        old, new = _rows(reading.old, reading.new)
        gaps = [number for number, row in enumerate(old) if _is_omission(row)]
        others = [number for number, row in enumerate(new) if _is_omission(row)]
        if not gaps or [old[gap].strip() for gap in gaps] != [new[gap].strip() for gap in others]:
            return None
        parts: list[_Place] = []
        i = j = floor = 0
        for gap, other in zip([*gaps, len(old)], [*others, len(new)], strict=True):
            anchor = old[i:gap]
            places = (
                [at for at in self._places(rung, keys, anchor) if at >= floor] if any(r.strip() for r in anchor) else []
            )
            if len(places) > 1:
                raise self._many(reading.old, places)
            if not places:
                return None
            parts.append(_Place(places[0], anchor, new[j:other]))
            floor, i, j = places[0] + len(anchor), gap + 1, other + 1
        return parts

    def _words(self, tried: Sequence[Reading]) -> Plan | None:
        """One other word in one comment or line of prose that the edit keeps; all other lines are equal."""
        stripped = [body.strip() for body in self.bodies]
        for reading in tried:
            for name, before, after in _edges(reading):
                soft = {
                    number for number, row in enumerate(before) if row in after and (self.prose or _COMMENT.match(row))
                }
                firm = [number for number, row in enumerate(before) if len(row.strip()) > 3 and number not in soft]
                anchor = firm[0] if firm else None
                if anchor is None or not soft:
                    continue
                wanted = [row.strip() for row in before]
                places = []
                at = -1
                while wanted[anchor] in stripped[at + 1 :]:
                    at = stripped.index(wanted[anchor], at + 1)
                    if self._all_but_a_word(at - anchor, wanted, soft):
                        places.append(at - anchor)
                if places:
                    names = (*reading.names, name) if name else reading.names
                    return self._plan("words", names, [[_Place(place, before, after)] for place in places])
        return None

    def _all_but_a_word(self, start: int, wanted: list[str], soft: set[int]) -> bool:
        if start < 0 or start + len(wanted) > len(self.bodies):
            return False
        ours = [body.strip() for body in self.bodies[start : start + len(wanted)]]
        odd = [number for number, (a, b) in enumerate(zip(ours, wanted, strict=True)) if a != b]
        return len(odd) == 1 and odd[0] in soft and _one_word(ours[odd[0]], wanted[odd[0]])

    def _many(self, old: str, places: Sequence[int]) -> ManyLoose:
        return ManyLoose(old=old, count=len(places), lines=[at + 1 for at in places[:10]])

    def _plan(self, rung: str, names: tuple[str, ...], found: list[list[_Place]]) -> Plan:
        if len(found) > 1 and not self.replace_all:
            raise self._many("\n".join(found[0][0].old), [parts[0].at for parts in found])
        splices = [one for parts in found for place in parts for one in [self._splice(place)] if one]
        return Plan(rung, names, tuple(splices), len(found))

    def _splice(self, place: _Place) -> Splice | None:
        at, end = place.at, place.at + len(place.old)
        ours = self.bodies[at:end]
        try:
            merged = merge(ours, place.old, place.new, self.bodies)
        except Unsure:
            raise UnsureIndent(line=at + 1) from None
        start = sum(len(row) for row in self.rows[:at])
        length = sum(len(row) for row in self.rows[at:end])
        return narrowed(self.text, start, start + length, self._text(merged, at, end))

    def _text(self, merged: list[Row], at: int, end: int) -> str:
        """The merged lines with line endings: each line its own or its neighbour's, the last one what the file had."""
        endings = [lines.ending(row) for row in self.rows]
        around = [*endings[at:end], *endings[max(0, at - 1) : at], *endings[:1]]
        neighbour = next((ending for ending in around if ending), "\n")
        parts = []
        for number, row in enumerate(merged):
            last = number == len(merged) - 1
            ending = endings[end - 1] if last else endings[at + row.at] or neighbour
            parts.append((self.bodies[at + row.at] if row.text is None else row.text) + ending)
        return "".join(parts)


def _rows(old: str, new: str) -> tuple[list[str], list[str]]:
    """Both texts as lines; the ending behind the last line of both is not a line of its own."""
    before, after = old.split("\n"), new.split("\n")
    if old.endswith("\n"):
        before.pop()
        if new.endswith("\n") or not new:
            after.pop()
    return before, after


def _edges(reading: Reading) -> Iterator[tuple[str, list[str], list[str]]]:
    """A reading as lines, then without the blank lines at its edges."""
    old, new = _rows(reading.old, reading.new)
    if any(row.strip() for row in old):
        yield "", old, new
        head, tail = _blank(old), _blank(old[::-1])
        if head or tail:
            cut_head, cut_tail = min(head, _blank(new)), min(tail, _blank(new[::-1]))
            yield "blank edges", old[head : len(old) - tail], new[cut_head : len(new) - cut_tail]


def _blank(rows: Sequence[str]) -> int:
    return next((number for number, row in enumerate(rows) if row.strip()), len(rows))


def _windows(keys: list[str], wanted: list[str]) -> list[int]:
    """Where ``wanted`` stands in ``keys``; found by its first line that is not blank."""
    first = next((number for number, key in enumerate(wanted) if key), None)
    if first is None:
        return []
    found: list[int] = []
    at = -1
    while True:
        try:
            at = keys.index(wanted[first], at + 1)
        except ValueError:
            return found
        start = at - first
        if start >= 0 and keys[start : start + len(wanted)] == wanted:
            found.append(start)


def _shifted(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether all lines differ by one and the same shift of the indentation."""
    shifts = set()
    for a, b in zip(ours, theirs, strict=True):
        if a.strip():
            more, less = indent_of(a), indent_of(b)
            if more.endswith(less):
                shifts.add(("+", more[: len(more) - len(less)]) if more != less else ("", ""))
            elif less.endswith(more):
                shifts.add(("-", less[: len(less) - len(more)]))
            else:
                return False
    return len(shifts) == 1


def _one_word(ours: str, theirs: str) -> bool:
    a, b = ours.split(), theirs.split()
    return len(a) == len(b) >= 3 and a[0] == b[0] and sum(x != y for x, y in zip(a, b, strict=True)) == 1
