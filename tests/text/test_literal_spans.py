"""Where an `old_string` is, with the line endings that are there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.text import lines
from handrail.text.matching.find import find_spans
from tests import sizes

TEXT = st.text(st.sampled_from("ab\n\r"), max_size=14)
OLD = st.text(st.sampled_from("ab\n\r"), min_size=1, max_size=4)


def folded_places(text: str, old: str) -> list[tuple[int, int]]:
    """The model: fold character by character, remember where each came from, look at every place in turn."""
    folded, begins = "", []
    at = 0
    while at < len(text):
        step = 2 if text[at : at + 2] == "\r\n" else 1
        folded += "\n" if text[at] in "\r\n" else text[at]
        begins.append(at)
        at += step
    begins.append(len(text))
    collected, at = [], 0
    while at < len(folded):
        if folded.startswith(old, at):
            collected.append((begins[at], begins[at + len(old)]))
            at += len(old)
        else:
            at += 1
    return collected


@settings(deadline=None, max_examples=sizes.pick(100, 400))
@given(TEXT, OLD)
def test_places_are_those_of_the_model(text: str, old: str) -> None:
    match = find_spans(text, old)
    literal, at = [], text.find(old)
    while at >= 0:
        if not (old[0] == "\n" and text[max(0, at - 1) : at] == "\r"):
            literal.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    if "\r" in old and literal:
        assert list(match.spans) == literal
        assert match.level == "exact"
    else:
        assert list(match.spans) == folded_places(text, lines.to_feeds(old))
    if match.spans:
        assert (match.level == "exact") == all(text[start:end] == old for start, end in match.spans)
    assert all(one[1] <= other[0] for one, other in zip(match.spans, match.spans[1:], strict=False))


@settings(deadline=None, max_examples=sizes.pick(75, 300))
@given(TEXT, st.text(st.sampled_from("ab\n"), min_size=1, max_size=4))
def test_a_place_never_parts_a_line_ending_unless_it_is_spelled_out(text: str, old: str) -> None:
    for span in find_spans(text, old).spans:
        for edge in span:
            assert not (0 < edge < len(text) and text[edge - 1 : edge + 1] == "\r\n")


@pytest.mark.parametrize(
    ("text", "old", "spans"),
    [
        ("a\r\nb\r\n", "a\nb", [(0, 4)]),
        ("a\r\nb\r\n", "\nb", [(1, 4)]),
        ("a\r\nb\r\n", "\n", [(1, 3), (4, 6)]),
        ("a\rb\rc", "b\nc", [(2, 5)]),
        ("a\r\nb\nc\rd", "\nc\n", [(4, 7)]),
        ("a\nb", "a\r\nb", [(0, 3)]),
        ("a\nb\r\na\r\nb", "a\nb", [(0, 3), (5, 9)]),  # a model sees two equal places
        ("a\nb\r\na\r\nb", "a\r\nb", [(5, 9)]),  # who spells it out means that one
        ("x\r\n", "x\r", [(0, 2)]),
        ("a\r\nb\r\nc", "\nb\r\n", [(1, 6)]),  # half of it spelled out: whole endings all the same
        ("aaaa", "aa", [(0, 2), (2, 4)]),
        ("abc", "", []),
        ("", "a", []),
    ],
)
def test_places_by_hand(text: str, old: str, spans: list[tuple[int, int]]) -> None:
    assert list(find_spans(text, old).spans) == spans
