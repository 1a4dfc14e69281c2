"""Occurrences of a text or a pattern: found in order, with their lines and what is to stand there instead."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.errors import BadPattern, BadReplacement, EmptyMatch, ToolError
from handrail.text.document import Splice, apply_splices
from handrail.text.occurrences import Occurrence, compile_search, shorten, show_window


def find(text: str, pattern: str, replacement: str = "", **options: Any) -> list[Occurrence]:
    return list(compile_search(pattern, replacement, **options).find(text, 10.0))


def replaced(text: str, pattern: str, replacement: str, **options: Any) -> str:
    occurrences = find(text, pattern, replacement, **options)
    return apply_splices(text, [Splice(one.start, one.end, one.new) for one in occurrences])


# What is found.


def test_a_literal_is_found_with_its_line() -> None:
    assert find("a\nb a\n\na", "a", "x") == [
        Occurrence(0, 1, "x", 1),
        Occurrence(4, 5, "x", 2),
        Occurrence(7, 8, "x", 4),
    ]


def test_occurrences_do_not_overlap() -> None:
    assert [(one.start, one.end) for one in find("aaaaa", "aa")] == [(0, 2), (2, 4)]


def test_a_literal_means_every_sign_as_it_is() -> None:
    assert replaced("a.b a+b", "a.b", r"\1$&") == r"\1$& a+b"
    assert replaced("f(x) F(X)", "f(x)", r"\0", ignore_case=True) == r"\0 \0"


def test_case_is_ignored_on_demand() -> None:
    assert replaced("Foo foo FOO", "foo", "x") == "Foo x FOO"
    assert replaced("Foo foo FOO", "foo", "x", ignore_case=True) == "x x x"
    assert replaced("Foo foo", "f(o+)", r"\1", regex=True, ignore_case=True) == "oo oo"


def test_whole_words_are_not_inside_longer_ones() -> None:
    assert replaced("id width id2 (id) my_id", "id", "x", whole_words=True) == "x width id2 (x) my_id"
    assert replaced("foo foobar", "foo|foobar", "x", regex=True, whole_words=True) == "x x"
    assert replaced("$a $ab", "$a", "x", whole_words=True) == "x $ab"


def test_a_verbose_pattern_may_end_in_a_comment() -> None:
    assert replaced("ab abc", "(?x) a b # both", "x", regex=True, whole_words=True) == "x abc"


def test_begin_and_end_of_lines_are_found_in_every_line() -> None:
    assert replaced("a a\na a", "^a", "x", regex=True) == "x a\nx a"
    assert replaced("a a\na a", "a$", "x", regex=True) == "a x\na x"
    assert replaced("a\nb", "a.b", "x", regex=True) == "a\nb"
    assert replaced("a\nb", "(?s)a.b", "x", regex=True) == "x"


def test_groups_are_put_into_the_replacement() -> None:
    assert replaced("k=v", r"(\w)=(?P<value>\w)", r"\g<value>: \1\\n\n", regex=True) == "v: k\\n\n"
    assert replaced("a", "(a)|(b)", r"[\2]", regex=True) == "[]"
    assert replaced("a", "a", "$1 {0}", regex=True) == "$1 {0}"


# Line endings.


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_line_ending_counts_as_a_line_feed(ending: str) -> None:
    text = ending.join(["one", "two", "three", ""])
    assert replaced(text, "one\ntwo", "1\n2") == ending.join(["1", "2", "three", ""])
    assert replaced(text, "^(t.*)$", r"<\1>", regex=True) == ending.join(["one", "<two>", "<three>", ""])
    assert replaced(text, r"two\n", "", regex=True) == ending.join(["one", "three", ""])
    assert [one.line for one in find(text, "t")] == [2, 3]


def test_new_lines_take_the_ending_of_their_place() -> None:
    assert replaced("a\r\nb\r\n", "b", "b\nc") == "a\r\nb\r\nc\r\n"
    assert replaced("a\r\nb\nc", "b", "1\n2") == "a\r\n1\n2\nc"


def test_who_spells_a_carriage_return_means_the_endings() -> None:
    assert replaced("a\r\nb\r\n", "\r\n", "\n") == "a\nb\n"
    assert replaced("a\r\nb\r\n", r"\r\n", r"\n", regex=True) == "a\nb\n"
    assert replaced("a\nb\n", "\n", "\r\n") == "a\r\nb\r\n"
    assert replaced("a\nb\n", r"\n", r"\r\n", regex=True) == "a\r\nb\r\n"
    assert [one.line for one in find("a\r\nb\r\nc", r"\n(?#\r)", regex=True)] == [1, 2]


def test_a_backslash_before_an_r_is_no_carriage_return() -> None:
    assert replaced("'\\r'\r\nx", r"'\\r'\nx", "y", regex=True) == "y"


def test_an_endless_line_with_many_occurrences_is_not_looked_at_again_for_each() -> None:
    text = "{1},2" * 10_000 + "x" * 5_000_000
    occurrences = find(text, "},", "},\n")
    assert len(occurrences) == 10_000
    assert all(len(show_window(text, one, 60)[1]) < 200 for one in occurrences)
    assert occurrences[-1].new == "},\n"
    assert find(text + "\r\n", "},", "},\n")[-1].new == "},\r\n"


# What is refused.


@pytest.mark.parametrize(
    "pattern", ["(", "*", "[a", r"\p{Nope}", "(?P<a", "(" * 5000, "(?u)(?a)x", "(?r)ab", ",eG&{1i<["]
)
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern) as error:
        compile_search(pattern, "", regex=True)
    assert error.value.facts["why"]


@pytest.mark.parametrize(
    "pattern", ["(?:a{1000}){1000}", "[ab]{1000000}", "((a{50}){50}){50}", "(?x)(?:a{900}) #\n{900}"]
)
def test_a_pattern_that_takes_too_long_to_compile_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern, match="too many steps"):
        compile_search(pattern, "", regex=True)


def test_usual_repeats_are_no_reason_to_refuse() -> None:
    uuid = "[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    one = "12345678-1234-1234-1234-123456789abc"
    assert replaced(f"{one} {one}", f"{uuid} {uuid}", "x", regex=True) == "x"


@pytest.mark.parametrize("replacement", [r"\2", r"\g<nope>", r"\q", "\\", r"\g<"])
def test_a_replacement_that_cannot_be_used_is_refused(replacement: str) -> None:
    with pytest.raises(BadReplacement) as error:
        find("a", "(a)", replacement, regex=True)
    assert error.value.facts["why"]


@pytest.mark.parametrize(("pattern", "line"), [("x*", 1), ("^", 1), (r"\s*$", 1), ("b*(?=c)", 2)])
def test_a_match_of_nothing_is_refused_with_its_line(pattern: str, line: int) -> None:
    with pytest.raises(EmptyMatch) as error:
        find("a\nc\n", pattern, regex=True)
    assert error.value.facts == {"line": line}


def test_a_catastrophic_pattern_ends_in_time() -> None:
    catastrophe = compile_search(r"(?:x|x\w?)+(?:\w|x)+!", "", regex=True)
    with pytest.raises(TimeoutError):
        list(catastrophe.find("x" * 5000, 0.2))


# How it is shown.


def test_the_window_shows_the_line_before_and_after() -> None:
    text = "one\n  two three\nfour\n"
    assert show_window(text, find(text, "two", "2")[0], 60) == ("  two three", "  2 three")
    assert show_window(text, find(text, "three\nfour", "3\n4")[0], 60) == ("  two three⏎four", "  two 3⏎4")
    assert show_window(text, find(text, "one\n", "")[0], 60) == ("one⏎", "")


def test_a_long_line_is_cut_around_the_occurrence() -> None:
    text = "a" * 100 + "X" + "b" * 100
    assert show_window(text, find(text, "X", "Y")[0], 5) == ("…aaaaaXbbbbb…", "…aaaaaYbbbbb…")
    assert shorten("abcdefgh", 4) == "ab…gh"


# For all texts.

TEXT = st.text(st.sampled_from("abAB \n._é"), max_size=40)
ENDED = st.text(st.sampled_from("ab \r\n"), max_size=40)


@given(TEXT, TEXT.filter(bool), TEXT)
def test_a_literal_is_replaced_as_python_does(text: str, pattern: str, replacement: str) -> None:
    assert replaced(text, pattern, replacement) == text.replace(pattern, replacement)
    assert replaced(text, re.escape(pattern), replacement.replace("\\", "\\\\"), regex=True) == text.replace(
        pattern, replacement
    )


@given(ENDED, st.text(st.sampled_from("ab \n"), min_size=1, max_size=3))
def test_occurrences_are_in_order_apart_and_on_the_lines_they_say(text: str, pattern: str) -> None:
    last = 0
    for one in find(text, pattern, "x"):
        assert last <= one.start < one.end
        there = text[one.start : one.end]
        assert there.replace("\r\n", "\n").replace("\r", "\n") == pattern
        before = text[: one.start].replace("\r\n", "\n").replace("\r", "\n")
        assert one.line == before.count("\n") + 1
        last = one.end


@given(ENDED, st.text(st.sampled_from("ab \n"), min_size=1, max_size=3), st.text(st.sampled_from("xy\n"), max_size=4))
def test_apart_from_endings_the_result_is_pythons(text: str, pattern: str, replacement: str) -> None:
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    result = replaced(text, pattern, replacement)
    assert result.replace("\r", "").replace("\n", "") == plain.replace(pattern, replacement).replace("\n", "")
    if "\r" not in text:
        assert result == text.replace(pattern, replacement)


@given(st.text(st.sampled_from("ab()[]{}*+?|\\^$.<>=!:P#12,xr-"), max_size=15), TEXT, TEXT)
def test_any_pattern_is_searched_for_or_refused(pattern: str, replacement: str, text: str) -> None:
    last = 0
    try:
        for one in compile_search(pattern, replacement, regex=True).find(text, 5.0):
            assert last <= one.start < one.end <= len(text)
            last = one.end
    except ToolError:
        pass
