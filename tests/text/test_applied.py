"""An edit that was applied before is recognised, and nothing is applied twice."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from handrail import Session
from handrail.errors import AlreadyApplied, Garbled, NoMatch, ToolError
from handrail.text.document import apply_splices
from handrail.text.matching.find import plan_edit
from tests import sizes
from tests.text.edits import clean_edit
from tests.text.samples import SAMPLES


@pytest.mark.parametrize(
    ("text", "old", "new", "line"),
    [
        ("a = 1\nb = 2\nc = 3\n", "a = 1\n", "a = 1\nb = 2\n", 1),
        ("a = 1\nb = 2\nc = 3\n", "a = 1", "a = 1\nb = 2", 1),
        ("z\nx = 0\na = 1\n", "a = 1", "x = 0\na = 1", 2),
        ("z\r\nx = 0\r\na = 1\r\n", "a = 1", "x = 0\na = 1", 2),
        ("foo(a, b)\n", "foo(a", "foo(a, b", 1),
        ("x = 10\n", "x = 1", "x = 10", 1),
        ("    unawaited(show(1));\n", "    show(1)", "    unawaited(show(1)", 1),
        ("a = 1\nb = 2\na = 1\n", "a = 1\n", "a = 1\nb = 2\na = 1\n", 1),
        ("c = 3\na = 2\n", "c = 3\na = 1\n", "c = 3\na = 2\n", 1),
        ("f(1)\nh(3)\n", "f(1)\ng(2)\nh(3)\n", "f(1)\nh(3)\n", 1),
    ],
)
def test_new_text_that_stands_where_the_old_would_be_is_recognised(text: str, old: str, new: str, line: int) -> None:
    with pytest.raises(AlreadyApplied) as caught:
        plan_edit(text, old, new)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("a\na\nb\n", "b\n", "b\nb\n", "a\na\nb\nb\n"),
        ("a = 1\n\nb = 2\n", "a = 1\n", "a = 1\n\n", "a = 1\n\n\nb = 2\n"),  # one more blank line
        ("foo(a, bc)\n", "foo(a", "foo(a, b", "foo(a, b, bc)\n"),
        ("a = 1\nb = 2\n", "a = 1", "a = 1\nb", "a = 1\nb\nb = 2\n"),
        ("x.a\nself.x.a\n", "self.x.a\n", "self.x.a\nx.a\n", "x.a\nself.x.a\nx.a\n"),
    ],
)
def test_what_only_looks_so_is_applied(text: str, old: str, new: str, result: str) -> None:
    assert apply_splices(text, plan_edit(text, old, new).splices) == result


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("0 plain\n", " p", "plain", "0plainlain\n"),
        ("a test \n", "est ", "test", "a ttest\n"),
        ("x  word\n", "  word", "a word", "xa word\n"),
    ],
)
def test_blanks_that_go_are_a_change(text: str, old: str, new: str, result: str) -> None:
    assert apply_splices(text, plan_edit(text, old, new, replace_all=True).splices) == result


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("x = 2\nc = 3\n", "1", "2"),
        ("a = 2\nc = 3\n", "a = 1\n", "a = 2\n"),
        ("c = 3\na = 2\nb = 0\nc = 3\n", "c = 3\na = 1\n", "c = 3\na = 2\n"),
        ("}\nfoo(2)\n", "bar()\n}", "}"),
        ("import a\nimport b\nc()\n", "import a\nimport b\nd()", "import a\nimport b"),
    ],
)
def test_what_may_stand_there_by_chance_is_not_found(text: str, old: str, new: str) -> None:
    with pytest.raises(NoMatch):
        plan_edit(text, old, new)


def test_no_edit_of_any_file_is_applied_twice() -> None:
    rng = Random(5)
    cases = (clean_edit(rng, rng.choice(SAMPLES)(rng)) for _ in range(100_000))
    added = [case for case in islice(filter(None, cases), sizes.pick(2000, 20_000)) if case.old in case.new]
    tried = 0
    for case in added:
        try:
            once = apply_splices(case.sample.text, plan_edit(case.sample.text, case.old, case.new).splices)
        except ToolError:
            continue
        if not any(map(str.isalnum, case.new.replace(case.old, "", 1))):
            continue  # blank lines and brackets may be wanted again
        tried += 1
        with pytest.raises(ToolError):
            plan_edit(once, case.old, case.new)
    assert tried > sizes.pick(50, 500)


def test_garbled_texts_are_refused() -> None:
    for old, new in (("caf\ufffd = 1", "caf\ufffd = 2"), ("café = 1", "caf\ufffd = 2")):
        with pytest.raises(Garbled):
            plan_edit("café = 1\n", old, new)
    text = "bad = '\ufffd'\n"
    assert apply_splices(text, plan_edit(text, "bad = '\ufffd'", "odd = '\ufffd'").splices) == "odd = '\ufffd'\n"


def test_the_answers_say_so_and_are_no_errors(make_session: Callable[..., Session], tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\nb = 2\n", encoding="utf-8")
    session = make_session(tmp_path, durable=False)
    session.call("Read", {"file_path": "a.py"})
    again = {"old_string": "a = 1\n", "new_string": "a = 1\nb = 2\n"}
    result = session.call("Edit", {"file_path": "a.py", **again})
    assert (result.status, result.text) == (
        "ok",
        "No change: new_string is already in a.py, at line 1, where old_string would be: this edit was applied before.",
    )
    result = session.call("MultiEdit", {"file_path": "a.py", "edits": [again]})
    assert result.status == "ok" and result.text.startswith("No change: ")
    result = session.call("MultiEdit", {"file_path": "a.py", "edits": [again, {"old_string": "b", "new_string": "c"}]})
    assert result.status == "ok" and "1: applied before" in result.text
    assert path.read_text(encoding="utf-8") == "a = 1\nc = 2\n"
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n a = 1\n-b = 2\n+c = 2\n*** End Patch\n"
    result = session.call("ApplyPatch", {"patch": patch})
    assert (result.status, result.text) == (
        "ok",
        "Nothing to change: the files already are as the patch makes them.\n= a.py (nothing to change)",
    )


@pytest.mark.parametrize("old", ["b()", "b()\n", "    b()", "  b()\n"])
def test_a_deleted_line_takes_its_indentation_and_its_end_along(old: str) -> None:
    text = "a\n    b()\nc\n"
    assert apply_splices(text, plan_edit(text, old, "").splices) == "a\nc\n"
