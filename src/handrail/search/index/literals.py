"""Find the texts that every match of a pattern contains, so that an index can tell which files may match.

The parser knows the common part of ripgrep's syntax. For anything else it gives no answer, and the index is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LEAST_BYTES = 3
"""Shorter texts have no trigram."""
_MOST_ALTERNATIVES = 64
_MOST_CLASS = 4
"""Characters of a class that are tried one by one."""
_MOST_DEPTH = 50
_FOLD_BEYOND_ASCII = "kKsS"
"""Letters that without regard to case also match a character beyond ASCII: U+212A and U+017F."""
_CLASS = re.compile(r"\[(\^?\]?(?:\\.|[^\\\[\]])*)\]", re.DOTALL)
_PLAIN_CLASS = re.compile(r"[^\\^\[\]&~-]+")
_GROUP = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>|(?!\?))")
_COUNT = re.compile(r"\{\s*(\d+)\s*(,)?\s*(\d+)?\s*\}")
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;=?@[\\]^_`{|}~ ")

Sequence = tuple[str | None, ...]
"""What a match consists of: exact characters, and None for anything."""
_ANYTHING: list[Sequence] = [(None,)]
_NOTHING: list[Sequence] = [()]


class _Unsupported(Exception):
    """A construct whose meaning for the index is not known."""


def find_literals(pattern: str, *, literal: bool, ignore_case: bool) -> list[list[bytes]] | None:
    """Return alternatives, each a list of texts that are all in a match; None: the index cannot be used.

    Texts are given without regard to the case of ASCII letters and contain no line break.
    """
    try:
        if literal:
            sequences = [tuple(_fold(char) if ignore_case else char for char in pattern)]
        else:
            sequences = _Parser(pattern, ignore_case).parse()
        alternatives = [list(dict.fromkeys(_list_texts(sequence))) for sequence in sequences]
    except (_Unsupported, UnicodeEncodeError):
        return None
    return alternatives if alternatives and all(alternatives) else None


def _fold(char: str) -> str | None:
    return None if char in _FOLD_BEYOND_ASCII or not char.isascii() else char


def _list_texts(sequence: Sequence) -> Iterator[bytes]:
    run = ""
    for char in (*sequence, None):
        if char is not None and char != "\n":
            run += char
            continue
        text = run.encode("utf-8")
        if len(text) >= LEAST_BYTES:
            yield text.lower()
        run = ""


class _Parser:
    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self._pattern = pattern
        self._ignore_case = ignore_case
        self._at = 0

    def parse(self) -> list[Sequence]:
        alternatives = self._alternatives(0)
        if self._at < len(self._pattern):
            raise _Unsupported
        return alternatives

    def _alternatives(self, depth: int) -> list[Sequence]:
        """Up to the end of the group."""
        if depth > _MOST_DEPTH:
            raise _Unsupported
        done: list[Sequence] = []
        current = _NOTHING
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            if self._pattern[self._at] == "|":
                self._at += 1
                done, current = done + current, _NOTHING
            else:
                options = self._repeat(self._atom(depth))
                current = [before + after for before in current for after in options]
            if len(done) + len(current) > _MOST_ALTERNATIVES:
                raise _Unsupported
        return done + current

    def _atom(self, depth: int) -> list[Sequence]:
        char = self._pattern[self._at]
        if char == "\\":
            return self._escape()
        if char == "[":
            return self._class()
        if char == "(":
            opening = _GROUP.match(self._pattern, self._at)
            if not opening:
                raise _Unsupported
            self._at = opening.end()
            inside = self._alternatives(depth + 1)
            if not self._pattern.startswith(")", self._at):
                raise _Unsupported
            self._at += 1
            return inside
        self._at += 1
        if char in "*+?{":
            raise _Unsupported
        return _ANYTHING if char == "." else _NOTHING if char in "^$" else self._character(char)

    def _character(self, char: str) -> list[Sequence]:
        return [(_fold(char) if self._ignore_case else char,)]

    def _escape(self) -> list[Sequence]:
        char = self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if char and char in "wWdDsS":
            return _ANYTHING
        if char and char in "bB<>" and not self._pattern.startswith("{", self._at):
            return _NOTHING
        if char in _CONTROL:
            return self._character(_CONTROL[char])
        if char in _PUNCTUATION:
            return self._character(char)
        raise _Unsupported

    def _class(self) -> list[Sequence]:
        match = _CLASS.match(self._pattern, self._at)
        if not match:
            raise _Unsupported
        self._at = match.end()
        inside = match[1]
        if len(inside) > _MOST_CLASS or not _PLAIN_CLASS.fullmatch(inside):
            return _ANYTHING
        return [sequence for char in inside for sequence in self._character(char)]

    def _repeat(self, options: list[Sequence]) -> list[Sequence]:
        """What a repetition operator, or several, leave of what comes before them."""
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            if char == "{":
                count = _COUNT.match(self._pattern, self._at)
                if not count:
                    raise _Unsupported
                self._at = count.end()
                least, once = int(count[1]), count[1] == "1" and not count[2]
            elif char in "*+?":
                self._at += 1
                least, once = int(char == "+"), False
            else:
                break
            if not least:
                options = _ANYTHING
            elif not once:
                options = [(*sequence, None) for sequence in options]
        return options
