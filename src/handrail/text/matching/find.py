"""The ladder: where an edit applies, and what it changes there. Forgives what models get wrong, and never guesses.

Rungs, from strict to loose; the strictest on which a place stands is told with the answer:

    exact            the text as it is
    line_endings     line endings taken as equal
    trailing_blanks  blanks at line ends ignored
    indentation      one consistent shift of the indentation
    depth            indentation ignored: tabs for spaces, lost indentation
    punctuation      typographic punctuation and spaces folded
    inner_blanks     runs of blanks taken as one
    words            one other word in a comment or a line of prose that the edit keeps

A text that is there by the letter is meant by the letter, if it is whole words and does not begin inside the
indentation of a line (see `literal`). If it is not there, its lines are compared as loosely as `inner_blanks` does, and
must fit exactly one place: a second one that fits even worse is still a refusal. The texts are then also tried in their
other *readings* (line numbers, fences, escapes, entities, blank edges, an elided middle). No rung ignores a letter, a
digit or an operator of code.
"""

from __future__ import annotations

from handrail.errors import ManyLoose, NoChange, NoMatch, UnsureIndent
from handrail.text import lines
from handrail.text.matching.exact import Match, find, overlaps
from handrail.text.matching.indentation import Unsure
from handrail.text.matching.literal import find_literal, plan_as_written, plan_literal
from handrail.text.matching.loose import Search
from handrail.text.matching.nearest import nearest
from handrail.text.matching.omission import refuse_omissions
from handrail.text.matching.places import Edges, Lines, Place, Plan, rows, rung_of
from handrail.text.splice import keep_endings, minimize

__all__ = ["RUNGS", "Plan", "plan"]

_LITERAL = ("exact", "line_endings")
RUNGS = {
    "exact": _LITERAL,
    "claw": (*_LITERAL, "trimmed", "depth"),
    "ladder": (*_LITERAL, "trailing_blanks", "indentation", "depth", "punctuation", "inner_blanks", "words"),
}
"""The rungs that a dialect may choose, by name. `trimmed` ignores blanks and line ends around the whole text only."""


def plan(
    text: str, old: str, new: str, replace_all: bool = False, matching: str = "ladder", prose: bool = False
) -> Plan:
    """What replacing ``old`` by ``new`` means in ``text``; raises why it means nothing, or more than one thing."""
    if old == new:
        raise NoChange(old=old)
    refuse_omissions(text, old, new)
    match = find_literal(text, old, replace_all)
    found = _literal(text, match, old, new, replace_all, matching) if match else None
    file = None
    if found is None and matching == "claw":
        found = _trimmed(text, old, new) or _by_lines(text, old, new)
    elif found is None and matching == "ladder":
        file = Lines(text)
        try:
            found = Search(file, replace_all, prose).run(old, new)
        except (ManyLoose, UnsureIndent) as error:
            error.facts = {"old": old, **error.facts}
            raise
        if match and (found is None or found.places < len(match.spans)):
            line = lines.count_ends(text, 0, match.spans[0][0]) + 1
            raise UnsureIndent(old=old, line=line, indent=True, cut=True)
    if found is None:
        longer = lines.to_feeds(old.strip()).count("\n") > lines.count_ends(text)
        raise NoMatch(old=old, longer=longer, **(nearest(file.bodies, file.keys, old) if file else {}))
    if not found.splices:
        raise NoChange(old=old)
    return found


def _literal(text: str, match: Match, old: str, new: str, replace_all: bool, matching: str) -> Plan | None:
    """The first two rungs, on characters: a part of a line will do."""
    if matching != "ladder" or not old.strip():
        return plan_as_written(text, match, old, new)
    return plan_literal(text, match, old, new, replace_all)


def _trimmed(text: str, old: str, new: str) -> Plan | None:
    """The third rung of `claw`: the text without the blanks around it. Several new lines for whole ones are left to the
    fourth, which indents them."""
    bare = old.strip()
    match = find(text, bare)
    if not bare or len(match.spans) != 1 or overlaps(text, bare, match.spans[0]):
        return None
    start, end = match.spans[0]
    around = text[lines.start_of_line(text, start) : start], text[end : lines.end_of_line(text, end)]
    if "\n" in new.strip() and not any(part.strip() for part in around):
        return None
    made = minimize(text, start, end, keep_endings(text, start, end, new.strip()))
    return Plan("trimmed", (), (made,) if made else ())


def _by_lines(text: str, old: str, new: str) -> Plan | None:
    """The fourth rung of `claw`: lines without the blanks at both their ends."""
    file = Lines(text, key=str.strip)
    edges = Edges(*rows(lines.to_feeds(old), lines.to_feeds(new)))
    places = file.windows(edges.old)
    if len(places) > 1:
        raise ManyLoose(old=old, count=len(places), lines=[at + 1 for at in places[:10]])
    if not places:
        return None
    place = Place(places[0], edges.old, edges.new)
    try:
        made = file.splice(place)
    except Unsure:
        raise UnsureIndent(old=old, line=place.at + 1, indent=True) from None
    return Plan(rung_of(file.bodies[slice(*place.span)], edges.old), (), (made,) if made else ())
