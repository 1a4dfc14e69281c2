"""Indentation: from the way a model wrote it to the way the file has it.

The lines that matched are the evidence: each pairs an indentation of the model's with one of the file's. What explains
all of those pairs (a prefix more or less, a tab width, another unit) says where a new line belongs. Several
explanations may fit; they must agree, or one of them must put the new line on the file's own grid, exactly one level
from its neighbours. Otherwise the depth is not known, and it is never guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import pairwise, product

from handrail.text.fold import fold

_INDENT = re.compile(r"[ \t\u00a0\u3000]*")
_TABS = (4, 8, 2, 3)
_SCALES = ((2, 1), (1, 2), (4, 1), (1, 4), (3, 1), (1, 3), (3, 2), (2, 3))
_OPENS = re.compile(r"(?:[:{(\[]|=>|->|\b(?:then|do|begin|else))\s*(?:#.*|//.*)?$", re.IGNORECASE)
_CLOSES = re.compile(r"\s*(?:[)}\]]|end\b|fi\b|done\b|esac\b|else\b|elif\b)", re.IGNORECASE)

_Image = Callable[[str], str | None]


def indent_of(line: str) -> str:
    match = _INDENT.match(line)
    assert match
    return match.group()


def written(line: str) -> str:
    """The indentation of a line of the model's, in plain blanks."""
    return fold(indent_of(line))


def unit_of(rows: Sequence[str]) -> str:
    """What one level of indentation is in a file: a tab, or the most common step in spaces."""
    if sum(row.startswith("\t") for row in rows) > sum(row.startswith(" ") for row in rows):
        return "\t"
    widths = [len(indent_of(row).expandtabs(8)) for row in rows if row.strip()]
    steps = Counter(after - before for before, after in pairwise(widths) if after > before)
    return " " * min(steps, key=lambda step: (-steps[step], step)) if steps else "    "


def lost(rows: Sequence[str], fresh: Collection[int]) -> bool:
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


