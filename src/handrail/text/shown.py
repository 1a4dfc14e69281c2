"""How names and notices are shown, so that a file name cannot forge structure.

Control characters, line separators, bidi controls, zero-width characters and stray bytes are written as escapes; one
name stays on one line and reads left to right.
"""

from __future__ import annotations

import unicodedata

_PLAIN = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}
_PLAIN |= {"Sm", "Sc", "Sk", "So"}
# Letters and marks by category, but drawn as nothing: Hangul and Khmer fillers, variation selectors, braille blank.
_INVISIBLE = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10)}
_INVISIBLE |= {*range(0xE0100, 0xE01F0)}


def shown(name: str) -> str:
    """``name`` with everything that is not plainly visible escaped."""
    if name.isascii() and name.isprintable() and "\\" not in name:
        return name
    return "".join(_escape(char) for char in name)


def _escape(char: str) -> str:
    code = ord(char)
    if char == " " or (unicodedata.category(char) in _PLAIN and code not in _INVISIBLE and char != "\\"):
        return char
    if char == "\\":
        return "\\\\"
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
    if 0xDC80 <= code <= 0xDCFF:  # a byte that the file system's encoding could not decode
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def readable(text: str) -> str:
    """Text that any JSON or UTF-8 encoder accepts: a stray byte or lone surrogate becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
