"""The lines of a unified diff with their numbers, for whoever shows or counts them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from handrail.frozen import frozen

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@frozen
class PrintedLine:
    """One line of a diff."""

    kind: str
    """`+`, `-` or a space; `@` for the head of a hunk, `f` for the name of a file, empty for a remark."""
    text: str
    number: int = 0
    path: str = ""


def count_changes(diff: str) -> tuple[int, int]:
    """How many lines a unified diff adds and removes."""
    kinds = [line.kind for line in parse_diff(diff)]
    return kinds.count("+"), kinds.count("-")


def parse_diff(diff: str) -> Iterator[PrintedLine]:
    """The lines of a unified diff, with the numbers that they have in the new file, or in the old one if removed."""
    rows = diff.removesuffix("\n").split("\n") if diff else []
    path, old, new, at = "", 0, 0, 0
    while at < len(rows):
        row = rows[at]
        head = rows[at : at + 3]
        if len(head) == 3 and all(map(str.startswith, head, ("--- ", "+++ ", "@@ "))):
            path = head[0 if head[1].startswith("+++ /dev/null") else 1][4:].split("\t")[0]
            yield PrintedLine("f", path, path=path)
            at += 2
            continue
        if match := _HUNK.match(row):
            old, new = int(match[1]), int(match[2])
            yield PrintedLine("@", row, path=path)
        elif not path or row[:1] not in ("+", "-", " "):
            yield PrintedLine("", row, path=path)
        elif row[0] == "-":
            yield PrintedLine("-", row[1:], old, path)
            old += 1
        else:
            yield PrintedLine(row[0], row[1:], new, path)
            new += 1
            old += row[0] == " "
        at += 1
