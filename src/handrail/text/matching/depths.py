"""Find the indentation of a replacement, where one line was quoted without its full indentation.

A model that leaves out the indentation of the line it quotes may have left it out of the further lines of the
replacement too, or have written those as they are to be in the file. Each way to read them is laid out and checked
against the lines around: a block that was opened needs a deeper line, a closing bracket a less deep one, and the file
must go on at a depth that is still open. A reading that fails is out; if two are left, nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from handrail.text.matching.indentation import Unsure, indent_of

_MOST_ROWS = 20_000
"""More new lines than these are not judged."""
_EDGE = 400
"""Of a long line only the beginning and the end are looked at."""
_NOTE = r"(?:\s+(?:#|//|/\*).*)?\s*$"
_TAG = r"\s*<(?!(?:area|br|dd|dt|hr|img|input|li|link|meta|option|p|td|th|tr)\b)[\w.:-]+(?:\s[^<>]*)?(?<!/)>\s*$"
_BLOCK = r"\s*(?:(?:async|class|def|elif|else|except|finally|for|if|match|try|while|with)\b.*|case\b.*):"
_MUST_OPEN = re.compile(
    rf"(?:.*(?:[{{(\[]|\s=|(?<!-)->|\b(?:then|do|begin))|{_BLOCK}|.*:\s*[|>][+-]?\d?){_NOTE}|{_TAG}", re.IGNORECASE
)
_MAY_OPEN = re.compile(
    r"\s*(?:def|class|module|if|unless|while|until|for|case|when|else|elsif|begin|rescue|ensure|switch|try|\.\. )\b"
    r"|\s*(?:[-*+]|\d+[.)]) |\s*<[^/!](?!.*(?:</|/>))"
    rf"|.*(?:[:,+*/|&?\\-]|\|[\w, ]*\|){_NOTE}"
)
_CONTINUES = re.compile(r"\s*(?:\.\w|\?\.|&&|\|\||[?:|+] )")
_MARK = re.compile(r"\s*(?:@\w|#\[)")
_CLOSES = re.compile(r"\s*(?:[)}\]]|(?:end|fi|done|esac|else|elif|elsif|except|finally|rescue|ensure)\b)")
_ITEM = re.compile(r"\s*(?:[-*+] |-$|case\b|default\b|when\b|public:|private:|protected:)")
_KEYED_ITEM = re.compile(r"\s*- [\"']?[\w.-]+[\"']?:(?:\s|$)")
_KEYED = re.compile(r"\s*[\"']?[\w.-]+[\"']?:(?:\s|$)")
_COMMENT = re.compile(r"\s*(?:#(?:[\s#!:-]|$)|//|/\*|\*(?:\s|$|/)|--\s|;|<!--|%)")
_FREE = re.compile(r"#\s*(?:if|ifdef|ifndef|else|elif|endif|define|include|undef|pragma)\b|\{[{%]|=begin|=end|<<")
_HERE = re.compile(r"<<[-~<]?\s*[\"'\\]?([A-Za-z_]\w*)")
_NO_QUOTE = re.compile(r"""\\.|'"'|"'"|\w'\w""")
"""Marks that begin and end no string: escaped, quoted themselves, or inside of a word."""
_TOP = re.compile(
    r"(?:async +|export +|default +|pub(?:\([\w ]+\))? +|public +|private +|static +|abstract +|final +)*"
    r"(def|class|function|func|fn|impl|trait|struct|enum|interface|module|namespace|package|import|from|use|mod|type"
    r"|describe|record)\b|(@)\w|(#\[)|(\[)|(#+) |(-) "
)
_PART = re.compile(
    r"(?:async +|export +|pub\b.*)*(?:def|class|function|func|fn|impl|trait|struct|enum|interface|module|namespace)\b"
    r"|@\w|#\[|##+ "
)
_KEY = re.compile(r"[\"']?[\w.$/-]+[\"']?:\s*$")


@dataclass(frozen=True, slots=True)
class Around:
    """The line that was quoted without its full indentation, and the lines near it in the file."""

    above: Sequence[str]
    row: str
    below: Sequence[str]

    @property
    def indent(self) -> str:
        return indent_of(self.row)


