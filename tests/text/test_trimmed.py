"""The `trimmed` match strategy has four levels: exact, line endings, trimmed, line by line."""

from __future__ import annotations

import pytest

from handrail.errors import ManyLoose, ManyMatches, NoMatch
from handrail.text.matching.find import plan_edit
from tests.text.mangle import spliced

GO = "func f() {\n        if user == nil {\n                return err\n        }\n}\n"


def edited(text: str, old: str, new: str) -> str:
    return spliced(text, plan_edit(text, old, new, matching="trimmed"))


def test_one_exact_place_is_replaced_and_two_are_refused() -> None:
    assert edited("a b\n", "b", "c") == "a c\n"
    with pytest.raises(ManyMatches) as error:
        plan_edit("a\na\n", "a", "b", matching="trimmed")
    assert error.value.facts["count"] == 2


def test_line_endings_are_taken_as_equal_and_kept() -> None:
    assert edited("a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb") == "a\r\nx\r\nb\r\nc\r\n"


def test_only_the_trimmed_part_is_replaced() -> None:
    plan = plan_edit("x = (one + two)\n", "\n  one + two  \n", "\n  one - two  \n", matching="trimmed")
    assert (plan.level, spliced("x = (one + two)\n", plan)) == ("trimmed", "x = (one - two)\n")


def test_a_block_without_its_indentation_is_found_and_put_back_indented() -> None:
    old = "if user == nil {\n        return err\n}"
    assert edited(GO, old, old.replace("err", "nil, err")) == GO.replace("return err", "return nil, err")
    assert edited(GO, "if user == nil {\nreturn err\n}", "if user == nil {\nreturn nil\n}") == GO.replace("err", "nil")


def test_two_places_that_are_alike_are_refused() -> None:
    with pytest.raises(ManyLoose) as error:
        plan_edit("  a\n  b\n    a\n    b\n", "a\nb", "c", matching="trimmed")
    assert (error.value.facts["count"], error.value.facts["lines"]) == (2, [1, 3])


@pytest.mark.parametrize("old", ["a  b", "“a b”", "1\ta b", "```\na b\n```", "a\\nb"])
def test_nothing_else_is_forgiven(old: str) -> None:
    with pytest.raises(NoMatch):
        plan_edit('"a b"\na\nb\n', old, "c", matching="trimmed")