class Frame:
    """How the indentation of matched lines of the model's maps to that of the file's."""

    def __init__(self, theirs: Sequence[str], ours: Sequence[str], new: Sequence[str], file: Sequence[str]) -> None:
        pairs = enumerate(zip(theirs, ours, strict=True))
        self._images = {number: (written(a), indent_of(b)) for number, (a, b) in pairs if b.strip()}
        self._pairs = list(self._images.values())
        self._new = [written(row) for row in new if row.strip()]
        self._opens = any(_OPENS.search(row) for row in new)
        self._file = file
        self.same = all(a == b for a, b in self._pairs)
        self.flat = not any(a for a, _ in self._pairs) and len({b for _, b in self._pairs}) > 1
        """All indentation was lost, though the file has several depths."""
        self.bare = not self.same and not any(a for a, _ in self._pairs) and not any(self._new)
        """Neither text has any indentation, though the file does."""

    @cached_property
    def unit(self) -> str:
        return unit_of(self._file)

    def depth(self, wanted: str) -> str:
        """The file's indentation for a new line that the model gave the indentation ``wanted``; raises `Unsure`."""
        if self.same:
            return wanted
        known: set[str | None] = {b for a, b in self._pairs if a == wanted}
        images = [] if self.flat or len(known) > 1 else list(self._explanations(wanted))
        outcomes: set[str | None] = {image(wanted) for image in images}
        on_grid = [image for image in images if self._on_grid(image, wanted)]
        if known and not self._mixed:
            outcomes = known if {image(wanted) for image in on_grid} <= known else set()
        elif len(outcomes) > 1:
            outcomes = {image(wanted) for image in on_grid} or self._shifted(wanted)
        answer = outcomes.pop() if len(outcomes) == 1 else None
        if answer is None or (images and not known and self._in_place(wanted, bool(on_grid))):
            raise Unsure
        return answer

    def _in_place(self, wanted: str, on_grid: bool) -> bool:
        """Whether a line below lines that lost their indentation may be where it belongs in the file already."""
        depths = {b for _, b in self._pairs}
        if any(a for a, _ in self._pairs):
            return False
        return (wanted in depths and not self._opens and all(self._new[1:])) or (
            not on_grid and any(wanted == b + self.unit for b in depths)
        )

    def _shifted(self, wanted: str) -> set[str | None]:
        """By as many characters as everywhere else, if the outcome is of the kind that the file has."""
        prefix = self._prefix()
        image = prefix(wanted) if prefix else None
        kinds = set("".join(indent_of(row) for row in self._file))
        return {image} if image is not None and (not kinds or set(image) <= kinds) else set()

    @cached_property
    def _mixed(self) -> bool:
        """Whether some of the file's lines begin with tabs and others with spaces, or tabs stand behind spaces."""
        return not self._prefix() and (
            len({b[0] for _, b in self._pairs if b}) > 1 or any(" \t" in b for _, b in self._pairs)
        )

    def _explanations(self, wanted: str) -> Iterator[_Image]:
        """Ways to map an indentation, each of which is right for all pairs; the simplest first."""
        prefix = self._prefix()
        if prefix:
            yield prefix
        if self._mixed or any(" \t" in a for a in [wanted, *(a for a, _ in self._pairs)]):
            return  # tabs and spaces mixed: columns say nothing of characters
        if self.unit != "\t" and any("\t" in b for _, b in self._pairs):
            return
        ours_tabs = self.unit == "\t"
        theirs_tabs = any("\t" in a for a in [*self._new, *(a for a, _ in self._pairs)])
        # Another unit needs two depths as evidence, or a line that is deeper than the one depth there is.
        scales = len({a for a, _ in self._pairs}) > 1 or all(len(wanted) > len(a) for a, _ in self._pairs)
        for tab, own in product(_TABS if theirs_tabs else (1,), _TABS if ours_tabs else (1,)):
            if ours_tabs and theirs_tabs and tab != own:
                continue  # a tab is as wide on both sides
            columns = [(len(a.expandtabs(tab)), len(b.expandtabs(own))) for a, b in self._pairs]
            for up, down in ((1, 1), *(_SCALES if scales and not (ours_tabs or theirs_tabs) else ())):
                shifts = {b * down - a * up for a, b in columns}
                if len(shifts) == 1 and ((up, down) == (1, 1) or shifts == {0} or len(set(columns)) > 1):
                    yield self._by_columns(tab, own, up, down, shifts.pop())

    def _prefix(self) -> _Image | None:
        """The file has the same characters more everywhere, or less."""
        more = {b[: len(b) - len(a)] if b.endswith(a) else None for a, b in self._pairs}
        less = {a[: len(a) - len(b)] if a.endswith(b) else None for a, b in self._pairs}
        if len(more) == 1 and (extra := more.pop()) is not None:
            return lambda wanted: extra + wanted
        if len(less) == 1 and (surplus := less.pop()) is not None:
            return lambda wanted: wanted[len(surplus) :] if wanted.startswith(surplus) else None
        return None

    def _by_columns(self, tab: int, own: int, up: int, down: int, shift: int) -> _Image:
        def image(wanted: str) -> str | None:
            columns, rest = divmod(len(wanted.expandtabs(tab)) * up + shift, down)
            if columns < 0 or rest:
                return None
            return "\t" * (columns // own) + " " * (columns % own) if self.unit == "\t" else " " * columns

        return image

    def _on_grid(self, image: _Image, wanted: str) -> bool:
        """Whether every level from a known indentation to the wanted one is exactly one unit of the file's."""
        if not any(row[:1].isspace() for row in self._file):
            return False  # the file shows no unit
        width = len(wanted.expandtabs(8))
        known = {len(a.expandtabs(8)): a for a, _ in self._pairs}
        levels = {len(a.expandtabs(8)): a for a in self._new} | known | {width: wanted}
        below = max((column for column in known if column < width), default=None)
        above = min((column for column in known if column > width), default=None)
        if below is None and above is None:
            return False
        low, high = (below, width) if below is not None else (width, above)
        path = [image(levels[column]) for column in sorted(levels) if low <= column <= (high or 0)]
        return all(a is not None and b == a + self.unit for a, b in pairwise(path))

    def as_file(self, new: Sequence[str], aligned: Sequence[tuple[int, int]]) -> bool | None:
        """Whether the new text is indented as the file is, although the old text is not; None if that is not clear.

        ``aligned`` pairs matched lines with the lines of ``new`` that have the same words.
        """
        if self.same or not self._new:
            return False
        images = {number: pair for number, pair in self._images.items() if pair[0] != pair[1]}
        voted = [(written(new[j]), *images[i]) for i, j in aligned if i in images]
        like_old, like_file = any(n == a for n, a, _ in voted), any(n == b for n, _, b in voted)
        old, file = (min(depths, key=len) for depths in zip(*self._pairs, strict=True))
        least = min(self._new, key=len)
        both = {a for a, _ in self._pairs} & {b for _, b in self._pairs}
        if not any(new[j].strip() for _, j in aligned) and {*self._new} <= both:
            return None  # nothing is shared, and every indentation is one of both
        outermost = None if old == file or least not in (old, file) else least == file
        if outermost is None and not voted:
            outermost = self._looks_like_file()
        if like_old and like_file:
            return False if outermost is False else None
        if like_file and not {*self._new} & {a for a, _ in self._pairs} <= {b for _, b in self._pairs}:
            return None  # some lines of the new text have an indentation that only the old text has
        if like_old or like_file:
            return like_file if outermost in (None, like_file) else None if like_file else False
        return outermost

    def _looks_like_file(self) -> bool | None:
        """Whether the indentations in the new text are those of the file, or of its kind; None if they tell nothing."""
        new = set(self._new)
        old, file = ({pair[side] for pair in self._pairs} for side in (0, 1))
        if new <= old or new <= file:
            return not new <= old
        kind, like_old, like_file = (set("".join(depths)) for depths in (new, old, file))
        return False if kind <= like_old and not kind <= like_file else None
