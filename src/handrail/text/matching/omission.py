"""Omissions: lines that stand for code which is not written out, such as `# ... rest of the function ...`."""

from __future__ import annotations

import re
from itertools import pairwise

from handrail.errors import Placeholder
from handrail.text import lines

_MARK = r"(?:#|//|/\*|<!--|--|;|%|\*|\{/\*)"
_DOTS = r"(?:\.\.\.|…)"
_END = r"(?:\*/\}?|-->)"
_BARE = re.compile(rf"\s*{_DOTS}\s*")
_ELLIPSIS = re.compile(rf"\s*{_MARK}?\s*{_DOTS}\s*{_END}?\s*")
_SENTENCE = re.compile(rf"\s*{_MARK}?\s*[\[(]?\s*(?:{_DOTS}.*|.*{_DOTS})\s*[\])]?\s*{_END}?\s*")
_OMITTED = re.compile(r"\b(existing|rest|unchanged|remain\w*|same|omitted|previous|other|snip)\b", re.IGNORECASE)
_LONGEST = 100


def is_omission(row: str) -> bool:
    """Whether a line looks like one that stands for others."""
    if len(row) >= _LONGEST or ("..." not in row and "…" not in row):
        return False
    return bool(_ELLIPSIS.fullmatch(row)) or bool(_SENTENCE.fullmatch(row) and _OMITTED.search(row))


def refuse_omissions(text: str, old: str, new: str) -> None:
    """A new text that says "... rest of code ..." would delete what it stands for.

    A line that the old text or the file has too is what it is, and `...` alone may be the body of a Python function.
    """
    known = {row.strip() for row in lines.to_feeds(old).split("\n")}
    for before, row in pairwise(["", *lines.to_feeds(new).split("\n")]):
        if not is_omission(row) or row.strip() in known or (_BARE.fullmatch(row) and before.rstrip().endswith(":")):
            continue
        if row.strip() not in {body.strip() for body in lines.to_feeds(text).split("\n")}:
            raise Placeholder(line=row.strip())
