"""Map the indentation that a model wrote to the indentation of the file.

The matched lines are the evidence: each pairs an indentation of the model with one of the file. A mapping must explain
all pairs (a prefix more or less, a tab width, another unit) and gives the depth of new lines. If several mappings fit,
they must agree, or one must put the new line exactly one level from its neighbours. Otherwise `Unsure` is raised: a
depth is never guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import pairwise, product

from handrail.text.matching.fold import ODD_BLANKS, ZERO_WIDTH, drop_zero_width, fold

_INDENT = re.compile(rf"[ \t{ODD_BLANKS}]*")
_LEAD = re.compile(rf"[ \t{ODD_BLANKS}{ZERO_WIDTH}]*")
_TABS = (4, 8, 2, 3)
_SCALES = ((2, 1), (1, 2), (4, 1), (1, 4), (3, 1), (1, 3), (3, 2), (2, 3))
_MANY = 4
"""Lines of one depth that are no chance."""
_CONTINUES = re.compile(r"^\s*(?:\??\.\w|->|&&|\|\||\|>|::)")
_OPENS = re.compile(r"(?:[:{(\[]|=>|->|\b(?:then|do|begin|else))\s*(?:#.*|//.*)?$", re.IGNORECASE)
_CLOSES = re.compile(r"\s*(?:[)}\]]|end\b|fi\b|done\b|esac\b|else\b|elif\b)", re.IGNORECASE)

_Image = Callable[[str], str | None]
_Pairs = Sequence[tuple[str, str]]


def indent_of(line: str) -> str:
    match = _INDENT.match(line)
    assert match
    return match.group()


def get_plain_indent(line: str) -> str:
    """The indentation of a line of the model's, in plain blanks."""
    return fold(indent_of(line))


def with_plain_lead(line: str) -> str:
    """A line of the model's without the characters of no width in its indentation."""
    if line.isascii():
        return line
    match = _LEAD.match(line)
    return drop_zero_width(match.group()) + line[match.end() :] if match else line


def find_indent_unit(rows: Sequence[str]) -> str:
    """Return one level of indentation of a file: a tab, or the usual step in spaces; empty if there is none."""
    if sum(row.startswith("\t") for row in rows) > sum(row.startswith(" ") for row in rows):
        return "\t"
    widths = [len(indent_of(row).expandtabs(8)) for row in rows if row.strip()]
    steps = Counter(after - before for before, after in pairwise(widths) if after > before)
    step, count = max(steps.items(), key=lambda item: (item[1], -item[0]), default=(4, 1))
    return " " * step if 2 * count > steps.total() else ""


def has_lost_indent(rows: Sequence[str], fresh: Collection[int]) -> bool:
    """Whether ``fresh`` ones of the lines should be deeper than the line before them, or it less deep, and are not."""
    filled = [number for number, row in enumerate(rows) if row.strip()]
    return any(
        (above in fresh or below in fresh)
        and _OPENS.search(rows[above])
        and len(indent_of(rows[below])) <= len(indent_of(rows[above]))
        and not _CLOSES.match(rows[below])
        for above, below in pairwise(filled)
    )


class Unsure(Exception):
    """The evidence does not say how deep a new line belongs."""


class MixedTypography(Unsure):
    """Some typographic characters of the old text stand for plain ones of the file, and some for themselves."""


class TooRepetitive(Unsure):
    """Texts repeat themselves so often that comparing them would take too many steps."""


def _measure_width(indent: str) -> int:
    return len(indent.expandtabs(8))


def _explain_by_prefix(pairs: _Pairs) -> _Image | None:
    """The file has the same characters more everywhere, or less."""
    more = {b[: len(b) - len(a)] if b.endswith(a) else None for a, b in pairs}
    less = {a[: len(a) - len(b)] if a.endswith(b) else None for a, b in pairs}
    if len(more) == 1 and (extra := more.pop()) is not None:
        return lambda wanted: extra + wanted
    if len(less) == 1 and (surplus := less.pop()) is not None:
        return lambda wanted: wanted[len(surplus) :] if wanted.startswith(surplus) else None
    return None


