"""The one definition of a line, against a model that looks at one character at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.text import lines

TEXT = st.text(st.sampled_from("ab\r\n\r\n\n\r\f\v\x1c\x1d\x85\u2028\u2029"), max_size=24)


def model(text: str) -> list[tuple[int, int]]:
    """The lines as spans, endings included."""
    collected, start, at = [], 0, 0
    while at < len(text):
        step = 2 if text[at : at + 2] == "\r\n" else 1
        if text[at] in "\r\n":
            collected.append((start, at + step))
            start = at + step
        at += step
    return [*collected, (start, len(text))] if start < len(text) else collected


@pytest.mark.parametrize("char", ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_other_separators_do_not_end_a_line(char: str) -> None:
    assert lines.split(f"a{char}b\nc") == [f"a{char}b\n", "c"]
    assert lines.split(f"a{char}b\rc") == [f"a{char}b\r", "c"]
    assert lines.count(f"a{char}b") == 1


@settings(deadline=None)
@given(TEXT)
def test_lines_are_parted_where_the_model_parts_them_and_nothing_is_lost(text: str) -> None:
    actual = lines.split(text)
    assert actual == [text[start:end] for start, end in model(text)]
    assert "".join(actual) == text
    assert lines.count(text) == len(actual)
    assert "".join(lines.strip_ending(line) + lines.get_ending(line) for line in actual) == text
    assert all(lines.get_ending(line) in ("\n", "\r\n", "\r", "") for line in actual)
    ended = sum(bool(lines.get_ending(line)) for line in actual)
    assert lines.count_ends(text) == lines.count_ends(text.encode()) == ended


@settings(deadline=None)
@given(TEXT, st.integers(0, 3))
def test_every_position_belongs_to_the_line_that_the_model_says(text: str, padding: int) -> None:
    text = "x" * (400 * padding) + text + "y" * (500 * padding)  # windows of the search begin and end at odd places
    spans = model(text)
    for position in range(len(text)):
        start, end = next(span for span in spans if span[0] <= position < span[1])
        assert (lines.start_of_line(text, position), lines.end_of_line(text, position)) == (start, end)
    last = len(text) if not text or text[-1] in "\r\n" else spans[-1][0]
    assert lines.start_of_line(text, len(text)) == last
    assert lines.end_of_line(text, len(text)) == len(text)


@settings(deadline=None)
@given(TEXT, st.integers(0, 600))
def test_the_position_behind_an_ending_is_where_the_model_puts_it(text: str, padding: int) -> None:
    data = (text + "x" * padding + text + "y" * padding + text).encode()
    ends = [end for _, end in model(data.decode("latin-1")) if data[end - 1] in b"\r\n"]
    for number, end in enumerate(ends, start=1):
        assert lines.find_after_ending(data, number) == end
    assert lines.find_after_ending(data, len(ends) + 1) == -1
    assert lines.find_after_ending(data, 0) == 0


def test_a_pair_is_one_ending_wherever_the_search_looks_first() -> None:
    for at in range(1_500):
        data = b"x" * at + b"\r\n" + b"y" * (1_500 - at)
        assert lines.find_after_ending(data, 1) == at + 2
        assert lines.find_after_ending(data, 2) == -1


def test_folding_makes_every_ending_a_feed() -> None:
    assert lines.to_feeds("a\r\nb\rc\n\r\r\n") == "a\nb\nc\n\n\n"
