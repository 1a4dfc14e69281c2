"""Characters that a model and a file may write differently and mean the same.

Folding never touches a letter, a digit or an ASCII operator: it maps typographic punctuation, odd spaces and full-width
marks to their ASCII forms, and drops characters that have no width.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from handrail.text.matching.budget import spend

_SLOW = 8
"""Steps for a character that is looked at by itself."""

_SAME = {
    "-": "‐‑‒–—―−﹘﹣－",
    "'": "‘’‚‛′＇",
    '"': "“”„‟″＂「」『』",
    " ": "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "": "\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe0e\ufe0f",
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
LINE_SEPARATORS = "\u0085\u2028\u2029"
"""Characters that end a line for Python's `str.split`, and not in a file."""
_TABLE = {char: plain for plain, chars in _SAME.items() for char in chars}
_TRANSLATION = str.maketrans(_TABLE)
_NO_BLANK = str.maketrans(LINE_SEPARATORS, "\ufdd0\ufdd1\ufdd2")
ZERO_WIDTH = _SAME[""]
ODD_BLANKS = _SAME[" "]
CONTROL_BLANKS = "\x0b\x0c\x1c\x1d\x1e\x1f"
"""Control characters that count as blanks for Python's `str.split`."""
WIDE_FORMS = {plain for plain, chars in _SAME.items() if any("\uff01" <= char <= "\uff5e" for char in chars)} - {
    *"\"'-"
}
"""The plain forms of characters of full width, apart from those that have other typographic forms."""
_NO_WIDTH = str.maketrans(dict.fromkeys(ZERO_WIDTH, ""))
_BLANKS = str.maketrans(dict.fromkeys(_SAME[" "] + _SAME[""], ""))


def fold(text: str) -> str:
    """``text`` with typographic characters in their plain form."""
    return text if text.isascii() else text.translate(_TRANSLATION)


def drop_zero_width(text: str) -> str:
    """Without characters of no width."""
    return text.translate(_NO_WIDTH)


def squeeze(text: str) -> str:
    """Folded, without blanks at the ends, and with every run of blanks as one space; a line separator is no blank."""
    return " ".join((text if text.isascii() else fold(text).translate(_NO_BLANK)).split())


def remove_blanks(text: str) -> str:
    """Without any blanks and characters of no width."""
    return "".join(text.translate(_BLANKS).split())


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


def list_folded(text: str, other: str) -> Iterator[tuple[str, bool]]:
    """Yield the plain form of each typographic character of ``text`` that can be seen, and whether ``other``, which
    is equal once folded, has the plain form there."""
    if text.isascii():
        return
    text, other = text.strip(), other.strip()
    folded, begins = squeeze_with_offsets(text)
    folded_other, others = squeeze_with_offsets(other)
    if folded != folded_other:
        return
    last = -1
    for here, there in zip(begins[:-1], others[:-1], strict=True):
        plain = _TABLE.get(text[here], "")
        if here != last and plain.strip():
            yield plain, other[there] not in _TABLE
        last = here


def fold_some(text: str, plain_forms: Collection[str]) -> str:
    """``text`` with those typographic characters in their plain form that have one of these."""
    return text.translate({ord(char): plain for char, plain in _TABLE.items() if plain in plain_forms})


def find_plain_forms(text: str) -> set[str]:
    """The plain forms of the typographic characters in ``text``."""
    return set() if text.isascii() else {_TABLE[char] for char in set(text) & _TABLE.keys()}
