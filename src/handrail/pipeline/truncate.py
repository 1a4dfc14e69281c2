"""The last bound on an answer, whatever the tool said: its head and its tail, and how much lies between."""

from __future__ import annotations


def bound(text: str, most: int) -> tuple[str, int]:
    """``text``, cut in the middle if it is longer than ``most`` characters; and how many characters were left out."""
    if len(text) <= most:
        return text, 0
    half = most // 2
    return text[:half] + "\n" + text[len(text) - half :], len(text) - 2 * half
