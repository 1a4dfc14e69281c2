"""Three-way merge of an edit into the file's own lines, with the model's old text as base.

The change is the difference between the old and the new lines. Unchanged lines stay as they are in the file, byte for
byte; changed and added lines get the file's indentation; inside a changed line, unchanged words keep the file's quotes,
dashes and spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from handrail.text import lines
from handrail.text.matching.depths import find_misfits
from handrail.text.matching.fold import (
    compare_typography,
    find_plain_forms,
    fold,
    fold_some,
    squeeze,
    squeeze_with_offsets,
)
from handrail.text.matching.indentation import (
    MixedTypography,
    Unsure,
    get_plain_indent,
    indent_of,
    is_explained,
    map_indents,
)

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_KEY = re.compile(r"\W*([\w.-]+)\s*[:=]")
_RUN = re.compile(r"(?<=\S)(?: {2,}|\t)(?=[^\s#/])")
"""Blanks between words; those before a comment are no slip."""
_ALIKE = 50
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
    if not evidence and any(map(str.strip, ours)):
        old, new = _complete_first_lines(ours, old, new)
    pairs = evidence or list(zip(old, ours, strict=True))
    # Of lines that are alike to the model, but not in the file, which are kept? Seen from above and from below, the
    # same lines must be.
    keys = [squeeze(row) for row in old], [squeeze(row) for row in new]
    ways = align_rows(*keys), _flip(align_rows(*(side[::-1] for side in keys)), len(old), len(new))
    rows, others = (_Merge(ours, old, new, file, way, pairs).run() for way in ways)
    if _list_texts(rows, ours) != _list_texts(others, ours) or _is_implausible(rows, ours, pairs, above):
        raise Unsure
    return rows


def _list_texts(rows: Sequence[MergedRow], ours: Sequence[str]) -> list[str]:
    return [ours[row.at] if row.text is None else row.text for row in rows]


def _is_implausible(
    rows: Sequence[MergedRow], ours: Sequence[str], pairs: Sequence[tuple[str, str]], above: Sequence[str]
) -> bool:
    """Whether a line is at a depth its neighbours rule out, and no line that stays shows that it is right."""
    indents = [(get_plain_indent(a), indent_of(b)) for a, b in pairs if b.strip()]
    is_shown = len(indents) > 1 and any(a for a, _ in indents) and any(row.text is None for row in rows)
    replaced = [row for row in rows if row.text is not None]
    moved = {
        (indent_of(ours[row.at]), indent_of(row.text or ""))
        for row in replaced
        if (row.text or "").strip() == ours[row.at].strip()
    }
    if len({before for before, _ in moved}) > len({after for _, after in moved}):
        return True  # lines of several depths are not moved to one
    if (
        all(a == b for a, b in indents)
        or (is_shown and is_explained(indents))
        # Each line is as deep as the one that it replaces.
        or (len(rows) == len(ours) and all(indent_of(row.text or "") == indent_of(ours[row.at]) for row in replaced))
    ):
        return False
    before, after = [*above, *ours], [*above, *_list_texts(rows, ours)]
    changed = {number for number, row in enumerate(rows, len(above)) if row.text is not None}
    # The file itself may have such neighbours.
    known = {(indent_of(before[one]), indent_of(before[other])) for one, other in find_misfits((), before)}
    return any(
        not changed.isdisjoint((one, other)) and (indent_of(after[one]), indent_of(after[other])) not in known
        for one, other in find_misfits((), after)
    )


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
    first = new[0].strip() if new else ""
    if (
        not first
        or get_plain_indent(new[0]) != theirs
        or (first != old[0].strip() and (first in map(str.strip, old) or not are_alike(old[0].strip(), first)))
    ):
        return old, new  # another line is the first one now
    return [known[there] + old[0].lstrip(), *old[1:]], [known[there] + new[0].lstrip(), *new[1:]]


def align_rows(old: Sequence[str], new: Sequence[str]) -> list[Code]:
    """`difflib`'s, but what is equal at the head and the tail stays there, however often it is repeated."""
    head, tail = lines.count_equal_edges(old, new)
    middle = lines.get_opcodes(old[head : len(old) - tail], new[head : len(new) - tail])
    codes = [(code, i1 + head, i2 + head, j1 + head, j2 + head) for code, i1, i2, j1, j2 in middle]
    edges = [("equal", 0, head, 0, head)], [("equal", len(old) - tail, len(old), len(new) - tail, len(new))]
    return [*edges[0], *codes, *edges[1]]


