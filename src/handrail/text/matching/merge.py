"""Three-way merge of an edit into the file's own lines, with the model's old text as base.

The change is the difference between the old and the new lines. Unchanged lines stay as they are in the file, byte for
byte; changed and added lines get the file's indentation; inside a changed line, unchanged words keep the file's quotes,
dashes and spaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from handrail.text import lines
from handrail.text.matching.fold import (
    ODD_BLANKS,
    WIDE_FORMS,
    ZERO_WIDTH,
    find_plain_forms,
    fold,
    fold_some,
    list_folded,
    remove_blanks,
    squeeze,
    squeeze_with_offsets,
)
from handrail.text.matching.indentation import (
    IndentMap,
    MixedTypography,
    TooRepetitive,
    Unsure,
    get_plain_indent,
    has_lost_indent,
    indent_of,
)

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_KEY = re.compile(r"\W*([\w.-]+)\s*[:=]")
_RUN = re.compile(r"(?<=\S) {2,}(?=[^\s#/])")
"""Blanks between words; those before a comment are no slip."""
_BLOCK = re.compile(r"\s*(?:(?:async )?(?:def|for|with)|if|elif|else|while|try|except|finally|class)\b.*:\s*(?:#.*)?$")
_ALIKE = 0.5
_MOST_PAIRS = 60_000
"""Pairs of equal lines or words that a comparison may have."""
_MOST_CHARS = 1000
"""Characters of two lines that are compared letter by letter."""
Code = tuple[str, int, int, int, int]
_STREWN = {**dict.fromkeys(ODD_BLANKS, " "), **dict.fromkeys(ZERO_WIDTH, "")}
"""Characters that a model strews into a text, and what they stand for."""
_QUOTES = ("'", '"')
_WIDE = re.compile("[\uff01-\uff5e]")


@dataclass(frozen=True, slots=True)
class MergedRow:
    """A line of the merge: line ``at`` of the file, or a new text in its place."""

    at: int
    text: str | None = None


def merge(
    ours: Sequence[str],
    old: Sequence[str],
    new: Sequence[str],
    file: Sequence[str],
    evidence: Sequence[tuple[str, str]] = (),
    beside: tuple[str, str] = ("", ""),
) -> list[MergedRow]:
    """The lines that replace ``ours``, which ``old`` matched; raises `Unsure` where the merge would be a guess.

    ``evidence`` are matched lines of the model's and the file's, if there are more than these; ``beside`` are the lines
    above and below them, blank ones aside.
    """
    if _may_be_twin(ours, old, new):
        raise Unsure
    if not evidence:
        old, new = _complete_first_lines(ours, old, new)
    indents = IndentMap(old, ours, new, file, evidence)
    if indents.same and len(new) > 1 and (_has_lost_all(ours, new) or _is_shifted(ours, new)):
        raise Unsure
    if not (indents.same or indents.flat or indents.bare) and _has_empty_block(new):
        raise Unsure
    # Of lines that are alike to the model, but not in the file, which are kept? All ways to see it must agree.
    pairs = evidence or list(zip(old, ours, strict=True))
    rows, *others = (
        _merge_along(ours, old, new, indents, codes, beside, pairs)
        for codes in _align(old, new, list(ours) != list(old))
    )
    texts = _list_texts(rows, ours)
    if any(_list_texts(other, ours) != texts for other in others):
        raise Unsure
    fresh = [number for number, row in enumerate(rows) if row.text is not None]
    is_flat = bool(evidence) and not any(indent_of(theirs) for theirs, _ in evidence)
    is_proven = not is_flat and (indents.same or (indents.is_explained and len(old) > 1))
    if not is_proven and has_lost_indent(texts, fresh):
        raise Unsure  # some lines of the old text lost their indentation, and so may some of the new one
    if _deepens_block(rows, ours):
        raise Unsure
    first = next((number for number, text in enumerate(texts) if text.strip()), -1)
    if first in fresh and _leaves_block(beside[0], ours, texts[first]):
        raise Unsure
    return rows


def _deepens_block(rows: Sequence[MergedRow], ours: Sequence[str]) -> bool:
    """Whether the first line of a block that a kept line opens is new, and deeper than the one that it had."""
    filled = [row for row in rows if (ours[row.at] if row.text is None else row.text).strip()]
    for above, below in pairwise(filled):
        if above.text is not None or below.text is None or not ours[above.at].rstrip().endswith((":", "{")):
            continue
        was = next((row for row in ours[above.at + 1 :] if row.strip()), "")
        if len(indent_of(ours[above.at])) < len(indent_of(was)) < len(indent_of(below.text)):
            return True
    return False


def _leaves_block(above: str, ours: Sequence[str], first: str) -> bool:
    """Whether the block that the line above opens has no line any more once ``first`` is the first one below it."""
    was = next((row for row in ours if row.strip()), "")
    return has_lost_indent([above, first], {1}) and not has_lost_indent([above, was], {1})


def _may_be_twin(ours: Sequence[str], old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the first line, quoted without its indentation, may be another one below that is only deeper or less
    deep, and of which the edit leaves fewer."""
    if not ours or not new or not indent_of(ours[0]) or indent_of(old[0]) or old[0].strip() != new[0].strip():
        return False
    first = old[0].strip()
    depths = {indent_of(there) for row, there in zip(old, ours, strict=True) if row.strip() == first}
    return len(depths) > 1 and sum(row.strip() == first for row in new) < sum(row.strip() == first for row in old)


def _has_lost_all(ours: Sequence[str], new: Sequence[str]) -> bool:
    """Whether no new line is indented, or all are by one blank, though the edit keeps one that is so in the file."""
    depths = {indent_of(row) for row in new if row.strip()} - {""}
    if depths and depths != {" "}:
        return False
    indented = {row.strip() for row in ours if row.strip() and indent_of(row) not in ("", *depths)}
    others = {row.strip() for row in ours if row.strip() and indent_of(row) in ("", *depths)}
    return not (indented - others).isdisjoint(map(str.strip, new))


def _is_shifted(ours: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the first line and all others that the edit keeps are deeper or less deep than in the file, by the same
    blanks, and some lines are new: an edit that only moves lines means that."""
    first, kept = new[0].strip(), Counter(row.strip() for row in ours)
    if not first or not ours or first != ours[0].strip():
        return False
    pairs = [(row, next(one for one in ours if one.strip() == row.strip())) for row in new if kept[row.strip()] == 1]
    pairs = [(indent_of(row), indent_of(there)) for row, there in pairs if row.strip()]
    if len(pairs) == sum(bool(row.strip()) for row in new) or not pairs:
        return False
    less = {there.removesuffix(here) if there.endswith(here) else "" for here, there in pairs}
    more = {here.removesuffix(there) if here.endswith(there) else "" for here, there in pairs}
    return any(len(by) == 1 and by != {""} for by in (less, more))


def _has_empty_block(new: Sequence[str]) -> bool:
    """Whether a line of Python that opens a block has none deeper below it: its own indentation is a slip."""
    rows = [fold(row) for row in new if row.strip()]
    return any(_BLOCK.match(row) and len(indent_of(below)) <= len(indent_of(row)) for row, below in pairwise(rows))


def _complete_first_lines(
    ours: Sequence[str], old: Sequence[str], new: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Both texts with the indentation of their first line, if they were copied from its first letter on: all further
    lines are indented as the file is, and the new text shows that indentation was not dropped throughout."""
    missing = indent_of(ours[0]) if ours else ""
    further = [(a, b) for a, b in zip(old[1:], ours[1:], strict=False) if b.strip()]
    if not (missing and old[0].strip() and not indent_of(old[0]) and further and new and new[0].strip()):
        return old, new
    if indent_of(new[0]) or any(get_plain_indent(a) != indent_of(b) for a, b in further):
        return old, new
    if not any(get_plain_indent(row) for row in new[1:] if row.strip()):
        return old, new
    first = new[0].strip()
    if first != old[0].strip() and (first in map(str.strip, old) or not are_alike(old[0].strip(), first)):
        return old, new  # another line is the first one now
    return [missing + old[0], *old[1:]], [missing + new[0], *new[1:]]


def _merge_along(
    ours: Sequence[str],
    old: Sequence[str],
    new: Sequence[str],
    indents: IndentMap,
    codes: Sequence[Code],
    beside: tuple[str, str],
    pairs: Sequence[tuple[str, str]],
) -> list[MergedRow]:
    one = _Merge(ours, old, new, indents, _pair_kept(codes), beside, pairs)
    rows: list[MergedRow] = []
    for code, i1, i2, j1, j2 in codes:
        if code == "equal":
            rows += [one.keep(i1 + k, j1 + k) for k in range(i2 - i1)]
        elif i2 - i1 == j2 - j1:
            rows += [one.change(i1 + k, j1 + k, range(i1, i2)) for k in range(i2 - i1)]
        else:
            rows += [one.add(j, i1, i2) for j in range(j1, j2)]
    return rows


def _list_texts(rows: Sequence[MergedRow], ours: Sequence[str]) -> list[str]:
    return [ours[row.at] if row.text is None else row.text for row in rows]


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
    most = max(map(_count_kept, ways))
    different: dict[tuple[tuple[int, int], ...], list[Code]] = {}
    for way in ways:
        if _count_kept(way) == most:
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
            if (
                i2 - i1 + j2 - j1 > lines.COMPARED
                and not {*old[i1:i2]}.isdisjoint(new[j1:j2])
                and old[i1:i2] != new[j1:j2]
            ):
                raise TooRepetitive
        return codes
    here, there = Counter(old), Counter(new)
    if sum(count * there[part] for part, count in here.items()) > _MOST_PAIRS:
        raise TooRepetitive
    return list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())


