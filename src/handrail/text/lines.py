"""The one definition of a line, the edges of words, and the alignment of the lines of two texts.

A line ends at ``\\n``, ``\\r\\n`` or a lone ``\\r``. Nothing else ends one: form feeds, U+0085 and U+2028 are ordinary
characters, so ``str.splitlines`` must not be used anywhere in this program.

`difflib` gives the alignments that people expect, but its cost can grow with the cube of the length. So it compares
short texts only; a long text is split at the lines that occur once in both texts and in the same order.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import AnyStr

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
BYTE_END = re.compile(rb"\r\n|\n|\r")
ANY_END = re.compile(r"\r\n|\n|\r")
_NEAR = 512
_ESCAPED = frozenset("abefnrtv0")


def split(text: str) -> list[str]:
    """The lines of ``text``, each with its own ending; ``"".join(split(t)) == t``."""
    if "\r" not in text:
        lines = text.split("\n")
        last = lines.pop()
        whole = [line + "\n" for line in lines]
        return [*whole, last] if last else whole
    return _LINE.findall(text)


def strip_ending(line: str) -> str:
    """A line without its ending."""
    return line[: len(line) - len(get_ending(line))]


def get_ending(line: str) -> str:
    """The ending of a line: ``"\\n"``, ``"\\r\\n"``, ``"\\r"``, or ``""`` for an unterminated last line."""
    if line.endswith("\r\n"):
        return "\r\n"
    return line[-1] if line.endswith(("\n", "\r")) else ""


def find_ending(text: str) -> str:
    """The first line ending of a text; a line feed if it has none."""
    match = ANY_END.search(text)
    return match[0] if match else "\n"


def count_ends(text: AnyStr, start: int = 0, stop: int | None = None) -> int:
    """How many line endings ``text[start:stop]`` holds. Fast where there is no carriage return: nearly always."""
    span = (start, len(text) if stop is None else stop)
    if isinstance(text, str):
        feeds = text.count("\n", *span)
        return feeds if text.find("\r", *span) < 0 else feeds + text.count("\r", *span) - text.count("\r\n", *span)
    feeds = text.count(b"\n", *span)
    return feeds if text.find(b"\r", *span) < 0 else feeds + text.count(b"\r", *span) - text.count(b"\r\n", *span)


def find_pairs(text: str) -> list[int]:
    """Where the line feeds are that stand for two characters, in the text with every ending written as one."""
    return [match.start() - number for number, match in enumerate(re.finditer("\r\n", text))]


def find_all(text: str, part: str) -> Iterator[int]:
    """Where ``part`` begins, without overlap; nowhere if it is empty."""
    start = text.find(part) if part else -1
    while start >= 0:
        yield start
        start = text.find(part, start + len(part))


def count(text: str) -> int:
    """How many lines ``text`` has; text after the last ending is a line too."""
    return count_ends(text) + (1 if text and text[-1] not in "\r\n" else 0)


def find_after_ending(data: bytes, number: int) -> int:
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
        start = text.rfind("\n", low, position)
        start = max(start, text.rfind("\r", max(low, start), position))
        if start >= 0:
            return start + 1
        position, size = low, size * 4
    return 0


def end_of_line(text: str, position: int) -> int:
    """Where the line that holds ``position`` ends, its ending included."""
    size = _NEAR
    while position < len(text):
        high = min(len(text), position + size)
        end = text.find("\n", position, high)
        lone = text.find("\r", position, end if end >= 0 else high)
        if lone >= 0:
            return lone + 2 if text.startswith("\n", lone + 1) else lone + 1
        if end >= 0:
            return end + 1
        position, size = high, size * 4
    return len(text)


def to_feeds(text: str) -> str:
    """``text`` with every line ending written as ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


Opcode = tuple[str, int, int, int, int]
"""As in `difflib`: what happens (`equal`, `replace`, `delete`, `insert`), and the lines of both texts it concerns."""

COMPARED = 400
"""So many lines of both texts together may `difflib` compare."""
SLIDE = 8
"""So many lines may a change be moved by `settled`."""


def get_opcodes(before: Sequence[str], after: Sequence[str]) -> list[Opcode]:
    """How ``before`` becomes ``after``, as `difflib.SequenceMatcher.get_opcodes` says it."""
    if len(before) + len(after) <= COMPARED:
        return _compare(before, after)
    return join_opcodes(_compare_parts(before, after))


def group_opcodes(codes: Sequence[Opcode], context: int) -> list[list[Opcode]]:
    """The changes with so many equal lines around them; changes that are near are one group."""
    groups: list[list[Opcode]] = [[]]
    for number, (code, i1, i2, j1, j2) in enumerate(codes):
        if code != "equal":
            groups[-1].append((code, i1, i2, j1, j2))
            continue
        behind = context if number else 0
        ahead = context if number < len(codes) - 1 else 0
        if i2 - i1 <= behind + ahead:
            groups[-1].append((code, i1, i2, j1, j2))
            continue
        if behind:
            groups[-1].append((code, i1, i1 + behind, j1, j1 + behind))
            groups.append([])
        if ahead:
            groups[-1].append((code, i2 - ahead, i2, j2 - ahead, j2))
    return [group for group in groups if any(code != "equal" for code, *_ in group)]


