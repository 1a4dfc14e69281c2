"""Locate the hunks of a patch in a file and compute their splices.

Each hunk has candidate places at the first matching level that has any. Its headers narrow them to the lines below, or,
if more than one is left, to the block that the header opens. Hunks follow each other: exactly one way to place them in
order must be left. Lines of context stay as they are in the file, byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby, pairwise

from handrail.errors import AmbiguousHunk, BadHunk, Garbled, Placeholder
from handrail.frozen import frozen
from handrail.text import lines
from handrail.text.document import Splice, apply_splices, minimize
from handrail.text.matching.budget import spend
from handrail.text.matching.find import find_applied_around, find_applied_instead, refuse_garbled
from handrail.text.matching.fold import fold, squeeze
from handrail.text.matching.habits import list_variants
from handrail.text.matching.indentation import TooRepetitive, Unsure, indent_of
from handrail.text.matching.merge import Code, MergedRow, merge
from handrail.text.matching.nearest import find_nearest, name_characters, number_rows
from handrail.text.matching.omission import refuse_omissions
from handrail.text.matching.places import find_block, find_filled_beside
from handrail.text.patches.operations import PatchHunk

_LEVELS: dict[str, Callable[[str], str]] = {
    "exact": lambda row: row,
    "trailing_blanks": str.rstrip,
    "depth": str.strip,
    "punctuation": lambda row: fold(row).strip(),
}
_WORD = re.compile(r"\w")
_COMPARED = 8
"""Lines that are compared in one step."""
_FAST = 20
"""Characters that cost one step to compare."""
_MOST_LISTED = 10
_MOST_LOST = 2
"""Lines of context that a hunk may lack."""
_MOST_TRIED = 100
_MOST_COMPARED = 1_000_000


@frozen
class Placed:
    """The splices that apply some hunks, and the loosest level that one of them needed."""

    splices: list[Splice]
    level: str


@frozen
class _Fit:
    """A hunk and where it fits: sorted line indexes, all at one level."""

    hunk: PatchHunk
    level: str
    places: list[int]

    @property
    def size(self) -> int:
        return len(self.hunk.old)

    @property
    def changes(self) -> bool:
        """Whether it changes a line; one of context only says where the next ones are."""
        return any(sign != " " for sign, _ in self.hunk.rows)

    @property
    def lead(self) -> int:
        """How many lines of context stand above its first change."""
        rows = self.hunk.rows
        return next((number for number, (sign, _) in enumerate(rows) if sign != " "), len(rows))

    @property
    def core(self) -> int:
        """How many lines it covers from its first change to its last."""
        tail = next((n for n, (sign, _) in enumerate(reversed(self.hunk.rows)) if sign != " "), 0)
        return max(0, self.size - self.lead - tail)


@dataclass(slots=True)
class _LineEdit:
    """New lines in place of the file's lines ``start`` to ``end``."""

    start: int
    end: int
    new: list[str]


def locate_hunks(
    text: str, hunks: Sequence[PatchHunk], final_newline: bool | None = None, *, omits: bool = False
) -> Placed:
    """Compute how to apply ``hunks`` to ``text``; raises `BadHunk` or `AmbiguousHunk`.

    ``omits``: lines that look like placeholders for code are meant as they are.
    """
    if final_newline is None and (splices := _splice_literally(text, hunks, omits)) is not None:
        return Placed(splices, "exact")
    file = _PatchedText(text, omits)
    if hunks and all(map(file.has_applied, hunks)):
        return Placed([], "exact")
    fits = [file.fit(hunk, number) for number, hunk in enumerate(hunks, start=1)]
    edits: list[_LineEdit] = []
    for number, (fit, at) in enumerate(zip(fits, _choose_places(fits), strict=True), start=1):
        edits += file.edits(fit, at, number)
    edits = _join_touching(sorted(edits, key=lambda edit: (edit.start, edit.end)))
    loosest = max((fit.level for fit in fits), key=list(_LEVELS).index, default="exact")
    return Placed(file.splices(edits, final_newline), loosest)


