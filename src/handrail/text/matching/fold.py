"""Characters that a model and a file may write differently and mean the same.

Folding never touches a letter, a digit or an ASCII operator: it maps typographic punctuation, odd spaces and full-width
marks to their ASCII forms, and drops characters that have no width.
"""

from __future__ import annotations

from collections.abc import Collection

from handrail.text.matching.budget import spend

_SLOW = 8
"""Steps for a character that is looked at by itself."""

_SAME = {
    "-": "‐‑‒–—―−﹘﹣－",
    "'": "‘’‚‛′＇",
    '"': "“”„‟″＂「」『』",
    " ": "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "": "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufeff\u00ad\ufe0e\ufe0f",
    "...": "…",
    ".": "。．",
    ",": "，、",
    ":": "：",
    ";": "；",
    "!": "！",
    "?": "？",
    "(": "（",
    ")": "）",
    "[": "【［",
    "]": "】］",
    "{": "｛",
    "}": "｝",
    "<": "《＜",
    ">": "》＞",
    "~": "～",
    "%": "％",
    "|": "｜",
    "=": "＝",
    "+": "＋",
    "*": "＊",
    "/": "／",
    "#": "＃",
    "&": "＆",
    "@": "＠",
}
_LINE_SEPARATORS = "\u0085\u2028\u2029"
"""Characters that end a line for Python's `str.split`, and not in a file."""
_TABLE = {char: plain for plain, chars in _SAME.items() for char in chars}
_TRANSLATION = str.maketrans(_TABLE)
_NO_BLANK = str.maketrans(_LINE_SEPARATORS, "\ufdd0\ufdd1\ufdd2")
ZERO_WIDTH = _SAME[""]
ODD_BLANKS = _SAME[" "]
CONTROL_BLANKS = "\x0b\x0c\x1c\x1d\x1e\x1f"
"""Control characters that count as blanks for Python's `str.split`."""
_NO_WIDTH = str.maketrans(dict.fromkeys(ZERO_WIDTH, ""))
_EDGE = " \t" + ODD_BLANKS + ZERO_WIDTH


def fold(text: str) -> str:
    """``text`` with typographic characters in their plain form."""
    return text if text.isascii() else text.translate(_TRANSLATION)


def drop_edges_of_no_width(text: str) -> str:
    """A line without the characters of no width in its indentation and at its end."""
    if text.isascii():
        return text
    body = text.strip(_EDGE)
    head, _, tail = text.partition(body) if body else (text, "", "")
    return head.translate(_NO_WIDTH) + body + tail.translate(_NO_WIDTH)


def squeeze(text: str) -> str:
    """Folded, without blanks at the ends, and with every run of blanks as one space; a line separator is no blank."""
    bare = text.strip()
    if not text.isascii():
        return " ".join(fold(text).translate(_NO_BLANK).split())
    return bare if "  " not in bare and bare.isprintable() else " ".join(bare.split())


def squeeze_with_offsets(text: str) -> tuple[str, list[int]]:
    """`squeeze` of ``text`` but for its ends, and where each character of it (and its end) begins in ``text``."""
    spend(_SLOW * len(text))
    text = text if text.isascii() else text.translate(_NO_BLANK)
    plain: list[str] = []
    begins: list[int] = []
    at = 0
    while at < len(text):
        here, start = _TABLE.get(text[at], text[at]), at
        at += 1
        if here.isspace():
            while at < len(text) and _is_blank(text[at]):
                at += 1
            here = " "
        plain += here
        begins += [start] * len(here)
    return "".join(plain), [*begins, len(text)]


def _is_blank(char: str) -> bool:
    return (_TABLE.get(char, char) or " ").isspace()


def compare_typography(theirs: str, ours: str) -> tuple[set[str], set[str]]:
    """The plain forms of what is typographic in ``theirs`` alone, and of what is so in ``ours`` too."""
    odd = set(theirs) & _TABLE.keys()
    return (
        {_TABLE[char] for char in odd if theirs.count(char) > ours.count(char)},
        {_TABLE[char] for char in odd if char in ours},
    )


def fold_some(text: str, plain_forms: Collection[str]) -> str:
    """``text`` with those typographic characters in their plain form that have one of these."""
    return text.translate({ord(char): plain for char, plain in _TABLE.items() if plain in plain_forms})


def find_plain_forms(text: str) -> set[str]:
    """The plain forms of the typographic characters in ``text``."""
    return set() if text.isascii() else {_TABLE[char] for char in set(text) & _TABLE.keys()}
