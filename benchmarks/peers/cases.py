"""Imperfect edits as models send them: a file, an old and a new text, and the file that is meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

FUNCTIONS = 8
"""How often each kind of mistake is made, each time at another function."""


class Case(NamedTuple):
    """One edit of `app.py`."""

    kind: str
    before: bytes
    old: str
    new: str
    wanted: bytes | None
    """The file afterwards; None if the edit must be refused."""


def build_text() -> str:
    """A file of functions, all different."""
    parts = [
        f'def step_{number}(items):\n    """Step {number}: keep what counts."""\n    total = {number}\n'
        f"    for item in items:\n        if item > {number * 7}:\n            total += item * {number + 2}\n"
        f'            print("step {number}", total)\n    return total\n'
        for number in range(40)
    ]
    return "import sys\n\n\n" + "\n\n".join(parts)


def list_cases() -> Iterator[Case]:
    """Every kind of mistake, at several functions."""
    text = build_text()
    for number in range(2, 2 + FUNCTIONS * 4, 4):
        yield from _list_cases_at(text, number)


def _list_cases_at(text: str, number: int) -> Iterator[Case]:
    rows = [
        f"        if item > {number * 7}:",
        f"            total += item * {number + 2}",
        f'            print("step {number}", total)',
    ]
    old = "\n".join(rows)
    new = old.replace("total +=", "total -=")
    wanted = text.replace(old, new).encode()
    before = text.encode()

    def spoil(kind: str, sent: str, meant: str) -> Case:
        return Case(kind, before, sent, meant, wanted)

    yield spoil("by the letter", old, new)
    yield spoil("blanks at line ends", old.replace(":\n", ":  \n"), new)
    yield spoil("another indentation", *(_map_rows(one, lambda row: row[4:]) for one in (old, new)))
    yield spoil("no indentation", *(_map_rows(one, str.strip) for one in (old, new)))
    yield spoil("tabs for blanks", *(one.replace("    ", "\t") for one in (old, new)))
    yield spoil("curly quotes", *(one.replace('"step', "“step").replace('",', "”,") for one in (old, new)))
    yield spoil("line numbers", *(_number(one) for one in (old, new)))
    yield spoil("escaped line breaks", *(one.replace("\n", "\\n") for one in (old, new)))
    crlf = text.replace("\n", "\r\n").encode()
    yield Case("CRLF in the file", crlf, old, new, wanted.replace(b"\n", b"\r\n"))
    yield Case("another number: refuse", before, old.replace(f"* {number + 2}", f"* {number + 3}"), new, None)
    yield Case("fits many places: refuse", before, "    for item in items:", "    for item in sorted(items):", None)
    omitted = f"def step_{number}(items):\n    # ... rest of the function unchanged ...\n"
    whole = text[text.index(f"def step_{number}(") : text.index(f"def step_{number + 1}(")]
    yield Case("code replaced by a comment: refuse", before, whole, omitted, None)


def _map_rows(text: str, change: object) -> str:
    assert callable(change)
    return "\n".join(change(row) for row in text.split("\n"))


def _number(text: str) -> str:
    return "\n".join(f"{number:6}\t{row}" for number, row in enumerate(text.split("\n"), 10))
