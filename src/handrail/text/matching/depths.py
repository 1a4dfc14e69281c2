"""Find the indentation of a replacement, where one line was quoted without its full indentation.

A model that leaves out the indentation of the line it quotes may have left it out of the further lines of the
replacement too, or have written those as they are to be in the file. Each way to read them is laid out and checked
against the lines around: a block that was opened needs a deeper line, a closing bracket a less deep one, and the file
must go on at a depth that is still open. A reading that fails is out; if two are left, nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from handrail.text.matching.budget import spend
from handrail.text.matching.indentation import Unsure, indent_of, measure

_STEPS = 4
"""Steps for a character of the new lines."""
_EDGE = 400
"""Of a long line only the beginning and the end are looked at."""
_NOTE = r"(?:\s+(?:#|//|/\*).*)?\s*$"
_TAG = r"\s*<(?!(?i:area|br|dd|dt|hr|img|input|li|link|meta|option|p|td|th|tr)\b)[\w.:-]+(?:\s[^<>]*)?(?<!/)>\s*$"
_BLOCK = r"\s*(?:(?:async|class|def|elif|else|except|finally|for|if|match|try|while|with)\b.*|case\b.*):"
_MUST_OPEN = re.compile(
    rf"(?:.*(?:[{{(\[]|\s=|(?<!-)->|\b(?i:then|do|begin))|{_BLOCK}|.*:\s*[|>][+-]?\d?){_NOTE}|{_TAG}"
)
_MAY_OPEN = re.compile(
    r"\s*(?:def|class|module|if|unless|while|until|for|case|when|else|elsif|begin|rescue|ensure|switch|try|\.\. )\b"
    r"|\s*(?:[-*+]|\d+[.)]) |\s*<[^/!](?!.*(?:</|/>))"
    rf"|.*(?:[:,+*/|&?\\-]|\|[\w, ]*\|){_NOTE}"
)
_CONTINUES = re.compile(r"\s*(?:\.\w|\?\.|&&|\|\||[?:|+] )")
_CLOSES = re.compile(r"\s*(?:[)}\]]|(?:end|fi|done|esac|else|elif|elsif|except|finally|rescue|ensure)\b)")
_ITEM = re.compile(r"\s*(?:[-*+] |-$|case\b|default\b|when\b|public:|private:|protected:)")
_KEYED_ITEM = re.compile(r"\s*- [\"']?[\w.-]+[\"']?:(?:\s|$)")
_KEYED = re.compile(r"\s*[\"']?[\w.-]+[\"']?:(?:\s|$)")
_COMMENT = re.compile(r"\s*(?:#(?:[\s#!:-]|$)|//|/\*|\*(?:\s|$|/)|--\s|;|<!--|%)")
_HERE = re.compile(r"<<[-~<]?\s*[\"'\\]?([A-Za-z_]\w*)")
_NO_QUOTE = re.compile(r"""\\.|'"'|"'"|\w'\w|\s(?:#|//)\s.*""")
"""Marks that begin and end no string: escaped, quoted themselves, inside of a word, or in a comment."""


def choose_rows(
    above: Sequence[str], ours: Sequence[str], below: Sequence[str], quoted: str, new: Sequence[str]
) -> list[str]:
    """The rows of ``new`` as they belong in the file in place of ``ours``, the first one whole; raises `Unsure`.

    ``quoted`` is the indentation that the model gave the first line: the end of that of the file.
    """
    spend(_STEPS * sum(map(len, new)))
    indent = indent_of(ours[0])
    missing = indent.removesuffix(quoted)
    first, further = new[0], [row for row in ours[1:] if row.strip()]
    if any(row.strip() == first.strip() and indent_of(row) != indent for row in further):
        raise Unsure  # has that line lost its indentation too, or does it move?
    as_file = indent_of(first) == indent
    literal = [*new] if as_file or not first.strip() else [missing + first, *new[1:]]
    filled = [row for row in new[1:] if row.strip()]
    if as_file or not filled or further:
        return literal
    if any(map(_spans_lines, new)) or _has_here_document(new):
        if not min(map(measure, filled)):
            raise Unsure
        return literal
    shifted = [missing + row if row.strip() else row for row in new]
    next_row = next((row for row in below if row.strip()), "")
    below = [next_row] if next_row and not find_misfits(above, [ours[0], next_row]) else []
    misfits = [find_misfits(above, [*rows, *below]) for rows in (literal, shifted)]
    sound = [rows for rows, odd in zip((literal, shifted), misfits, strict=True) if odd <= misfits[0] & misfits[1]]
    if not sound:
        raise Unsure
    rows = sound[0] if len(sound) == 1 or _is_literal(ours[0], next_row, new) else shifted
    if find_misfits((), rows) and not (rows is literal and any(map(indent_of, new))):
        raise Unsure  # a block that is opened has no lines, however its lines are indented
    return rows


def _is_literal(first: str, next_row: str, new: Sequence[str]) -> bool:
    """Whether to keep further lines as they are, where the shifted ones fit as well; raises `Unsure`."""
    least = min((indent_of(row) for row in new[1:] if row.strip()), key=len)
    if not least and measure(next_row) >= measure(first):
        return False
    start = next(at for at, row in enumerate(new) if at and row.strip() and indent_of(row) == least)
    if not least and new[start - 1].strip():
        raise Unsure
    return True  # indented like the file, or a part of its own, below a blank line


def find_misfits(above: Sequence[str], rows: Sequence[str]) -> set[tuple[int, int]]:
    """Which neighbours among ``rows``, below the lines ``above``, cannot be at their depths: a block that is opened has
    lines, and a less deep line is as deep as a block that is open."""
    depths = _find_open_depths(above)
    misfits = set()
    for number, other in pairwise(number for number, row in enumerate(rows) if row.strip()):
        depths = _enter(depths, rows[number])
        if not _fits(_shorten(rows[number]), _shorten(rows[other]), depths):
            misfits.add((number, other))
    return misfits


def _spans_lines(row: str) -> bool:
    """Whether a string may go on in the next line, where blanks count."""
    plain = "" if _COMMENT.match(row) else _NO_QUOTE.sub("", row)
    return any(plain.count(mark) % 2 for mark in "\"'`")


def _has_here_document(new: Sequence[str]) -> bool:
    """Whether a text such as `<<EOF` begins and ends in the lines: blanks before it, or before its last line, count."""
    rows = {row.strip(" \t;,)") for row in new}
    return any(word in rows for row in new for word in _HERE.findall(row))


def _shorten(row: str) -> str:
    return row if len(row) <= 2 * _EDGE else row[:_EDGE] + row[-_EDGE:]


def _enter(depths: Sequence[int], row: str) -> list[int]:
    """The depths of the blocks that are open behind a line."""
    here = measure(row)
    return [0, *(depth for depth in depths if 0 < depth < here), here]


def _fits(above: str, row: str, depths: Sequence[int]) -> bool:
    """Whether a line can be right below another one; ``depths`` are those of the blocks that are open behind that."""
    last, here = measure(above), measure(row)
    if here < last and here not in depths:
        return False
    if _COMMENT.match(above):
        return here <= last
    must = bool(_MUST_OPEN.match(above)) or (above.rstrip().endswith(",") and _count_open(above) > 0)
    if _CLOSES.match(row):
        return here < last or (here == last and must)
    if here > last:
        return must or bool(_MAY_OPEN.match(above)) or bool(_CONTINUES.match(row))
    if must:
        return here == last and bool(_ITEM.match(row))
    if above.endswith("\\") and here < last:
        return False
    return here < last or not (_KEYED_ITEM.match(above) and _KEYED.match(row))


def _count_open(row: str) -> int:
    """How many brackets a line opens and does not close."""
    return sum(map(row.count, "([{")) - sum(map(row.count, ")]}"))


def _find_open_depths(above: Sequence[str]) -> list[int]:
    """The depths of the blocks that the line below ``above`` is in."""
    depths: list[int] = []
    for row in reversed(above):
        if row.strip() and (not depths or measure(row) < depths[-1]):
            depths.append(measure(row))
            if not depths[-1]:
                break
    return depths[::-1]
