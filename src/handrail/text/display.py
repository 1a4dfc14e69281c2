"""Escape file names for display, so that a name cannot imitate structure.

Control characters, line separators, bidi controls, zero-width characters, odd spaces, stray bytes and characters that
look like a dot or a slash become escapes. A name stays on one line and reads left to right.
"""

from __future__ import annotations

import re
import unicodedata

_PLAIN = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}
_PLAIN |= {"Sm", "Sc", "Sk", "So"}
# Letters and marks by category, but drawn as nothing: Hangul and Khmer fillers, variation selectors, braille blank.
_INVISIBLE = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164, 0xFFA0}
_INVISIBLE |= {*range(0xFE00, 0xFE10), 0x16FE4, *range(0xE0100, 0xE01F0)}
_SLASHES = {0x2044, 0x2215, 0x29F8, 0x29F5, 0x29F9}
_STRUCTURE = set("./\\")
_SHORT = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape(name: str) -> str:
    """Escape every character of ``name`` that is not plainly visible."""
    if name.isascii() and name.isprintable() and "\\" not in name:
        return name
    parts: list[str] = []
    bare = True  # nothing stands here that a combining mark could belong to
    for char in name:
        plain = _is_plain(char) and not (bare and unicodedata.category(char) in ("Mn", "Mc"))
        parts.append(char if plain else _escape(char))
        bare = not plain
    return "".join(parts)


def escape_lines(text: str) -> str:
    """``text`` with everything that is not plainly visible escaped, but for the ends of its lines."""
    return "\n".join(line if line.isprintable() else escape(line) for line in text.split("\n"))


def _is_plain(char: str) -> bool:
    if char.isascii():
        return char.isprintable() and char != "\\"
    code = ord(char)
    if unicodedata.category(char) not in _PLAIN or code in _INVISIBLE or code in _SLASHES:
        return False
    return _STRUCTURE.isdisjoint(unicodedata.normalize("NFKC", char))  # such as a dot of full width


def _escape(char: str) -> str:
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if 0xDC80 <= code <= 0xDCFF:  # a byte that the file system's encoding could not decode
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
    # Joiners are part of emoji and of some scripts, but not beside a letter of ASCII.
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)


def find_unseen(text: str) -> list[str]:
    """The characters in a line of text that cannot be seen or change the order of others, as `U+202E`, each once."""
    if text.isascii() and text.isprintable():
        return []
    return list(dict.fromkeys(f"U+{ord(char):04X}" for char in _UNSEEN.findall(text)))


_WRITTEN = re.compile(r"\\(?:([nrt\\])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def unescape(name: str) -> str:
    """Undo `escape`."""
    if "\\" not in name:
        return name

    def char(match: re.Match[str]) -> str:
        if match[1]:
            return next(plain for plain, written in _SHORT.items() if written == match[0])
        code = int(match[2] or match[3] or match[4], 16)
        if code > 0x10FFFF:
            return match[0]
        return chr(code + 0xDC00) if match[2] and code >= 0x80 else chr(code)

    return _WRITTEN.sub(char, name)


def replace_surrogates(text: str) -> str:
    """Text that any JSON or UTF-8 encoder accepts: a stray byte or lone surrogate becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
