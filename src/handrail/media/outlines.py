"""Outlines that need a grammar, computed in a child process, so that a grammar that hangs can be stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator

from handrail.errors import NoOutline
from handrail.media import MediaLimits, separate_process
from handrail.text.outlines.outline import MOST, Symbol, list_symbols

LIMITS = MediaLimits(seconds=5.0)


def list_symbols_apart(text: str, name: str, start: int = 1, most: int = MOST) -> list[Symbol]:
    """As `outline`, but bounded in time and memory; raises `NoOutline`."""
    raw = text.encode("utf-8", "replace")
    frames, end = separate_process.ask("outline", raw, len(raw), LIMITS, file=name, start=start, most=most)
    if not frames:
        why = (
            f"it took more than {LIMITS.seconds:g} s." if end == "late" else "its grammar ran out of memory or crashed."
        )
        raise NoOutline(path=name, why=f"{why} Use Grep instead.")
    return [Symbol(*symbol) for symbol in frames[0].head["symbols"]]


def answers(fd: int, name: str, start: int, most: int) -> Iterator[tuple[dict[str, object], bytes]]:
    """In the child process: the one frame for an outline."""
    with os.fdopen(os.dup(fd), "rb") as source:
        text = source.read().decode("utf-8")
    yield {"symbols": list_symbols(text, name, start, most)}, b""