class IndentMap:
    """The mapping from the indentation of the model to that of the file."""

    def __init__(
        self,
        theirs: Sequence[str],
        ours: Sequence[str],
        new: Sequence[str],
        file: Sequence[str],
        evidence: _Pairs = (),
    ) -> None:
        pairs = enumerate(zip(theirs, ours, strict=True))
        self._images = {number: (get_plain_indent(a), indent_of(b)) for number, (a, b) in pairs if b.strip()}
        more = [(get_plain_indent(a), indent_of(b)) for a, b in evidence if b.strip()]
        self._pairs = more or list(self._images.values())
        self.is_part = bool(evidence)
        """Whether these lines are one of several parts, with others between them that were left out."""
        self._new = [get_plain_indent(row) for row in new if row.strip()]
        self._opens = any((_CONTINUES if get_plain_indent(row) else _OPENS).search(row) for row in new)
        """Whether a line that lost its indentation has one below it that belongs deeper."""
        self._file = file
        self._mapped: dict[str, str] = {}
        self.same = all(a == b for a, b in self._pairs)
        self.flat = not any(a for a, _ in self._pairs) and len({b for _, b in self._pairs}) > 1
        """All indentation was lost, though the file has several depths."""
        self.bare = not self.same and not any(a for a, _ in self._pairs) and not any(self._new)
        """Neither text has any indentation, though the file does."""

    @cached_property
    def unit(self) -> str:
        return find_indent_unit(self._file)

    def map_indent(self, indent: str) -> str:
        """The file's indentation for a new line that the model gave the indentation ``indent``; raises `Unsure`."""
        if self.same:
            return indent
        if indent not in self._mapped:  # there are few depths, and many lines
            self._mapped[indent] = self._map_indent(indent)
        return self._mapped[indent]

    def _map_indent(self, indent: str) -> str:
        known: set[str | None] = {b for a, b in self._pairs if a == indent}
        images = [] if self.flat or len(known) > 1 else self._explain(indent)
        outcomes: set[str | None] = {image(indent) for image in images}
        on_grid = [image for image in images if self._on_grid(image, indent, self._pairs[self.first_lost :])]
        if known and not self._is_mixed:
            # Lines that no explanation joins with the others are slips, and prove nothing for new ones.
            joined = bool(images) or known == {indent} or self.flat or self._is_joined_below(indent)
            outcomes = known if joined and {image(indent) for image in on_grid} <= known else set()
        elif known:
            outcomes = known if outcomes == known else set()
        elif len(outcomes) > 1:
            outcomes = {image(indent) for image in on_grid} or self._shift(indent)
        answer = next(iter(outcomes)) if len(outcomes) == 1 else None
        stays = answer == indent and indent in {b for _, b in self._pairs}
        if not stays and not known and self._is_of_file(indent):
            raise Unsure
        if answer and not known and self.is_on_grid(indent) and not self.is_on_grid(answer):
            raise Unsure
        if answer and not known and self._skips_level(answer):
            raise Unsure
        if answer and not known and not on_grid and self._may_be_scaled(indent, answer):
            raise Unsure
        (theirs, ours), *others = self._pairs
        if not known and not others and indent == ours and len(theirs) > len(ours):
            raise Unsure  # the one line that was quoted is too deep, and this one is where the file has it
        is_sure = self._is_frequent(answer or "") if not ours else bool(self.unit) and self.is_on_grid(answer or "")
        if answer and not known and not others and theirs != ours and not is_sure:
            raise Unsure  # only the one line may be too deep, or not deep enough
        if answer is not None and (self._is_crossed(indent, answer) or self._rests_on_first(indent)):
            raise Unsure  # the line that says so is a slip, or may be one
        if self.two_kinds and (not known or set(indent) != set(answer or "")):
            raise Unsure
        if answer is None or (images and not known and self._may_be_in_place(indent, bool(on_grid))):
            raise Unsure
        if not known and not any(image(indent) == answer and self._is_exact(image) for image in images):
            raise Unsure
        if not known and self._has_other_unit:
            raise Unsure
        if self.first_lost and not (known or on_grid or all(a == b for a, b in self._pairs[1:])):
            raise Unsure
        return answer

    @cached_property
    def _has_other_unit(self) -> bool:
        """Whether all matched lines are at one depth, and the unit of the file does not lead to it."""
        depths = {_measure_width(b) for _, b in self._pairs}
        return self.unit not in ("", "\t") and len(depths) == 1 and depths.pop() % len(self.unit) > 0

    def _is_exact(self, image: _Image) -> bool:
        """Whether a way to map gives the very indentations that the file has, not only as many columns."""
        return all(image(a) == b for a, b in self._pairs[self.first_lost :])

    def _rests_on_first(self, indent: str) -> bool:
        """Whether the first line alone has this indentation, and is not where the file has it, as all others are; where
        the file has many lines as deep as that, another unit is the better reason."""
        (theirs, ours), *others = self._pairs
        is_deeper = theirs == indent != ours and {*theirs} == {*ours}
        if not is_deeper or not others or not all(a == b != indent for a, b in others):
            return False
        return not self._is_frequent(ours)

    def _is_frequent(self, indent: str) -> bool:
        """Whether an indentation is on the grid of the file, and many lines have it."""
        is_fit = bool(self.unit) and self.is_on_grid(indent)
        return is_fit and sum(indent_of(row) == indent for row in self._file) >= _MANY

    def _is_crossed(self, indent: str, answer: str) -> bool:
        """Whether a deeper line of the model is less deep in the file than ``answer``, or the other way round."""
        return any(
            (len(a) > len(indent) and len(b) < len(answer)) or (len(a) < len(indent) and len(b) > len(answer))
            for a, b in self._pairs
            if a[:1] == indent[:1] or not a or not indent
        )

    def _may_be_in_place(self, indent: str, on_grid: bool) -> bool:
        """Whether a line below lines that lost their indentation may be where it belongs in the file already."""
        depths = {b for _, b in self._pairs}
        if any(a for a, _ in self._pairs):
            return False
        columns = {depth.expandtabs(tab) for depth in depths for tab in _TABS}
        return (indent.expandtabs(8) in columns and (all(self._new[1:]) or not self._opens)) or (
            not on_grid and any(indent == b + self.unit for b in depths)
        )

    def _shift(self, indent: str) -> set[str | None]:
        """By as many characters as everywhere else, if the outcome is of the kind that the file has."""
        prefix = _explain_by_prefix(self._pairs)
        image = prefix(indent) if prefix else None
        return {image} if image is not None and self.is_usual(image) else set()

    def _skips_level(self, answer: str) -> bool:
        """Whether a line would be two units or more deeper than all others, where one depth alone is known: it may be
        one unit of another width."""
        depths = {b for _, b in self._pairs}
        return (
            self.unit != ""
            and len(depths) == 1
            and len({*self._new}) < 3
            and len(answer) >= len(depths.pop()) + 2 * len(self.unit)
        )

    def _may_be_scaled(self, indent: str, answer: str) -> bool:
        """Whether the one depth that is known is some times as deep as in the file, so that a line of another depth
        may be so as well."""
        pairs = {(len(a), len(b)) for a, b in self._pairs}
        theirs, ours = next(iter(pairs))
        if len(pairs) > 1 or not theirs or not ours or theirs == ours:
            return False
        return any(ours * down == theirs * up and len(indent) * up != len(answer) * down for up, down in _SCALES)

    def _is_joined_below(self, indent: str) -> bool:
        """Whether one explanation joins all lines below the first, which is a slip; some of them have ``indent``."""
        (theirs, ours), *below = self._pairs
        return theirs != ours and any(a == indent for a, _ in below) and any(self._explain_simply(below, indent))

    def _is_of_file(self, indent: str) -> bool:
        """Whether an indentation is of the kind that the file has, and not of the kind of the old text."""
        theirs, ours = ({*"".join(pair[side] for pair in self._pairs)} for side in (0, 1))
        return bool(indent) and {*indent} <= ours and not theirs - {*indent} <= ours

    @cached_property
    def is_explained(self) -> bool:
        """Whether one mapping explains all lines: then none of them lost its indentation alone."""
        if any(self._explain_simply(self._pairs, "")):
            return True
        # Two depths can always be explained by a unit and a shift.
        is_shown = len({*self._pairs}) > 2 or any(not a and not b for a, b in self._pairs)
        return is_shown and any(self._explain_by_scale(self._pairs, ""))

    @cached_property
    def is_lossy(self) -> bool:
        """Whether the texts have one blank for every indentation, so that no depth can be read from them."""
        depths = {*self._new, *(a for a, _ in self._pairs)}
        return depths <= {"", " "} and not self.same and not _explain_by_prefix(self._pairs)

    def is_torn(self, indent: str) -> bool:
        """Whether the model gave this indentation to lines of several depths."""
        return len({b for a, b in self._pairs if a == indent}) > 1

    def is_on_grid(self, indent: str) -> bool:
        """Whether an indentation is some units of the file's, if it has a unit."""
        if self.unit == "\t":
            return "  " not in indent
        return not self.unit or not len(indent) % len(self.unit)

    def is_known(self, indent: str) -> bool:
        """Whether the file has this indentation."""
        return indent in self._depths

    @cached_property
    def _depths(self) -> set[str]:
        return {*map(indent_of, self._file)}

    def is_usual(self, indent: str) -> bool:
        """Whether the file has blanks of this kind, or none at all."""
        return not self._kinds or set(indent) <= self._kinds

    @cached_property
    def _kinds(self) -> set[str]:
        return set("".join(self._depths))

    @cached_property
    def _is_mixed(self) -> bool:
        """Whether some of the file's lines begin with tabs and others with spaces, or tabs stand behind spaces."""
        return not _explain_by_prefix(self._pairs) and (
            len({b[0] for _, b in self._pairs if b}) > 1 or any(" \t" in b for _, b in self._pairs)
        )

    @cached_property
    def two_kinds(self) -> bool:
        """Whether many lines of the file begin with tabs, and many with spaces: then a depth is not to be computed."""
        heads = [row[0] for row in self._file if row[:1] in ("\t", " ") and not row.startswith(" *")]
        tabs = heads.count("\t")
        return 10 * min(tabs, len(heads) - tabs) >= len(heads) > tabs > 0

    @cached_property
    def first_lost(self) -> bool:
        """Whether the first line alone has lost its indentation, as a text has that is copied from its first letter."""
        (theirs, ours), *others = self._pairs or [("", "")]
        return (
            not theirs and bool(ours) and any(a for a, _ in others) and not any(self._explain_simply(self._pairs, ""))
        )

    def _explain(self, indent: str) -> list[_Image]:
        """Ways to map an indentation, each of which is right for all pairs; the simplest first."""
        explanations = [*self._explain_simply(self._pairs, indent), *self._explain_by_scale(self._pairs, indent)]
        if self.first_lost:
            explanations += [
                *self._explain_simply(self._pairs[1:], indent),
                *self._explain_by_scale(self._pairs[1:], indent),
            ]
        return explanations

    def _explain_simply(self, pairs: _Pairs, indent: str) -> Iterator[_Image]:
        """As many blanks more, or less, or as many columns, for a width of tabs."""
        prefix = _explain_by_prefix(pairs)
        if prefix:
            yield prefix
        for tab, own, columns in self._list_columns(pairs, indent):
            shifts = {b - a for a, b in columns}
            image = self._map_by_columns(tab, own, 1, 1, min(shifts, default=0))
            if shifts == {0} or (len(shifts) == 1 and self._on_grid(image, indent, pairs)):
                yield image

    def _explain_by_scale(self, pairs: _Pairs, indent: str) -> Iterator[_Image]:
        """Another unit, for which there must be two depths as evidence, or a line that is deeper than the one there is.
        Two depths can always be explained so: it must lead to one of the file's own."""
        if len({a for a, _ in pairs}) < 2 and any(len(indent) <= len(a) for a, _ in pairs):
            return
        if any(a and a == b for a, b in pairs):
            return  # some lines are where the file has them: the others are slips
        for tab, own, columns in self._list_columns(pairs, indent):
            for up, down in _SCALES if (tab, own) == (1, 1) else ():
                shifts = {b * down - a * up for a, b in columns}
                if len(shifts) == 1 and (shifts == {0} or len(set(columns)) > 1):
                    image = self._map_by_columns(1, 1, up, down, shifts.pop())
                    if self._on_grid(image, indent, pairs):
                        yield image

    def _list_columns(self, pairs: _Pairs, indent: str) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        """The pairs in columns, for each width that a tab may have here and there."""
        if self._is_mixed or any(" \t" in a for a in [indent, *(a for a, _ in pairs)]):
            return  # tabs and spaces mixed: columns say nothing of characters
        if self.unit != "\t" and any("\t" in b for _, b in pairs):
            return
        ours_tabs = self.unit == "\t"
        if not ours_tabs and any({*a} == {"\t", " "} for a, _ in pairs) and _explain_by_prefix(pairs):
            return  # a tab before what the file has: no width of it is told
        theirs_tabs = any("\t" in a for a in [*self._new, *(a for a, _ in pairs)])
        for tab, own in product(_TABS if theirs_tabs else (1,), _TABS if ours_tabs else (1,)):
            if not ours_tabs or not theirs_tabs or tab == own:  # a tab is as wide on both sides
                yield tab, own, [(len(a.expandtabs(tab)), len(b.expandtabs(own))) for a, b in pairs]

    def _map_by_columns(self, tab: int, own: int, up: int, down: int, shift: int) -> _Image:
        def image(indent: str) -> str | None:
            columns, rest = divmod(len(indent.expandtabs(tab)) * up + shift, down)
            if columns < 0 or rest:
                return None
            return "\t" * (columns // own) + " " * (columns % own) if self.unit == "\t" else " " * columns

        return image

    def _on_grid(self, image: _Image, indent: str, pairs: _Pairs) -> bool:
        """Whether every level from a known indentation to the wanted one is exactly one unit of the file's."""
        if not self.unit or not any(row[:1].isspace() for row in self._file):
            return False  # the file shows no unit
        width = _measure_width(indent)
        known = {_measure_width(a): b for a, b in pairs if _measure_width(a) != width}
        levels = {_measure_width(a): image(a) for a in [*self._new, indent]} | known
        below = max((column for column in known if column < width), default=None)
        above = min((column for column in known if column > width), default=None)
        if below is None and above is None:
            return False
        low, high = (below, width) if below is not None else (width, above)
        path = [levels[column] for column in sorted(levels) if low <= column <= (high or 0)]
        return all(a is not None and b == a + self.unit for a, b in pairwise(path))

    def is_indented_as_file(self, new: Sequence[str], aligned: Sequence[tuple[int, int]]) -> bool | None:
        """Whether the new text is indented as the file is, although the old text is not; None if that is not clear.

        ``aligned`` pairs matched lines with the lines of ``new`` that have the same words.
        """
        if self.same or not self._new:
            return False
        images = {number: pair for number, pair in self._images.items() if pair[0] != pair[1]}
        if self.is_part and (self.first_lost or not images):
            return None if self.first_lost else False
        if self.first_lost:
            # The first line of either text looks like the old text's own in any case.
            images.pop(next(iter(self._images)), None)
            aligned = [(i, j) for i, j in aligned if j]
        voted = [(get_plain_indent(new[j]), *images[i]) for i, j in aligned if i in images]
        like_old, like_file = any(n == a for n, a, _ in voted), any(n == b for n, _, b in voted)
        old, file = (min(depths, key=_measure_width) for depths in zip(*self._pairs, strict=True))
        least = min(self._new, key=_measure_width)
        both = {a for a, _ in self._pairs} & {b for _, b in self._pairs}
        if not any(new[j].strip() for _, j in aligned) and {*self._new} <= both:
            return None  # nothing is shared, and every indentation is one of both
        if not like_old and not like_file and ((voted and self.first_lost) or least not in (old, file)):
            return None
        outermost = None if old == file or least not in (old, file) else least == file
        if self.first_lost and outermost is False and min(self._new[1:], key=_measure_width, default="") == file:
            return None  # the first line apart, the new text begins where the file does
        if outermost is None and not voted:
            outermost = self._guess_from_kinds()
            if outermost and not self._new[0] and not self._pairs[0][0] and self._pairs[0][1]:
                return None  # the first line may have lost its indentation in both texts
        if like_old and like_file:
            return False if outermost is False else None
        may_be_file = like_file or (outermost and not like_old)
        if may_be_file and not {*self._new} & {a for a, _ in self._pairs} <= {b for _, b in self._pairs}:
            return None  # some lines of the new text have an indentation that only the old text has
        if like_old or like_file:
            return like_file if outermost in (None, like_file) else None if like_file else False
        if outermost and self._new[0] == self._pairs[0][0] != self._pairs[0][1]:
            return None  # the first line is where the old text has it
        return outermost

    def _guess_from_kinds(self) -> bool | None:
        """Whether the indentations in the new text are those of the file, or of its kind; None if they tell nothing."""
        new = set(self._new)
        old, file = ({pair[side] for pair in self._pairs} for side in (0, 1))
        if new <= old or new <= file:
            return None if self.first_lost and not new <= old else not new <= old
        kind, like_old, like_file = (set("".join(depths)) for depths in (new, old, file))
        return False if kind <= like_old and not kind <= like_file else None