def _pair_kept(codes: Sequence[Code]) -> list[tuple[int, int]]:
    """The lines of both texts that stay."""
    return [(i1 + k, j1 + k) for code, i1, i2, j1, _ in codes if code == "equal" for k in range(i2 - i1)]


def _count_kept(codes: Sequence[Code]) -> int:
    return sum(i2 - i1 for code, i1, i2, _, _ in codes if code == "equal")


class _Merge:
    """Merges line by line."""

    def __init__(
        self,
        ours: Sequence[str],
        old: Sequence[str],
        new: Sequence[str],
        indents: IndentMap,
        aligned: Sequence[tuple[int, int]],
        beside: tuple[str, str],
        pairs: Sequence[tuple[str, str]],
    ) -> None:
        self._ours, self._old, self._new, self._indents = ours, old, new, indents
        self._rows = [beside[0], *ours, beside[1]]
        """The lines of the file with those above and below them."""
        self._as_file = indents.is_indented_as_file(new, aligned)
        # The model strews blanks at line ends: they are no part of what it means.
        self._trims = any(a != a.rstrip() and b == b.rstrip() for a, b in pairs)
        self._sloppy = any(a.strip() != b.strip() for a, b in pairs)
        # So do odd blanks, tabs between words and characters of no width.
        self._surplus = _list_surplus(pairs)
        self._own = {char for char in self._surplus if any(chr(char) in a and chr(char) in b for a, b in pairs)}
        """Those that other lines of the file have as well."""
        leads = [(indent_of(a), indent_of(b)) for a, b in pairs if not a.isascii()]
        self._lead_surplus = {ord(char): " " for a, b in leads for char in {*a} - {*b} if char in ODD_BLANKS}
        self._leads = {char for a, _ in pairs for char in indent_of(a)}
        self._expands = any("\t" in b.strip() and "\t" not in a.strip() for a, b in pairs)
        """Whether the old text has blanks for tabs between words."""
        if self._sloppy and any("\t" in new[j].strip() and "\t" not in ours[i].strip() for i, j in aligned):
            self._surplus[ord("\t")] = " "
        self._runs = {run for a, b in pairs for run in _list_runs(a, b)}
        self._folded, self._kept = _compare_typography(pairs)
        self._is_plain = bool(_compare_typography([(b, a) for a, b in pairs])[0])
        """Whether the old text is plain where the file has typographic characters."""
        fresh = {*range(len(new))} - {j for _, j in aligned}
        self._lost = indents.bare and has_lost_indent([fold(row) for row in new], fresh)

    def keep(self, i: int, j: int) -> MergedRow:
        """A line with the same words in old and new: the file's, unless its white space was changed on purpose."""
        ours, old, new = self._ours[i], self._old[i], self._new[j]
        if new == old or not new.strip():
            return MergedRow(i)
        if self._indents.first_lost and i and not j and indent_of(ours) != indent_of(self._ours[0]):
            raise Unsure  # it is the first line now: did it lose its indentation too, or move to the first one's?
        if new.strip() == old.strip() and not self._may_move(i, j):
            raise Unsure
        if ours == old:
            return MergedRow(i, self._place(new, i))
        # Blanks inside of a line that the model did not get right are nothing that it means.
        plain = remove_blanks if self._sloppy else str.strip
        unchanged = plain(new) in (plain(old), plain(ours))
        if self._is_plain and remove_blanks(new) not in (remove_blanks(old), remove_blanks(ours)):
            raise MixedTypography  # the line differs in that alone, and the old text does so elsewhere by mistake
        if self._as_file or self._indents.same:
            return MergedRow(i) if unchanged and get_plain_indent(new) == indent_of(ours) else self._replace(i, j)
        if unchanged:
            return (
                MergedRow(i)
                if get_plain_indent(new) == get_plain_indent(old)
                else MergedRow(i, self._find_indent(new, i) + ours.lstrip())
            )
        return self._replace(i, j)

    def _may_move(self, i: int, j: int) -> bool:
        """Whether a kept line may be meant to go to another depth: not where that may be a slip of one line."""
        indent = get_plain_indent(self._new[j])
        if indent in (get_plain_indent(self._old[i]), indent_of(self._ours[i])):
            return True
        unit = self._indents.unit
        if self._indents.same and unit not in ("", "\t") and len(indent) > len(indent_of(self._ours[i])) + len(unit):
            above = next((row for row in reversed(self._new[:j]) if row.strip()), self._rows[0])
            if len(indent) > len(get_plain_indent(above)) + len(unit):
                return False  # several levels deeper, below no line that opens them
        fits = self._indents.is_on_grid(indent) or not self._indents.is_on_grid(get_plain_indent(self._old[i]))
        return fits and (self._indents.same or self._indents.is_explained or self._indents.first_lost)

    def change(self, i: int, j: int, block: range) -> MergedRow:
        """A line that stands for one line of the file, in a block of as many lines as before."""
        depths = {indent_of(self._ours[k]) for k in block if self._ours[k].strip()}
        if not self._indents.same and len(depths) > 1 and not are_alike(self._old[i].strip(), self._new[j].strip()):
            return self.add(j, block.start, block.stop)  # not that line, but another in its place
        return self._replace(i, j)

    def _replace(self, i: int, j: int) -> MergedRow:
        placed = self._place(self._new[j], i)
        trails = [row[len(row.rstrip()) :] for row in (self._ours[i], self._old[i], self._new[j])]
        if trails[1] and trails[1] == trails[2] and placed.strip():  # the edit keeps them, as the file has them
            placed = placed.rstrip() + trails[0]
        ours, old, new = self._ours[i].strip(), self._old[i].strip(), self._new[j].strip()
        if ours == old:
            if self._sloppy and "\t" in ours and "\t" not in new and "  " in new:
                raise Unsure  # the old text has blanks for tabs elsewhere
            self._refuse_runs(new)
            return MergedRow(i, placed)
        if "\t" in ours and "\t" not in old and not are_alike(old, new):
            raise Unsure  # which blanks of the new line stand for a tab?
        changed = _carry_change(ours, old, new, lambda part: self._restyle("." + part)[1:])
        if "\t" not in old and changed.count("\t") != ours.count("\t"):
            raise Unsure  # a tab of the file would become blanks
        if self._runs and {*_RUN.findall(changed)} - {*_RUN.findall(ours)}:
            raise Unsure  # some of the blanks that stand for one would come into the file
        return MergedRow(i, indent_of(placed) + changed + placed[len(placed.rstrip()) :])

    def add(self, j: int, i1: int, i2: int) -> MergedRow:
        """A line with no counterpart: it stands behind line ``i1``, or in place of ``i1`` to ``i2``."""
        near = max(0, i1 - 1) if i1 == i2 else i1
        self._refuse_runs(self._new[j])
        if self._indents.flat and not self._as_file and self._new[j].strip():
            around = {indent_of(row) for row in self._rows[i1 : i2 + 2] if row.strip()}
            if len(around) != 1 or not self._indents.bare or self._lost:
                raise Unsure
            return MergedRow(near, around.pop() + self._restyle(self._new[j].strip()))
        return MergedRow(near, self._place(self._new[j], None))

    def _place(self, line: str, counterpart: int | None) -> str:
        line = line.rstrip() if self._trims else line
        if not line.isascii() and any(char in ODD_BLANKS and char not in self._leads for char in indent_of(line)):
            raise Unsure  # no matched line shows how many blanks such a character replaces
        line = self._restyle(line)
        if self._indents.same:
            if self._indents.is_part and not self._indents.is_usual(indent_of(line)):
                raise Unsure  # the lines that were left out may be indented in another way
            return line
        return self._find_indent(line, counterpart) + line.lstrip() if line.strip() else ""

    def _refuse_runs(self, line: str) -> None:
        if (self._runs or self._expands) and _RUN.search(fold(line)):
            raise Unsure  # several blanks stand for one, or for a tab, in the old text

    def _restyle(self, text: str) -> str:
        """``text`` without strewn characters, and with quotes and dashes as the file writes those of the old text;
        raises `Unsure` if it has both."""
        if self._surplus or self._lead_surplus:
            lead = indent_of(text)
            body = text[len(lead) :]
            if any(chr(char) in body for char in self._own):
                raise MixedTypography
            text = lead.translate(self._surplus | self._lead_surplus | {ord("\t"): "\t"}) + body.translate(
                self._surplus
            )
        if not self._folded or text.isascii():
            return text
        if find_plain_forms(text) & self._folded & self._kept:
            raise MixedTypography
        return fold_some(text, self._folded)

    def _find_indent(self, line: str, counterpart: int | None) -> str:
        """The file's indentation for a line, which may stand for one of the file's."""
        indent = get_plain_indent(line)
        moves = bool(indent) if counterpart is None else indent != get_plain_indent(self._old[counterpart])
        if moves and self._indents.is_lossy:
            raise Unsure
        if self._as_file is None or (self._lost and counterpart is None):
            raise Unsure
        if self._as_file:
            stays = counterpart is not None and indent == get_plain_indent(self._old[counterpart])
            if stays and counterpart is not None and indent != indent_of(self._ours[counterpart]):
                raise Unsure  # it is where the old text has it, and not the file
            fits = self._indents.is_on_grid(indent) or (counterpart is None and self._indents.is_known(indent))
            if not stays and (self._indents.is_torn(indent) or not fits):
                raise Unsure
            stays = stays or counterpart is None or indent == indent_of(self._ours[counterpart])
            if not stays and not self._indents.is_explained:
                raise Unsure
            if not self._indents.is_usual(indent) or (
                self._indents.two_kinds and self._indents.map_indent(indent) != indent
            ):
                raise Unsure
            return indent
        if (
            counterpart is not None
            and self._ours[counterpart].strip()
            and indent == get_plain_indent(self._old[counterpart])
        ):
            return indent_of(self._ours[counterpart])
        depth = self._indents.map_indent(indent)
        if self._indents.first_lost and counterpart == 0 and depth != indent_of(self._ours[0]):
            raise Unsure  # only the old text has lost it, so this should be where the file has it
        return depth