def choose_rows(around: Around, quoted: str, new: Sequence[str]) -> list[str]:
    """The rows of ``new`` as they belong in the file, the first one whole; raises `Unsure`.

    ``quoted`` is the indentation that the model gave the line: the end of that of the file.
    """
    missing = around.indent[: len(around.indent) - len(quoted)]
    if len(new) > _MOST_ROWS:
        raise Unsure
    if quoted and indent_of(new[0]) not in (quoted, around.indent):
        raise Unsure
    as_file = bool(quoted) and indent_of(new[0]) == around.indent
    literal = list(new) if as_file else [missing + new[0], *new[1:]]
    filled = [row for row in new[1:] if row.strip()]
    if not filled:
        return literal
    shifted = [missing + row if row.strip() else row for row in new]
    least = min(map(indent_of, filled), key=len)
    readings = [literal] if as_file else [literal, shifted]
    if not quoted and not least and _keeps_depth(around, filled):
        readings = [shifted]
    if any(map(_is_free, new)) or _has_here_document(new):
        if not least or quoted:
            raise Unsure
        return literal
    sound = [rows for rows in readings if _is_sound(around, rows)]
    if literal in sound and (len(sound) == 1 or _is_literal(around, quoted, new[0], filled)):
        return literal
    if shifted not in sound or any(map(_is_mixed, shifted)) or (len(sound) > 1 and (not quoted or least != quoted)):
        raise Unsure
    return shifted


def are_plausible(above: Sequence[str], rows: Sequence[str], fresh: Collection[int]) -> bool:
    """Whether the ``fresh`` ones of ``rows``, which are below the lines ``above``, are at depths that their neighbours
    allow: a block that is opened has lines, and a less deep line is as deep as a block that is open."""
    depths = _find_open_depths(above)
    filled = [number for number, row in enumerate(rows) if row.strip()]
    for number, other in pairwise(filled):
        depths = _enter(depths, rows[number])
        if (number in fresh or other in fresh) and not _fits(_shorten(rows[number]), _shorten(rows[other]), depths):
            return False
    return True


def _is_literal(around: Around, quoted: str, first: str, further: Sequence[str]) -> bool:
    """Whether further lines that might be shifted as well are rather where they belong."""
    least = min(map(indent_of, further), key=len)
    if not least:
        return not quoted and _is_top(around, further)
    changed = first.strip() != around.row.strip()
    if least == around.indent:
        return not (quoted and changed and _MAY_OPEN.match(first))
    holds = (changed and _MAY_OPEN.match(first)) or (_KEYED_ITEM.match(first) and _KEYED.match(further[0]))
    return not quoted and not holds


def _keeps_depth(around: Around, further: Sequence[str]) -> bool:
    """Whether lines without indentation cannot be meant so: the file goes on inside the block, and no part of a file
    starts; or they are items of a list, and the file has none without indentation."""
    below = next((row for row in around.below if row.strip()), "")
    if _measure(below) >= _measure(around.row):
        return not any(map(_PART.match, further))
    return (
        {_classify(row) for row in (around.row.strip(), *further)} == {"-"}
        and not indent_of(below)
        and not any(_classify(row) == "-" for row in _list_near(around))
    )


def _is_mixed(row: str) -> bool:
    return len(set(indent_of(row))) > 1


def _is_free(row: str) -> bool:
    """Whether a line may be at any depth: an instruction of a preprocessor, or text inside of a string."""
    if _COMMENT.match(row):
        return False
    if _FREE.match(row) or any(row.count(mark) % 2 for mark in ('"""', "'''", "`")):
        return True
    plain = _NO_QUOTE.sub("", row).rstrip(" \t;)")
    return plain.count('"') % 2 == 1 or (plain.endswith("'") and plain.count("'") % 2 == 1)


def _has_here_document(new: Sequence[str]) -> bool:
    """Whether a text such as `<<EOF` begins and ends in the lines: blanks before it, or before its last line, count."""
    rows = {row.strip(" \t;,)") for row in new}
    return any(word in rows for row in new for word in _HERE.findall(row))


