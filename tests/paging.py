"""Help for the tests of paging: tiny blocks, a plain model of lines, and counted reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from handrail import Result
from handrail.files import pages


def blocks(patch: pytest.MonkeyPatch, size: int = 8, small: int = 0, counted: int = 0, endless: int = 1 << 20) -> None:
    """Blocks of a few bytes, so that everything lies across their borders."""
    patch.setattr(pages, "_BLOCK", size)
    patch.setattr(pages, "SMALL", small)
    patch.setattr(pages, "_COUNTED", counted)
    patch.setattr(pages, "_ENDLESS", endless)


def plain_lines(text: str) -> list[str]:
    """The model: one character after the other."""
    collected, line, last = [], "", ""
    for char in text:
        if char == "\n" and last == "\r":
            last = char
            continue
        last = char
        if char in "\r\n":
            collected.append(line)
            line = ""
        else:
            line += char
    return [*collected, line] if line else collected


def numbered(path: Path, count: int) -> None:
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1, count + 1)))


def counted_reads(patch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes are asked of the system from now on."""
    sizes: list[int] = []
    real = os.pread

    def pread(fd: int, size: int, offset: int) -> bytes:
        actual = real(fd, size, offset)
        sizes.append(len(actual))
        return actual

    patch.setattr(os, "pread", pread)
    return sizes


def rows_without_gutter(result: Result) -> list[str]:
    return [row.partition("\t")[2] for row in result.text.split("\n(")[0].split("\n")]
