"""Decode matching lines as Read would, and shorten long ones to the part around the match."""

from __future__ import annotations

import os
from typing import NamedTuple

from handrail import system_calls
from handrail.errors import BinaryFile
from handrail.search.query import FileMatches, Hit
from handrail.search.tree import SearchTree
from handrail.text.display import replace_surrogates
from handrail.text.document import SNIFFED, detect_encoding

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MARK = "…"
_EDGE = 3
"""Bytes of a character that a cut may have left."""


class Excerpt(NamedTuple):
    """A line as it is shown."""

    text: str
    cut: bool
    """Whether the line is longer than what is shown of it."""


class Excerpts:
    """The lines of files, as text."""

    def __init__(self, tree: SearchTree, chars: int) -> None:
        self._tree = tree
        self._chars = chars
        self._codecs: dict[str, str] = {}

    def excerpt(self, matches: FileMatches, hit: Hit) -> Excerpt:
        """The line, or the part of it around the match."""
        raw = hit.raw if hit.after else hit.raw.rstrip(b"\r")
        column = max(0, min(hit.column, len(raw)))
        name = self._encoding(matches.path, raw, hit)
        while 0 < column < len(raw) and raw[column] & 0xC0 == 0x80 and name == "utf-8":
            column -= 1  # across lines ripgrep counts from elsewhere: no character is parted by that
        before = raw[:column].decode(name, "replace")
        line = before + raw[column:].decode(name, "replace")
        at, chars = len(before), self._chars
        if len(line) <= chars and not hit.before and not hit.after:
            return Excerpt(replace_surrogates(line), False)
        first = max(0, at - chars // 4)
        if first + chars >= len(line) and not hit.after:
            first = max(0, len(line) - chars)
        last = first + chars
        front = _MARK if first or hit.before else ""
        behind = _MARK if last < len(line) or hit.after else ""
        return Excerpt(front + replace_surrogates(line[first:last]) + behind, bool(front or behind))

    def _encoding(self, path: str, raw: bytes, hit: Hit) -> str:
        if raw.isascii():
            return "ascii"
        try:
            raw.decode("utf-8")
            return "utf-8"
        except UnicodeDecodeError as error:
            edge = (hit.before and error.start < _EDGE) or (hit.after and error.start > len(raw) - 1 - _EDGE)
            if edge:
                return "utf-8"
        if path not in self._codecs:
            self._codecs[path] = self._detect_encoding(path)
        return self._codecs[path]

    def _detect_encoding(self, path: str) -> str:
        tree = self._tree
        inner = tree.path.inner if not path else path if tree.path.inner == "." else f"{tree.path.inner}/{path}"
        try:
            fd = system_calls.open_beneath(tree.workspace.beneath(tree.path), inner, _READ)
        except OSError:
            return "utf-8"
        try:
            return detect_encoding(os.pread(fd, SNIFFED * 32, 0), whole=False).name
        except (BinaryFile, OSError):
            return "utf-8"
        finally:
            os.close(fd)
