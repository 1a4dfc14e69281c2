"""Variants of an edit whose old text is not in the file as written.

Models paste line numbers, wrap code in a fence, escape a string once too often or write entities. Each step here undoes
one such habit in `old`, and in `new` if `new` has it too; up to two habits are undone together. The lines that both
texts share show whether `new` has the habit. If they do not, both variants are listed, and the edit is refused unless
both lead to the same change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from handrail.text.matching.fold import fold


@dataclass(frozen=True, slots=True)
class Variant:
    """A pair of texts, and the names of the habits that were undone."""

    names: tuple[str, ...]
    old: str
    new: str


_Pairs = list[tuple[str, str]]

# The gutters of our own dialects and of others: `12<tab>`, `12→`, `12 | `, `12: `. Where the blank behind a mark may be
# the gutter's or the line's, both are tried.
_GUTTERS = [
    re.compile(rf"^ *(\d+)(?:{mark}|{mark.strip(' ')}$)") for mark in (r"\t", "→", r" \| ", r"\| ", r"\|", ": ", ":")
]
_FENCE = re.compile(r"^\n*((`{3,}|~{3,})[^\n`]*)\n(?:(.*?)(\n))?\2[ \t]*\n*$", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "`": "`", "\\": "\\"}
_HALF_DONE = re.compile(r"^\s*\\[nt]", re.MULTILINE)
"""A line of code hardly ever begins with an escaped line break or tab."""
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'", "#39": "'", "#x27": "'", "nbsp": "\u00a0"}
_ENTITY = re.compile(rf"&({'|'.join(_ENTITIES)});")


def list_variants(old: str, new: str) -> Iterator[list[Variant]]:
    """Yield the texts as they are, then all ways to undo one habit, then two."""
    last = [Variant((), old, new)]
    seen = {(old, new)}
    yield last
    for _ in range(2):
        deeper = []
        for variant in last:
            for name, step in _STEPS:
                for pair in step(variant.old, variant.new):
                    if pair not in seen and pair[0].strip():
                        seen.add(pair)
                        deeper.append(Variant((*variant.names, name), *pair))
        yield deeper
        last = deeper


def _choose_new(old: str, bare: str, new: str, undone: str) -> list[str]:
    """Which of ``new`` as it is and ``undone`` goes with ``bare``, which was ``old``: both if nothing tells, none if
    some lines say this and some that."""
    if undone == new:
        return [new]
    rows, others = ({row for row in text.split("\n") if row.strip()} for text in (new, undone))
    known = set(bare.split("\n"))
    untouched = not rows.isdisjoint(known - set(old.split("\n")))  # the habit would have touched such a line
    mended = not known.isdisjoint(others - rows)
    if untouched or mended:
        return [] if untouched and mended else [new] if untouched else [undone]
    return [undone, new]


def _remove_fence(old: str, new: str) -> _Pairs:
    match, other = _FENCE.match(old), _FENCE.match(new)
    if not match:
        return []
    body = (match[3] or "") + (match[4] or "")
    if new and not new.rstrip("\n").rpartition("\n")[2].strip():
        return []  # whose is the blank line at the end?
    if other and other[1] == match[1]:
        inner = (other[3] or "") + (other[4] or "")
        # A fence of the file's own inside of the pasted one: the new text may have lost the one or the other.
        lost = match[1] in body.split("\n") and match[1] not in inner.split("\n")
        return [(body, inner), (body, new)] if lost else [(body, inner)]
    if (other and other[1] not in body.split("\n")) or (not other and match[1] in new.split("\n")):
        return []
    ends = len(new) - len(new.rstrip("\n"))
    surplus = len(body) - len(body.rstrip("\n")) - ends
    if surplus not in (0, 1):
        return [(body, new)]
    # The break before the closing fence is the fence's; but a blank line there may also be one that the edit removes.
    pairs = [(body.rstrip("\n") + "\n" * max(ends, 1), new if ends or not new else new + "\n")]
    same_ending = body.rstrip("\n").rpartition("\n")[2] == new.rstrip("\n").rpartition("\n")[2]
    return pairs if same_ending or not ends or not surplus else [*pairs, (body, new)]


def _remove_gutter(old: str, new: str) -> _Pairs:
    rows, others = old.split("\n"), new.split("\n")
    pairs = []
    for gutter in _GUTTERS:
        numbers = [int(match[1]) for row in rows if (match := gutter.match(row))]
        if (
            not numbers
            or len(numbers) < _count_filled(old)
            or any(after - before != 1 for before, after in pairwise(numbers))
        ):
            continue
        bare, undone = ("\n".join(gutter.sub("", row) for row in text) for text in (rows, others))
        found = [int(match[1]) for row in others if (match := gutter.match(row))]
        if any(gutter.match(row) for row in bare.split("\n")) and not all(map(gutter.match, undone.split("\n"))):
            continue  # the file's own lines are numbered: which numbers are whose?
        # What the model added itself may have no number, and what it kept may have lost it.
        meant = _choose_new(old, bare, new, undone) or [undone]
        if any(gutter.match(row) for row in {*rows} & {*others}):
            meant = [undone]  # a line kept with its number
        elif (
            found == [*range(numbers[0], numbers[0] + len(found))]
            and len(found) == _count_filled(new)
            and len(meant) > 1
        ):
            meant = [undone]  # numbered from the same line on
        elif meant == [undone] and found != sorted(found):
            continue
        pairs += [(bare, one) for one in meant]
    return pairs


def _count_filled(text: str) -> int:
    return sum(bool(row.strip()) for row in text.split("\n"))


def _decode_entities(old: str, new: str) -> _Pairs:
    def undo(text: str) -> str:
        return _ENTITY.sub(lambda match: _ENTITIES[match[1]], text)

    def consistent(text: str) -> bool:
        rest, characters = _ENTITY.sub("", text), {_ENTITIES[name] for name in _ENTITY.findall(text)}
        return not any(char in rest for char in {"<", ">", "&", *characters})

    return _undo_habit(old, new, undo, consistent)


def _make_unescape(marks: str) -> Callable[[str, str], _Pairs]:
    """One level of backslashes too many, before these marks.

    With the backslash among them, the whole text is as JSON has it. Without, a `\\n` or `\\t` inside of a string is
    taken for the code's own.
    """
    whole = "\\" in marks
    pattern = re.compile(rf"\\([{re.escape(marks)}])")

    def undo(text: str) -> str:
        parts, last, row = [], 0, 0
        for match in pattern.finditer(text):
            row = max(row, text.rfind("\n", 0, match.start()) + 1)
            if not whole and match[1] in "nt" and _count_quotes(text[row : match.start()]) % 2:
                continue
            parts += [text[last : match.start()], _ESCAPES[match[1]]]
            last = match.end()
            row = last if match[1] == "n" else row
        return "".join([*parts, text[last:]])

    def consistent(text: str) -> bool:
        rest = pattern.sub("", text).removesuffix("\n")
        if whole:
            return not any(char in rest for char in '\n\t"')
        if marks in ("n", "t", "nt") and '\\"' in text and not _count_quotes(text):
            return False  # then quotes are escaped too
        return not any(_ESCAPES[mark] in rest for mark in set(pattern.findall(text)))

    return lambda old, new: _undo_habit(old, new, undo, consistent)


def _undo_habit(old: str, new: str, undo: Callable[[str], str], consistent: Callable[[str], bool]) -> _Pairs:
    """The texts without a habit that, where a text has it, it has throughout."""
    bare, undone = undo(old), undo(new)
    if bare == old or not consistent(old):
        return []
    meant = _choose_new(old, bare, new, undone)
    if meant == [new] and _HALF_DONE.search(new):
        return []
    if not consistent(new):
        return [(bare, new)] if meant == [new] else []
    if meant == [undone] and "\\\\" not in old and _has_torn_string(undone) and not _has_torn_string(bare):
        return []  # this was an escape in a string of the code's own
    if len(meant) > 1 and undo(bare) == bare:
        meant = [undone]  # nothing of this kind is the file's own
    return [(bare, one) for one in meant]


def _has_torn_string(text: str) -> bool:
    """Whether a string begins in one line and ends in another."""
    return any(_count_quotes(row.replace('"""', "")) % 2 for row in text.split("\n"))


def _count_quotes(text: str) -> int:
    text = fold(text)
    return text.count('"') - text.count('\\"')


_STEPS: tuple[tuple[str, Callable[[str, str], _Pairs]], ...] = (
    ("code fence", _remove_fence),
    ("line numbers", _remove_gutter),
    ("entities", _decode_entities),
    ("escapes", _make_unescape("ntr\"'`\\")),
    ("escaped line breaks", _make_unescape("n")),
    ("escaped tabs", _make_unescape("t")),
    ("escaped quotes", _make_unescape("\"'`")),
    ("escaped line breaks and tabs", _make_unescape("nt")),
)