def _is_sound(around: Around, rows: Sequence[str]) -> bool:
    """Whether every line is at a depth that its neighbours allow.

    What the new lines are to each other is the same in every reading, and says nothing.
    """
    quoted, first = _shorten(around.row), _shorten(rows[0])
    filled = [_shorten(row) for row in rows[1:] if row.strip()]
    further = [row for row in filled if not _COMMENT.match(row)] or filled
    if _measure(filled[-1]) > _measure(further[-1]):
        further[-1] += ";"  # the comment is all that it holds
    above = next((_shorten(row) for row in reversed(around.above) if row.strip() and not _COMMENT.match(row)), "")
    below = next((_shorten(row) for row in around.below if row.strip() and not _COMMENT.match(row)), None)
    depths = _find_open_depths(around.above)
    if not first.strip():
        first = above
    elif indent_of(first) != around.indent and above and not _fits(above, first, depths):
        return False
    if below is not None and first.strip() == quoted.strip():
        if _measure(below) > _measure(quoted) >= _measure(further[0]):
            return False  # it has lines of its own, which the new ones would part from it
        if _measure(below) < _measure(quoted) or (_measure(below) == _measure(quoted) and not _CLOSES.match(below)):
            first += ";"  # it opens nothing, however it ends
    depths = _enter(depths, first)
    if not _fits(first, further[0], depths):
        return False
    for before, row in pairwise(further):
        depths = _enter(depths, before)
        if _measure(row) < _measure(before) and _measure(row) not in depths:
            return False
    depths = _enter(depths, further[-1])
    goes_on = below is None or not _fits(quoted, below, _enter(_find_open_depths(around.above), quoted))
    return goes_on or _fits(further[-1], below or "", depths)


def _shorten(row: str) -> str:
    return row if len(row) <= 2 * _EDGE else row[:_EDGE] + row[-_EDGE:]


def _enter(depths: Sequence[int], row: str) -> list[int]:
    """The depths of the blocks that are open behind a line."""
    here = _measure(row)
    return [0, *(depth for depth in depths if 0 < depth < here), here]


def _fits(above: str, row: str, depths: Sequence[int]) -> bool:
    """Whether a line can be right below another one; ``depths`` are those of the blocks that are open behind that."""
    last, here = _measure(above), _measure(row)
    if here < last and here not in depths:
        return False
    if _COMMENT.match(above):
        return here <= last
    must = bool(_MUST_OPEN.match(above)) or (above.rstrip().endswith(",") and _count_open(above) > 0)
    if _CLOSES.match(row):
        return here < last or (here == last and must)
    if _MARK.match(above) and not must:
        return here == last
    if here > last:
        return must or bool(_MAY_OPEN.match(above)) or bool(_CONTINUES.match(row))
    if must:
        return here == last and bool(_ITEM.match(row))
    if above.endswith("\\") and here < last:
        return False
    if _CONTINUES.match(row) and not _CONTINUES.match(above) and not _CLOSES.match(above):
        return False
    return here < last or not (_KEYED_ITEM.match(above) and _KEYED.match(row))


def _count_open(row: str) -> int:
    """How many brackets a line opens and does not close."""
    return sum(map(row.count, "([{")) - sum(map(row.count, ")]}"))


def _find_open_depths(above: Sequence[str]) -> list[int]:
    """The depths of the blocks that the line below ``above`` is in."""
    depths: list[int] = []
    for row in reversed(above):
        if row.strip() and (not depths or _measure(row) < depths[-1]):
            depths.append(_measure(row))
            if not depths[-1]:
                break
    return depths[::-1]


def _is_top(around: Around, further: Sequence[str]) -> bool:
    """Whether a line without indentation starts what the file has there, and not beside the quoted line."""
    row = next((row for row in further if not indent_of(row) and not _COMMENT.match(row)), "")
    below = next((row for row in around.below if row.strip()), "")
    kind = _classify(row)
    if not kind or indent_of(below) or kind not in map(_classify, _list_near(around)):
        return False
    beside = [*_list_beside(reversed(around.above), around), around.row, *_list_beside(around.below, around)]
    if kind in (_classify(other.strip()) for other in beside):
        return False
    return kind != "key:" or not any(other[:1].isspace() and other.strip() == row for other in _list_near(around))


def _list_near(around: Around) -> Iterator[str]:
    yield from around.above
    yield from around.below


def _list_beside(rows: Iterable[str], around: Around) -> Iterator[str]:
    """The lines of the block of the quoted line, as deep as it is."""
    for row in rows:
        if row.strip() and _measure(row) < _measure(around.row):
            return
        if indent_of(row) == around.indent:
            yield row


def _classify(row: str) -> str:
    """What a line starts, if that is a part of a file and not a statement."""
    match = _TOP.match(row)
    if match:
        return next(part for part in match.groups() if part)
    return "key:" if _KEY.match(row) else ""


def _measure(row: str) -> int:
    return len(indent_of(row).expandtabs(8))
