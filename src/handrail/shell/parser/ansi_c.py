"""The text of `$'...'`: the escapes of C as bash reads them."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.)|$)", re.DOTALL)
_LETTERS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


def ansi_c(inside: str) -> str | None:
    """The text between the quotes; None where it depends on the locale or ends at a NUL."""
    out = bytearray()
    done = 0
    for found in _ESCAPE.finditer(inside):
        out += inside[done : found.start()].encode("utf-8", "surrogateescape")
        done = found.end()
        octal, hexadecimal, short, long, letter = found.groups()
        if octal is not None or hexadecimal is not None:
            byte = int(octal, 8) & 0xFF if octal is not None else int(hexadecimal, 16)
            if byte == 0:
                return None
            out.append(byte)
        elif short is not None or long is not None:
            point = int(short or long, 16)
            if not 0 < point < 0x80:
                return None
            out.append(point)
        elif letter in _LETTERS:
            out += _LETTERS[letter].encode()
        elif letter == "c":  # a control character by a rule of its own
            return None
        else:  # bash keeps the backslash before a letter that means nothing
            out += ("\\" + (letter or "")).encode("utf-8", "surrogateescape")
    out += inside[done:].encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "surrogateescape")