def _splice_literally(text: str, hunks: Sequence[PatchHunk], omits: bool) -> list[Splice] | None:
    """The splices of hunks that are there once each by the letter, in order; None if anything has to be weighed.

    The lines of the file are not even split: such a patch is as cheap as such an edit.
    """
    splices: list[Splice] = []
    floor = 0
    for hunk in hunks:
        old, new = ("".join(row + "\n" for row in rows) for rows in (hunk.old, hunk.new))
        at = text.find(old) if old.strip() else -1
        plain = not (hunk.headers or hunk.at_end or hunk.line is not None or "\r" in text or "\r" in new)
        if not plain or at < floor or (at and text[at - 1] != "\n") or text.find(old, at + 1) >= 0:
            return None
        if text.endswith("\n" + old[:-1]):
            return None  # it is there again, as the last lines of a file that lacks a final line ending
        try:
            if not omits:
                refuse_omissions(text, old, new)
        except Placeholder:
            return None
        if old in new or "\ufffd" in new:
            return None  # it may have been applied, or be garbled
        start = floor = at
        fresh = ""
        for sign, row in [*hunk.rows, (" ", "")]:
            if sign == "+":
                fresh += row + "\n"
            elif sign == "-":
                floor += len(row) + 1
            else:
                change = minimize(text, start, floor, fresh)
                splices += [change] if change else []
                start = floor = min(floor + len(row) + 1, at + len(old))
                fresh = ""
    return splices


def _choose_places(fits: Sequence[_Fit]) -> list[int]:
    """One place for each hunk: the only way to have them in order, or, each being unique, wherever they are."""
    # Lines of context may be shared by two hunks; what one changes may not be.
    leads = [fit.lead for fit in fits]
    cores = [([at + lead for at in fit.places], fit.core) for fit, lead in zip(fits, leads, strict=True)]
    first, last = _place_early(cores), _place_late(cores)
    if first and last:
        for number, (low, high) in enumerate(zip(first, last, strict=True)):
            if low != high and fits[number].changes:
                in_range = [at for at in cores[number][0] if low <= at <= high]
                raise _report_ambiguous([at - leads[number] for at in in_range], number + 1)
        return [at - lead for at, lead in zip(first, leads, strict=True)]
    for number, fit in enumerate(fits, start=1):
        if len(fit.places) > 1 and fit.changes:
            raise _report_ambiguous(fit.places, number)
    spots = sorted((places[0], places[0] + size, number) for number, (places, size) in enumerate(cores, start=1))
    for (_, end, one), (start, _, other) in pairwise(spots):
        if start < end:
            raise BadHunk(number=max(one, other), other=min(one, other), at=start + 1)
    return [fit.places[0] for fit in fits]


def _report_ambiguous(places: Sequence[int], number: int = 1) -> AmbiguousHunk:
    return AmbiguousHunk(number=number, count=len(places), lines=[at + 1 for at in places[:_MOST_LISTED]])


_Spans = Sequence[tuple[list[int], int]]


def _place_early(spans: _Spans) -> list[int] | None:
    """Each hunk as far up as those above it allow; None if they cannot be in order."""
    placed, floor = [], 0
    for places, size in spans:
        number = bisect_left(places, floor)
        if number == len(places):
            return None
        placed.append(places[number])
        floor = places[number] + size
    return placed


def _place_late(spans: _Spans) -> list[int] | None:
    """Each hunk as far down as those below it allow."""
    placed: list[int] = []
    ceiling: int | None = None
    for places, size in reversed(spans):
        number = len(places) if ceiling is None else bisect_left(places, ceiling - size + 1)
        if not number:
            return None
        ceiling = places[number - 1]
        placed.append(ceiling)
    return placed[::-1]


