"""Find where an edit applies and compute its splices. Forgives what models get wrong, and never guesses.

Matching levels, from strict to loose; the answer names the strictest level at which a place matches:

    exact            the text as it is
    line_endings     line endings taken as equal
    trailing_blanks  blanks at line ends ignored
    indentation      indentation ignored: a shift, tabs for spaces, lost indentation
    punctuation      typographic punctuation and spaces folded
    inner_blanks     runs of blanks taken as one
    words            one other word in a comment or a line of prose that the edit keeps

A dialect chooses a match strategy: `exact` has the first two levels, `trimmed` also ignores the blanks around the whole
text and then around each line, and `forgiving` has all levels above.

A literal match wins if it consists of whole words and does not begin inside the indentation of a line. It never begins
inside a "\\r\\n", and three cases are not simply literal:

- A match that begins or ends inside a word does not count beside others, and alone is refused, unless `replace_all`
  is set.
- A match that begins inside the indentation of a line stands for whole lines, quoted with a part of their indentation.
- One line of code quoted without its indentation, replaced by several, leaves their depth open: they are literal where
  they fit the lines around, indented like that line where only this fits, and refused otherwise.

Deleting whole lines also deletes their line ending. The answer names whatever is not literal.

Otherwise lines are compared as loosely as `inner_blanks`, and must match exactly one place: a second place is a refusal
even if it matches worse. The texts are also tried with one *habit* undone (line numbers, signs of a diff, a fence,
escapes, entities; see `habits.py`), without blank edges, with an elided middle, with blank lines more or fewer between
the lines, and as a part of a line. No level ignores a letter, a digit or an operator of code.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Literal

from handrail.errors import (
    AlreadyApplied,
    Garbled,
    InsideWord,
    ManyLoose,
    ManyMatches,
    NoMatch,
    NothingToChange,
    TooManyPlaces,
    UnsureIndent,
)
from handrail.text import lines
from handrail.text.document import EditPlan, Splice, keep_endings, minimize, splice
from handrail.text.matching.budget import limit_work
from handrail.text.matching.depths import choose_rows
from handrail.text.matching.indentation import Unsure, indent_of
from handrail.text.matching.loose import LooseSearch
from handrail.text.matching.nearest import NearestFacts, find_nearest, number_rows
from handrail.text.matching.omission import OMISSION_WORDS, refuse_omissions
from handrail.text.matching.places import FileLines

MOST_PLACES = 100_000
"""More places are counted, not collected."""
Level = Literal["exact", "line_endings"]
_NEAR = 400_000
"""How many characters on either side of a place may tell how deep its lines belong; of several, a part each."""
_WORD = re.compile(r"\w+")
_WORD_SHOWN = 60
_UNDECODED = "\ufffd"
_UNDECODED_SHOWN = 20
_MOST_COMPARED = 50_000_000
"""Characters that may be compared to see whether an edit was applied before."""


@dataclass(frozen=True, slots=True)
class LiteralMatch:
    """All places of one level as spans of characters, in order and without overlap; at most `MOST_PLACES` + 1."""

    level: Level
    spans: tuple[tuple[int, int], ...]


def find_spans(text: str, old: str) -> LiteralMatch:
    """Find ``old`` in ``text`` at the first level that has any place."""
    if ("\r" in old and old[0] != "\n") or "\n" not in old or "\r" not in text:
        spans = _find_exact(text, old)
        if spans or ("\r" not in text and "\r" not in old):
            return LiteralMatch("exact", spans)
    # An `old` that does not spell out "\r" is what a model was shown, where all line endings look alike: it is not
    # unique if it is elsewhere with other endings.
    pairs = lines.find_pairs(text)
    folded = _find_exact(lines.to_feeds(text), lines.to_feeds(old))
    spans = tuple((start + bisect_left(pairs, start), end + bisect_left(pairs, end)) for start, end in folded)
    return LiteralMatch("exact" if all(text[start:end] == old for start, end in spans) else "line_endings", spans)


def overlaps(text: str, old: str, span: tuple[int, int]) -> bool:
    """Whether ``old`` is there a second time that overlaps with the first: "aba" in "ababa" is two places."""
    return text.find(old, span[0] + 1, span[1] + len(old) - 1) >= 0


def quotes_lines(text: str, old: str) -> bool:
    """Whether ``old`` is in ``text`` exactly and once, and covers at least one whole line that is not blank."""
    spans = find_spans(text, old).spans
    if len(spans) != 1 or overlaps(text, text[slice(*spans[0])], spans[0]):
        return False
    start, end = spans[0]
    rows = lines.split(text[start:end])
    first = start != lines.start_of_line(text, start)
    last = bool(rows) and not lines.get_ending(rows[-1]) and bool(lines.strip_ending(text[end : end + 1]))
    return any(row.strip() for row in rows[first : len(rows) - last])


def _find_exact(text: str, old: str) -> tuple[tuple[int, int], ...]:
    return tuple((start, start + len(old)) for start in islice(lines.find_all(text, old), MOST_PLACES + 1))


def find_literal(text: str, old: str, replace_all: bool, whole_words: bool = False) -> LiteralMatch | None:
    """Find ``old``, line endings taken as equal; raises if there is more than one place, or too many to replace.

    ``whole_words``: places inside longer words do not count beside others, as `limit = 5` in `limit = 50`.
    """
    match = find_spans(text, old)
    if whole_words and 1 < len(match.spans) <= MOST_PLACES and not replace_all:
        whole = tuple(islice((span for span in match.spans if not _cuts_word(text, span)), 2))
        match = LiteralMatch(match.level, whole) if len(whole) == 1 else match
    if not match.spans:
        return None
    first, count = match.spans[0], len(match.spans)
    if count > MOST_PLACES:
        count = max(count, text.count(old))
    if replace_all and count > MOST_PLACES:
        raise TooManyPlaces(old=old, count=count, most=MOST_PLACES)
    if not replace_all and (count > 1 or overlaps(text, text[slice(*first)], first)):
        places = [_count_line(text, start) for start, _ in match.spans[:10]]
        raise ManyMatches(old=old, count=max(2, count), lines=places)
    return match


def plan_as_written(text: str, match: LiteralMatch, old: str, new: str) -> EditPlan:
    """Replace every place exactly as written, as the documents of some dialects require."""
    splices = [splice(text, start, end, old, new) for start, end in match.spans]
    return EditPlan(match.level, (), tuple(one for one in splices if one), len(match.spans))


def plan_literal(
    text: str, match: LiteralMatch, old: str, new: str, replace_all: bool, prose: bool = False
) -> EditPlan | None:
    """Replace the places of ``match``; None if the edit has to be matched by whole lines.

    In ``prose``, where indentation follows no rule, new lines stay as they are. Raises `InsideWord`, and `UnsureIndent`
    where the new lines may be meant in two ways.
    """
    splices: list[Splice | None] = []
    remarks: list[str] = []
    inside = 0
    for start, end in match.spans:
        if _cuts_word(text, (start, end)):
            if not replace_all:
                raise InsideWord(old=old, line=_count_line(text, start), word=_get_word(text, start, end))
            inside += 1
        place = _LiteralPlace(text, (start, end), old, new, _NEAR // len(match.spans))
        if place.is_cut and (replace_all or "\n" not in old.rstrip()):
            return None
        try:
            change, remark = place.read(prose)
        except Unsure:
            raise UnsureIndent(old=old, line=_count_line(text, start), indent=True, cut=True) from None
        splices.append(change)
        remarks += [remark] if remark and remark not in remarks else []
    if inside:
        remarks.append(f"{inside} inside longer words")
    level = "indentation" if remarks == [_CUT] else match.level
    return EditPlan(
        level, tuple(name for name in remarks if name != _CUT), tuple(one for one in splices if one), len(splices)
    )


_CUT = "cut"


class _LiteralPlace:
    """One literal match and the texts of the edit."""

    def __init__(self, text: str, span: tuple[int, int], old: str, new: str, near: int) -> None:
        """``near``: how many characters on either side may be looked at."""
        self.text, self.old, self.new, self.near = text, old, new, near
        self.start, self.end = span
        self.inside = self.start > 0 and not text[self.start - 1].isspace()
        """Whether there is text right before the place; then nobody asks where the line begins."""
        self.begin = self.start if self.inside else lines.start_of_line(text, self.start)
        lead = text[self.begin : self.start]
        self.missing = "" if lead.strip() else lead
        """The indentation above the place that is not in it; empty if there is more than indentation."""

    @property
    def is_cut(self) -> bool:
        """Whether the place begins inside the indentation of a line that has more than blanks."""
        first = lines.to_feeds(self.old).partition("\n")[0]
        return bool(self.missing) and indent_of(first) != "" and bool(first.strip())

    def read(self, prose: bool) -> tuple[Splice | None, str]:
        """The change, and what to say about it; raises `Unsure`."""
        if not self.new and self._deletes_lines():
            return self._delete_lines()
        old, new = (lines.to_feeds(text).split("\n") for text in (self.old, self.new))
        while min(len(old), len(new)) > 1 and old[-1] == new[-1] and not old[-1].strip():
            old.pop()
            new.pop()
        has_lines = len(old) + len(new) > 2
        is_line = self.missing and any(map(str.strip, old)) and (self.is_cut or has_lines)
        if not is_line or (prose and self.new and not self.is_cut):
            return splice(self.text, self.start, self.end, self.old, self.new), ""
        *above, last = lines.split(self.text[self.start : self.end])[: len(old)]
        end = self.start + sum(map(len, above)) + len(lines.strip_ending(last))
        placed = "\n".join(self._place_rows(old, new, end))
        line = _count_line(self.text, self.start)
        remark = _CUT if self.is_cut else f"new lines indented like line {line}"
        is_literal = placed[len(self.missing) :] == "\n".join(new)
        change = minimize(self.text, self.begin, end, keep_endings(self.text, self.begin, end, placed))
        return change, "" if is_literal else remark

    def _deletes_lines(self) -> bool:
        """Whether whole lines go, and more of them than the place covers: their last end, or their indentation."""
        if not self.old.strip():
            return False
        if self.text[self.end - 1] in "\r\n":
            return bool(self.missing)
        whole = bool(self.missing) or (self.start == self.begin and not self.inside)
        return whole and self.text[self.end : self.end + 1] in ("\r", "\n")

    def _delete_lines(self) -> tuple[Splice, str]:
        end = self.end if self.text[self.end - 1] in "\r\n" else lines.end_of_line(self.text, self.end)
        remark = _CUT if self.is_cut else "indentation removed as well" if self.missing else "line end removed as well"
        return Splice(self.begin, end, ""), remark

    def _place_rows(self, old: Sequence[str], new: Sequence[str], end: int) -> list[str]:
        """The new rows as they belong in the file, the first one whole; the place ends at ``end``."""
        stop = lines.end_of_line(self.text, end)
        tail = lines.strip_ending(self.text[end:stop])
        above = lines.to_feeds(self.text[max(0, self.begin - self.near) : self.begin]).split("\n")
        below = lines.to_feeds(self.text[stop : stop + self.near]).split("\n")
        ours = (self.missing + "\n".join(old) + tail).split("\n")
        above = above[1 if self.begin > self.near else 0 : -1]
        placed = choose_rows(above, ours, below, indent_of(old[0]), [*new[:-1], new[-1] + tail])
        return [*placed[:-1], placed[-1][: len(placed[-1]) - len(tail)]]


def _cuts_word(text: str, span: tuple[int, int]) -> bool:
    return any(lines.cuts_word(text, edge) for edge in span)


def _count_line(text: str, position: int) -> int:
    return lines.count_ends(text, 0, position) + 1


def _get_word(text: str, start: int, end: int) -> str:
    """The whole word that the place parts."""
    at = end if lines.cuts_word(text, end) else start
    near = max(0, at - _WORD_SHOWN)
    return next(word[0] for word in _WORD.finditer(text, near, at + _WORD_SHOWN) if word.end() >= at)


EXACT, TRIMMED, FORGIVING = "exact", "trimmed", "forgiving"
"""The match strategies."""
LADDER = "ladder"
"""`FORGIVING` in a dialect whose document says otherwise: its answers say apart how a text was matched."""


def plan_edit(
    text: str,
    old: str,
    new: str,
    replace_all: bool = False,
    matching: str = FORGIVING,
    prose: bool = False,
    cancel: threading.Event | None = None,
    known: dict[str, str] | None = None,
    omits: bool = False,
) -> EditPlan:
    """Compute what replacing ``old`` by ``new`` changes; raises if it applies nowhere or is ambiguous.

    Loose matching has a budget of work: what would take longer raises `TooMuchWork`, and `CallCancelled` once
    ``cancel`` is set. Several edits of one file share ``known``, an empty dictionary at first: see `FileLines`.
    ``omits``: lines that look like placeholders for code are meant as they are.
    """
    matching = FORGIVING if matching == LADDER else matching
    if not omits and OMISSION_WORDS.search(new):  # few texts
        refuse_omissions(text, old, new)
    if matching == FORGIVING:
        refuse_garbled(text, old, new)
        if line := find_applied_around(text, old, new):
            raise AlreadyApplied(line=line)
    try:
        plan, file = _match(text, old, new, replace_all, matching, prose, cancel, known)
    except (ManyLoose, UnsureIndent) as error:
        error.facts.setdefault("old", old)
        if isinstance(error, UnsureIndent):
            above, count = error.line - 1, lines.to_feeds(old).strip("\n").count("\n") + 1
            error.facts["current"] = number_rows(lines.to_feeds(text).split("\n"), above, above + count)
        raise
    if plan is None:
        if matching == FORGIVING and (applied := find_applied_instead(text, old, new)):
            raise AlreadyApplied(line=applied)
        longer = lines.to_feeds(old.strip()).count("\n") > lines.count_ends(text)
        nearest: NearestFacts = find_nearest(file, old) if file and matching == FORGIVING else {}
        raise NoMatch(old=old, longer=longer, **nearest)
    if not plan.splices:
        raise NothingToChange(old=old)
    return plan


def _match(
    text: str,
    old: str,
    new: str,
    replace_all: bool,
    matching: str,
    prose: bool,
    cancel: threading.Event | None,
    known: dict[str, str] | None,
) -> tuple[EditPlan | None, FileLines | None]:
    """The plan, if the text matches, by the letter or loosely, and the lines of the file, if these were needed."""
    match = find_literal(text, old, replace_all, matching == FORGIVING)
    plan = None
    if match and (matching != FORGIVING or not old.strip()):
        return plan_as_written(text, match, old, new), None
    if match:
        with limit_work(cancel) if "\n" in old + new else nullcontext():  # a single line takes no search
            plan = plan_literal(text, match, old, new, replace_all, prose)
    elif matching == TRIMMED:
        plan = _plan_trimmed(text, old, new)
    if plan or matching == EXACT:
        return plan, None
    file = FileLines(text, known=known) if matching == FORGIVING else FileLines(text, key=str.strip)
    search = LooseSearch(file, replace_all, prose)
    with limit_work(cancel):
        plan = search.run(old, new) if matching == FORGIVING else search.run_on_lines(old, new)
    if match and (plan is None or plan.places < len(match.spans)):
        raise UnsureIndent(old=old, line=_count_line(text, match.spans[0][0]), indent=True, cut=True)
    return plan, file


def _plan_trimmed(text: str, old: str, new: str) -> EditPlan | None:
    """Match the text without the blanks around it. Several new lines for whole ones are left to `_plan_by_lines`, which
    indents them."""
    bare = old.strip()
    match = find_spans(text, bare)
    if not bare or len(match.spans) != 1 or overlaps(text, bare, match.spans[0]):
        return None
    start, end = match.spans[0]
    around = text[lines.start_of_line(text, start) : start], text[end : lines.end_of_line(text, end)]
    if "\n" in new.strip() and not any(part.strip() for part in around):
        return None
    splice = minimize(text, start, end, keep_endings(text, start, end, new.strip()))
    return EditPlan("trimmed", (), (splice,) if splice else ())


def refuse_garbled(text: str, old: str, new: str) -> None:
    """Refuse U+FFFD, the sign for bytes that could not be decoded, where the text has none.

    Raise `Garbled` if ``old`` cannot match because of the sign, or if ``new`` would bring it into the text.
    """
    if (_UNDECODED not in old and _UNDECODED not in new) or _UNDECODED in text:
        return
    sent = old if _UNDECODED in old else new
    at = sent.index(_UNDECODED)
    near = sent[max(0, at - _UNDECODED_SHOWN) : at + _UNDECODED_SHOWN].replace("\n", " ").strip()
    raise Garbled(near=near, new=_UNDECODED not in old)


def find_applied_around(text: str, old: str, new: str) -> int | None:
    """The line at which ``new`` stands, if every ``old`` in the text is a part of it already; None if one is not.

    Sent twice, an edit that adds something beside its old text would add it twice.
    """
    old, new = lines.to_feeds(old), lines.to_feeds(new)
    if old not in new:
        bare, bare_new = old.lstrip(" \t"), new.lstrip(" \t")  # indentation goes before what is added
        if bare == old or old.removesuffix(bare) != new.removesuffix(bare_new):
            return None
        old, new = bare, bare_new
    if not old.strip() or old not in new:
        return None
    head, _, tail = new.partition(old)
    if not _has_word(head + tail):
        return None
    text = lines.to_feeds(text)
    places = list(_find_whole(text, new, head="\n" in head, tail="\n" in tail))
    last = len(new) - len(old)  # where the old text may begin in the new one
    around = pairwise([-last - 1, *places, len(text)])
    if not places or any(text.find(old, start + last + 1, end + len(old) - 1) >= 0 for start, end in around):
        return None
    return text.count("\n", 0, places[0]) + 1


def find_applied_instead(text: str, old: str, new: str) -> int | None:
    """The line at which ``new`` stands where ``old`` would be, in a text that does not have ``old``.

    None unless that place is known: by whole lines that both texts begin or end with, and that are in the file once.
    """
    old, new, text = lines.to_feeds(old).strip("\n"), lines.to_feeds(new).strip("\n"), lines.to_feeds(text)
    rows, others = old.split("\n"), new.split("\n")
    head, tail = lines.count_equal_edges(rows, others)
    changed, edges = others[head : len(others) - tail], [others[:head], others[len(others) - tail :]]
    known = [_count_blocks(text, edge) == 1 for edge in edges]
    if not (any(known) if _has_word("".join(changed)) else all(known)):
        return None  # what is left of a deletion proves something only by the lines on both sides
    places = _find_whole(text, new, head=True, tail=True)
    place = next(places, None)
    if place is None or next(places, None) is not None:
        return None
    above, below = text[:place].rstrip().rpartition("\n")[2], text[place + len(new) :].lstrip().partition("\n")[0]
    for edge, beside in ((0, above), (-1, below)):
        if rows[edge].strip() != others[edge].strip() and rows[edge].strip() == beside.strip():
            return None  # the first or the last line of the old text is there still, beside the new text
    return text.count("\n", 0, place) + 1


def _count_blocks(text: str, rows: Sequence[str]) -> int:
    """How often these lines stand together in a text; none if they have no word. More than two are not counted."""
    if not _has_word("".join(rows)):
        return 0
    return sum(1 for _ in islice(_find_whole(text, "\n".join(rows), head=True, tail=True), 2))


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def _find_whole(text: str, new: str, *, head: bool, tail: bool) -> Iterator[int]:
    """Where ``new`` stands as whole words, and with whole lines at its head and its tail if these have other lines."""
    start = text.find(new) if new.strip() else -1
    left = _MOST_COMPARED // max(1, len(new))  # a text that repeats itself is at very many places
    while start >= 0 and left >= 0:
        left -= 1
        end = start + len(new)
        begins = not head or not text[lines.start_of_line(text, start) : start].strip()
        ends = not tail or new.endswith("\n") or not text[end : lines.end_of_line(text, end)].strip()
        if begins and ends and not lines.cuts_word(text, start) and not lines.cuts_word(text, end):
            yield start
        start = text.find(new, start + 1)
