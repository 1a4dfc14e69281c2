"""Map the indentation that a model wrote to the indentation of the file.

The matched lines are the evidence: each pairs an indentation of the model with one of the file. An explanation is a
function from the one to the other (the same, a constant shift, tabs for spaces, another unit) that is right for every
pair. New lines are mapped by each explanation that survives: one result, or `Unsure`. A depth is never guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise

from handrail.text.matching.fold import ODD_BLANKS, fold

_INDENT = re.compile(rf"[ \t{ODD_BLANKS}]*")
_TABS = (4, 8, 2, 3)
_SCALES = ((2, 1), (1, 2), (4, 1), (1, 4), (3, 1), (1, 3), (3, 2), (2, 3))

Explanation = Callable[[str], str | None]
Pairs = Sequence[tuple[str, str]]


class Unsure(Exception):
    """The evidence does not say what a new line should be like."""


class MixedTypography(Unsure):
    """Some typographic characters of the old text stand for plain ones of the file, and some for themselves."""


def indent_of(line: str) -> str:
    match = _INDENT.match(line)
    assert match
    return match.group()


def get_plain_indent(line: str) -> str:
    """The indentation of a line of the model's, in plain blanks."""
    return fold(indent_of(line))


def measure(line: str) -> int:
    """How many columns a line is indented by."""
    return len(indent_of(line).expandtabs(8))


def find_indent_unit(rows: Sequence[str]) -> str:
    """Return one level of indentation of a file: a tab, or the usual step in spaces; empty if there is none."""
    if sum(row.startswith("\t") for row in rows) > sum(row.startswith(" ") for row in rows):
        return "\t"
    widths = [measure(row) for row in rows if row.strip()]
    steps = Counter(after - before for before, after in pairwise(widths) if after > before)
    step, count = max(steps.items(), key=lambda item: (item[1], -item[0]), default=(4, 1))
    return " " * step if 2 * count > steps.total() else ""


def map_indents(pairs: Pairs, new: Collection[str], file: Sequence[str]) -> dict[str, str]:
    """The file's indentation for each of the indentations ``new``; raises `Unsure`.

    ``pairs`` are the indentations of the matched lines: the model's and the file's. Where explanations disagree, or
    all these lines are at one depth, only a shift that leads to levels one unit of the ``file`` apart is right.
    """
    known = dict(pairs)
    results: list[dict[str, str]] = []
    for explanation in _explain(pairs):
        images = ((indent, explanation(indent)) for indent in new)
        result = {indent: image for indent, image in images if image is not None and _is_usual(image, known)}
        if len(result) == len(new) and result not in results:
            results.append(result)
    if len(results) > 1 or (results and len(known) == 1):
        unit = find_indent_unit(file)
        fits = [_is_on_grid({**known, **result}, known, unit) for result in results]
        results = results[:1] if fits[0] and not any(fits[1:]) else []
    if len(results) != 1:
        raise Unsure
    return results[0]


def _is_usual(indent: str, known: dict[str, str]) -> bool:
    """Whether an indentation mixes tabs and spaces only if a matched line does."""
    return not (" " in indent and "\t" in indent) or indent in known.values()


def is_explained(pairs: Pairs) -> bool:
    """Whether one explanation is right for all matched lines: then none of them is a slip."""
    return all(a == b for a, b in pairs) or any(True for _ in _explain(pairs))


def _explain(pairs: Pairs) -> Iterator[Explanation]:
    for explain in (_shift, _replace_tabs, _scale):
        yield from explain(pairs)


def _is_on_grid(levels: dict[str, str], known: dict[str, str], unit: str) -> bool:
    """Whether each level that is new is one unit away from the next one."""
    path = sorted(levels, key=lambda indent: len(indent.expandtabs(8)))
    steps = [(a, b) for a, b in pairwise(path) if a not in known or b not in known]
    return all(unit and levels[b] == levels[a] + unit for a, b in steps)


def _shift(pairs: Pairs) -> Iterator[Explanation]:
    """The file has the same characters more everywhere, or less."""
    more = {b.removesuffix(a) if b.endswith(a) else None for a, b in pairs}
    less = {a.removesuffix(b) if a.endswith(b) else None for a, b in pairs}
    if len(more) == 1 and (extra := more.pop()) is not None:
        yield lambda indent: extra + indent
    elif len(less) == 1 and (surplus := less.pop()) is not None:
        yield lambda indent: indent[len(surplus) :] if indent.startswith(surplus) else None


def _replace_tabs(pairs: Pairs) -> Iterator[Explanation]:
    """Tabs for the file's spaces, or spaces for its tabs."""

    def to_spaces(width: int) -> Explanation:
        return lambda indent: indent.expandtabs(width)

    def to_tabs(width: int) -> Explanation:
        def convert(indent: str) -> str | None:
            tabs, rest = divmod(len(indent), width)
            return None if rest or "\t" in indent else "\t" * tabs

        return convert

    for width in _TABS:
        for convert in (to_tabs(width), to_spaces(width)):
            if all(convert(a) == b for a, b in pairs):
                yield convert


def _scale(pairs: Pairs) -> Iterator[Explanation]:
    """Another unit. An indentation that only the file has may be meant as it is."""
    known = dict(pairs)

    def multiply(up: int, down: int) -> Explanation:
        def convert(indent: str) -> str | None:
            columns, rest = divmod(len(indent) * up, down)
            is_plain = len({*indent}) < 2 and (indent in known or indent not in known.values())
            image = indent[:1] * columns
            return None if rest or not is_plain or " " in (indent, image) else image

        return convert

    for up, down in _SCALES:
        convert = multiply(up, down)
        if all(convert(a) == b for a, b in pairs):
            yield convert
