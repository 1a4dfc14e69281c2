"""Find where an edit applies and compute its splices. Forgives what models get wrong, and never guesses.

Matching levels, from strict to loose; the answer names the strictest level at which a place matches:

    exact            the text as it is
    line_endings     line endings taken as equal
    trailing_blanks  blanks at line ends ignored
    indentation      one consistent shift of the indentation
    depth            indentation ignored: tabs for spaces, lost indentation
    punctuation      typographic punctuation and spaces folded
    inner_blanks     runs of blanks taken as one
    words            one other word in a comment or a line of prose that the edit keeps

A dialect chooses a match strategy: `exact` has the first two levels, `trimmed` also ignores the blanks around the whole
text and then around each line, and `forgiving` has all levels above.

A literal match wins if it consists of whole words and does not begin inside the indentation of a line (`literal.py`).
Otherwise lines are compared as loosely as `inner_blanks`, and must match exactly one place: a second place is a refusal
even if it matches worse. The texts are also tried in other *variants* (line numbers, fences, escapes, entities, blank
edges, an elided middle). No level ignores a letter, a digit or an operator of code.
"""

from __future__ import annotations

from handrail.errors import ManyLoose, NoMatch, NothingToChange, UnsureIndent
from handrail.text import lines
from handrail.text.document import EditPlan, keep_endings, minimize
from handrail.text.matching.indentation import Unsure
from handrail.text.matching.literal import (
    LiteralMatch,
    find_literal,
    find_spans,
    overlaps,
    plan_as_written,
    plan_literal,
)
from handrail.text.matching.loose import LooseSearch
from handrail.text.matching.nearest import NearestFacts, find_nearest
from handrail.text.matching.omission import refuse_omissions
from handrail.text.matching.places import BlankEdges, FileLines, LineMatch, find_level, split_rows

EXACT, TRIMMED, FORGIVING = "exact", "trimmed", "forgiving"
"""The match strategies."""


def plan_edit(
    text: str, old: str, new: str, replace_all: bool = False, matching: str = FORGIVING, prose: bool = False
) -> EditPlan:
    """Compute what replacing ``old`` by ``new`` changes; raises if it applies nowhere or is ambiguous."""
    if old == new:
        raise NothingToChange(old=old)
    refuse_omissions(text, old, new)
    match = find_literal(text, old, replace_all)
    plan = _plan_literal(text, match, old, new, replace_all, matching) if match else None
    file = None
    if plan is None and matching == TRIMMED:
        plan = _plan_trimmed(text, old, new) or _plan_by_lines(text, old, new)
    elif plan is None and matching == FORGIVING:
        file = FileLines(text)
        try:
            plan = LooseSearch(file, replace_all, prose).run(old, new)
        except (ManyLoose, UnsureIndent) as error:
            error.facts.setdefault("old", old)
            raise
        if match and (plan is None or plan.places < len(match.spans)):
            line = lines.count_ends(text, 0, match.spans[0][0]) + 1
            raise UnsureIndent(old=old, line=line, indent=True, cut=True)
    if plan is None:
        longer = lines.to_feeds(old.strip()).count("\n") > lines.count_ends(text)
        nearest: NearestFacts = find_nearest(file.bodies, file.keys, old) if file else {}
        raise NoMatch(old=old, longer=longer, **nearest)
    if not plan.splices:
        raise NothingToChange(old=old)
    return plan


def _plan_literal(
    text: str, match: LiteralMatch, old: str, new: str, replace_all: bool, matching: str
) -> EditPlan | None:
    """Match the first two levels by characters: a part of a line is enough."""
    if matching != FORGIVING or not old.strip():
        return plan_as_written(text, match, old, new)
    return plan_literal(text, match, old, new, replace_all)


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


def _plan_by_lines(text: str, old: str, new: str) -> EditPlan | None:
    """Match line by line, without the blanks around each line."""
    file = FileLines(text, key=str.strip)
    edges = BlankEdges(*split_rows(lines.to_feeds(old), lines.to_feeds(new)))
    places = file.find_windows(edges.old)
    if len(places) > 1:
        raise ManyLoose(old=old, count=len(places), lines=[at + 1 for at in places[:10]])
    if not places:
        return None
    place = LineMatch(places[0], edges.old, edges.new)
    try:
        splice = file.splice(place)
    except Unsure:
        raise UnsureIndent(old=old, line=place.at + 1, indent=True) from None
    return EditPlan(find_level(file.bodies[slice(*place.span)], edges.old), (), (splice,) if splice else ())