def are_alike(old: str, new: str) -> bool:
    """Whether one line is another version of the other: most of it, or the key before its value."""
    keys = _KEY.match(old), _KEY.match(new)
    if keys[0] and keys[1] and keys[0][1] == keys[1][1]:
        return True
    if len(old) * len(new) <= _MOST_CHARS**2:
        return SequenceMatcher(None, old, new, autojunk=False).ratio() >= _ALIKE
    head, tail = lines.count_equal_edges(old, new)
    return 2 * (head + tail) >= _ALIKE * (len(old) + len(new))


def _list_runs(old: str, ours: str) -> list[str]:
    """The runs of blanks inside a line of the old text, if the matched one of the file has none."""
    return [] if _RUN.search(ours) else _RUN.findall(fold(old))


def _list_surplus(pairs: Sequence[tuple[str, str]]) -> dict[int, str]:
    """The characters that lines of the old text have and the matched ones of the file lack, and what each stands for:
    odd blanks, tabs between words, and characters of no width."""
    surplus = dict[int, str]()
    for theirs, there in pairs:
        if not theirs.isascii():
            surplus.update(
                {ord(char): plain for char, plain in _STREWN.items() if char in theirs and char not in there}
            )
        if "\t" in theirs.strip() and "\t" not in there.strip():
            surplus[ord("\t")] = " "
    return surplus


def _compare_typography(pairs: Sequence[tuple[str, str]]) -> tuple[set[str], set[str]]:
    """The plain forms that the file has where the old text is typographic, and those that it has so itself; both
    kinds of quotes go together, and so do characters of full width."""
    folded, kept = set[str](), set[str]()
    for theirs, there in pairs:
        for plain, is_plain in list_folded(theirs, there):
            (folded if is_plain else kept).update(_QUOTES if plain in _QUOTES else (plain,))
    if folded and any(_WIDE.search(theirs) for theirs, _ in pairs):
        folded |= WIDE_FORMS
    return folded, kept


def _carry_change(ours: str, old: str, new: str, restyle: Callable[[str], str] = str) -> str:
    """The change from ``old`` to ``new``, made in ``ours``, which is ``old`` but for folding."""
    folded, begins_old = squeeze_with_offsets(old)
    folded_ours, begins_ours = squeeze_with_offsets(ours)
    if folded != folded_ours:
        raise Unsure
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
        parts += [ours[last : begins_ours[place[starts[i1]]]], restyle("".join(after[j1:j2]))]
        last = begins_ours[place[starts[i2]]]
    return "".join([*parts, ours[last:]])
