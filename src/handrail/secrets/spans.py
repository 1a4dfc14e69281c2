"""Replace parts of a text by placeholders, for masking (records) and redaction (text for models)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Span = tuple[int, int]

DEEPEST = 40
"""Values that are nested deeper are not followed."""


def replace_spans(text: str, spans: Iterable[Span], placeholder: Callable[[str], str]) -> str:
    """``text`` with a placeholder in the place of each span; spans that overlap get one, so that no end is left."""
    done, parts = 0, []
    for start, end in _join(spans):
        parts += [text[done:start], placeholder(text[start:end])]
        done = end
    return "".join([*parts, text[done:]]) if parts else text


def _join(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined
