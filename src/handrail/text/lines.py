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
_NEAR = 512


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


def count_ends(text: AnyStr, start: int = 0, stop: int | None = None) -> int:
    """How many line endings ``text[start:stop]`` holds. Fast where there is no carriage return: nearly always."""
    span = (start, len(text) if stop is None else stop)
    if isinstance(text, str):
        feeds = text.count("\n", *span)
        return feeds if text.find("\r", *span) < 0 else feeds + text.count("\r", *span) - text.count("\r\n", *span)
    feeds = text.count(b"\n", *span)
    return feeds if text.find(b"\r", *span) < 0 else feeds + text.count(b"\r", *span) - text.count(b"\r\n", *span)


def count(text: str) -> int:
    """How many lines ``text`` has; text after the last ending is a line too."""
    return count_ends(text) + (1 if text and text[-1] not in "\r\n" else 0)


def after_end(data: bytes, number: int) -> int:
    """The position just behind the ``number``-th line ending of ``data`` (1-based); -1 if there are fewer."""
    if number <= 0:
        return 0
    low, high = 0, len(data)
    while high - low > _NEAR:  # halve until the place is near
        middle = (low + high) // 2
        if data[middle - 1 : middle + 1] == b"\r\n":
            middle += 1
        here = count_ends(data, low, middle)
        if here >= number:
            high = middle
        else:
            low, number = middle, number - here
    for seen, match in enumerate(BYTE_END.finditer(data, low), start=1):
        if seen == number:
            return match.end()
    return -1


def start_of_line(text: str, position: int) -> int:
    """Where the line that holds ``position`` begins."""
    if 0 < position < len(text) and text[position - 1] == "\r" and text[position] == "\n":
        position -= 1  # between the two halves of a "\r\n": that pair still belongs to the line before
    size = _NEAR
    while position > 0:  # in growing steps, so that a near ending is found without a look at the whole text
        low = max(0, position - size)
        found = text.rfind("\n", low, position)
        found = max(found, text.rfind("\r", max(low, found), position))
        if found >= 0:
            return found + 1
        position, size = low, size * 4
    return 0


def end_of_line(text: str, position: int) -> int:
    """Where the line that holds ``position`` ends, its ending included."""
    size = _NEAR
    while position < len(text):
        high = min(len(text), position + size)
        found = text.find("\n", position, high)
        lone = text.find("\r", position, found if found >= 0 else high)
        if lone >= 0:
            return lone + 2 if text.startswith("\n", lone + 1) else lone + 1
        if found >= 0:
            return found + 1
        position, size = high, size * 4
    return len(text)


def to_feeds(text: str) -> str:
    """``text`` with every line ending written as ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
