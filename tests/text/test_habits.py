"""What a text may mean: one habit undone, in new_string only if it has it too."""

from __future__ import annotations

import re

import pytest

from handrail.text.matching import habits
from handrail.text.matching.habits import HABITS, Habit, list_variants


def meant(old: str, new: str, name: str) -> set[tuple[str, str]]:
    return {(one.old, one.new) for one in list_variants(old, new) if one.names == (name,)}


def test_a_text_without_a_habit_has_no_variant() -> None:
    assert not list(list_variants("a", "b"))


def test_there_are_few_habits_and_each_is_named_once() -> None:
    names = [habit.name for habit in HABITS]
    assert len(names) == len({*names}) <= 17


@pytest.mark.parametrize("form", ["{:>6}\t", "{:>6}→", "{:>4} | ", "{}: ", "{}|", "{:05}| "])
def test_line_numbers_go_from_both_texts(form: str) -> None:
    old = "".join(form.format(number) + row + "\n" for number, row in ((9, "x"), (10, "y")))
    new = "".join(form.format(number) + row + "\n" for number, row in ((9, "x"), (10, "z"), (11, "y")))
    assert ("x\ny\n", "x\nz\ny\n") in meant(old, new, "line numbers")


def test_a_new_text_without_numbers_is_left_alone() -> None:
    assert meant("3\tx = 1\n4\ty = 2\n", "x = 1\ny = 3\n", "line numbers") == {("x = 1\ny = 2\n", "x = 1\ny = 3\n")}


def test_added_lines_need_no_number() -> None:
    assert meant("3\tx\n4\ty\n", "3\tx\nnew\n4\ty\n", "line numbers") == {("x\ny\n", "x\nnew\ny\n")}


def test_numbers_that_do_not_ascend_are_data() -> None:
    assert not meant("3: x\n7: y\n", "3: x\n7: z\n", "line numbers")


def test_a_fence_goes_with_its_break() -> None:
    assert meant("```py\nx\n```", "y\n", "code fence") == {("x\n", "y\n")}
    assert meant("```py\nx\n```", "```py\ny\n```\n", "code fence") == {("x\n", "y\n")}
    assert not meant("~~~\nx\n\n~~~\n", "~~~\n\n~~~", "code fence")  # whose is the blank line?


def test_a_fence_that_only_begins_in_new_is_not_undone() -> None:
    assert not meant("```\nx\n```", "```\ny\n", "code fence")


def test_entities_of_the_file_itself_stay() -> None:
    old, new = "&lt;b&gt; &amp;amp;\n&lt;br&gt;\n", "<i> &amp;\n<br>\n"
    assert meant(old, new, "entities") == {("<b> &amp;\n<br>\n", new)}
    assert meant("a &lt; b\nc", "a &lt; d\nc", "entities") == {("a < b\nc", "a < d\nc")}


def test_escapes_are_undone_in_new_only_if_it_has_them_throughout() -> None:
    old = 'if a:\\n    print(\\"x\\\\n\\")'
    bare = 'if a:\n    print("x\\n")'
    assert meant(old, old.replace("a:", "b:"), "escapes") == {(bare, bare.replace("a:", "b:"))}
    assert meant(old, bare.replace("a:", "b:"), "escapes") == {(bare, bare.replace("a:", "b:"))}


def test_a_text_that_says_both_has_no_reading() -> None:
    assert not meant('x = \\"a\\"\\ny = \\"b\\"', 'x = "a"\ny = \\"b\\"', "escapes")


@pytest.mark.parametrize(
    ("name", "old", "new", "bare", "undone"),
    [
        ("signs for line ends", "a$\nb$\n", "a$\nc$\n", "a\nb\n", "a\nc\n"),
        ("tags", "<old>a = 1</old>", "<new>a = 2</new>", "a = 1", "a = 2"),
        ("line numbers", "[7] a\n[8] b", "[7] a\n[8] c", "a\nb", "a\nc"),
    ],
)
def test_a_habit_goes_from_both_texts(name: str, old: str, new: str, bare: str, undone: str) -> None:
    assert meant(old, new, name) == {(bare, undone)}


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("entities", "a &lt; b < c"),
        ("code points", "\\u00e9 é"),
        ("escaped slashes", "a\\/b/c"),
        ("escapes", 'a\\n"b\\n'),
        ("line numbers", "7: a\n    8: b\n9: c"),
    ],
)
def test_what_a_habit_would_not_have_left_so_is_no_habit(name: str, old: str) -> None:
    assert not meant(old, old + "x", name)


def test_a_repair_whose_habit_does_not_give_back_what_was_sent_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    undo, spoil = (lambda pattern, text: pattern.sub("", text)), (lambda pattern, bare, sent: bare + "!")
    shouts = Habit("made up", (re.compile("!"),), undo, spoil)
    monkeypatch.setattr(habits, "HABITS", (shouts,))
    assert meant("good!", "x", "made up") == {("good", "x")}
    assert not meant("ba!d", "x", "made up")


@pytest.mark.parametrize(
    ("name", "old", "bare"),
    [
        ("composed characters", "\u00e9", "e\u0301"),
        ("combining characters", "e\u0301", "\u00e9"),
        ("signs for blanks", "<TAB>a", "\ta"),
        ("entities", "a &amp;lt; b", "a < b"),
    ],
)
def test_a_spelling_of_one_text_is_undone_where_the_other_text_lacks_it(name: str, old: str, bare: str) -> None:
    assert meant(old, "z", name) >= {(bare, "z")}


def test_a_sign_for_a_line_end_that_only_some_new_lines_have_is_not_kept() -> None:
    assert not meant("^M\na:^M\nb", "^M\na:", "signs for line ends")
