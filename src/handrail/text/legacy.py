"""Which legacy encoding some bytes are most likely in.

Each encoding is described by the kinds of characters that its texts are made of, and by how unlikely a character of
each kind is there (its cost, a negative logarithm: the share of the kind in ordinary text over the number of its
characters). The encoding that explains a sample at the lowest cost wins. A whole text is never needed, a few
characters are enough, and UTF-8 that holds a few bytes of something else is one of the candidates.

charset-normalizer is made for longer texts: a comment of two words in GBK, Big5 or Shift-JIS it often takes for
something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

_SAMPLE = 4 * 1024
_WINDOW = 64 * 1024
_HIGH = re.compile(rb"[\x80-\xff]")
_ASCII = 4.2
_IMPOSSIBLE = 20.0
_PAIR = re.compile(rb"[\x80-\xff](?=[\x80-\xff])")

_WIDE = rb"[\x40-\x7e\x80-\xfe]"
_KINDS: dict[str, Sequence[tuple[bytes, float]]] = {
    "utf-8": (
        (rb"[\xc2-\xdf][\x80-\xbf]", 6.0),
        (rb"[\xe1-\xef][\x80-\xbf]{2}|\xe0[\xa0-\xbf][\x80-\xbf]", 8.5),
        (rb"[\xf0-\xf4][\x80-\xbf]{3}", 12.0),
        (rb"[\x80-\xff]", 12.0),
    ),
    "cp1252": (
        (rb"[\xe0-\xff]", 3.7),  # small letters
        (rb"[\x80\x85\x91-\x97\x99]", 4.3),  # typographic marks
        (rb"[\xc0-\xdf]", 5.7),  # capitals
        (rb"[\xa0-\xbf]", 6.0),  # signs
        (rb"[\x82-\x8c\x8e\x98-\x9c\x9e\x9f]", 7.3),
        (rb"[\x81\x8d\x8f\x90\x9d]", 9.0),  # Latin-1 alone has these
    ),
    "gb18030": (
        (rb"\xa1[\xa2-\xbf]|\xa3[\xa1-\xbf]", 5.0),  # punctuation
        (rb"[\xb0-\xd7][\xa1-\xfe]", 7.0),  # the common characters
        (rb"[\xd8-\xf7][\xa1-\xfe]", 11.2),
        (rb"[\x81-\xfe]" + _WIDE + rb"|[\x81-\xfe][0-9][\x81-\xfe][0-9]", 14.2),
    ),
    "big5": (
        (rb"\xa1[\x40-\x7e\xa1-\xfe]", 6.0),  # punctuation
        (rb"[\xa4-\xc5][\x40-\x7e\xa1-\xfe]|\xc6[\x40-\x7e]", 7.4),  # the common characters
        (rb"[\xc9-\xf9][\x40-\x7e\xa1-\xfe]", 12.0),
        (rb"[\xa2\xa3][\x40-\x7e\xa1-\xfe]", 12.0),
    ),
    "cp932": (
        (rb"\x82[\x9f-\xf1]|\x83[\x40-\x7e\x80-\x96]", 5.0),  # kana
        (rb"\x81[\x40-\x7e\x80-\x9e]", 5.0),  # punctuation
        (rb"[\x88-\x97][\x40-\x7e\x80-\xfc]|\x98[\x40-\x72]", 8.4),  # the common kanji
        (rb"[\xa1-\xdf]", 9.0),  # kana of half width
        (rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]", 12.0),
    ),
    "euc_jp": (
        (rb"[\xa4\xa5][\xa1-\xf6]", 5.0),  # kana
        (rb"\xa1[\xa1-\xdf]", 5.5),  # punctuation
        (rb"[\xb0-\xcf][\xa1-\xfe]", 8.4),  # the common kanji
        (rb"\x8f?[\xa1-\xfe][\xa1-\xfe]|\x8e[\xa1-\xdf]", 12.0),
    ),
    "euc_kr": (
        (rb"[\xb0-\xc8][\xa1-\xfe]", 6.2),  # Hangul
        (rb"\xa1[\xa1-\xdf]", 7.0),
        (rb"[\xa1-\xfe][\xa1-\xfe]", 12.3),
    ),
    "cp1251": ((rb"[\xe0-\xff\xb8]", 3.7), (rb"[\xc0-\xdf\xa8]", 5.4), (rb"[\x80-\xff]", 7.5)),
    "koi8_r": ((rb"[\xc0-\xdf\xa3]", 3.7), (rb"[\xe0-\xff\xb3]", 5.4), (rb"[\x80-\xff]", 8.5)),
}
# What it costs that a character touches an ASCII letter: in Western texts both make one word, elsewhere hardly ever.
_MIXED = {"cp1252": 0.0, "utf-8": 0.0, "cp1251": 3.0, "koi8_r": 3.0}
_MIXED_ELSEWHERE = 1.0
# What it costs that two high bytes stand side by side: in Western texts they are mostly alone.
_CROWDED = {"cp1252": 2.3}
# What it costs to believe in an encoding at all; the others are believed sooner.
_DOUBTED = {"gb18030": 2.0, "big5": 2.0, "cp932": 2.0, "cp1251": 6.5, "koi8_r": 9.0, "euc_jp": 8.0, "euc_kr": 4.0}


def likely(raw: bytes) -> list[str]:
    """The encodings that ``raw`` may be in, the likeliest first."""
    sample = _sample(raw)
    return sorted(_KINDS, key=lambda name: _cost(sample, name))


def _sample(raw: bytes) -> bytes:
    """Some lines that are not ASCII. No candidate has a line feed inside a character, so that no line parts one."""
    parts, length, last = [], 0, 0
    while length < _SAMPLE and (high := _first_high(raw, last)) >= 0:
        start = max(raw.rfind(b"\n", last, high) + 1, last, high - _SAMPLE // 4)
        last = raw.find(b"\n", high) + 1 or len(raw)
        parts.append(raw[start : min(last, start + _SAMPLE - length)])
        length += len(parts[-1])
    return b"".join(parts)


def _first_high(raw: bytes, start: int) -> int:
    for at in range(start, len(raw), _WINDOW):
        window = raw[at : at + _WINDOW]
        if not window.isascii():  # many times faster than the regular expression
            found = _HIGH.search(window)
            assert found
            return at + found.start()
    return -1


def _cost(sample: bytes, name: str) -> float:
    costs = [_ASCII, *(cost for _, cost in _KINDS[name]), _IMPOSSIBLE]
    mixed = _MIXED.get(name, _MIXED_ELSEWHERE)
    total, high = _DOUBTED.get(name, 0.0), False
    for match in _tokens(name).finditer(sample):
        token, kind = match[0], (match.lastindex or 1) - 1
        total += costs[kind] * (len(token) if kind == 0 else 1)
        if kind == 0:
            total += mixed * ((high and token[:1].isalpha()) + token[-1:].isalpha())
        high = kind > 0
    return total + len(_PAIR.findall(sample)) * _CROWDED.get(name, 0.0)


@cache
def _tokens(name: str) -> re.Pattern[bytes]:
    kinds = [rb"[\x00-\x7f]+", *(pattern for pattern, _ in _KINDS[name]), rb"[\x80-\xff]"]
    return re.compile(b"|".join(b"(" + kind + b")" for kind in kinds))
