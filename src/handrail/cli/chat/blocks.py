"""Split a stream of Markdown into blocks (paragraphs, lists, code fences), so that finished blocks can be rendered.

A block ends at an empty line or where its fence closes. Nothing is lost: the blocks put together are the text.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


class Blocks:
    """Takes pieces of text and gives back blocks that are finished."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._rest = ""
        self._fence = ""

    @property
    def open(self) -> str:
        """The text of the unfinished block."""
        return "".join(self._lines) + self._rest

    def feed(self, text: str) -> list[str]:
        finished: list[str] = []
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            self._lines.append(line + "\n")
            if self._ends(line):
                finished.append("".join(self._lines))
                self._lines.clear()
        return [block for block in finished if block.strip()]

    def finish(self) -> str:
        """The block that is not finished, as far as it came."""
        left = self.open
        self._lines.clear()
        self._rest = self._fence = ""
        return left

    def _ends(self, line: str) -> bool:
        fence = _FENCE.match(line)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not fence[2].strip():
                self._fence = ""
                return True
            return False
        if fence and not (fence[1][0] == "`" and "`" in fence[2]):
            self._fence = fence[1]
            return False
        return not line.strip()
