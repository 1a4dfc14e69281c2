"""Words of two lines are compared in a bounded number of steps."""

from __future__ import annotations

import itertools

import pytest

from handrail.text.words import compare_words

PARTS = ("x;", "x,", "a b ", "b a ", ";", "x;y ")


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(PARTS, 2)))
def test_lines_that_repeat_their_words_are_compared(one: str, other: str) -> None:
    """`difflib` takes seconds for some of these pairs."""
    old, new = (one * 1000)[:1000], (other * 1000)[:1000]
    marks = compare_words(old, new)
    if marks:
        rest = [
            "".join(char for at, char in enumerate(line) if not any(start <= at < end for start, end in spans))
            for line, spans in zip((old, new), marks, strict=True)
        ]
        assert rest[0] == rest[1]


def test_longer_lines_are_not_compared() -> None:
    assert compare_words("a " * 500, "a " * 499 + "b") is not None
    assert compare_words("a " * 501, "a " * 500 + "b") is None
