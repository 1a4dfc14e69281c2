"""What the model changed is carried onto the file's own lines; the rest stays the file's."""

from __future__ import annotations

import contextlib
import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from handrail.errors import UnsureIndent
from handrail.text.document import apply_splices
from handrail.text.matching.find import plan_edit
from handrail.text.matching.indentation import Unsure
from handrail.text.matching.merge import merge


def merged(ours: list[str], old: list[str], new: list[str]) -> list[str]:
    return [ours[row.at] if row.text is None else row.text for row in merge(ours, old, new)]


def test_lines_that_stay_are_the_files_byte_for_byte() -> None:
    ours = ["“a”  ", "\tb", "c — d"]
    assert merged(ours, ['"a"', "    b", "c - d"], ['"a"', "    b", "new", "c - d"]) == ["“a”  ", "\tb", "new", "c — d"]


def test_inside_a_changed_line_the_untouched_words_stay_the_files() -> None:
    assert merged(["say “hello” — now"], ['say "hello" - now'], ['say "hello" - later']) == ["say “hello” — later"]
    assert merged(["“a” + “b”"], ['"a" + "b"'], ['"a", "b"']) == ["“a”, “b”"]


def test_a_repeated_block_is_not_taken_for_its_copy() -> None:
    ours = ["“x”", "y", "“x”", "y"]
    assert merged(ours, ['"x"', "y", '"x"', "y"], ['"x"', "z", '"x"', "y"]) == ["“x”", "z", "“x”", "y"]


def test_new_alignment_inside_a_line_is_a_change() -> None:
    assert merged(["\ta = 1", "\tbcd = 2"], ["a = 1", "bcd = 2"], ["a   = 1", "bcd = 2"]) == ["\ta   = 1", "\tbcd = 2"]


def test_blanks_that_the_model_got_wrong_are_no_change() -> None:
    assert merged(["a = 1", "b"], ["a  = 1", "b"], ["a   = 1", "c"]) == ["a = 1", "c"]


def test_blanks_at_line_ends_of_the_model_are_not_written() -> None:
    assert merged(["a", "b"], ["a  ", "b"], ["a  ", "x  ", "b"]) == ["a", "x", "b"]


def test_a_re_indented_line_is_moved_by_as_much_in_the_file() -> None:
    ours = ["    a", "    b"]
    assert merged(ours, ["a", "b"], ["if x:", "    a", "b"]) == ["    if x:", "        a", "    b"]


def test_between_two_depths_a_line_without_indentation_is_not_placed() -> None:
    with pytest.raises(Unsure):
        merged(["a {", "    b", "}"], ["a {", "b", "}"], ["a {", "new", "b", "}"])


@pytest.mark.parametrize("opening", "“‘„")
@pytest.mark.parametrize("closing", "”’")
def test_new_lines_are_quoted_as_the_file_quotes_the_old_ones(opening: str, closing: str) -> None:
    curly = str.maketrans({"<": opening, ">": closing})
    plain = str.maketrans({"<": "'" if opening == "‘" else '"', ">": "'" if closing == "’" else '"'})
    text = "a = <one>\nb = <two>\n".translate(plain)
    old, new = "a = <one>\nb = <two>".translate(curly), "a = <one>\nadded = <three>\nb = <changed>".translate(curly)
    wanted = "a = <one>\nadded = <three>\nb = <changed>\n".translate(plain)
    assert apply_splices(text, plan_edit(text, old, new).splices) == wanted


def test_quotes_of_which_the_file_has_some_so_and_some_plain_are_not_guessed() -> None:
    text = 'a = "one"\nb = “two”\n'
    with pytest.raises(UnsureIndent):
        plan_edit(text, "a = “one”\nb = “two”", "a = “one”\nadded = “three”\nb = “two”")


REPEATED = ["x = 1", "y = 2"] * 1000


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (REPEATED, [row.replace(" =", "  =") for row in REPEATED], [row.replace("x", "z") for row in REPEATED]),
        (["it's a word " * 1500], ["it’s a word " * 1500], ["one it’s the word " * 1500]),
    ],
    ids=["lines", "words"],
)
def test_texts_that_repeat_themselves_are_compared_in_bounded_work(
    file: list[str], old: list[str], new: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    real = difflib.SequenceMatcher

    def matcher(junk: None, a: Sequence[str], b: Sequence[str], autojunk: bool) -> Any:
        here, there = Counter(a), Counter(b)
        compared.append(sum(count * there[part] for part, count in here.items()))
        return real(junk, a, b, autojunk)

    monkeypatch.setattr(difflib, "SequenceMatcher", matcher)
    with contextlib.suppress(Unsure):
        merge(file, old, new)
    assert sum(compared) < 1_000_000
