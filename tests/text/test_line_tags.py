"""Line tags: a line is found by the number it was shown under, wherever it is now, or not at all."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.text.line_tags import (
    LineTag,
    Move,
    ShownTags,
    compute_tag,
    follow,
    label_line,
    parse_tag,
    strip_echoes,
)
from tests import sizes

WORDS = ("", "}", "    x = 1", "    return x", "def f():", "a", "b", "c")


def test_a_tag_is_two_characters_of_the_whole_line() -> None:
    assert compute_tag("return x") == compute_tag("return x") != compute_tag(" return x")
    assert label_line(12, "return x") == f"12#{compute_tag('return x')}"
    assert len({compute_tag(str(number)) for number in range(5_000)}) > 900


def test_an_anchor_is_read_from_what_models_copy() -> None:
    for text in ("12#k3", " 12#k3 ", "12#K3", "12 # k3", "12#k3|", "12#k3|    return x | y", "12#k3|a\nb"):
        assert parse_tag(text) == LineTag(12, "k3"), text
    for text in ("", "12", "#k3", "k3", "12#", "12#k", "12#k34", "12:k3", "line 12#k3", "1234567890#k3"):
        assert parse_tag(text) is None, text


def test_tags_in_new_lines_are_removed_unless_the_file_has_such_lines() -> None:
    assert strip_echoes(["1#ab|x", "new", "2#cd|  y"], ["x"]) == (["x", "new", "  y"], 2)
    assert strip_echoes(["1#ab|x"], ["# a table", "7#zz|text"]) == (["1#ab|x"], 0)
    assert strip_echoes(["x = 1 # ab|c"], []) == (["x = 1 # ab|c"], 0)


@settings(max_examples=sizes.pick(150, 3_000))
@given(st.integers(0, 1 << 32))
def test_a_number_means_the_line_that_was_shown_through_all_changes_of_the_model(seed: int) -> None:
    """Every line is an object of its own here, so that a confused one is noticed even if its text is the same."""
    rng = random.Random(seed)
    file = [(number, rng.choice(WORDS)) for number in range(rng.randint(1, 30))]
    new_ids = iter(range(1_000, 1_000_000))
    tags = ShownTags()
    shown: dict[tuple[int, str], set[int]] = {}  # number and tag -> the lines that were shown so

    def show(first: int, last: int) -> None:
        for number in range(first, last + 1):
            one, body = file[number - 1]
            shown.setdefault((number, compute_tag(body)), set()).add(one)

    tags = tags.show(1, len(file))
    show(1, len(file))
    for _ in range(rng.randint(0, 9)):
        first = rng.randint(1, len(file))
        removed = min(rng.randint(0, 3), len(file) - first + 1)
        added = [(next(new_ids), rng.choice(WORDS)) for _ in range(rng.randint(0, 4))]
        if not len(file) - removed + len(added):
            continue
        file[first - 1 : first - 1 + removed] = added
        lines = (max(1, first - 1), min(len(file), first + len(added)))
        tags = tags.change([Move(first, removed, len(added))], [lines])
        show(*lines)
    for (number, tag), ids in shown.items():
        located = tags.locate(
            LineTag(number, tag),
            LineTag(number, tag),
            lambda line: compute_tag(file[line - 1][1]) if line <= len(file) else None,
        )
        if not located.problem:
            assert file[located.first - 1][0] in ids
            alive = [one for one, _ in file if one in ids]
            assert len(alive) <= 1 or len(ids) == 1, (number, tag)


@settings(max_examples=sizes.pick(300, 5_000))
@given(st.integers(0, 1 << 32))
def test_lines_that_another_program_moved_are_followed_only_where_that_is_certain(seed: int) -> None:
    rng = random.Random(seed)
    before = [
        (number, rng.choice(WORDS) if rng.random() < 0.6 else f"line {number}") for number in range(rng.randint(2, 40))
    ]
    now = list(before)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(now) + 1)
        removed = rng.randint(0, 2)
        now[at : at + removed] = [(-1, rng.choice(WORDS)) for _ in range(rng.randint(0, 4))]
    first = rng.randint(1, len(before))
    last = min(len(before), first + rng.randint(0, 2))
    place = follow([body for _, body in before], [body for _, body in now], first, last)
    if place is not None:
        assert [body for _, body in now[place - 1 : place + last - first]] == [
            body for _, body in before[first - 1 : last]
        ]


def test_a_line_that_stands_twice_is_followed_by_the_lines_around_it() -> None:
    before = ["a {", "}", "b {", "}", "end"]
    assert follow(before, ["new", *before], 4, 4) == 5
    assert follow(before, ["new", *before], 2, 2) == 3
    assert follow(["}", "}"], ["}", "}", "}"], 1, 1) is None
    assert follow(before, ["a {", "}", "end"], 4, 4) is None or follow(before, ["a {", "}", "end"], 4, 4) == 2


def test_lines_between_the_ends_must_have_been_shown() -> None:
    rows = ["a", "b", "c", "d"]
    tags = ShownTags().show(1, 1).show(4, 4)
    first, last = (LineTag(number, compute_tag(rows[number - 1])) for number in (1, 4))
    assert tags.locate(first, last, lambda line: compute_tag(rows[line - 1])).problem == "inside"
    assert not tags.show(2, 3).locate(first, last, lambda line: compute_tag(rows[line - 1])).problem
