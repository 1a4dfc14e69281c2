"""Three-way merge of an edit into the file's own lines, with the model's old text as base.

The change is the difference between the old and the new lines. Unchanged lines stay as they are in the file, byte for
byte; changed and added lines get the file's indentation; inside a changed line, unchanged words keep the file's quotes,
dashes and spaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from handrail.text import lines
from handrail.text.matching.depths import find_misfits
from handrail.text.matching.fold import (
    compare_typography,
    find_plain_forms,
    fold,
    fold_some,
    remove_blanks,
    squeeze,
    squeeze_with_offsets,
)
from handrail.text.matching.indentation import (
    MixedTypography,
    TooRepetitive,
    Unsure,
    get_filled,
    get_plain_indent,
    indent_of,
    is_explained,
    map_indents,
)

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_KEY = re.compile(r"\W*([\w.-]+)\s*[:=]")
_RUN = re.compile(r"(?<=\S)(?: {2,}|\t)(?=[^\s#/])")
"""Blanks between words; those before a comment are no slip."""
_ALIKE = 0.5
_MOST_PAIRS = 60_000
"""Pairs of equal lines or words that a comparison may have."""
_MOST_CHARS = 1000
"""Characters of two lines that are compared letter by letter."""
_QUOTES = ("'", '"')
Code = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class MergedRow:
    """A line of the merge: line ``at`` of the file, or a new text in its place."""

    at: int
    text: str | None = None


def merge(
    ours: Sequence[str],
    old: Sequence[str],
    new: Sequence[str],
    above: Sequence[str] = (),
    below: Sequence[str] = (),
    evidence: Sequence[tuple[str, str]] = (),
) -> list[MergedRow]:
    """The lines that replace ``ours``, which ``old`` matched; raises `Unsure` where the merge would be a guess.

    ``above`` and ``below`` are lines of the file around them; ``evidence`` are matched lines of the model's and the
    file's, if there are more than these.
    """
    file = find_block(above, ours, below)
    kinds = [{*"".join(map(indent_of, rows))} for rows in (new, file)] if evidence else [set(), set()]
    if kinds[1] and not kinds[0] <= kinds[1]:
        raise Unsure  # the lines that were left out may be indented in another way
    if not evidence and any(map(str.strip, ours)):
        old, new = _complete_first_lines(ours, old, new)
    # Of lines that are alike to the model, but not in the file, which are kept? All ways to see it must agree.
    pairs = evidence or list(zip(old, ours, strict=True))
    aligned = _align(old, new, list(ours) != list(old))
    beside = get_filled(above[::-1]), get_filled(below)
    ways = [_Merge(ours, old, new, file, way, pairs, beside).run() for way in aligned]
    texts = [[ours[row.at] if row.text is None else row.text for row in rows] for rows in ways]
    if any(other != texts[0] for other in texts[1:]):
        raise Unsure
    if _is_implausible(ways[0], texts[0], ours, pairs, above):
        raise Unsure
    return ways[0]


def _is_implausible(
    rows: Sequence[MergedRow],
    texts: Sequence[str],
    ours: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    above: Sequence[str],
) -> bool:
    """Whether a line is at a depth its neighbours rule out, and no shift of several lines shows that it is right."""
    head = [get_filled(above[::-1])]
    first, was = ([*head, get_filled(side)] for side in (texts, ours))
    if first != was and find_misfits(above, first) and not find_misfits(above, was):
        return True
    indents = [(get_plain_indent(a), indent_of(b)) for a, b in pairs if b.strip()]
    is_shown = len(indents) > 1 and any(a for a, _ in indents)
    if all(a == b for a, b in indents) or (is_shown and is_explained(indents)):
        return False
    replaced = [row for row in rows if row.text is not None]
    if len(rows) == len(ours) and all(indent_of(row.text or "") == indent_of(ours[row.at]) for row in replaced):
        return False  # each line is as deep as the one that it replaces
    return any(rows[number].text is not None for pair in find_misfits(above, texts) for number in pair)


def find_block(above: Sequence[str], ours: Sequence[str], below: Sequence[str]) -> Sequence[str]:
    """The block that ``ours`` are in, up to the lines without indentation around it: its indentation may be of another
    kind than that of the file. If nothing is indented there, all lines."""
    start = next((number for number in range(len(above) - 1, -1, -1) if above[number][:1].strip()), 0)
    stop = next((number for number, row in enumerate(below) if row[:1].strip()), len(below))
    starts_here = bool(ours) and bool(ours[0][:1].strip())
    block = [*(() if starts_here else above[start:]), *ours, *below[:stop]]
    return block if any(row[:1].isspace() for row in block) else [*above, *ours, *below]


def _complete_first_lines(
    ours: Sequence[str], old: Sequence[str], new: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Both texts with a first line indented like the others, if both have less or more there, such as none.

    All further lines must be indented as the file is, or one of them be as deep in the file as the first line; and the
    first line of the new text must be a version of the old one.
    """
    (theirs, there), *pairs = [(get_plain_indent(a), indent_of(b)) for a, b in zip(old, ours, strict=True) if b.strip()]
    known = {b: a for a, b in pairs}
    if any(a for a, _ in pairs) and all(a == b for a, b in pairs):
        known[there] = there
    is_cut = there.endswith(theirs) or theirs.endswith(there)
    if not is_cut or theirs in (there, known.get(there, theirs)) or not is_explained([*pairs, (known[there], there)]):
        return old, new
    if not new or not old[0].strip() or not new[0].strip() or not any(map(indent_of, new[1:])):
        return old, new
    first = new[0].strip()
    if get_plain_indent(new[0]) != theirs or (
        first != old[0].strip() and (first in map(str.strip, old) or not are_alike(old[0].strip(), first))
    ):
        return old, new  # another line is the first one now
    return [known[there] + old[0].lstrip(), *old[1:]], [known[there] + new[0].lstrip(), *new[1:]]


