"""New text takes the line endings that are there, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.text import lines
from handrail.text.document import apply_splices, keep_endings, minimize, splice
from handrail.text.matching.find import find_spans
from tests import sizes

ENDS = ["\n", "\r\n", "\r"]
MIXED = st.lists(st.tuples(st.sampled_from(["", "a", "b", "cc"]), st.sampled_from(ENDS)), max_size=7).map(
    lambda rows: "".join(body + end for body, end in rows)
)
NEW = st.text(st.sampled_from("abx\n"), max_size=8)


def edit(text: str, old: str, new: str) -> str:
    (span,) = find_spans(text, old).spans
    change = splice(text, *span, old, new)
    return apply_splices(text, [change] if change else [])


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        # a changed line takes the ending of the line it replaces
        ("a\r\nb\nc\r", "a\nb\nc\n", "A\nB\nC\n", "A\r\nB\nC\r"),
        # a line that stays keeps its own
        ("a\r\nb\nc\r", "a\nb\nc\n", "a\nx\nb\nc\n", "a\r\nx\r\nb\nc\r"),
        ("a\nb\r\nc\n", "b", "b\nx", "a\nb\r\nx\r\nc\n"),
        ("a\nb\r\nc\n", "a\nb", "a\nb\nx", "a\nb\r\nx\r\nc\n"),
        # an added line takes its neighbour's
        ("a\r\nb", "b", "b\nc\nd", "a\r\nb\r\nc\r\nd"),
        ("a\rb\r", "b", "b\nc", "a\rb\rc\r"),
        ("a", "a", "a\nb", "a\nb"),
        # lines that go take theirs along
        ("a\r\nb\nc\r\n", "b\n", "", "a\r\nc\r\n"),
        ("a\r\nb\r\nc", "\nb", "", "a\r\nc"),
        # the final newline is the file's own affair
        ("a\r\nb\r\n", "b", "c", "a\r\nc\r\n"),
        ("a\r\nb", "b", "c", "a\r\nc"),
        ("a\r\nb", "b", "c\n", "a\r\nc\r\n"),
        # spelled out is meant literally
        ("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"),
        ("a\nb\n", "a\nb", "x\r\ny", "x\ny\n"),
        ("a\r\n", "\r", "", "a\n"),
        # a lone "\r" and a "\n" never become one ending by accident
        ("x\ry\n", "y", "\nz", "x\r\r\nz\n"),
        ("a\rb\n\nc", "a\nb\n", "a\n", "a\r\n\nc"),
    ],
)
def test_endings_by_hand(text: str, old: str, new: str, after: str) -> None:
    assert edit(text, old, new) == after


@settings(deadline=None, max_examples=sizes.pick(62, 250))
@given(MIXED, st.data())
def test_what_a_model_sees_afterwards_is_what_it_asked_for(text: str, data: st.DataObject) -> None:
    text += data.draw(st.sampled_from(["", "a", "zz"]))
    spans = [at for at in range(len(text) + 1) if text[max(0, at - 1) : at + 1] != "\r\n"]
    start, end = sorted(data.draw(st.tuples(st.sampled_from(spans), st.sampled_from(spans))))
    new = data.draw(NEW)
    change = keep_endings(text, start, end, new)
    assert lines.to_feeds(change) == new
    if "\n" in new and not (text[:start].endswith("\r") and text[end:].startswith("\n")):
        # Endings that meet are still apart. (Deleting all that stands between a "\r" and a "\n" joins them: only bytes
        # outside of the span could prevent that.)
        seen = lines.to_feeds(text[:start]) + new + lines.to_feeds(text[end:])
        assert lines.to_feeds(text[:start] + change + text[end:]) == seen


@settings(deadline=None, max_examples=sizes.pick(50, 200))
@given(st.sampled_from(ENDS), st.text(st.sampled_from("ab\n"), max_size=10), st.data())
def test_a_file_with_one_kind_of_ending_keeps_to_it(end: str, text: str, data: st.DataObject) -> None:
    text = (text + "\n").replace("\n", end)
    old = data.draw(st.text(st.sampled_from("ab\n"), min_size=1, max_size=3))
    new = data.draw(NEW)
    for span in find_spans(text, old).spans[:1]:
        change = splice(text, *span, old, new)
        after = apply_splices(text, [change] if change else [])
        assert {lines.get_ending(line) for line in lines.split(after)} <= {end, ""}


@settings(deadline=None, max_examples=sizes.pick(50, 200))
@given(st.lists(st.sampled_from(ENDS), min_size=1, max_size=30), st.data())
def test_a_line_that_stays_keeps_its_ending(ends: list[str], data: st.DataObject) -> None:
    text = "".join(f"line {number}{end}" for number, end in enumerate(ends))
    kept = sorted(data.draw(st.sets(st.integers(0, len(ends) - 1))))
    wanted = []
    for number in kept:
        wanted += [f"new {number}"] * data.draw(st.integers(0, 2)) + [f"line {number}"]
    change = keep_endings(text, 0, len(text), "".join(line + "\n" for line in wanted))
    endings = {lines.strip_ending(line): lines.get_ending(line) for line in lines.split(change)}
    assert all(endings[f"line {number}"] == ends[number] for number in kept)


def test_lines_that_stay_keep_their_endings_in_a_long_file_too() -> None:
    rows = [f"line {number}" + ENDS[number % 2] for number in range(20_000)]
    new = "".join(f"line {number}\n" for number in range(20_000) if number not in (5, 9_000, 19_990))
    expected = "".join(row for number, row in enumerate(rows) if number not in (5, 9_000, 19_990))
    assert keep_endings("".join(rows), 0, len("".join(rows)), new) == expected


@settings(deadline=None, max_examples=sizes.pick(62, 250))
@given(st.text(st.sampled_from("ab\r\n"), max_size=12), st.text(st.sampled_from("ab\r\n"), max_size=12), st.data())
def test_narrowing_changes_nothing_but_the_size_of_the_splice(text: str, new: str, data: st.DataObject) -> None:
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    change = minimize(text, start, end, new)
    wanted = text[:start] + new + text[end:]
    if change is None:
        assert wanted == text
        return
    assert apply_splices(text, [change]) == wanted != text
    assert start <= change.start <= change.end <= end
    for edge in (change.start, change.end):
        if start < edge < end:
            assert text[edge - 1 : edge + 1] != "\r\n"
