"""Any file, any edit, mangled by any composition of up to three mistakes: the right file or a refusal, never another.

A case is made from a file of one of several shapes (`samples.py`), a clean edit of one place of it (`edits.py`) and
mistakes drawn from all that the matching forgives (`mangle_mistakes.py`), made one after the other. What is compared is
the whole file. The one file that counts besides the right one is that of another edit at the same place which, with
fewer mistakes, has the very same two texts: see `mangle.means`. Then what was sent does not say what was first meant.

The seeds are hypothesis's, but always the same; `python -m tests.text.mangle` hammers with as many others as one likes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from handrail.errors import ManyLoose, ToolError, UnsureIndent
from handrail.text.matching.find import plan_edit
from tests import sizes
from tests.text.edits import Case
from tests.text.mangle import NEVER_ALONE, describe, make_case, make_literal_case, means, outcome, spliced
from tests.text.mangle_mistakes import MISTAKES
from tests.text.mangle_recalled import RECALLED
from tests.text.mangle_rendered import SLIPS
from tests.text.mangle_shown import SHOWN
from tests.text.samples import SAMPLES, Sample

SHAPES = {shape.__name__: shape for shape in SAMPLES}
BATCH = 50
"""Cases to a seed: making an example costs hypothesis more than a case costs us."""


def cases(seed: int, shape: Callable[[Random], Sample]) -> list[Case]:
    """Edits of files of one shape, each with one to three mistakes."""
    rng = Random(seed)
    generated = (make_case(rng, shape=shape) for _ in range(100 * BATCH))
    return list(islice((case for case in generated if case and case.kinds), BATCH))


@pytest.mark.parametrize("shape", sorted(SHAPES))
@settings(
    max_examples=sizes.pick(6, 30),
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # a smaller seed is no smaller case
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 1 << 64))
def test_any_composition_of_mistakes_makes_the_right_file_or_none(shape: str, seed: int) -> None:
    for case in cases(seed, SHAPES[shape]):
        verdict, result, _ = outcome(case)
        assert verdict != "wrong", describe(case, result)


def test_text_quoted_from_its_first_letter_on_makes_the_right_file_or_none() -> None:
    rng = Random(3)
    generated = filter(None, (make_literal_case(rng) for _ in range(1_000_000)))
    verdicts = Counter[str]()
    for case in islice(generated, sizes.pick(500, 8000)):
        verdict, plan, _ = outcome(case)
        assert verdict != "wrong", describe(case, plan)
        verdicts[verdict] += 1
    assert verdicts["right"] > 0.5 * verdicts.total(), verdicts


def test_every_mistake_is_made_alone_and_with_another_one() -> None:
    rng = Random(1)
    kinds = list(MISTAKES)

    def is_made(kind: str, others: list[str]) -> bool:
        tries = ([kind, rng.choice(others)] if others else [kind] for _ in range(1000))
        return any(make_case(rng, chosen) for chosen in tries)

    assert {kind for kind in kinds if not is_made(kind, [])} == NEVER_ALONE
    assert {kind for kind in kinds if not is_made(kind, [one for one in kinds if one != kind])} == set()


@pytest.mark.slow
def test_most_mistakes_are_forgiven() -> None:
    drawn = [case for seed in range(sizes.pick(4, 8)) for shape in SHAPES.values() for case in cases(seed, shape)]
    verdicts = Counter(
        outcome(case)[0]
        for case in drawn
        if not case.refuse and len(case.kinds) == 1 and (SLIPS | SHOWN.keys() | RECALLED.keys()).isdisjoint(case.kinds)
    )
    assert verdicts["right"] > 0.65 * verdicts.total(), verdicts
    assert verdicts["otherwise"] < 0.005 * verdicts.total(), verdicts


def mangled(text: str, old: str, new: str, before: int, expected: list[str], after: int, *kinds: str) -> Case:
    rows = text.splitlines(keepends=True)
    fresh = tuple((row + "\n", True) for row in expected)
    return Case(Sample(text, "    "), old, new, tuple(rows[:before]), fresh, tuple(rows[len(rows) - after :]), kinds)


def test_a_file_that_no_edit_with_fewer_mistakes_stands_for_is_wrong() -> None:
    text = "a = 1\nb = 2\nc = 3\n"
    case = mangled(text, "```\nb = 2\n```", "```\nb = 4\n```", 1, ["b = 4"], 1, "fence")
    assert outcome(case)[0] == "right"
    for other in ("a = 1\nb = 5\nc = 3\n", "a = 1\n  b = 4\nc = 3\n", "a = 4\nb = 2\nc = 3\n", "a = 1\nb = 4\n"):
        assert not case.judge(other)
        assert not means(case, other)


def test_of_two_edits_with_the_same_texts_the_one_with_fewer_mistakes_is_meant() -> None:
    text = "a:\nb = 2\nc = 3\n"
    # First shifted in both texts, then stripped in old: what is left is a fence, and a line that is to be indented.
    case = mangled(text, "```\nb = 2\n```", "    b = 4", 1, ["b = 4"], 1, "indent shifted", "flat, old only", "fence")
    result = spliced(text, plan_edit(text, case.old, case.new))
    assert result == "a:\n    b = 4\nc = 3\n"
    assert outcome(case)[0] == "otherwise"
    assert not means(case, "a:\n  b = 4\nc = 3\n")


WITH = "def f():\n  with a() as b:\n    c()\n    d()\n  e()\n"
"""Its `with` is what the fenced texts below begin with, pasted from the first letter on."""


@pytest.mark.parametrize(
    ("text", "old", "new", "right"),
    [
        # Only the first line has lost its indentation: the others tell where the new ones belong.
        (
            WITH,
            "```\nwith a() as b:\n    c()\n    d()\n```",
            "```\nwith a() as b:\n    c()\n    if x:\n      d()\n```",
            "def f():\n  with a() as b:\n    c()\n    if x:\n      d()\n  e()\n",
        ),
        # A character of no width in the indentation is none of it.
        ("if a:\n    b()\n", "if a:\n  \u200b  b()\n", "if a:\n    b()\n    c()\n", "if a:\n    b()\n    c()\n"),
        # The last line goes, and the file that had no final line ending still has none.
        ("a()\nb()\nc()\nd()", "a()\n...\nd()", "a()\n...", "a()\nb()\nc()"),
        # Curly quotes are quotes: the escape in them is the code's own.
        ("\ta(1)\n\tb()\n", "\\ta(1)\n\\tb()\n", "\\ta(1)\n\\tc(”x\\ty”)\n\\tb()\n", "\ta(1)\n\tc(”x\\ty”)\n\tb()\n"),
    ],
)
def test_two_mistakes_in_one_edit_are_undone(text: str, old: str, new: str, right: str) -> None:
    assert spliced(text, plan_edit(text, old, new)) == right


@pytest.mark.parametrize(
    ("text", "old", "new", "error"),
    [
        # Which of two braces goes, that only their indentation tells apart?
        ("a {\n\t}\n}\n\nb {\n\tc\n", "}\n}\n\nb {\nc", "}\n\nb {\nc", UnsureIndent),
        # Is the new first line where the old one was, or has it lost its own indentation too?
        (WITH, "```\nwith a() as b:\n    c()\n    d()\n```", "```\nc()\n    d()\n```", UnsureIndent),
        # Is it the first place with a blank line too many, or the second one without its blank at the end?
        ("1,a\n2,b\n\n1,a \n2,b\n", "\n1,a\n", "\n1,c\n", ManyLoose),
        # Has the new text lost the fence that was pasted around it, or the one that the file has?
        ("x\n```py\na\n```\ny\n", "```py\nx\n```py\na\n```\n```", "```py\nb\n```", ToolError),
        # Is a line of the new text indented with the model's tab, or with one of the file's?
        ("\ta\n    b\n\tc\n    d\n", "\ta\n\tb", "\ta\n\te\n\tb", UnsureIndent),
        # Are the blanks before the numbers those of a shift, which the new text has too?
        ("a\nb\n", "            1: a\n            2: b", "            c\n            d", ToolError),
        ("a:\n    b\n", "    1: a:\n    2:     b", "    a:\n        c", ToolError),
        # The blanks before the tag are those of the other lines, too.
        ("  a\n", "\t<old>  a</old>", "\t<new>  a\n\t  b</new>", ToolError),
        # Is the line with blanks for its sign one that both texts should have?
        ("    a\n\nb\n", "-    a\n\n", "+    a\n    c\n\n", ToolError),
        # Did the first line lose its indentation in both texts, or does it move?
        ("  a {\n    b\n  }\n  c {\n", "a {\n    b\n  }\nc {\n", "d {\n    b\n  }\n  c {\n", ToolError),
        # Are the dots the file's own, at another place?
        ("a()\nb()\nc()\n...\nd()\n", "a()\nb()\n...\nc()  ", "a()\nb()\n...\ne()", ToolError),
        # One line of the old text has lost its indentation: has the new one too?
        ("a:\n  b:\n    # c\n    - d\n", "  b:\n# c\n    - d\n", "  - e\n- f\n  # g\n", UnsureIndent),
        # The only line is too deep: so is the one that opens a block, or the one in it?
        ("a = 1\nassert b\n\n    c\n", "    assert b\n\n", "    if d:\n    assert b\n\n", UnsureIndent),
        # So many blanks stand for one in the old text: and in the line that is added?
        ("a b\nc d\n", "a      b\nc d", "a      b\ne      f\nc d", UnsureIndent),
        # One end of the last line was sent as it is and one escaped: does its blank line go?
        ("a\nb\n\nc\n", "a\\\\nb\\\\n\\n", "a\\\\nd\\n", ToolError),
        # Is the sequence of colours, spoilt by a character of no width, a part of the new line?
        ("ab cd\n", "\x1b[31ma\u200bb cd\x1b[m", "\x1b[31ma\u200bb cd\x1b[m\n\x1b[3\u200b1me\x1b[m", ToolError),
        # Whose are the numbers?
        ("1 | a\n2 | b\n", "   1 | 1 \u200b| a\n   2 | 2 | b", "1 | a\n2 | c", ToolError),
        # Some typographic quotes of the old text are the file's own, and it is shifted.
        ('f("a")\n# don’t\n', "    f(”a”)\n    # don’t", "    f(”a”)\n    # don’t2", UnsureIndent),
        # Neither text is indented: do the new lines belong to the line above, or to the one below?
        ("a(\n  b,\nc\nd {\n  e\n", "c\nd {\ne", "f\nc\nd {\ne", UnsureIndent),
        # Are the signs of a diff, which the new text alone has, a part of its lines?
        ("a b\nc d\n", "a  b\nc d", " a b\n+e f\n c d", UnsureIndent),
        ("a b\nc d\n", "a  b\nc d", " a b", UnsureIndent),
        # What shows line ends as pictures shows tabs so too.
        ("\ta\n", "␉a", "␉b␊\n␉a", ToolError),
        ("a\n\nb\n", "a␊␊", "c\n", ToolError),
        # Tabs of the file are blanks in the old text: and in a new line?
        ("1\ta\tb\n", "1       a       b", "1_new   a       b", UnsureIndent),
        # Do blank lines belong between the new lines, if those between the old ones do not?
        ("ab\ncd\n", "ab\n\ncd", "ab\n\ncd\n\nef\n\ngh", ToolError),
        # Does the blank line that was lost belong between two other lines?
        ("- ab\n\n## cd\nef\n", "- ab\n## cd\nef", "x = 1\nreturn y\nef", ToolError),
        # A control character is no blank.
        ("a b\n", "a\x0bb", "a\x0bc", ToolError),
        ("a b\n", "a%20b%1E", "a%20b%0Ac%0A", ToolError),
        # Are the dots those of a comment of the file's, that lost its marks, its letters or its place?
        ("<a>\n// ... b and the rest\nc\n", "... b and the rest\n<a>", "... b and the rest\n<a>\n<d>", ToolError),
        ("// ... ab, the rest\n\n}\n", "// ... аb, the rest\n\n}", "// ... аb, the rest\n\n} # c", ToolError),
        ("ab\n\n...\ncd\n...\n \ncd\n", "ab\n    ...\n...\ncd", "ab\n    ...\n...\nef\ncd", ToolError),
        # A tag with a word too much may not be the only place with one.
        ("a: b\n", "<old old x='y'>a: b</old>", "<new new x='y'>c c: d</new>", ToolError),
        # A line that was only added has a blank behind its sign.
        (" a b\n * c d\n", " a  b\n * c d", "  a b\n+ * c e", UnsureIndent),
        # Two numbers before a third one are no line numbers.
        ("9\n323\n", "7 8 323", "7 8 323 ab", ToolError),
        # Do the dots stand for other lines?
        ("  a\n  ...\n  b\nc\n", "  a\n...\n  b", "  a\n...\n  b\n  d", UnsureIndent),
        # Is the first line where the old text has it, or where it is to be?
        ("a\n- b\n  - c\n", "  - b\n    - c", "  - d\ne", UnsureIndent),
        # Was the entity the file's own? Blanks alone are spelled in the new text.
        ('    a = "&lt;b"\n', "&nbsp;&nbsp;a = &quot;&amp;lt;b&quot;", '&nbsp;&nbsp;a = "&lt;b"\nc', ToolError),
        # Whose is the blank behind the number?
        (" a\nb\n", "1:&nbsp; a\n2: b", "1:&nbsp; a\n&nbsp;c\n2: b", ToolError),
        # Blanks for the file's tabs, or a level deeper?
        ("f {\n\t\ta  &\n}\n", "a &amp;", "a &amp;\n    b", ToolError),
        # Braces are doubled all of them, or none.
        ("a {}\n", "a {}}", "a {}}b", ToolError),
        # Kept lines lost the indentation that the old text, with its numbers, has.
        ("f {\n\t\ta\n\t\tb\n\t}\n", "2 | \t\ta\n3 | \t\tb", "a\nc", ToolError),
        # Pictures of blanks, spelled as in a URL.
        ("  a b\n", "%C2%B7%C2%B7a b", "%C2%B7%C2%B7a b%0A%C2%B7%C2%B7c%C2%B7d", ToolError),
        # A string has escapes; and these are in the new text alone.
        ("ab = 1\n", "'ab = 1'", "'\\tab = 1'", ToolError),
        # Which fence is the file's?
        ("```py\na\n```\n\nb\n", "```py\na\n```\n```\n", "```py\nc\na\n```\n", ToolError),
        # Are all lines twice as deep, or shifted?
        ("a\n\n  b\n  c\n\n      d\n", "    b\n    c", "    b\n        c", UnsureIndent),
        # One blank for any indentation.
        ("a\n  b\nc\n", "a \n b\nc", "a\n b\nc\nif d:\n e", UnsureIndent),
        ("  a\n\n    b\n  # c 6\n", " b\n# c 6", " b\n # c 7", UnsureIndent),
        ("\t\ta\n\t# b 6\n", " a\n# b 6", " a\n # b 7", UnsureIndent),
        # Several blanks stand for one, and the change makes them fewer.
        ("\tab cd\n\tef g\n", "    ab    cd\n    ef    g", "    ab2   cd\n    ef    g", UnsureIndent),
        # The old text was escaped and has the sign for a carriage return: so has the new one.
        ("ab\ncd\n", "ab\\r\\ncd", "ef\\r\ncd", ToolError),
        # Lines at one depth, off by half a unit or by more than a shift: how deep is the block?
        ("a\nif b:\n    c\n", "  a\n", "  if d:\n    a\n", UnsureIndent),
        (
            "if b:\n    c\n    d\n",
            "             c\n             d",
            "             if e:\n                     c\n             d",
            UnsureIndent,
        ),
        # Tabs for some blanks, in a file without tabs.
        ("if b:\n        c\n        d\n    e\n", "    c\n\td\ne", "        c\n\t\tf\n        g", UnsureIndent),
        # Does the new text have the sign of a diff, or an item of a list?
        ("- ab\n- cd\n", "- - cd\n", "- cds\n", ToolError),
    ],
)
def test_two_edits_that_are_as_likely_are_refused(text: str, old: str, new: str, error: type[ToolError]) -> None:
    with pytest.raises(error):
        plan_edit(text, old, new)


def test_blank_lines_do_not_tell_that_only_the_first_line_lost_its_indentation() -> None:
    text = "for a in b:\n    c = 1\n\n    if d:\n        e()\n"
    old, new = "c = 1\\n\\n", "c = 1\\nif f:\\n    # g\\n\\n"
    right = "for a in b:\n    c = 1\n    if f:\n        # g\n\n    if d:\n        e()\n"
    assert spliced(text, plan_edit(text, old, new)) == right


def test_blanks_at_the_end_of_a_changed_line_stay_where_the_file_has_them() -> None:
    text = "a:\n\n  b: 1  \nc: 2\n"
    assert spliced(text, plan_edit(text, "- a:\n- \n-   b: 1  ", "+ a:\n+ \n+   b: 3  ")) == text.replace("1", "3")


@pytest.mark.parametrize("blank", ["\u3000", "\u2002", "\u2009", "\u202f", "\u00a0"])
def test_odd_blanks_of_the_old_text_do_not_come_into_the_file(blank: str) -> None:
    text = "if a:\n    b = 1\n"
    old, new = (row.replace(" ", blank) for row in ("    b = 1", "    b = 2\n    c = 3"))
    assert spliced(text, plan_edit(text, old, new)) == "if a:\n    b = 2\n    c = 3\n"


@pytest.mark.parametrize("sign", ["␊", "$", "↵", "^M"])
@pytest.mark.parametrize("close", ["", "\n"])
def test_a_sign_at_the_end_of_the_text_is_the_end_of_its_last_line(sign: str, close: str) -> None:
    text = "a\n\nbc d\ne\n"
    for old, new in ((f"bc d{sign}", f"x y{close}"), (f"bc d{sign}{close}", f"x y{sign}{close}")):
        assert spliced(text, plan_edit(text, old, new)) == "a\n\nx y\ne\n"