def _flip(codes: Sequence[Code], old: int, new: int) -> list[Code]:
    """The codes of texts that were turned upside down, for the texts as they are."""
    return [(code, old - i2, old - i1, new - j2, new - j1) for code, i1, i2, j1, j2 in reversed(codes)]


def _align(old: Sequence[str], new: Sequence[str], all_ways: bool) -> list[list[Code]]:
    """The lines that stay, by the letter or without regard to blanks, seen from above or from below: what keeps most.
    The first way is by the letter and from above, where that is as good."""
    texts = (old, new), ([squeeze(row) for row in old], [squeeze(row) for row in new])
    ways = [_get_codes(*pair) for pair in texts]
    if all_ways:
        ways += [_flip(_get_codes(a[::-1], b[::-1]), len(a), len(b)) for a, b in texts]
    most = max(len(_pair_kept(way)) for way in ways)
    different: dict[tuple[tuple[int, int], ...], list[Code]] = {}
    for way in ways:
        if len(_pair_kept(way)) == most:
            different.setdefault(tuple(_pair_kept(way)), way)
    return list(different.values())


def _get_codes(old: Sequence[str], new: Sequence[str]) -> list[Code]:
    """`SequenceMatcher`'s, but what is equal at the head and the tail stays there, however often it is repeated."""
    head, tail = lines.count_equal_edges(old, new)
    middle = _compare(old[head : len(old) - tail], new[head : len(new) - tail])
    codes = [(code, i1 + head, i2 + head, j1 + head, j2 + head) for code, i1, i2, j1, j2 in middle]
    edges = [("equal", 0, head, 0, head)], [("equal", len(old) - tail, len(old), len(new) - tail, len(new))]
    return [*edges[0], *codes, *edges[1]]


