"""Fold the output of a command: passing tests, progress and repeated lines; everything else stays to the letter.

The whole output is in the log of the command, which the answer names where lines are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

LEAST = 8
"""Fewer lines than these are shown as they are."""
_LONGEST = 500
"""Longer lines are shown as they are; this also limits the work of the patterns."""
_PASSED = re.compile(
    r"""^(?:
        \S+(?:::.*?|\.py)\s(?:PASSED|[.sx]+)\s*(?:\[\s*\d+%\])?    # pytest, with -v and without
        | [.sx]+\s*\[\s*\d+%\] | \.{10,}                          # pytest -q, unittest
        | (?:platform|cachedir:|rootdir:|configfile:|plugins:|collecting|collected)\s.*
        | .*\s\.\.\.\s(?:ok|skipped.*|ignored.*)                  # unittest -v, cargo test
        | running\s\d+\stests?
        | \s*(?:ok\s\d+|PASS|[✓✔√])\s.*                         # TAP, jest, vitest, mocha, node --test
        | \s*(?:===\sRUN|===\sPAUSE|===\sCONT|---\sPASS:)\s.*     # go test -v
    )$""",
    re.VERBOSE,
)
_TESTS = re.compile(r"={3,} test session starts ={3,}")
_PROGRESS = re.compile(r"\d%|\b\d+ ?/ ?\d+\b")
_MOVING = re.compile(r"[\d.,:#=>█▓▒░━╸╺\-|/\\ ]+|\b(?:[kKMGT]i?)?B(?:/s)?\b")
"""The parts of a progress line that change from one to the next."""


class FoldedOutput(NamedTuple):
    text: str
    left: int
    """Lines that are only in the log; repeated ones, which are counted in place, are not."""


def fold(text: str) -> FoldedOutput:
    """The output without lines that say the same again, or that a test has passed."""
    shown: list[str] = []
    left = 0
    for kind, rows in _group(text.split("\n")):
        if kind == "passed":
            left += len(rows)
        elif kind == "progress":
            shown += [rows[0], rows[-1]]
            left += len(rows) - 2
        elif kind == "again":
            shown += [rows[0], f"(repeated {len(rows)} times)"]
        else:
            shown += rows
    return FoldedOutput("\n".join(shown), left)


def _group(rows: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Runs of lines that can be folded, and the lines between them."""
    passed = [len(row) <= _LONGEST and bool(_PASSED.match(row) or _TESTS.fullmatch(row)) for row in rows]
    folds_tests = sum(passed) >= LEAST
    for key, run in groupby(zip(rows, passed, strict=True), lambda one: _key(one[0], folds_tests and one[1])):
        group = [row for row, _ in run]
        kind = key[0]
        if kind == "again":  # the same line, or the same but for its figures
            kind = "again" if len(set(group)) == 1 and group[0] else "progress" if key[2] else ""
            kind = kind if len(group) >= LEAST else ""
        yield kind, group


def _key(row: str, passed: bool) -> tuple[str, str, bool]:
    """Equal for lines beside each other that are folded together."""
    if passed:
        return "passed", "", False
    progress = len(row) <= _LONGEST and bool(_PROGRESS.search(row))
    return "again", _MOVING.sub("", row) if progress else row, progress
