"""Read a candidate and look for what the pattern requires, which decides about most files without ripgrep."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Literal

from handrail.search.index.layout import BOMS
from handrail.search.query import Query

_MOST_BYTES = 1 << 20
"""Larger files are left to ripgrep."""
_SPECIAL = frozenset("\\.^$*+?()[]{}|")

Verdict = Literal["no", "yes", "perhaps"]


class ContentTest:
    """Whether a file matches, as far as that follows from the texts of each alternative."""

    def __init__(self, query: Query, alternatives: Sequence[Sequence[bytes]]) -> None:
        self._alternatives = alternatives
        self._exact = _find_exact_text(query)

    @property
    def decides(self) -> bool:
        """Whether it finds out by itself which text files match."""
        return bool(self._exact)

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
        return "perhaps" if any(all(one in folded for one in texts) for texts in self._alternatives) else "no"


def _find_exact_text(query: Query) -> bytes:
    """The text that a file matches if and only if it contains it; empty if it takes more than that to tell."""
    plain = query.pattern.isprintable() and (query.literal or _SPECIAL.isdisjoint(query.pattern))
    names_only = query.mode == "files_with_matches"
    return query.pattern.encode() if plain and names_only and not query.ignore_case else b""