def _join_touching(edits: Sequence[_LineEdit]) -> list[_LineEdit]:
    """Edits that touch each other as one."""
    joined: list[_LineEdit] = []
    for edit in edits:
        if joined and joined[-1].end >= edit.start:
            joined[-1] = _LineEdit(joined[-1].start, edit.end, joined[-1].new + edit.new)
        else:
            joined.append(edit)
    return joined


class _PatchedText:
    """The lines of a file, and their keys at each level."""

    def __init__(self, text: str, omits: bool = False) -> None:
        self.text = text
        self._omits = omits
        self.rows = lines.split(text)
        self.bodies = _split_bodies(text)
        plain = "\r" not in text and text.endswith("\n")
        self.endings = ["\n"] * len(self.rows) if plain else [lines.get_ending(row) for row in self.rows]
        self._known = {"exact": self.bodies}
        self._places: dict[str, dict[str, list[int]]] = {}
        self._headers: dict[str, list[int]] = {}
        self._block_ends: dict[int, int] = {}

    def _get_keys(self, level: str) -> list[str]:
        if level not in self._known:
            self._known[level] = [_LEVELS[level](body) for body in self.bodies]
        return self._known[level]

    def _find_windows(self, level: str, rows: Sequence[str], start: int = 0, number: int = 1) -> list[int]:
        """Where ``rows`` stand in the file, from line ``start`` on; found by the rarest of them."""
        keys, pattern = self._get_keys(level), [_LEVELS[level](row) for row in rows]
        if level not in self._places:
            self._places[level] = _index_keys(keys)
        places = self._places[level]
        pivot = min(range(len(pattern)), key=lambda at: len(places.get(pattern[at], ())))
        windows: list[int] = []
        candidates = places.get(pattern[pivot], [])
        candidates = candidates[bisect_left(candidates, start + pivot) :]
        spend(len(candidates))
        if len(pattern) == 1:
            return candidates
        for tried, at in enumerate(candidates):
            if keys[at - pivot : at - pivot + len(pattern)] == pattern:
                windows.append(at - pivot)
            if len(windows) > 1 and tried * len(pattern) > _MOST_COMPARED:
                raise _report_ambiguous(windows, number)  # a text that repeats itself: no order could decide
        spend(len(candidates) * len(pattern) // _COMPARED)
        return windows

    # Finding.

    def has_applied(self, hunk: PatchHunk) -> bool:
        """Whether the file already is as the hunk makes it: applied again, it would add its lines twice."""
        old, new = ("\n".join(rows) for rows in (hunk.old, hunk.new))
        if old == new or not hunk.old:
            return False
        if find_applied_around(self.text, old + "\n", new + "\n"):
            return True
        bare = [one.old for one in (hunk, *_undo_habits(hunk))]
        is_there = any(self._find_windows(level, rows) for rows in bare for level in ("exact", "punctuation"))
        return not is_there and find_applied_instead(self.text, old, new) is not None

    def fit(self, hunk: PatchHunk, number: int) -> _Fit:
        """Find where the hunk fits, at the first level at which it fits at all; raises `BadHunk`."""
        scopes = self._find_scopes(hunk, number)
        for tried, head in _list_variants(hunk):
            if not tried.old:
                return _Fit(tried, "exact", self._find_insertion(tried, scopes, number))
            for level in _LEVELS:
                fit = self._fit_at(tried, level, scopes, head, number)
                if fit and (tried is hunk or not any(self._lacks_line(hunk, tried, at) for at in fit.places)):
                    return fit
        # Where a blank may be the gutter's or the line's own, the nearest reading wins, not the first one.
        bare = list(_undo_habits(hunk))
        for level in _LEVELS:
            for tried in bare:
                if fit := self._fit_at(tried, level, scopes, 0, number):
                    if len(everywhere := self._find_windows("punctuation", tried.old)) > 1:
                        raise _report_ambiguous(everywhere, number)
                    return fit
        raise self._explain_missing(hunk, number)

    def _lacks_line(self, hunk: PatchHunk, trimmed: PatchHunk, at: int) -> bool:
        """Whether a blank line beside a change, which was taken off the hunk, is in the file behind a line or two that
        the hunk lacks: then the change may belong there."""
        end = at + len(trimmed.old)
        sides = [
            (hunk.rows[-1], trimmed.rows[-1], self.bodies[end : end + 1 + _MOST_LOST]),
            (hunk.rows[0], trimmed.rows[0], self.bodies[max(0, at - 1 - _MOST_LOST) : at][::-1]),
        ]
        return any(
            not sent[1].strip()
            and sent != edge
            and edge[0] != " "
            and near
            and near[0].strip()
            and not all(map(str.strip, near))
            for sent, edge, near in sides
        )

    def _fit_at(
        self, hunk: PatchHunk, level: str, scopes: Sequence[tuple[int, int]], head: int, number: int
    ) -> _Fit | None:
        """Where the hunk fits at this level; ``head``: the number of lines taken off its head."""
        old = hunk.old
        places = self._find_windows(level, old, scopes[0][0], number)
        if hunk.at_end:
            places = [at for at in places if at + len(old) == len(self.rows)]
        if hunk.unended:
            places = [at for at in places if self.bodies[at + len(old) - 1] == old[-1]]
        if not places:
            return None
        return _Fit(hunk, level, self._narrow(_Fit(hunk, level, places), scopes, head, number))

    def _explain_missing(self, hunk: PatchHunk, number: int) -> BadHunk:
        """Explain why the hunk fits nowhere, with the text where it comes nearest."""
        old = "\n".join(hunk.old)
        places = self._find_windows("punctuation", hunk.old)
        if places:  # but not where it should
            return BadHunk(number=number, old=old, elsewhere=places[0] + 1, not_last=hunk.at_end, above=not hunk.at_end)
        near = self._find_nearest([_LEVELS["punctuation"](row) for row in hunk.old])
        if near is None:
            return self._explain_by_vote(old, number)
        at, length = near
        ours = self.bodies[at + length] if at + length < len(self.bodies) else "(the end of the file)"
        current = number_rows(self.bodies, at, at + len(hunk.old))
        wanted = hunk.old[length]
        sent, there = name_characters(wanted, ours)
        return BadHunk(
            number=number,
            old=old,
            missing=True,
            near=at + length + 1,
            wanted=wanted,
            actual=ours,
            sent=sent,
            there=there,
            current=current,
        )

    def _explain_by_vote(self, old: str, number: int) -> BadHunk:
        """The place that most lines of the hunk are like, whatever its first one is."""
        spend(len(self.text) // _FAST)
        near = find_nearest(self.bodies, [squeeze(body) for body in self.bodies], old)
        if "line" not in near:
            return BadHunk(number=number, old=old, missing=True)
        return BadHunk(
            number=number,
            old=old,
            missing=True,
            near=near["line"],
            wanted=near["theirs"],
            actual=near["ours"],
            sent=near.get("sent"),
            there=near.get("there"),
            current=near["current"],
        )

    def _find_insertion(self, hunk: PatchHunk, scopes: Sequence[tuple[int, int]], number: int) -> list[int]:
        """Where lines without any context go: behind a line by its number, below the header, or to the end."""
        if hunk.insert_at is not None and hunk.insert_at <= len(self.rows):
            return [hunk.insert_at]
        if hunk.line is not None and self.rows:  # numbers that contradict each other prove nothing
            raise BadHunk(number=number, bare=True)
        if hunk.headers and not hunk.at_end:
            return [start + 1 for start, _ in scopes]
        return [len(self.rows)]

    def _narrow(self, fit: _Fit, scopes: Sequence[tuple[int, int]], head: int, number: int) -> list[int]:
        """Which of several places a line number or a header means."""
        hunk, places = fit.hunk, fit.places
        if hunk.line is not None and hunk.line - 1 + head in places:
            return [hunk.line - 1 + head]
        if not hunk.headers:
            return places
        inside = _keep_inside(places, scopes)
        if inside or all(end == start + 1 for start, end in scopes):
            return inside or places
        # The header opens a block that does not hold these lines: they are elsewhere, so they must be there only once.
        everywhere = self._find_windows(fit.level, hunk.old)
        if len(everywhere) > 1:
            raise _report_ambiguous(everywhere, number)
        return places

    def _find_scopes(self, hunk: PatchHunk, number: int) -> list[tuple[int, int]]:
        """The blocks that the hunk's headers open, the header's own line included; without any the whole file."""
        scopes = [(0, len(self.rows))]
        floor = -1
        for header in hunk.headers:
            headers = self._find_headers(header)
            heads = headers[bisect_left(headers, floor + 1) :]
            heads = _keep_inside(heads, scopes) or heads
            if not heads:
                raise BadHunk(number=number, header=header.strip(), old="\n".join(hunk.old))
            scopes = [(at, self._find_block_end(at)) for at in heads]
            floor = heads[0]
        return scopes

    def _find_headers(self, header: str) -> list[int]:
        """The lines that a header names: a whole line, or the beginning of one up to the end of a word."""
        if header not in self._headers:
            self._headers[header] = self._search_header(header)
        return self._headers[header]

    def _search_header(self, header: str) -> list[int]:
        spend(len(self.rows))
        for level, key in _LEVELS.items():
            target = key(header)
            headers = [at for at, row in enumerate(self._get_keys(level)) if row == target]
            if headers:
                return headers
        start = fold(header).strip()
        return [
            at
            for at, row in enumerate(self._get_keys("punctuation"))
            if row.startswith(start) and not (_WORD.match(start[-1]) and _WORD.match(row[len(start) : len(start) + 1]))
        ]

    def _find_block_end(self, head: int) -> int:
        """Where the block ends that a line opens: by indentation, or at the next heading of the same kind."""
        if head not in self._block_ends:
            self._block_ends[head] = self._search_block_end(head)
        return self._block_ends[head]

    def _search_block_end(self, head: int) -> int:
        first, depth = self.bodies[head].lstrip()[:1], self._depths[head]
        for at in range(head + 1, len(self.rows)):
            if self._depths[at] > depth or not self.bodies[at].strip():
                continue
            start = self.bodies[at].lstrip()[:1]
            if start == first if first in "#[" else start not in ")}]{":
                break
        else:
            at = len(self.rows)
        spend(at - head)
        return at

    @cached_property
    def _depths(self) -> list[int]:
        """How many columns each line is indented by."""
        return [len(indent_of(body).expandtabs(8)) for body in self.bodies]

    def _find_nearest(self, rows: list[str]) -> tuple[int, int] | None:
        """Where the most of the hunk's first lines stand, if in one place only, and how many."""
        keys = self._get_keys("punctuation")
        reached: list[tuple[int, int]] = []
        for at in self._find_windows("punctuation", rows[:1])[:_MOST_TRIED]:
            length = 1
            while length < len(rows) and keys[at + length : at + length + 1] == rows[length : length + 1]:
                length += 1
            reached.append((length, at))
        reached.sort(reverse=True)
        if not reached or not rows[0] or (len(reached) > 1 and reached[0][0] == reached[1][0]):
            return None
        return reached[0][1], reached[0][0]

    # Changing.

    def edits(self, fit: _Fit, at: int, number: int) -> list[_LineEdit]:
        """The changes of the hunk, as runs of lines between its lines of context."""
        hunk = fit.hunk
        try:
            texts = "\n".join(hunk.old), "\n".join(hunk.new)
            refuse_garbled(self.text, *texts)
            if not self._omits:
                refuse_omissions(self.text, *texts)
            rows = _take_signed(hunk) if fit.level == "exact" else self._merge(hunk, at)
        except Garbled as error:
            raise BadHunk(number=number, garbled=error.near) from None
        except Placeholder as error:
            raise BadHunk(number=number, placeholder=error.line) from None
        except TooRepetitive:
            raise BadHunk(number=number, repetitive=True, at=at + 1) from None
        except Unsure:
            raise BadHunk(number=number, unsure=True, at=at + 1, old="\n".join(hunk.old)) from None
        line_edits, next_line, new = [], at, list[str]()
        for row in [*rows, MergedRow(fit.size)]:
            if row.text is not None:
                new.append(row.text)
                continue
            if new or next_line < at + row.at:
                line_edits.append(_LineEdit(next_line, at + row.at, new))
            next_line, new = at + row.at + 1, []
        return line_edits

    def _merge(self, hunk: PatchHunk, at: int) -> list[MergedRow]:
        ours = self.bodies[at : at + len(hunk.old)]
        added = {indent_of(text) for sign, text in hunk.rows if sign == "+" and text.strip()}
        if hunk.lacks_signs(ours) and added <= (depths := set(map(indent_of, self.bodies))):
            if added and {" " + indent for indent in added} <= depths:
                raise Unsure
            return _take_signed(hunk)
        if _removes_other_depth(hunk, ours):
            raise Unsure
        beside = find_filled_beside(self.bodies, at, at + len(ours))
        block = find_block(self.bodies, at, at + len(ours))
        return merge(ours, hunk.old, hunk.new, block, beside=beside, codes=_get_codes(hunk))

    def splices(self, edits: Sequence[_LineEdit], final_newline: bool | None) -> list[Splice]:
        """Edits of lines as splices of the text, with the file's own line endings and its own way to end."""
        begins = [0, *accumulate(map(len, self.rows))]
        splices, expected, done = [], list[str](), 0
        for edit in edits:
            start, end = begins[edit.start], begins[edit.end]
            endings = [self._choose_ending(edit, number) for number in range(len(edit.new))]
            if edit.end == len(self.rows):
                bare = self.rows and not self.endings[-1] if final_newline is None else not final_newline
                if endings:
                    endings[-1] = "" if bare else endings[-1]
                elif bare and edit.start:  # the line above becomes the last one
                    start -= len(self.endings[edit.start - 1])
            lead = self._find_ending(edit.start) if edit.new and edit.start and not self.endings[edit.start - 1] else ""
            new = lead + "".join(body + ending for body, ending in zip(edit.new, endings, strict=True))
            one = minimize(self.text, start, end, new)
            splices += [one] if one else []
            expected += [*self.bodies[done : edit.start], *edit.new]
            done = edit.end
        if _split_bodies(apply_splices(self.text, splices)) != [
            *expected,
            *self.bodies[done:],
        ]:  # a lone "\r" in a new line, or two endings that run together
            raise BadHunk(number=1, endings=True)
        return splices

    def _choose_ending(self, edit: _LineEdit, number: int) -> str:
        """That of the line it replaces, or of its neighbour."""
        here = min(edit.start + number, edit.end - 1) if edit.end > edit.start else edit.start - 1
        return (self.endings[here] if here >= 0 else "") or self._find_ending(edit.start)

    def _find_ending(self, near: int) -> str:
        around = (*self.endings[max(0, near - 2) : near + 2][::-1], *self.endings[:1])
        return next((ending for ending in around if ending), "\n")


def _removes_other_depth(hunk: PatchHunk, ours: Sequence[str]) -> bool:
    """Whether a removed line is deeper than another one in the hunk and not in the file, or as deep: it may be another
    line. Lines without any indentation may have lost it."""
    signs = [sign for sign, _ in hunk.rows if sign != "+"]
    rows = [
        (sign, indent_of(text), indent_of(there))
        for sign, text, there in zip(signs, hunk.old, ours, strict=True)
        if text.strip() and indent_of(text)
    ]
    removed = {(here, there) for sign, here, there in rows if sign == "-"}
    others = {(here, there) for _, here, there in rows}
    return any(_compare_depths(here, a) != _compare_depths(there, b) for here, there in removed for a, b in others)


def _compare_depths(one: str, other: str) -> int:
    """Whether an indentation is less deep than another one (-1), the same (0) or any other (1)."""
    if one == other:
        return 0
    return -1 if len(one.expandtabs(8)) < len(other.expandtabs(8)) else 1


def _index_keys(keys: Sequence[str]) -> dict[str, list[int]]:
    """The lines that have each key, in order."""
    places: dict[str, list[int]] = {}
    for at, key in enumerate(keys):
        places.setdefault(key, []).append(at)
    return places


def _keep_inside(places: Sequence[int], scopes: Sequence[tuple[int, int]]) -> list[int]:
    """The places that are in one of the scopes; both in order."""
    spend(len(places) + len(scopes))
    inside, number, reach = list[int](), 0, -1
    for at in places:
        while number < len(scopes) and scopes[number][0] <= at:
            reach = max(reach, scopes[number][1])
            number += 1
        if at < reach:
            inside.append(at)
    return inside


def _take_signed(hunk: PatchHunk) -> list[MergedRow]:
    """The outcome of a hunk that fits by the letter."""
    lines, at = [], 0
    for sign, text in hunk.rows:
        if sign == "+":
            lines.append(MergedRow(at, text))
        elif sign == " ":
            lines.append(MergedRow(at))
        at += sign != "+"
    return lines


def _get_codes(hunk: PatchHunk) -> list[Code]:
    """What its signs say about its old and its new lines."""
    codes, i, j = list[Code](), 0, 0
    for is_kept, run in groupby(hunk.rows, key=lambda row: row[0] == " "):
        signs = [sign for sign, _ in run]
        start, i, j = (i, j), i + len(signs) - signs.count("+"), j + len(signs) - signs.count("-")
        codes.append(("equal" if is_kept else "replace", start[0], i, start[1], j))
    return codes


def _undo_habits(hunk: PatchHunk) -> Iterator[PatchHunk]:
    """The hunk with a habit undone that spoils each line by itself.

    Added lines without line numbers may have a blank behind their sign, so an odd number of blanks tells nothing.
    """
    sides = [[number for number, (sign, _) in enumerate(hunk.rows) if sign != mark] for mark in "+-"]
    for one in list_variants("\n".join(hunk.old), "\n".join(hunk.new)):
        texts = [text.split("\n") for text in (one.old, one.new)]
        if all(len(text) == len(side) for text, side in zip(texts, sides, strict=True)):
            rows = dict(zip(sides[0], texts[0], strict=True)) | dict(zip(sides[1], texts[1], strict=True))
            added = [text for number, (sign, text) in enumerate(hunk.rows) if sign == "+" and rows[number] == text]
            if not added or any((len(text) - len(text.lstrip(" "))) % 2 == 0 for text in added):
                yield replace(hunk, rows=tuple((sign, rows[number]) for number, (sign, _) in enumerate(hunk.rows)))


def _list_variants(hunk: PatchHunk) -> list[tuple[PatchHunk, int]]:
    """The hunk as it is, then without blank lines of context at its edges; and how many were taken off its head."""
    rows = hunk.rows
    if hunk.unended:
        return [(hunk, 0)]
    head = next((n for n, (sign, text) in enumerate(rows) if sign != " " or text.strip()), 0)
    tail = next((n for n, (sign, text) in enumerate(reversed(rows)) if sign != " " or text.strip()), 0)
    trimmed = replace(hunk, rows=rows[head : len(rows) - tail])
    return [(hunk, 0), (trimmed, head)] if (head or tail) and trimmed.old else [(hunk, 0)]


def _split_bodies(text: str) -> list[str]:
    """The lines of a text without their endings."""
    rows = lines.to_feeds(text).split("\n")
    return rows if rows[-1] else rows[:-1]