def settle(
    codes: Sequence[Opcode], before: Sequence[str], after: Sequence[str], above: int, below: Callable[[], int]
) -> list[Opcode]:
    """Insertions and deletions where `difflib` puts them, if equal lines around them allow for several places.

    It looks for the longest equal stretch first, so that they end up away from it. ``above`` and ``below`` say how
    many equal lines there are outside of what was compared; they are joined codes, and so is what comes back.
    """
    settled = list(codes)
    for at, (code, i1, i2, j1, j2) in enumerate(codes):
        if code not in ("insert", "delete") or at == 0:
            continue
        rows, first, last = (after, j1, j2) if code == "insert" else (before, i1, i2)
        run = settled[at - 1][2] - settled[at - 1][1]
        up = 0
        while up < min(run, SLIDE) and rows[first - up - 1] == rows[last - up - 1]:
            up += 1
        if not up:
            continue
        run_below = codes[at + 1][2] - codes[at + 1][1] if at + 1 < len(codes) else 0
        run += above if at == 1 else 0
        run_below += below() if at + 2 >= len(codes) else 0
        if run < run_below + up:
            _, a1, _, b1, _ = settled[at - 1]
            settled[at - 1] = ("equal", a1, i1 - up, b1, j1 - up)
            settled[at] = (code, i1 - up, i2 - up, j1 - up, j2 - up)
            if at + 1 < len(settled):
                _, _, a2, _, b2 = settled[at + 1]
                settled[at + 1] = ("equal", i2 - up, a2, j2 - up, b2)
            else:
                settled.append(("equal", i2 - up, i2, j2 - up, j2))
    return join_opcodes(settled)


def count_equal_edges(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many parts both begin with, and how many of the others both end with."""
    most = min(len(before), len(after))
    head = next((at for at in range(most) if before[at] != after[at]), most)
    tail = next((at for at in range(most - head) if before[-1 - at] != after[-1 - at]), most - head)
    return head, tail


def join_opcodes(codes: Iterable[Opcode]) -> list[Opcode]:
    """Without empty codes, and with neighbours of one kind made one."""
    joined: list[Opcode] = []
    for code, i1, i2, j1, j2 in codes:
        if i1 == i2 and j1 == j2:
            continue
        if joined and (joined[-1][0] == "equal") == (code == "equal"):
            _, i1, _, j1, _ = joined.pop()
            code = "equal" if code == "equal" else _classify(i1, i2, j1, j2)
        joined.append((code, i1, i2, j1, j2))
    return joined


def _classify(i1: int, i2: int, j1: int, j2: int) -> str:
    return "replace" if i1 < i2 and j1 < j2 else "delete" if i1 < i2 else "insert"


def _compare(before: Sequence[str], after: Sequence[str]) -> list[Opcode]:
    if set(before).isdisjoint(after):  # nearly always: an edit of one line
        return join_opcodes([(_classify(0, len(before), 0, len(after)), 0, len(before), 0, len(after))])
    import difflib  # slow to import, and not needed where a change is one span

    return list(difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes())


def _compare_parts(before: Sequence[str], after: Sequence[str]) -> Iterator[Opcode]:
    i = j = 0
    for anchor_i, anchor_j in [*_find_anchors(before, after), (len(before), len(after))]:
        if anchor_i < i:
            continue  # an equal stretch has run past it
        yield from _compare_between(before, after, i, anchor_i, j, anchor_j)
        i, j = anchor_i, anchor_j
        while i < len(before) and j < len(after) and before[i] == after[j]:
            i, j = i + 1, j + 1
        yield ("equal", anchor_i, i, anchor_j, j)


def _compare_between(
    before: Sequence[str], after: Sequence[str], i1: int, i2: int, j1: int, j2: int
) -> Iterator[Opcode]:
    """The codes of a stretch between anchors: what it begins and ends with alike is equal, the rest is compared."""
    head, tail = count_equal_edges(before[i1:i2], after[j1:j2])
    a1, a2, b1, b2 = i1 + head, i2 - tail, j1 + head, j2 - tail
    yield ("equal", i1, a1, j1, b1)
    if a2 - a1 + b2 - b1 <= COMPARED:
        for code, c1, c2, d1, d2 in _compare(before[a1:a2], after[b1:b2]):
            yield (code, a1 + c1, a1 + c2, b1 + d1, b1 + d2)
    else:
        yield (_classify(a1, a2, b1, b2), a1, a2, b1, b2)
    yield ("equal", a2, i2, b2, j2)


def _find_anchors(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that occur once in both texts: the longest chain of them that ascends in both."""
    there, here = _find_unique(before), _find_unique(after)
    pairs = [(i, here[line]) for line, i in there.items() if i >= 0 and here.get(line, -1) >= 0]
    ends: list[int] = []  # the lowest end of a chain of each length, as an index into `pairs`
    lowest: list[int] = []
    previous = [-1] * len(pairs)
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(lowest, j)
        previous[number] = ends[length - 1] if length else -1
        ends[length : length + 1] = [number]
        lowest[length : length + 1] = [j]
    chain: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(pairs[at])
        at = previous[at]
    return chain[::-1]


def _find_unique(rows: Sequence[str]) -> dict[str, int]:
    """Position of each line; -1 for one that occurs again. In the order of the text."""
    positions: dict[str, int] = {}
    for number, row in enumerate(rows):
        positions[row] = -1 if row in positions else number
    return positions


def cuts_word(text: str, at: int) -> bool:
    """Whether a place that begins or ends at ``at`` parts a word. Scripts without capitals often have no blanks
    between words, so they are left alone."""
    if not 0 < at < len(text) or (text[max(0, at - 2)] == "\\" and text[at - 1] in _ESCAPED):
        return False
    return unicodedata.combining(text[at]) > 0 or (is_of_word(text[at - 1]) and is_of_word(text[at]))


def is_of_word(char: str) -> bool:
    """Whether a character is a part of words: a letter of a script with capitals, a digit or an underscore."""
    return char == "_" or char.isdigit() or char.lower() != char.upper()
