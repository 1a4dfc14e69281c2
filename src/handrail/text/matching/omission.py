"""Omissions: lines that stand for code which is not written out, such as `# ... rest of the function ...`.

A comment with dots that speaks of the rest is an omission wherever it is new. Any other line that reads like one is
refused only where lines of code vanish beside it, because it may be a comment, a spread argument or prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rapidfuzz import fuzz

from handrail.errors import Placeholder
from handrail.text import lines
from handrail.text.matching.budget import limit_work, spend

_MARK = r"(?:#|//|/\*|<!--|--|;|%|\*|\{/\*|\"\"\"|'''|REM\b)"
_DOTS = r"(?:\.\.\.|…)"
_END = r"(?:\*/\}?|-->|\"\"\"|''')"
_BARE = re.compile(rf"\s*{_DOTS}\s*")
_ELLIPSIS = re.compile(rf"\s*{_MARK}?\s*{_DOTS}\s*{_END}?\s*")
_SENTENCE = re.compile(rf"\s*{_MARK}?\s*[\[(]?\s*(?:{_DOTS}.*|.*{_DOTS})\s*[\])]?\s*{_END}?\s*")
_SPREAD = re.compile(r"\s*(?:\.\.\.[\w.$()\[\]{}]+|[\w.$()\[\]{}]*\w\.\.\.)[,;)\]}]*\s*")
"""One word that dots touch: an argument of code."""
_OMITTED = re.compile(r"\b(existing|rest|unchanged|remain\w*|same|omitted|previous|other|snip)\b", re.IGNORECASE)
_COMMENT = re.compile(rf"\s*(?:{_MARK}|[\[(<]).*")
_CODE = re.compile(r"\w")
_REST = re.compile(
    r"\b(?:rest|remaind\w+|remain\w*|existing|unchanged|untouched|unmodified|unaltered|omitted|elided|left out|snip\w*"
    r"|abbreviated|truncated|not shown|no (?:\w+ )?changes?|as (?:before|above|is|was)|same|identical|etc|and so on"
    r"|goes here|code here|your code|previous|original|other|continues?)\b"
    r"|其余|其他|不变|省略|现有|原有|既存|残り|同様|以下略",
    re.IGNORECASE,
)
OMISSION_WORDS = re.compile(rf"{_DOTS}|{_REST.pattern}", re.IGNORECASE)
"""A text without any of these has no omission."""
_WORDS = (
    "a above after all and any are as at be been before below body change changed changes class classes code comment"
    " content contents continue continues definition definitions etc existing field fields file for from function"
    " functions further go goes here identical implementation implementations import imports in is it its items keep"
    " keeps kept leave left like line lines logic method methods more no not note now of on only or original other"
    " others out part previous previously remain remainder remaining remains rest same section see setup shown snip"
    " snipped so statements stay stays still test tests that the their there these this those to todo truncated"
    " unaltered unchanged unmodified untouched untruncated up was were with your"
)
_PLAIN = frozenset(_WORDS.split())
"""The words that omissions consist of, apart from the name of what they leave out."""
_LETTERS = re.compile(r"[^\W\d_]+")
_MOST_NAMES = 2
_LONGEST = 100
_ALIKE = 60
_STEPS = 4
"""Steps of work for one comparison of two lines."""


def is_omission(row: str) -> bool:
    """Whether a line looks like one that stands for others: it has dots, and nothing else or words of the rest."""
    if len(row) >= _LONGEST or ("..." not in row and "…" not in row):
        return False
    if _SPREAD.fullmatch(row):
        return False
    if _ELLIPSIS.fullmatch(row):
        return True
    omitted = _SENTENCE.fullmatch(row) and _OMITTED.search(row)
    return bool(omitted) and (bool(_COMMENT.match(row)) or _names_little(row))


def get_omission_words(row: str) -> tuple[str, ...] | None:
    """The words of a line that looks like an omission, none if it has dots alone; None if it is no such line."""
    return tuple(_LETTERS.findall(row)) if is_omission(row) else None


def refuse_omissions(text: str, old: str, new: str) -> None:
    """Raise `Placeholder` where ``new`` says "rest of code" instead of writing it out, which would delete that code.

    A line that the old text or the file has too is what it is, and `...` alone may be the body of a Python function.
    """
    before, after = (lines.to_feeds(part).split("\n") for part in (old, new))
    known = {row.strip() for row in before}
    doubtful = [
        number
        for number, (above, row) in enumerate(pairwise(["", *after]))
        if _may_stand_for_others(row)
        and row.strip() not in known
        and not (_BARE.fullmatch(row) and above.rstrip().endswith(":"))
    ]
    if not doubtful:
        return
    with limit_work():
        vanished = set(_list_beside_vanished(before, after))
    known = {row.strip() for row in lines.to_feeds(text).split("\n")}
    for number in doubtful:
        row = after[number].strip()
        certain = is_omission(row) and bool(_COMMENT.match(row))
        if (certain or number in vanished) and row not in known:
            raise Placeholder(line=row)


def _may_stand_for_others(row: str) -> bool:
    if len(row) >= _LONGEST or row.isspace() or not row:
        return False
    return is_omission(row) or bool(_COMMENT.match(row) and _REST.search(row) and _names_little(row))


def _names_little(row: str) -> bool:
    """Whether a comment has hardly any words but those of an omission: one that explains code has others."""
    words = _LETTERS.findall(row.lower())
    others = [word for word in words if word not in _PLAIN and word.isascii()]
    return len(others) <= min(_MOST_NAMES, len(words) // 2)


def _list_beside_vanished(before: Sequence[str], after: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the new lines in whose place lines of code are deleted and not written in another way."""
    kept = {row.strip() for row in after}
    for code, i1, i2, j1, j2 in lines.get_opcodes(before, after):
        if code != "replace":
            continue
        added = [row.strip() for row in after[j1:j2] if not _may_stand_for_others(row)]
        gone = [
            row.strip()
            for row in before[i1:i2]
            if row.strip() not in kept and _CODE.search(row) and not _COMMENT.match(row)
        ]
        for row in gone[:200]:
            spend(_STEPS * len(added))
            if not any(fuzz.ratio(row[:200], other[:200]) >= _ALIKE for other in added):
                yield from range(j1, j2)
                break
