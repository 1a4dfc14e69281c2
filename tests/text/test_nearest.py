"""A refusal says where the text nearly is, and what differs there."""

from __future__ import annotations

from typing import Any

import pytest

from handrail.errors import NoMatch
from handrail.text.matching.find import plan_edit
from handrail.text.matching.nearest import show_difference


def facts(text: str, old: str) -> dict[str, Any]:
    with pytest.raises(NoMatch) as error:
        plan_edit(text, old, "something else")
    return {name: value for name, value in error.value.facts.items() if name not in ("old", "longer")}


def test_the_first_line_that_differs_is_named_with_visible_blanks() -> None:
    actual = facts("one = 1\n\ttwo = 2\nthree = 3\n", "one = 1\n    two = 4\nthree = 3")
    current = "     1\tone = 1\n     2\t\ttwo = 2\n     3\tthree = 3"
    assert actual == {
        "near": 1,
        "others": [],
        "line": 2,
        "theirs": "····two = 4",
        "ours": "→two = 2",
        "current": current,
    }


def test_characters_that_look_alike_are_named_by_their_code_points() -> None:
    actual = facts("аlpha = 1\nbeta = 2\n", "alpha = 1\nbeta = 2")  # the first letter in the file is Cyrillic
    assert (actual["sent"], actual["there"]) == ("U+0061", "U+0430")


def test_most_equal_lines_win_and_other_places_are_named() -> None:
    text = "alpha\nbeta\ngamma\ndelta\n" + "x\n" * 5 + "alpha\nbeta\nomega\n"
    actual = facts(text, "alpha\nbeta\ngamma\nother\n")
    assert (actual["near"], actual["line"], actual["others"]) == (1, 4, [10])


def test_without_an_equal_line_the_most_alike_one_is_shown() -> None:
    assert facts("first line here\nsecond line here\n", "secund line here")["near"] == 2


def test_nothing_alike_gives_no_facts() -> None:
    assert facts("abc\ndef\n", "something entirely different") == {}


def test_long_lines_are_cut_around_the_difference() -> None:
    theirs, ours = show_difference("x" * 500 + "a" + "y" * 500, "x" * 500 + "b" + "y" * 500)
    assert theirs.startswith("…") and theirs.endswith("…") and "a" in theirs and "b" in ours and len(ours) < 200


def test_blanks_that_are_easily_overlooked_are_dots() -> None:
    assert show_difference("a  b", "a b") == ("a··b", "a b")
    assert show_difference("a b ", "a b") == ("a b·", "a b")


def test_a_common_line_does_not_outvote_a_rare_one() -> None:
    text = "}\n" * 100 + "rare_name()\n}\nend()\n"
    assert facts(text, "rare_name()\n}\nstop()")["near"] == 101