def _compare(old: Sequence[str], new: Sequence[str]) -> list[Code]:
    """`SequenceMatcher`'s codes, for long texts between the parts that are there once; raises `TooRepetitive`.

    It visits every pair of equal parts, once for each stretch that it finds.
    """
    if len(old) + len(new) > lines.COMPARED:
        codes = lines.get_opcodes(old, new)
        for _, i1, i2, j1, j2 in codes:
            is_long = i2 - i1 + j2 - j1 > lines.COMPARED and old[i1:i2] != new[j1:j2]
            if is_long and not {*old[i1:i2]}.isdisjoint(new[j1:j2]):
                raise TooRepetitive
        return codes
    here, there = Counter(old), Counter(new)
    if sum(count * there[part] for part, count in here.items()) > _MOST_PAIRS:
        raise TooRepetitive
    return list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())


def _pair_kept(codes: Sequence[Code]) -> list[tuple[int, int]]:
    """The lines of both texts that stay."""
    return [(i1 + k, j1 + k) for code, i1, i2, j1, _ in codes if code == "equal" for k in range(i2 - i1)]


class _Merge:
    """Merges line by line, for one way to align the two texts."""

    def __init__(
        self,
        ours: Sequence[str],
        old: Sequence[str],
        new: Sequence[str],
        file: Sequence[str],
        codes: Sequence[Code],
        pairs: Sequence[tuple[str, str]],
        beside: tuple[str, str],
    ) -> None:
        self._rows = [beside[0], *ours, beside[1]]
        """The lines of the file with those above and below them."""
        self._ours, self._old, self._new, self._codes = ours, old, new, codes
        self._style = _ModelStyle(pairs)
        indents = [(get_plain_indent(a), indent_of(b)) for a, b in pairs if b.strip()]
        self._same = all(a == b for a, b in indents)
        self._flat = not any(a for a, _ in indents) and len({b for _, b in indents}) > 1
        """All indentation was lost, though the file has several depths."""
        kept = [(i, j) for i, j in _pair_kept(codes) if new[j].strip()]
        if self._same and kept and self._moves_all(kept):
            raise Unsure
        leads = [{*"".join(map(indent_of, rows))} for rows in (new, old)]
        if leads[0] - leads[1] - {*" \t"}:
            raise Unsure  # how many blanks does an odd one stand for?
        as_file = True if self._same else self._is_indented_as_file(indents, kept)
        wanted = {*self._list_new_indents(all_changed=as_file is None)}
        literal = {indent: indent for indent in wanted}
        self._map = literal if as_file else self._map_indents(indents, wanted, file)
        if as_file is None and self._map != literal:
            raise Unsure
        foreign = {*"".join(self._map.values())}.difference(*(b for _, b in indents))
        if not self._same and foreign and foreign.difference(*map(indent_of, file)):
            raise Unsure  # the file is indented in another way
        self._as_file = bool(as_file)

    def _map_indents(self, indents: Sequence[tuple[str, str]], wanted: set[str], file: Sequence[str]) -> dict[str, str]:
        return {} if self._flat or not wanted else map_indents(indents, wanted, file)

    def _moves_all(self, kept: Sequence[tuple[int, int]]) -> bool:
        """Whether every kept line is at another depth, and lines come or go: the depth may be a slip, then."""
        sizes = {sum(bool(row.strip()) for row in rows) for rows in (self._old, self._new)}
        return sizes != {len(kept)} and all(indent_of(self._new[j]) != indent_of(self._ours[i]) for i, j in kept)

    def _is_indented_as_file(self, indents: Sequence[tuple[str, str]], kept: Sequence[tuple[int, int]]) -> bool | None:
        """Whether the new text is indented as the file is, although the old text is not; None if nothing tells."""
        new = [get_plain_indent(row) for row in self._new if row.strip()]
        leads = [
            (get_plain_indent(self._new[j]), get_plain_indent(self._old[i]), indent_of(self._ours[i])) for i, j in kept
        ]
        like_old, like_file = (any(n == (a, b)[side] for n, a, b in leads if a != b) for side in (0, 1))
        if like_file and not like_old:
            old, file = ({pair[side] for pair in indents} for side in (0, 1))
            if not {*new} & old <= file or new[0] == indents[0][0] != indents[0][1]:
                raise Unsure  # some lines are where the old text has them, and the file does not
        if like_old != like_file or not any(new):
            return like_file
        sides = [[pair[side] for pair in indents] for side in (0, 1)]
        fits_old, fits_file = ({*"".join(new)} <= {*"".join(side)} for side in sides)
        if like_old or fits_old == fits_file:
            fits_old, fits_file = (min(new, key=len) == min(side, key=len) for side in sides)
        is_torn = fits_file and any(a != b and a in new for a, b in indents)
        return None if is_torn or fits_old == fits_file else fits_file

    def _list_new_indents(self, all_changed: bool) -> Iterator[str]:
        """Yield the indentations of lines that no line of the file stands for, or that are at another depth."""
        for code, i1, i2, j1, j2 in self._codes:
            is_paired = i2 - i1 == j2 - j1 and (code == "equal" or self._is_line_by_line(range(i1, i2), j1))
            for j in range(j1, j2):
                indent = get_plain_indent(self._new[j])
                stays = is_paired and indent == get_plain_indent(self._old[i1 + j - j1])
                if self._new[j].strip() and (not stays or (all_changed and code != "equal")):
                    yield indent

    def run(self) -> list[MergedRow]:
        rows: list[MergedRow] = []
        for code, i1, i2, j1, j2 in self._codes:
            if code == "equal":
                rows += [self._keep(i1 + k, j1 + k) for k in range(i2 - i1)]
            elif i2 - i1 == j2 - j1 and self._is_line_by_line(range(i1, i2), j1):
                rows += [self._replace(i1 + k, j1 + k) for k in range(i2 - i1)]
            else:
                rows += [self._add(j, i1, i2) for j in range(j1, j2)]
        return rows

    def _is_line_by_line(self, block: range, j: int) -> bool:
        """Whether each line of a changed block stands for one of the file: all are at one depth, or alike."""
        if not self._same and any(not self._ours[i].strip() for i in block):
            return False
        if self._same or len({indent_of(self._ours[i]) for i in block if self._ours[i].strip()}) < 2:
            return True
        return all(are_alike(self._old[i].strip(), self._new[j + k].strip()) for k, i in enumerate(block))

    def _keep(self, i: int, j: int) -> MergedRow:
        """A line with the same words in old and new: the file's, unless its white space was changed on purpose."""
        ours, old, new = self._ours[i], self._old[i], self._new[j]
        if new == old or not new.strip():
            return MergedRow(i)
        body = ours.strip()
        if new.strip() != old.strip():
            if ours.strip() == old.strip():
                body = self._style.restyle(new.strip())
            elif remove_blanks(fold(new)) != remove_blanks(fold(old)) or not self._style.sloppy:
                raise Unsure
        text = self._find_indent(new, i) + body + self._find_trail(i, j)
        return MergedRow(i, None if text == ours else text)

    def _find_trail(self, i: int, j: int) -> str:
        """The blanks at the end of a line that stands for line ``i``."""
        ours, old, new = (row[len(row.rstrip()) :] for row in (self._ours[i], self._old[i], self._new[j]))
        return ours if old == new or old != ours else new

    def _replace(self, i: int, j: int) -> MergedRow:
        """A line that stands for one line of the file."""
        ours, old, new = self._ours[i].strip(), self._old[i].strip(), self._new[j].strip()
        if not new:
            return MergedRow(i, "")
        is_plain = ours == old and not self._style.sloppy
        body = self._style.restyle(new) if is_plain else _carry_change(ours, old, new, self._style)
        trail = "" if self._style.trims else self._new[j][len(self._new[j].rstrip()) :]
        trail = trail if self._old[i] == self._old[i].rstrip() else self._find_trail(i, j)
        return MergedRow(i, self._find_indent(self._new[j], i) + body + trail)

    def _add(self, j: int, i1: int, i2: int) -> MergedRow:
        """A line with no counterpart: it stands behind line ``i1``, or in place of ``i1`` to ``i2``."""
        near, row = max(0, i1 - 1) if i1 == i2 else i1, self._new[j]
        if not row.strip():
            return MergedRow(near, "" if self._style.trims or not self._same else row)
        body = self._style.restyle(row.lstrip())
        body = body.rstrip() if self._style.trims else body
        if self._flat and not self._as_file:
            around = {indent_of(one) for one in self._rows[i1 : i2 + 2] if one.strip()}
            if len(around) != 1 or any(map(indent_of, self._new)):
                raise Unsure
            return MergedRow(near, around.pop() + body)
        return MergedRow(near, self._map[get_plain_indent(row)] + body)

    def _find_indent(self, line: str, i: int) -> str:
        """The file's indentation for a line that stands for line ``i``."""
        indent = get_plain_indent(line)
        if self._as_file:
            return indent
        if indent == get_plain_indent(self._old[i]):
            return indent_of(self._ours[i])
        if self._flat:
            raise Unsure
        return self._map[indent]


