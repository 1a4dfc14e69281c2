"""Marks that models copy into the lines of an edit: line numbers, the signs of a diff, signs for blanks and line ends,
and tags around the whole text. Each function removes one kind from both texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from handrail.text.matching.habits import Pairs, choose_new, undo_throughout

# The gutters of our own dialects and of others: `12<tab>`, `12→`, `12 | `, `12: `. Where the blank behind a mark may be
# the gutter's or the line's, both are tried.
_BEHIND = (r"\t", "→", r" \| ", r"\| ", r"\|", " │ ", "│ ", "│", ": ", ":", r"\. ", r"\) ", "- ", "-", "> ", ">", " ")
_GUTTERS = [re.compile(rf"^ *[Ll]?(\d+)(?:{mark}|{mark.strip(' ')}$)") for mark in _BEHIND]
# grep marks the lines that match with a colon and those around them with a dash.
_GUTTERS += [re.compile(r"^ *(\d+)[:-]"), re.compile(r"^[\w./\\][\w./\\-]*[:-](\d+)[:-]")]
_LEAD = re.compile(r"^(?:[ \t·•␣∙→⇥»]|<TAB>|<tab>|\\t)+", re.MULTILINE)
_TAB_SIGN = re.compile(r"→ *|⇥|»|<TAB>|<tab>|\\t")
_BLANK_SIGN = re.compile("[·•␣∙]")
_END_SIGN = re.compile(r"(?:\^M|\\r|␍)$", re.MULTILINE)
_TAG = re.compile(r"^\s*<([A-Za-z_]\w*)(?: [^<>]*)?>[ \t]*\n(.*?)(\n)[ \t]*</\1>\s*$", re.DOTALL)
_CDATA = re.compile(r"^\s*<!\[CDATA\[\n?(.*?)(\n?)\]\]>\s*$", re.DOTALL)
_SEARCH = re.compile(r"^<{5,} *SEARCH[^\n]*\n(.*?)(\n)={5,}\s*$", re.DOTALL)
_REPLACE = re.compile(r"^={5,}[^\n]*\n(.*?)(\n)>{5,} *REPLACE\s*$", re.DOTALL)
_WRAPPERS = ((_TAG, _TAG), (_CDATA, _CDATA), (_SEARCH, _REPLACE))


def remove_gutter(old: str, new: str) -> Pairs:
    rows, others = old.split("\n"), new.split("\n")
    pairs = []
    filled = count_filled(old)
    last = next((row for row in reversed(rows) if row.strip()), "")
    for gutter in _GUTTERS:
        if not gutter.match(last):
            continue
        numbers = [int(match[1]) for row in rows if (match := gutter.match(row))]
        # A text that is copied from its first letter on lacks the first number.
        first_bare = filled > 2 and len(numbers) == filled - 1 and not gutter.match(rows[0])
        if (
            not numbers
            or (len(numbers) < filled and not first_bare)
            or any(after - before != 1 for before, after in pairwise(numbers))
        ):
            continue
        bare, undone = ("\n".join(gutter.sub("", row) for row in text) for text in (rows, others))
        other_numbers = [int(match[1]) for row in others if (match := gutter.match(row))]
        if any(gutter.match(row) for row in bare.split("\n")) and not all(map(gutter.match, undone.split("\n"))):
            continue  # the file's own lines are numbered: which numbers are whose?
        # What the model added itself may have no number, and what it kept may have lost it.
        meant = choose_new(old, bare, new, undone) or [undone]
        if any(gutter.match(row) for row in {*rows} & {*others}):
            meant = [undone]  # a line kept with its number
        elif (
            other_numbers == [*range(numbers[0], numbers[0] + len(other_numbers))]
            and len(other_numbers) == count_filled(new)
            and len(meant) > 1
        ):
            meant = [undone]  # numbered from the same line on
        elif meant == [undone] and other_numbers != sorted(other_numbers):
            continue
        pairs += [(bare, one) for one in meant]
    return pairs


def remove_line_numbers(rows: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, str], ...]]:
    """The signed lines of a hunk without the line numbers of a listing.

    The old lines are numbered one after the other; new lines have a number each, or none has.
    """
    old = [text for sign, text in rows if sign != "+" and text.strip()]
    new = [text for sign, text in rows if sign == "+" and text.strip()]
    variants = []
    for gutter in _GUTTERS:
        numbers = [int(match[1]) for text in old if (match := gutter.match(text))]
        added = sum(bool(gutter.match(text)) for text in new)
        if len(old) < 2 or len(numbers) < len(old) or added not in (0, len(new)):
            continue
        if all(after - before == 1 for before, after in pairwise(numbers)):
            variants.append(tuple((sign, gutter.sub("", text)) for sign, text in rows))
    return variants


def count_filled(text: str) -> int:
    return sum(bool(row.strip()) for row in text.split("\n"))


def remove_diff_signs(old: str, new: str) -> Pairs:
    """The lines of a diff: `-` and context in the old text, `+` and context in the new one."""
    sides = ((old, "-"), (new, "+"))
    if not all(_has_signs(text, sign) for text, sign in sides):
        return []
    bare, undone = ("\n".join(row[1:] for row in text.split("\n")) for text, _ in sides)
    return [(bare, undone)]


def _has_signs(text: str, sign: str) -> bool:
    rows = text.split("\n")
    return all(row[:1] in ("", " ", sign) for row in rows) and any(row[:1] == sign for row in rows)


def show_blanks(old: str, new: str) -> Pairs:
    """Signs that stand for the blanks of an indentation."""

    def undo(text: str) -> str:
        return _LEAD.sub(lambda match: _BLANK_SIGN.sub(" ", _TAB_SIGN.sub("\t", match[0])), text)

    return undo_throughout(old, new, undo)


def remove_end_signs(old: str, new: str) -> Pairs:
    """Signs that stand for the carriage returns of a file."""

    def consistent(text: str) -> bool:
        rows = text.split("\n")[:-1]
        signed = sum(bool(_END_SIGN.search(row)) for row in rows)
        return signed in (0, len(rows))

    bare, undone = (_END_SIGN.sub("", text) for text in (old, new))
    return [(bare, undone)] if bare != old and consistent(old) and consistent(new) else []


def remove_wrapper(old: str, new: str) -> Pairs:
    """Tags and marks around both texts."""
    pairs = []
    for before, after in _WRAPPERS:
        match, other = before.match(old), after.match(new)
        if match and other:
            pairs.append((match[1] + match[2], other[1] + other[2]))
    return pairs