def _flip(codes: Sequence[Code], old: int, new: int) -> list[Code]:
    """The codes of texts that were turned upside down, for the texts as they are."""
    return [(code, old - i2, old - i1, new - j2, new - j1) for code, i1, i2, j1, j2 in reversed(codes)]


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
    ) -> None:
        self._ours, self._old, self._new = ours, old, new
        self._style = _ModelStyle(pairs)
        indents = [(get_plain_indent(a), indent_of(b)) for a, b in pairs if b.strip()]
        self._same = all(a == b for a, b in indents)
        kept = [(i, j) for i, j in _pair_kept(codes) if new[j].strip()]
        if kept and all(
            get_plain_indent(new[j]) not in (get_plain_indent(old[i]), indent_of(ours[i])) for i, j in kept
        ):
            raise Unsure  # every kept line is at another depth, which may be a slip
        self._as_file = self._same or self._is_indented_as_file(indents, kept)
        self._rows = list(self._pair_rows(codes))
        wanted = {
            get_plain_indent(new[j])
            for j, i, is_paired in self._rows
            if new[j].strip() and not (is_paired and self._is_as_deep(i, j))
        }
        self._map = map_indents(indents, wanted, file) if wanted and not self._as_file else {}

    def _is_indented_as_file(self, indents: Sequence[tuple[str, str]], kept: Sequence[tuple[int, int]]) -> bool:
        """Whether the new text is indented as the file is, although the old text is not."""
        new = [get_plain_indent(row) for row in self._new if row.strip()]
        leads = [
            (get_plain_indent(self._new[j]), get_plain_indent(self._old[i]), indent_of(self._ours[i])) for i, j in kept
        ]
        like_old, like_file = (any(n == (a, b)[side] for n, a, b in leads if a != b) for side in (0, 1))
        torn = {a for a, b in indents if a != b}.intersection(new)
        if like_old == like_file and any(new):
            like_old, like_file = (_shape(new) == _shape([pair[side] for pair in indents]) for side in (0, 1))
        else:
            torn -= {b for _, b in indents}
        if like_file and not like_old and torn:
            raise Unsure  # some lines are as deep as in the old text
        return like_file and not like_old

    def _pair_rows(self, codes: Sequence[Code]) -> Iterator[tuple[int, int, bool]]:
        """Each new line, the line of the file that it stands for or behind, and whether it stands for it."""
        for code, i1, i2, j1, j2 in codes:
            is_paired = i2 - i1 == j2 - j1 and (code == "equal" or self._is_line_by_line(range(i1, i2), j1))
            for j in range(j1, j2):
                yield j, i1 + j - j1 if is_paired else max(0, i1 - (i1 == i2)), is_paired

    def _is_line_by_line(self, block: range, j: int) -> bool:
        """Whether each line of a changed block stands for one of the file: all are at one depth, or alike."""
        if self._same or len({indent_of(self._ours[i]) for i in block if self._ours[i].strip()}) < 2:
            return True
        return all(are_alike(self._old[i].strip(), self._new[j + k].strip()) for k, i in enumerate(block))

    def run(self) -> list[MergedRow]:
        return [self._replace(i, j) if is_paired else self._add(i, j) for j, i, is_paired in self._rows]

    def _replace(self, i: int, j: int) -> MergedRow:
        """A line that stands for one of the file: what the edit does not change stays as the file has it."""
        ours, old, new = self._ours[i], self._old[i], self._new[j]
        if new == old or not new.strip():
            return MergedRow(i, None if new == old or not ours.strip() else "")
        text = self._find_indent(j, i) + self._find_body(ours.strip(), old.strip(), new.strip())
        trails = [row[len(row.rstrip()) :] for row in (ours, old, new)]
        # Blanks at the end of a line, of which the old text has none, stay only if its words do.
        is_kept = trails[1] or squeeze(old) == squeeze(new)
        stays = is_kept and (trails[1] == trails[2] or trails[1] != trails[0])
        trail = trails[0] if stays else trails[2] * (not self._style.trims)
        return MergedRow(i, None if text + trail == ours else text + trail)

    def _find_body(self, ours: str, old: str, new: str) -> str:
        if ours == old and not self._style.sloppy:
            return self._style.restyle(new)
        return ours if squeeze(old) == squeeze(new) else _carry_change(ours, old, new, self._style)

    def _add(self, i: int, j: int) -> MergedRow:
        """A line with no counterpart: it stands behind line ``i``, or in its place."""
        row = self._new[j]
        if not row.strip():
            return MergedRow(i, "" if self._style.trims or not self._same else row)
        body = self._style.restyle(row.lstrip())
        return MergedRow(i, self._find_indent(j) + (body.rstrip() if self._style.trims else body))

    def _find_indent(self, j: int, i: int | None = None) -> str:
        """The file's indentation for a new line, which may stand for line ``i``."""
        indent = get_plain_indent(self._new[j])
        if self._as_file:
            return indent
        return indent_of(self._ours[i]) if i is not None and self._is_as_deep(i, j) else self._map[indent]

    def _is_as_deep(self, i: int, j: int) -> bool:
        """Whether a new line is as deep as the old one that it stands for; a blank one has no depth."""
        return self._old[i].strip() != "" and get_plain_indent(self._new[j]) == get_plain_indent(self._old[i])


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


def _shape(indents: Sequence[str]) -> tuple[int, set[str]]:
    """The least of some indentations, and what they are made of."""
    return min(map(len, indents)), {*"".join(indents)}


def are_alike(old: str, new: str) -> bool:
    """Whether one line is another version of the other: most of it, or the key before its value."""
    keys = _KEY.match(old), _KEY.match(new)
    same_key = keys[0] and keys[1] and keys[0][1] == keys[1][1]
    return bool(same_key) or fuzz.ratio(old[:_MOST_CHARS], new[:_MOST_CHARS]) >= _ALIKE


def _carry_change(ours: str, old: str, new: str, style: _ModelStyle) -> str:
    """The change from ``old`` to ``new``, made in ``ours``, which is ``old`` but for folding."""
    folded, begins_old = squeeze_with_offsets(old)
    folded_ours, begins_ours = squeeze_with_offsets(ours)
    if folded != folded_ours:
        raise Unsure
    style.refuse_mixed(new)
    place = {begin: number for number, begin in reversed(list(enumerate(begins_old)))}
    before, after = _WORD.findall(old), _WORD.findall(new)
    starts = [0]
    for word in before:
        starts.append(starts[-1] + len(word))
    parts, last = [], 0
    for code, i1, i2, j1, j2 in align_rows(before, after):
        if code == "equal":
            continue
        if starts[i1] not in place or starts[i2] not in place:
            raise Unsure
        fresh = style.restyle("." + "".join(after[j1:j2]) + ".")[1:-1]
        parts += [ours[last : begins_ours[place[starts[i1]]]], fresh]
        last = begins_ours[place[starts[i2]]]
    return "".join([*parts, ours[last:]])
