"""Omissions: lines that stand for code which is not written out, such as `# ... rest of the function ...`.

A line is one if it says nothing but that: "rest of the code" is, "handle the rest of the queue" is not. A comment that
begins with dots is an omission wherever it is new. Any other is refused only where lines of code vanish beside it,
because it may be a comment, a spread argument or prose.
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
_NOUN_WORDS = (
    "body class classes code content contents definition definitions field fields file function functions"
    " implementation implementations import imports items line lines logic method methods part section setup"
    " statements test tests"
)
_NOUNS = frozenset(_NOUN_WORDS.split())
"""What omissions leave out."""
_WORDS = (
    "a above after all and any are as at be been before below change changed changes comment continue continues etc"
    " existing for from further go goes here identical in is it its keep keeps kept leave left like more no not note"
    " now of on only or original other others out previous previously remain remainder remaining remains rest same see"
    " shown snip snipped so stay stays still that the their there these this those to todo truncated unaltered"
    " unchanged unmodified untouched untruncated up was were with your omitted elided abbreviated"
)
_PLAIN = _NOUNS | frozenset(_WORDS.split())
"""The words that omissions consist of, apart from the name of what they leave out."""
_BEFORE_NAMES = frozenset(("of", "in", "for", "from", "the", "this", "your"))
_INSIDE = re.compile(r"[\w\s,.;:…'’`()/&-]*")
"""An omission has no signs of code, except the brackets of a function's name."""
_CJK = re.compile(
    r"(?:其余|其他|其它|剩余|剩下|现有|原有|原来|之前|以上|以下|上面|下面|此处|这里|代码|部分|内容|函数|方法|逻辑|实现"
    r"|保持|不变|未变|省略|同上|没有|变化|更改|修改|一样|相同|继续|既存|残り|コード|そのまま|同様|変更|なし|です|します"
    r"|[的略同无和与已被のはをも])+"
)
_PRECEDED = re.compile(rf"\s*(?:#|//|/\*|<!--|\{{/\*|REM\b|(?:--|;|%)\s)\s*[\[(<]?\s*(?P<dots>{_DOTS})?")
_BRACKETED = re.compile(r"\s*(?:\[([^\[\]]*)\]|\(([^()]*)\)|<([^<>/]*\w\s+\w[^<>/]*)>)\s*")
_LETTERS = re.compile(r"[^\W\d_]+")
_MOST_NAMES = 2
_PROSE = (".md", ".markdown", ".rst", ".adoc", ".asciidoc", ".org", ".tex", ".txt")
_NO_PROSE = re.compile(r"(?:requirements|constraints|cmakelists)[^/]*\.txt")
"""Lists for programs, in spite of their name."""
_LONGEST = 100
_ALIKE = 60
_STEPS = 4
"""Steps of work for one comparison of two lines."""


def is_omission(row: str) -> bool:
    """Whether a line has dots and is an omission, as far as its words tell."""
    return ("..." in row or "…" in row) and _may_stand_for_others(row)


def is_prose_file(path: str) -> bool:
    """Whether a file holds text for people, where such a line is a sentence like any other."""
    name = path.rpartition("/")[2].lower()
    return name.endswith(_PROSE) and not _NO_PROSE.fullmatch(name)


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
        comment = _PRECEDED.match(row)
        if ((comment and comment["dots"]) or number in vanished) and row not in known:
            raise Placeholder(line=row)


def _may_stand_for_others(row: str) -> bool:
    """Whether a line is an omission and nothing else, as far as its words tell."""
    if len(row) >= _LONGEST or row.isspace() or not row or _SPREAD.fullmatch(row):
        return False
    if _ELLIPSIS.fullmatch(row):
        return True
    comment, bracketed = _PRECEDED.match(row), _BRACKETED.fullmatch(row)
    if not (comment or bracketed or _SENTENCE.fullmatch(row)) or not _REST.search(row):
        return False
    body = row[comment.end() :] if comment else next(filter(None, bracketed.groups()), "") if bracketed else row
    body = re.sub(rf"{_DOTS}|{_END}", " ", body).strip(" \t-=~_[]()<>")
    return bool(_INSIDE.fullmatch(body)) and _says_nothing_else(body)


def _says_nothing_else(text: str) -> bool:
    """Whether a text has no words but those of an omission, and the name of what is left out."""
    words = [word for word in _LETTERS.findall(text.lower()) if not _CJK.fullmatch(word)]
    others = [number for number, word in enumerate(words) if word not in _PLAIN]
    if len(others) > _MOST_NAMES or 0 in others:
        return False
    names = [*words, ""]
    return all(
        words[number - 1] in _BEFORE_NAMES or number - 1 in others or names[number + 1] in _NOUNS for number in others
    )


def _list_beside_vanished(before: Sequence[str], after: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the new lines in whose place lines of code are deleted and not written in another way."""
    kept = {row.strip() for row in after}
    for _, i1, i2, j1, j2 in lines.get_opcodes(before, after):
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
