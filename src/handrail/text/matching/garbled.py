"""Refuse texts with U+FFFD, the sign for bytes that could not be decoded, where the file has none."""

from __future__ import annotations

from handrail.errors import Garbled

_SIGN = "\ufffd"
_SHOWN = 20


def refuse_garbled(text: str, old: str, new: str) -> None:
    """Raise `Garbled` if ``old`` cannot match because of the sign, or if ``new`` would bring it into the text."""
    if (_SIGN not in old and _SIGN not in new) or _SIGN in text:
        return
    sent = old if _SIGN in old else new
    at = sent.index(_SIGN)
    near = sent[max(0, at - _SHOWN) : at + _SHOWN].replace("\n", " ").strip()
    raise Garbled(near=near, new=_SIGN not in old)
