"""Lines that stand for others: refused where code vanishes beside them, and left alone where none does."""

from __future__ import annotations

from itertools import product

import pytest

from handrail.errors import Placeholder, ToolError
from handrail.text.document import apply_splices
from handrail.text.matching.find import plan_edit

FILE = "def run(x):\n    first = load(x)\n    second = check(first)\n    third = store(second)\n    return third\n"
MARKS = ["# {}", "// {}", "/* {} */", "<!-- {} -->", "-- {}", "{{/* {} */}}", "[{}]"]
WORDS = [
    "rest of the function unchanged",
    "existing code here",
    "remaining code stays the same",
    "TODO: keep the existing code",
    "-- snip --",
    "(no changes below)",
    "etc.",
    "same as before",
    "other methods remain unchanged",
    "rest of run()",
    "code omitted",
    "... rest ...",
    "其余代码不变",
]


@pytest.mark.parametrize(("mark", "words"), list(product(MARKS, WORDS)))
def test_a_line_in_whose_place_code_vanishes_is_refused(mark: str, words: str) -> None:
    new = f"def run(x):\n    first = load(x, 1)\n    {mark.format(words)}\n    return third\n"
    with pytest.raises(Placeholder):
        plan_edit(FILE, FILE, new)


@pytest.mark.parametrize(("mark", "words"), list(product(MARKS, [words for words in WORDS if "..." not in words])))
def test_a_line_beside_which_nothing_vanishes_is_a_line(mark: str, words: str) -> None:
    line = f"    {mark.format(words)}\n"
    new = FILE.replace("    return third\n", line + "    return third\n")
    assert apply_splices(FILE, plan_edit(FILE, FILE, new).splices) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f(a, b);\n", "f(\n  ...rest,\n);\n"),
        ("append(a, b)\n", "append(\n\ta,\n\tother...\n)\n"),
        ("Run it.\n", "Run it. Leave the existing code as it is, the rest of the page explains why ...\n"),
        ("a = 1\nb = 2\n", "a = 1\n# keep polling while the job is still running\nc = 3\n"),
    ],
)
def test_spreads_prose_and_comments_that_explain_are_no_omissions(old: str, new: str) -> None:
    assert apply_splices(old, plan_edit(old, old, new).splices) == new


ELIDED = "def first():\n    one = 1\n    two = 2\n    four = 4\n    return one\n\n\ndef second():\n    return 2\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def first():\n...\n    return one", "first = 1"),  # lines that nobody quoted would go
        ("def first():\n...\n    return one", "def first():\n    return one + 1"),  # what the dots stand for is lost
        ("def first():\n...\n    return one", "def first():\n    return one"),
        ("def first():\n...\n    return one", "def first():\n    added()\n    return one"),
        ("def first():\n...\n    return one", "def first():\n    two = 2\n    return one"),
        ("def first():\n...\n    return", "first = 1"),  # not a whole line
        ("def first():\n...\n  return one", "first = 1"),  # not by the letter
        ("def first():\n...", "first = 1"),
        ("def third():\n...\n    return one", "third = 1"),
        ("def second():\n...\n    return one", "second = 1"),  # the other way round
    ],
)
def test_an_elided_text_that_is_not_certain_is_refused(old: str, new: str) -> None:
    with pytest.raises(ToolError):
        plan_edit(ELIDED, old, new)


def test_an_elided_text_must_have_ends_that_are_there_once() -> None:
    with pytest.raises(ToolError):
        plan_edit(ELIDED * 2, "def first():\n...\n    return one", "first = 1")
    literal = "def first():\n    ...\n    return one\n"
    plan = plan_edit(literal, literal, "first = 1\n")
    assert apply_splices(literal, plan.splices) == "first = 1\n"


def test_dots_that_are_a_line_of_the_file_stand_for_nothing_else() -> None:
    block = "    with count() as f:\n        pass\n"
    text = f"    text = 1\n    ...\n{block}    other = 2\n{block}    last = 3\n"
    old = "    text = 1\n    ...\n\n    with count() as f:\n        pass\n    last = 3\n"
    with pytest.raises(ToolError):
        plan_edit(text, old, old.replace("last = 3", "last = 4"))