class _ModelStyle:
    """What the matched lines show of the model's blanks and typography, beside the file's."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.trims = any(a != a.rstrip() and b == b.rstrip() for a, b in pairs)
        """Whether the model strews blanks at line ends."""
        self.sloppy = any(fold(a).strip() != fold(b).strip() and squeeze(a) == squeeze(b) for a, b in pairs)
        """Whether blanks between words differ."""
        self._folded, self._kept = set[str](), set[str]()
        for theirs, there in pairs:
            folded, kept = compare_typography(theirs, there)
            self._folded |= folded
            self._kept |= kept
        for forms in (self._folded, self._kept):
            forms.update(() if forms.isdisjoint(_QUOTES) else _QUOTES)  # both kinds of quotes go together

    def restyle(self, text: str) -> str:
        """New text with quotes, dashes and blanks as the file writes those of the old text; raises `Unsure`."""
        if self.sloppy and _RUN.search(fold(text).strip()):
            raise Unsure
        self.refuse_mixed(text)
        return fold_some(text, self._folded) if self._folded and not text.isascii() else text

    def refuse_mixed(self, text: str) -> None:
        if find_plain_forms(text) & self._folded & self._kept:
            raise MixedTypography


def are_alike(old: str, new: str) -> bool:
    """Whether one line is another version of the other: most of it, or the key before its value."""
    keys = _KEY.match(old), _KEY.match(new)
    if keys[0] and keys[1] and keys[0][1] == keys[1][1]:
        return True
    if len(old) * len(new) <= _MOST_CHARS**2:
        return SequenceMatcher(None, old, new, autojunk=False).ratio() >= _ALIKE
    head, tail = lines.count_equal_edges(old, new)
    return 2 * (head + tail) >= _ALIKE * (len(old) + len(new))


def _carry_change(ours: str, old: str, new: str, style: _ModelStyle) -> str:
    """The change from ``old`` to ``new``, made in ``ours``, which is ``old`` but for folding."""
    folded, begins_old = squeeze_with_offsets(old)
    folded_ours, begins_ours = squeeze_with_offsets(ours)
    if folded != folded_ours or ("\t" in ours) > ("\t" in old):
        raise Unsure
    style.refuse_mixed(new)
    place = {begin: number for number, begin in reversed(list(enumerate(begins_old)))}
    before, after = _WORD.findall(old), _WORD.findall(new)
    starts = [0]
    for word in before:
        starts.append(starts[-1] + len(word))
    parts, last = [], 0
    for code, i1, i2, j1, j2 in _get_codes(before, after):
        if code == "equal":
            continue
        if starts[i1] not in place or starts[i2] not in place:
            raise Unsure
        fresh = style.restyle("." + "".join(after[j1:j2]) + ".")[1:-1]
        parts += [ours[last : begins_ours[place[starts[i1]]]], fresh]
        last = begins_ours[place[starts[i2]]]
    return "".join([*parts, ours[last:]])
