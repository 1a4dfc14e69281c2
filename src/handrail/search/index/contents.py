"""Read a candidate and look for what the pattern requires, which decides about most files without ripgrep."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from handrail.search.index.layout import BOMS
from handrail.search.query import Query

_MOST_BYTES = 1 << 20
"""Larger files are left to ripgrep."""
_MOST_STEPS = 1 << 20
"""What matching the lines of a file may take, at worst; more is left to ripgrep, which never tries twice."""
_MOST_REPEATS = 3
_MOST_CHOICES = 8
_SPECIAL = frozenset("\\.^$*+?()[]{}|")
_CLASS = r"\[\^?(?:\\[wds]|[A-Za-z0-9_]-[A-Za-z0-9_]|[A-Za-z0-9_ ,;:./@#%!=<>\"'])+\]"
_ONE = rf"(?:[^\\.^$*+?()\[\]{{}}|\n]|\\[.^$*+?()\[\]{{}}|/\\-]|\\[wdsWDS]|\.|{_CLASS})"
_SHARED = re.compile(
    rf"(?:{_ONE}(?:(?P<repeat>[*+]|\{{\d{{1,3}},\d{{0,3}}\}})|\{{\d{{1,3}}\}}|(?P<option>\?))?\??(?![*+?{{])"
    r"|\\b(?!\{)|[\^$]|\((?:\?:)?(?!\?)|\)\??(?![*+?{])|\|)"
)
"""A piece of a pattern that means the same to ripgrep and to Python in a line of ASCII characters."""

Verdict = Literal["no", "yes", "perhaps"]


class _LineTest(NamedTuple):
    """A pattern for single lines of ASCII characters, and what it may take to match one."""

    expression: re.Pattern[bytes]
    repeats: int
    choices: int

    def match(self, lines: Iterator[bytes]) -> Verdict:
        """Whether one of these lines matches."""
        left = _MOST_STEPS
        for line in lines:
            left -= len(line) ** (1 + self.repeats) << self.choices
            if left < 0:
                return "perhaps"
            if self.expression.search(line):
                return "yes"
        return "no"


class ContentTest:
    """Whether a file matches, as far as that follows from the texts of each alternative."""

    def __init__(self, query: Query, alternatives: Sequence[Sequence[bytes]]) -> None:
        self._alternatives = alternatives
        self._exact = _find_exact_text(query)
        self._lines = None if self._exact else _compile_for_lines(query)

    def judge(self, fd: int, status: os.stat_result) -> Verdict:
        """The verdict on an open file; raises `OSError`."""
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return "perhaps"
        text = os.pread(fd, status.st_size + 1, 0)
        if len(text) != status.st_size or b"\0" in text or text.startswith(BOMS):
            return "perhaps"
        if self._exact:
            return "yes" if self._exact in text else "no"
        folded = text.lower()
        if not any(all(one in folded for one in texts) for texts in self._alternatives):
            return "no"
        if self._lines is None or not text.isascii() or b"\r" in text:
            return "perhaps"
        return self._lines.match(self._list_lines(text, folded))

    def _list_lines(self, text: bytes, folded: bytes) -> Iterator[bytes]:
        """The lines with all texts of an alternative."""
        for texts in self._alternatives:
            longest = max(texts, key=len)
            at = folded.find(longest)
            while at >= 0:
                start, end = folded.rfind(b"\n", 0, at) + 1, folded.find(b"\n", at)
                end = len(text) if end < 0 else end
                if all(folded.find(one, start, end) >= 0 for one in texts):
                    yield text[start:end]
                at = folded.find(longest, end)


def _find_exact_text(query: Query) -> bytes:
    """The text that a file matches if and only if it contains it; empty if it takes more than that to tell."""
    plain = query.pattern.isprintable() and (query.literal or _SPECIAL.isdisjoint(query.pattern))
    names_only = query.mode == "files_with_matches"
    return query.pattern.encode() if plain and names_only and not query.ignore_case else b""


def _compile_for_lines(query: Query) -> _LineTest | None:
    """The pattern for lines of ASCII characters; None if ripgrep may understand it in another way, or is faster."""
    pattern = query.pattern
    if query.mode != "files_with_matches" or query.multiline or not (pattern.isascii() and pattern.isprintable()):
        return None
    flags = re.IGNORECASE if query.ignore_case else re.NOFLAG
    if query.literal:
        return _LineTest(re.compile(re.escape(pattern).encode(), flags), 0, 0)
    at = repeats = choices = 0
    while at < len(pattern):
        piece = _SHARED.match(pattern, at)
        if not piece:
            return None
        at = piece.end()
        repeats += piece["repeat"] is not None
        choices += piece["option"] is not None or piece[0] in ("|", ")?")
    if repeats > _MOST_REPEATS or choices > _MOST_CHOICES:
        return None
    try:
        return _LineTest(re.compile(pattern.encode(), flags), repeats, choices)
    except re.error:
        return None
