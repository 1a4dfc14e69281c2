"""What a text may mean: one habit undone, in new_string only if it has it too."""

from __future__ import annotations

import pytest

from handrail.text.matching.variants import list_variants


def meant(old: str, new: str, name: str) -> set[tuple[str, str]]:
    return {(one.old, one.new) for group in list_variants(old, new) for one in group if one.names == (name,)}


def test_the_texts_as_they_are_come_first() -> None:
    first = next(list_variants("a", "b"))
    assert [(one.names, one.old, one.new) for one in first] == [((), "a", "b")]


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
    assert meant("~~~\nx\n\n~~~\n", "~~~\n\n~~~", "code fence") == {("x\n\n", "\n")}


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


def test_a_break_inside_of_a_string_is_the_codes_own() -> None:
    old, new = 'a()\\nprint("x\\n")', 'b()\\nprint("x\\n")'
    assert meant(old, new, "escaped line breaks") == {('a()\nprint("x\\n")', 'b()\nprint("x\\n")')}


def test_a_text_that_says_both_has_no_reading() -> None:
    assert not meant('x = \\"a\\"\\ny = \\"b\\"', 'x = "a"\ny = \\"b\\"', "escapes")
