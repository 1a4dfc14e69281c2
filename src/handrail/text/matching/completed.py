"""Old texts that match whole lines once they are completed: a part of a line, or lines with blank ones lost or added.

Both texts of the edit are completed alike with what the file has there, so that the merge sees whole lines.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from handrail.text import lines
from handrail.text.matching.fold import squeeze, squeeze_with_offsets
from handrail.text.matching.merge import align_rows, are_alike
from handrail.text.matching.places import FileLines, LineMatch

_MOST_PLACES = 10


def match_parts(file: FileLines, old: str, new: str) -> list[LineMatch]:
    """Where a text without line breaks stands inside a line, typography and runs of blanks aside."""
    target = squeeze(old)
    matches: list[LineMatch] = []
    at = file.joined_keys.find(target)
    while at >= 0 and len(matches) < _MOST_PLACES:
        number = bisect_right(file.key_starts, at) - 1
        matches.append(_complete(file.bodies[number], number, at - file.key_starts[number], old, new))
        at = file.joined_keys.find(target, at + 1)
    return matches


def fits_part(file: FileLines, match: LineMatch, old: str, new: str) -> bool:
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


def match_but_blank_lines(file: FileLines, old: Sequence[str], new: Sequence[str]) -> list[LineMatch | None]:
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
