"""Forgiving matching changes the file as intended, or refuses: it never makes another file."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from handrail.errors import ManyLoose, ManyMatches, NoMatch, NothingToChange, Placeholder, ToolError, UnsureIndent
from handrail.text.matching.find import plan_edit
from tests import sizes
from tests.text.mangle import MISTAKES, NEVER_ALONE, make_case, outcome, spliced

CODE = "def f(a):\n    if a:\n        return 1\n    return 2\n\n\ndef g(a):\n    return a\n"


def edited(text: str, old: str, new: str, replace_all: bool = False, prose: bool = False) -> str:
    return spliced(text, plan_edit(text, old, new, replace_all, prose=prose))


def level(text: str, old: str, new: str, prose: bool = False) -> str:
    return plan_edit(text, old, new, prose=prose).level


# Kinds whose new lines cannot always be known: a file that shows no unit or mixes tabs and spaces.
UNKNOWABLE = {"other unit", "spaces to tabs", "tabs to spaces"}


@pytest.mark.parametrize("kind", sorted(set(MISTAKES) - UNKNOWABLE - NEVER_ALONE))
@settings(max_examples=sizes.pick(13, 40), derandomize=True, suppress_health_check=list(HealthCheck), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_an_edit_with_a_mistake_makes_the_right_file_or_none(kind: str, seed: int) -> None:
    rng = Random(seed)
    case = next((actual for _ in range(40) if (actual := make_case(rng, [kind]))), None)
    assume(case is not None)
    assert case is not None
    verdict, message, _ = outcome(case)
    assert verdict != "wrong", (message, case.old, case.new)


@settings(max_examples=sizes.pick(37, 150), derandomize=True, suppress_health_check=list(HealthCheck), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_an_edit_by_the_letter_is_made_by_the_letter(seed: int) -> None:
    case = make_case(Random(seed), [])
    assume(case is not None)
    assert case is not None
    assert outcome(case)[0] != "wrong", (case.old, case.new)


def test_text_that_is_there_is_meant_by_the_letter() -> None:
    page = "<p>&lt;b&gt;</p>\n<p><b></p>\n"
    assert edited(page, "<p>&lt;b&gt;</p>", "<p>&lt;i&gt;</p>") == "<p>&lt;i&gt;</p>\n<p><b></p>\n"
    assert edited('x = "a\\nb"\n', '"a\\nb"', '"a\\nc"') == 'x = "a\\nc"\n'


def test_a_second_place_that_fits_worse_is_still_a_second_place() -> None:
    text = "a = 1\nb = 2\n    a = 1\n    b = 2\n"
    with pytest.raises(ManyLoose) as error:
        plan_edit(text, "a = 1 \nb = 2", "a = 1\nb = 3")
    assert (error.value.facts["count"], error.value.facts["lines"]) == (2, [1, 3])


def test_overlapping_places_are_two() -> None:
    for text in ("}\n}\n}\n", "}\r\n}\r\n}\r\n"):
        with pytest.raises(ManyMatches):
            plan_edit(text, "}\n}", "}\nx\n}")


@pytest.mark.parametrize(
    ("old", "name"),
    [
        ("    if a: \n        return 1", "trailing_blanks"),
        ("if a:\n    return 1", "indentation"),
        ("\tif a:\n\t\treturn 1", "indentation"),
        ("    if\u00a0a:\n        return 1", "punctuation"),
        ("    if  a:\n        return  1", "inner_blanks"),
    ],
)
def test_the_strictest_rung_on_which_the_place_stands_is_told(old: str, name: str) -> None:
    new = old.replace("1", "3")
    assert level(CODE, old, new) == name
    assert edited(CODE, old, new) == CODE.replace("return 1", "return 3")


def test_a_loose_match_never_joins_or_loses_lines() -> None:
    old, new = "    if a: \n        return 1", "    if a:\n        return 3"
    for ends in (("", ""), ("\n", "\n"), ("\n", "")):
        assert edited(CODE, old + ends[0], new + ends[1]) == CODE.replace("return 1", "return 3")
    assert edited(CODE, "    if a: \n        return 1\n", "") == CODE.replace("    if a:\n        return 1\n", "")


def test_a_final_newline_is_neither_made_nor_lost() -> None:
    assert edited("a\n  b", "b \n", "c\n") == "a\n  c"
    assert edited("a\n  b\n", "a \nb", "a\nc") == "a\n  c\n"


def test_all_places_of_one_reading_are_replaced() -> None:
    text = "  f(1)\nx\n    f(1)\n"
    plan = plan_edit(text, "f(1) \n", "f(2)\n", replace_all=True)
    assert (spliced(text, plan), plan.places) == ("  f(2)\nx\n    f(2)\n", 2)


def test_places_that_overlap_are_not_replaced_loosely() -> None:
    with pytest.raises(ManyLoose):
        plan_edit("a\nb\na\nb\na\n", "a \nb\na", "c", replace_all=True)


def test_what_an_elided_middle_stands_for_stays() -> None:
    text = "start\none\ntwo\nthree\nend\n"
    assert edited(text, "start\n...\nend", "begin\n...\nend") == "begin\none\ntwo\nthree\nend\n"


def test_an_anchor_that_is_there_twice_below_is_refused_and_one_above_does_not_count() -> None:
    assert edited("end\nstart\none\nend\n", "start\n...\nend", "start\n...\nstop") == "end\nstart\none\nstop\n"
    with pytest.raises(ManyLoose):
        plan_edit("start\none\nend\nend\n", "start\n...\nend", "start\n...\nstop")


def test_dots_that_are_in_the_file_are_no_omission() -> None:
    stub = "def f():\n    ...\n\nclass A:\n    x = 1\n"
    assert edited(stub, "def f(): \n    ...\n", "def g():\n    ...\n") == stub.replace("def f", "def g")


@pytest.mark.parametrize("row", ["# ... rest of the function", "// ...", "    ...", "/* ... existing code ... */"])
def test_a_new_text_that_leaves_code_out_is_refused(row: str) -> None:
    with pytest.raises(Placeholder):
        plan_edit(CODE, "    if a:\n        return 1\n", f"    if not a:\n        call()\n{row}\n")


def test_dots_alone_may_be_the_body_of_a_function() -> None:
    assert edited(CODE, "def g(a):\n    return a", "def g(a):\n    ...").endswith("def g(a):\n    ...\n")


PROSE = "x = 1\n# Take the first item of the list, not the last\ny = 2\n"


def test_one_other_word_in_a_comment_that_stays_is_forgiven() -> None:
    old = "x = 1\n# Take the first entry of the list, not the last\ny = 2"
    assert edited(PROSE, old, old.replace("y = 2", "y = 3")) == PROSE.replace("y = 2", "y = 3")


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("not", "never"),
        ("first", "1st"),
        ("first item", "item"),
        ("x = 1", "x = 2"),
        ("list", "my_list"),
        ("item", "getItem"),
    ],
)
def test_a_number_a_name_or_a_negation_is_not_a_wrong_word(word: str, other: str) -> None:
    old = PROSE.replace(word, other).rstrip()
    with pytest.raises(NoMatch):
        plan_edit(PROSE, old, old.replace("y = 2", "y = 3"))


def test_code_in_a_fence_or_in_backticks_is_not_prose() -> None:
    page = "Title\n\n```\nrun the server now\n```\nEnd\n"
    with pytest.raises(NoMatch):
        plan_edit(page, "```\nrun the client now\n```\nEnd", "```\nrun the client now\n```\nStop", prose=True)
    with pytest.raises(NoMatch):
        plan_edit(
            "Call `git push` here now\nEnd now\n",
            "Call `git pull` here now\nEnd now",
            "Call `git pull` here now\nStop",
            prose=True,
        )


def test_lost_indentation_of_a_new_block_is_not_guessed() -> None:
    text = "class A:\n    x = 1\n    y = 2\n"
    with pytest.raises(UnsureIndent):
        plan_edit(text, "x = 1 \ny = 2", "x = 1\nif x:\nz = 3\ny = 2")


def test_blank_edges_that_the_file_has_too_are_a_change() -> None:
    with pytest.raises(ToolError):
        plan_edit("a\nb\n\nc\n", "\na\nb\n\n\n", "a\nd\n\n")


def test_nothing_to_change_is_said() -> None:
    with pytest.raises(NothingToChange):
        plan_edit("  a\n  b\n", "a \nb", "a\nb")


def test_new_lines_that_share_nothing_with_the_old_ones_are_not_placed_by_guess() -> None:
    text = "def f():\n    if a:\n        x = 1\n        y = 2\n    z = 3\n"
    with pytest.raises(UnsureIndent):  # four blanks: inside the `if`, as the old text has it, or behind it, as the file
        plan_edit(text, "    x = 1\n    y = 2\nz = 3\n", "    return 1\n")


def test_a_middle_elided_in_the_old_text_only_is_refused_where_lines_beside_it_stay() -> None:
    text = "def f():\n    a = 1\n    b = 2\n    d = 4\n    return d\n"
    with pytest.raises(ToolError):  # lines that nobody wrote out would go
        plan_edit(text, "    a = 1\n    ...\n    d = 4\n", "    a = 1\n    e = 5\n")


def test_a_blank_line_lost_among_lines_that_repeat_is_put_back_where_the_file_has_it() -> None:
    text = "item\n\nitem\n\n\nitem\n\nitem\n"
    old, new = "item\n\nitem\n\nitem\n\nitem\n", "item\n\nitems\n\nitem\n\nitem\n"
    assert edited(text, old, new) == text.replace("item\n\n\n", "items\n\n\n")


@pytest.mark.parametrize("mark", "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e")
def test_characters_of_no_width_around_lines_are_not_those_of_the_file(mark: str) -> None:
    text = "one: yes  \ntwo: no\n"
    old = "\n".join(mark + row + mark for row in text.splitlines())
    assert edited(text, old, old.replace("one", "first")) == text.replace("one", "first")


def test_a_sentence_that_begins_like_a_loop_opens_no_block() -> None:
    text = "- Notes\n  Read this.\n  For larger fixes, do so:\n  1. Describe it.\n"
    old = "Read this.\nFor larger fixes, do so:\n1. Describe it."
    assert edited(text, old, old.replace("larger", "all larger")) == text.replace("larger", "all larger")
