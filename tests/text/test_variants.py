"""What a text may mean: one habit undone, in new_string only if it has it too."""

from __future__ import annotations

import pytest

from handrail.text.matching import variants
from handrail.text.matching.habits import Repair
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


@pytest.mark.parametrize(
    ("name", "old", "new", "bare", "undone"),
    [
        ("quotation signs", "> a\n>\n> b", "> a\n>\n> c", "a\n\nb", "a\n\nc"),
        ("colours", "\x1b[31ma = 1\x1b[0m", "a = 2", "a = 1", "a = 2"),
        ("signs for line ends", "a$\nb$\n", "a$\nc$\n", "a\nb\n", "a\nc\n"),
        ("line separators", "a\u2028b", "a\u2028c", "a\nb", "a\nc"),
        ("tags", "<old>a = 1</old>", "<new>a = 2</new>", "a = 1", "a = 2"),
        ("tags", "<<<<<<< HEAD\na\n=======", "=======\nb\n>>>>>>> new", "a\n", "b\n"),
        ("quotes around", "`a = 1`", "`a = 2`", "a = 1", "a = 2"),
        ("quotes around", "a = 1\\n", "a = 2\\n", "a = 1", "a = 2"),
        ("dots around", "# ...\na\n# ...", "# ...\nb\n# ...", "a\n", "b\n"),
        ("codes of a URL", "a%20%3D%20%C3%A9", "a%20%3D%20b", "a = é", "a = b"),
        ("composed characters", "e\u0301 \u00e9", "e\u0301 \u00e9 x", "\u00e9 \u00e9", "\u00e9 \u00e9 x"),
        ("ligatures", "ﬁle of ﬂags", "ﬁle of ﬂag", "file of flags", "file of flag"),
        ("arrows", "a ≥ b → c", "a ≥ b → d", "a >= b -> c", "a >= b -> d"),
        ("long dashes", "a — b", "a — c", "a -- b", "a -- c"),
        ("doubled backslashes", "a \\\\d b", "a \\\\d c", "a \\d b", "a \\d c"),
        ("doubled braces", "f({{a}})", "f({{b}})", "f({a})", "f({b})"),
        ("doubled percent signs", "%%s a", "%%s b", "%s a", "%s b"),
        ("doubled quotes", "''a''", "''b''", "'a'", "'b'"),
        ("quotes of a shell", "it'\\''s a", "it'\\''s b", "it's a", "it's b"),
        ("escapes of a shell", "\\$a \\`b\\`", "\\$a \\`c\\`", "$a `b`", "$a `c`"),
        ("escapes of Markdown", "\\_a\\_ \\*b", "\\_a\\_ \\*c", "_a_ *b", "_a_ *c"),
        ("line numbers", "[7] a\n[8] b", "[7] a\n[8] c", "a\nb", "a\nc"),
        ("diff signs", "@@ -1 +1 @@\n-a", "@@ -1 +1 @@\n+b", "a", "b"),
        ("tags", "<![CDATA[a\nb\n]]>", "<![CDATA[\nb\n]]>", "a\nb\n", "\nb\n"),
    ],
)
def test_a_habit_goes_from_both_texts(name: str, old: str, new: str, bare: str, undone: str) -> None:
    assert meant(old, new, name) == {(bare, undone)}


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("entities", "a &lt; b < c"),
        ("code points", "\\u00e9 é"),
        ("codes of a URL", "a%20b c"),
        ("doubled backslashes", "\\\\d \\s"),
        ("doubled braces", "{{a}} {b}"),
        ("doubled quotes", "''a'' 'b'"),
        ("escaped slashes", "a\\/b/c"),
        ("escapes", 'a\\n"b\\n'),
        ("arrows", "a → b -> c"),
        ("line separators", "a\u2028b\nc"),
        ("line numbers", "7: a\n    8: b\n9: c"),
    ],
)
def test_what_a_habit_would_not_have_left_so_is_no_habit(name: str, old: str) -> None:
    assert not meant(old, old + "x", name)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("signs for line ends", "a:$\nb$\n", "a:$\n^Ic$\n"),
        ("signs for line ends", "a:¶\nb¶\n", "a:¶\n→c¶\n"),
    ],
)
def test_a_new_text_that_shows_more_of_a_habit_than_the_old_one_has_no_reading(name: str, old: str, new: str) -> None:
    assert not meant(old, new, name)
    assert meant(old, old, name)


def test_where_backslashes_are_escaped_no_reading_leaves_one_before_a_line_break() -> None:
    readings = [one for group in list_variants("a\\nb\\n", "a\\nlog(&quot;x\\\\n&quot;)\\n") for one in group]
    assert any(one.old == "a\nb\n" for one in readings)
    assert not any("\\\n" in one.new for one in readings)


def test_a_repair_whose_habit_does_not_give_back_what_was_sent_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(old: str, new: str) -> list[Repair]:
        return [Repair("good", "x", lambda bare: bare + "!"), Repair("bad", "x", lambda bare: bare)]

    monkeypatch.setattr(variants, "_STEPS", (("made up", step, lambda _: True),))
    assert meant("good!", "x", "made up") == {("good", "x")}
