"""Turn the colours and styles of a terminal into HTML. Everything else that a program wrote is shown as text."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from handrail.web.text import show_text

_SEQUENCE = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\[[0-9;:?<=>]*[ -/]*[@-ln-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_STYLES = {1: "bold", 2: "dim", 3: "italic", 4: "underline"}


def render_ansi(text: str) -> Markup:
    """``text`` as HTML: colours and styles are spans, other sequences for terminals are left out."""
    parts: list[str] = []
    style: dict[str, str] = {}
    position = 0
    for match in _SEQUENCE.finditer(text):
        parts.append(_make_span(text[position : match.start()], style))
        position = match.end()
        if match[1] is not None:
            _apply(match[1], style)
    parts.append(_make_span(text[position:], style))
    return Markup("".join(parts))  # noqa: S704 - each part is escaped


def _make_span(text: str, style: dict[str, str]) -> str:
    if not text:
        return ""
    inner = str(escape(show_text(text)))
    return f'<span class="{" ".join(style.values())}">{inner}</span>' if style else inner


def _apply(codes: str, style: dict[str, str]) -> None:
    numbers = [int(code or 0) for code in re.split("[;:]", codes) if len(code) < 4]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            style.clear()
        elif code in _STYLES:
            style[_STYLES[code]] = f"ansi-{_STYLES[code]}"
        elif code == 22:
            style.pop("bold", None)
            style.pop("dim", None)
        elif code in (23, 24):
            style.pop("italic" if code == 23 else "underline", None)
        elif code in (39, 49):
            style.pop("colour" if code == 39 else "ground", None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style["colour"] = f"ansi-{_NAMES[code % 10]}"
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style["ground"] = f"ansi-on-{_NAMES[code % 10]}"
        elif code in (38, 48):  # one of 256, or red, green and blue
            kind = numbers.pop(0) if numbers else 0
            chosen, numbers = numbers[: 1 if kind == 5 else 3], numbers[1 if kind == 5 else 3 :]
            style.pop("colour" if code == 38 else "ground", None)
            if code == 38 and kind == 5 and chosen and chosen[0] < 16:
                style["colour"] = f"ansi-{_NAMES[chosen[0] % 8]}"
