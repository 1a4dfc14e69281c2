"""Locate the hunks of a patch in a file and compute their splices.

A hunk belongs where its old lines are by the letter. Its headers narrow several places to the lines below, or to the
block that the header opens, and a line number may name one of them. Hunks follow each other: exactly one way to place
them in order must be left. A hunk that is nowhere by the letter is an edit like any other: `LooseSearch` finds its only
place and merges it into the file's own lines.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from handrail.errors import AmbiguousHunk, BadHunk, Garbled, ManyLoose, Placeholder, UnsureIndent
from handrail.frozen import frozen
from handrail.text import lines
from handrail.text.document import Splice, apply_splices, minimize
from handrail.text.matching.budget import spend
from handrail.text.matching.find import find_applied_around, find_applied_instead, refuse_garbled
from handrail.text.matching.fold import squeeze
from handrail.text.matching.habits import list_variants
from handrail.text.matching.indentation import measure
from handrail.text.matching.loose import LooseSearch
from handrail.text.matching.nearest import find_nearest
from handrail.text.matching.omission import refuse_omissions
from handrail.text.matching.places import LEVELS, FileLines
from handrail.text.patches.operations import PatchHunk

_WORD = re.compile(r"\w")
_ODD = re.compile(r"(?!\s*[\[L]?\d)(?:(?:  )* (?! )| +\t)")
"""A line without a number, behind an odd number of blanks, or behind blanks and a tab."""
_MOST_LISTED = 10
Scopes = Sequence[tuple[int, int]]


@frozen
class Placed:
    """The splices that apply some hunks, and the loosest level that one of them needed."""

    splices: list[Splice]
    level: str


@frozen
class _Fit:
    """A hunk, and the lines that it changes in each place where it fits: their sorted first lines, and their number."""

    hunk: PatchHunk
    places: list[int]
    size: int
    level: str = "exact"
    splices: tuple[Splice, ...] = ()
    """Of a hunk that does not fit by the letter."""

    @property
    def changes(self) -> bool:
        """Whether it changes a line; one of context only says where the next ones are."""
        return self.hunk.old != self.hunk.new


def locate_hunks(
    text: str, hunks: Sequence[PatchHunk], final_newline: bool | None = None, *, omits: bool = False
) -> Placed:
    """Compute how to apply ``hunks`` to ``text``; raises `BadHunk` or `AmbiguousHunk`.

    ``omits``: lines that look like placeholders for code are meant as they are.
    """
    ended = text if not text or lines.get_ending(text[-2:]) else text + lines.find_ending(text)
    file = _PatchedFile(ended, omits)
    if hunks and all(map(file.has_applied, hunks)):
        return Placed([], "exact")
    fits = [file.fit(hunk, number) for number, hunk in enumerate(hunks, start=1)]
    places = _choose_places(fits)
    splices = [one for fit, at in zip(fits, places, strict=True) for one in file.splice(fit, at)]
    splices.sort(key=lambda one: (one.start, one.end))
    level = max((fit.level for fit in fits), key=LEVELS.index, default="exact")
    if ended == text and final_newline is None:
        return Placed(splices, level)
    result = lines.strip_ending(apply_splices(ended, splices))
    change = minimize(text, 0, len(text), result + lines.find_ending(text) if final_newline and result else result)
    return Placed([change] if change else [], level)


def _choose_places(fits: Sequence[_Fit]) -> list[int]:
    """One place for each hunk: the only way to have them in order, or, each being unique, wherever they are."""
    # Lines of context may be shared by two hunks; what one changes may not be.
    first, last = _place_early(fits), _place_early(_mirror(fits))
    if first and last:
        for number, (fit, low, end) in enumerate(zip(fits, first, reversed(last), strict=True), start=1):
            if low != -end - fit.size and fit.changes:
                raise _report_ambiguous([at for at in fit.places if low <= at <= -end - fit.size], number)
        return first
    for number, fit in enumerate(fits, start=1):
        if len(fit.places) > 1 and fit.changes:
            raise _report_ambiguous(fit.places, number)
    spots = sorted((fit.places[0], fit.places[0] + fit.size, number) for number, fit in enumerate(fits, start=1))
    for (_, end, one), (start, _, other) in pairwise(spots):
        if start < end:
            raise BadHunk(number=max(one, other), other=min(one, other), at=start + 1)
    return [fit.places[0] for fit in fits]


def _report_ambiguous(places: Sequence[int], number: int) -> AmbiguousHunk:
    return AmbiguousHunk(number=number, count=len(places), lines=[at + 1 for at in places[:_MOST_LISTED]])


def _place_early(fits: Sequence[_Fit]) -> list[int] | None:
    """Each hunk as far up as those above it allow; None if they cannot be in order."""
    placed, floor = [], -sys.maxsize
    for fit in fits:
        number = bisect_left(fit.places, floor)
        if number == len(fit.places):
            return None
        placed.append(fit.places[number])
        floor = fit.places[number] + fit.size
    return placed


def _mirror(fits: Sequence[_Fit]) -> list[_Fit]:
    """The hunks as they are seen from the end of the file."""
    return [replace(fit, places=[-at - fit.size for at in reversed(fit.places)]) for fit in reversed(fits)]


class _PatchedFile:
    """A file, and where hunks belong in it."""

    def __init__(self, text: str, omits: bool) -> None:
        self._text, self._omits = text, omits
        self._file = FileLines(text)
        self._scopes: dict[tuple[str, ...], Scopes] = {}

    def has_applied(self, hunk: PatchHunk) -> bool:
        """Whether the file already is as the hunk makes it: applied again, it would add its lines twice."""
        old, new = ("\n".join(rows) for rows in (hunk.old, hunk.new))
        if old == new or not hunk.old:
            return False
        if find_applied_around(self._text, old + "\n", new + "\n"):
            return True
        if self._file.find_exact(hunk.old) or find_applied_instead(self._text, old, new) is None:
            return False
        texts = [old, *(variant.old for variant in list_variants(old, new))]
        return not any(self._file.find_windows(text.split("\n")) for text in texts)

    def fit(self, hunk: PatchHunk, number: int) -> _Fit:
        """Find where the hunk fits: by the letter, or loosely in one place; raises `BadHunk` or `AmbiguousHunk`."""
        self._refuse_spoilt(hunk, number)
        scopes = self._find_scopes(hunk, number)
        if not hunk.old:
            return _Fit(hunk, self._find_insertion(hunk, scopes, number), 0)
        for tried in (hunk, _restore_signs(hunk)):
            everywhere = self._file.find_exact(tried.old)
            places = self._narrow(everywhere, tried, scopes)
            opens = any(end > start + 1 for start, end in scopes)
            if len(everywhere) > 1 and opens and not _keep_inside(places, scopes):
                raise _report_ambiguous(everywhere, number)  # the block that a header opens does not hold these lines
            if places:
                size = sum(sign != "+" for sign, _ in tried.core)
                return _Fit(tried, [at + tried.lead for at in places], size)
        return self._fit_loosely(hunk, scopes, number)

    def _refuse_spoilt(self, hunk: PatchHunk, number: int) -> None:
        texts = "\n".join(hunk.old), "\n".join(hunk.new)
        if "\r" in texts[1]:
            raise BadHunk(number=number, endings=True)
        try:
            refuse_garbled(self._text, *texts)
            if not self._omits:
                refuse_omissions(self._text, *texts)
        except Garbled as error:
            raise BadHunk(number=number, garbled=error.near) from None
        except Placeholder as error:
            raise BadHunk(number=number, placeholder=error.line) from None

    def _fit_loosely(self, hunk: PatchHunk, scopes: Scopes, number: int) -> _Fit:
        old, new = ("".join(row + "\n" for row in rows) for rows in (hunk.old, hunk.new))
        search = LooseSearch(self._file, False, False, lambda places: self._narrow(places, hunk, scopes))
        try:
            plan = search.run(old, new) if old != new and not hunk.unended else None
        except ManyLoose as error:
            raise AmbiguousHunk(number=number, count=error.count, lines=error.lines) from None
        except UnsureIndent as error:
            raise BadHunk(number=number, unsure=True, at=error.line, old="\n".join(hunk.old)) from None
        if plan is None:
            raise self._explain_missing(hunk, number)
        # Beside numbered lines, new ones without a number may have a blank too many behind their signs.
        if "line numbers" in plan.variants and any(sign == "+" and _ODD.match(text) for sign, text in hunk.rows):
            raise BadHunk(number=number, unsure=True, at=search.span[0] + 1, old="\n".join(hunk.old))
        start, end = search.span
        return _Fit(hunk, [start], end - start, plan.level, plan.splices)

    def _explain_missing(self, hunk: PatchHunk, number: int) -> BadHunk:
        """Explain why the hunk fits nowhere, with the text where it comes nearest."""
        old = "\n".join(hunk.old)
        places = self._file.find_windows(hunk.old)
        if places:  # but not where it should
            return BadHunk(number=number, old=old, elsewhere=places[0] + 1, not_last=hunk.at_end, above=not hunk.at_end)
        near = find_nearest(self._file, old)
        return BadHunk(
            number=number,
            old=old,
            missing=True,
            near=near.get("line"),
            wanted=near.get("theirs"),
            actual=near.get("ours"),
            sent=near.get("sent"),
            there=near.get("there"),
            current=near.get("current"),
        )

    def _find_insertion(self, hunk: PatchHunk, scopes: Scopes, number: int) -> list[int]:
        """Where lines without any context go: behind a line by its number, below the header, or to the end."""
        count = len(self._file.bodies)
        if hunk.insert_at is not None and hunk.insert_at <= count:
            return [hunk.insert_at]
        if hunk.line is not None and count:  # numbers that contradict each other prove nothing
            raise BadHunk(number=number, bare=True)
        if hunk.headers and not hunk.at_end:
            return [start + 1 for start, _ in scopes]
        return [count]

    def _narrow(self, places: Sequence[int], hunk: PatchHunk, scopes: Scopes) -> list[int]:
        """Which of several places the end of the file, a line number or a header means."""
        places = [at for at in places if at >= scopes[0][0]]
        if hunk.at_end:
            places = [at for at in places if at + len(hunk.old) == len(self._file.bodies)]
        if hunk.line is not None and hunk.line - 1 in places:
            return [hunk.line - 1]
        return (_keep_inside(places, scopes) if hunk.headers else []) or places

    def _find_scopes(self, hunk: PatchHunk, number: int) -> Scopes:
        """The blocks that the hunk's headers open, the header's own line included; without any the whole file."""
        if hunk.headers in self._scopes:
            return self._scopes[hunk.headers]
        scopes: Scopes = [(0, len(self._file.bodies) + 1)]
        for header in hunk.headers:
            floor = scopes[0][0] + (header is not hunk.headers[0])
            heads = [at for at in self._find_headers(header) if at >= floor]
            heads = _keep_inside(heads, scopes) or heads
            if not heads:
                raise BadHunk(number=number, header=header.strip(), old="\n".join(hunk.old))
            scopes = [(at, self._find_block_end(at)) for at in heads]
        self._scopes[hunk.headers] = scopes
        return scopes

    def _find_headers(self, header: str) -> list[int]:
        """The lines that a header names: a whole line, or the beginning of one up to the end of a word."""
        start = squeeze(header)
        if exact := self._file.find_exact([header]) or self._file.find_windows([header]):
            return exact
        keys = self._file.keys
        spend(len(keys))
        return [
            at
            for at, key in enumerate(keys)
            if key.startswith(start) and not (_WORD.match(start[-1]) and _WORD.match(key[len(start) : len(start) + 1]))
        ]

    def _find_block_end(self, head: int) -> int:
        """Where the block ends that a line opens: by indentation, or at the next heading of the same kind."""
        bodies = self._file.bodies
        first, depth = bodies[head].lstrip()[:1], measure(bodies[head])
        for at in range(head + 1, len(bodies)):
            start = bodies[at].lstrip()[:1]
            if not start or measure(bodies[at]) > depth:
                continue
            if start == first if first in "#[" else start not in ")}]{":
                spend(at - head)
                return at
        spend(len(bodies) - head)
        return len(bodies)

    def splice(self, fit: _Fit, at: int) -> Sequence[Splice]:
        """The changes that a hunk makes in one of its places."""
        if fit.level != "exact":
            return fit.splices
        change = self._file.replace(at, at + fit.size, [text for sign, text in fit.hunk.core if sign != "-"])
        return [change] if change else []


def _restore_signs(hunk: PatchHunk) -> PatchHunk:
    """The hunk with the blank that marks context, if that was left out and a blank of each line's own taken for it."""
    rows = tuple((sign, " " + text if sign == " " and text.strip() else text) for sign, text in hunk.rows)
    return replace(hunk, rows=rows)


def _keep_inside(places: Sequence[int], scopes: Scopes) -> list[int]:
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
