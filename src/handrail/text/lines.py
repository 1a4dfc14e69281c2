"""The one definition of a line.

A line ends at ``\\n``, ``\\r\\n`` or a lone ``\\r``. Nothing else ends one: form feeds, U+0085 and U+2028 are ordinary
characters, so ``str.splitlines`` must not be used anywhere in this program.
"""

from __future__ import annotations

import re
from typing import AnyStr

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
BYTE_END = re.compile(rb"\r\n|\n|\r")
ANY_END = re.compile(r"\r\n|\n|\r")


def split(text: str) -> list[str]:
    """The lines of ``text``, each with its own ending; ``"".join(split(t)) == t``."""
    if "\r" not in text:
        lines = text.split("\n")
        last = lines.pop()
        whole = [line + "\n" for line in lines]
        return [*whole, last] if last else whole
    return _LINE.findall(text)


def body(line: str) -> str:
    """A line without its ending."""
    return line[: len(line) - len(ending(line))]


def ending(line: str) -> str:
    """The ending of a line: ``"\\n"``, ``"\\r\\n"``, ``"\\r"``, or ``""`` for an unterminated last line."""
    if line.endswith("\r\n"):
        return "\r\n"
    return line[-1] if line.endswith(("\n", "\r")) else ""


def count_ends(text: AnyStr) -> int:
    """How many line endings ``text`` holds. Fast where there is no carriage return, which is nearly always."""
    if isinstance(text, str):
        feeds = text.count("\n")
        return feeds if "\r" not in text else feeds + text.count("\r") - text.count("\r\n")
    feeds = text.count(b"\n")
    return feeds if b"\r" not in text else feeds + text.count(b"\r") - text.count(b"\r\n")


def count(text: str) -> int:
    """How many lines ``text`` has; text after the last ending is a line too."""
    return count_ends(text) + (1 if text and text[-1] not in "\r\n" else 0)


def after_end(data: bytes, number: int) -> int:
    """The position just behind the ``number``-th line ending of ``data`` (1-based); -1 if there are fewer."""
    if number <= 0:
        return 0
    if b"\r" in data:
        for seen, match in enumerate(BYTE_END.finditer(data), start=1):
            if seen == number:
                return match.end()
        return -1
    low, high = 0, len(data)
    left = number
    while high - low > 4096:
        middle = (low + high) // 2
        here = data.count(b"\n", low, middle)
        if here >= left:
            high = middle
        else:
            low, left = middle, left - here
    position = low
    for _ in range(left):
        position = data.find(b"\n", position) + 1
        if position == 0:
            return -1
    return position


def start_of_line(text: str, position: int) -> int:
    """Where the line that holds ``position`` begins."""
    start = max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1
    if 0 < start == position and text[start - 1] == "\r" and text[start : start + 1] == "\n":
        # `position` stands between the two halves of a "\r\n": that pair still belongs to the line before.
        return start_of_line(text, start - 1)
    return start


def end_of_line(text: str, position: int) -> int:
    """Where the line that holds ``position`` ends, its ending included."""
    match = ANY_END.search(text, position)
    return match.end() if match else len(text)


def to_feeds(text: str) -> str:
    """``text`` with every line ending written as ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def endings_of(text: str) -> dict[str, int]:
    """How often each kind of line ending occurs."""
    pairs = text.count("\r\n")
    found = {"\r\n": pairs, "\n": text.count("\n") - pairs, "\r": text.count("\r") - pairs}
    return {end: number for end, number in found.items() if number}
