"""Where hunks belong: in exactly one place, in order, with the file's own bytes around them."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.errors import AmbiguousHunk, BadHunk, ToolError
from handrail.text.document import apply_splices
from handrail.text.patches.locate import locate_hunks
from handrail.text.patches.operations import FileOp, PatchHunk
from handrail.text.patches.patch import parse_patch


def hunks(rows: str) -> FileOp:
    (op,) = parse_patch(f"*** Begin Patch\n*** Update File: a\n{rows}\n*** End Patch\n")
    return op


def patched(text: str, rows: str) -> str:
    return apply_splices(text, locate_hunks(text, hunks(rows).hunks).splices)


def refusal(text: str, rows: str) -> ToolError:
    with pytest.raises((BadHunk, AmbiguousHunk)) as caught:
        locate_hunks(text, hunks(rows).hunks)
    return caught.value


TWICE = "def a():\n    go()\n\n\ndef b():\n    go()\n"


def test_a_hunk_that_fits_two_places_is_refused_with_both_lines() -> None:
    error = refusal(TWICE, "@@\n-    go()\n+    run()")
    assert isinstance(error, AmbiguousHunk)
    assert (error.facts["count"], error.facts["lines"], error.facts["number"]) == (2, [2, 6], 1)


def test_the_order_of_hunks_decides() -> None:
    assert patched(TWICE, "@@\n def b():\n@@\n-    go()\n+    run()") == TWICE[:-5] + "run()\n"


def test_the_hunk_that_is_refused_is_named() -> None:
    error = refusal("a\nb\nx\nx\n", "@@\n-a\n+A\n@@\n-x\n+y")
    assert (error.facts["number"], error.facts["lines"]) == (2, [3, 4])


def test_many_equal_lines_are_told_apart_quickly() -> None:
    text = "x\n" * 20_000
    error = refusal(text, "\n".join("@@\n-x\n+y" for _ in range(30)))
    assert len(error.facts["lines"]) == 10 and error.facts["count"] == 20_000 - 29


@pytest.mark.parametrize("header", ["def b():", "def b", "  def b():  "])
def test_a_header_may_be_the_beginning_of_a_line(header: str) -> None:
    assert patched(TWICE, f"@@ {header}\n-    go()\n+    run()").endswith("def b():\n    run()\n")


def test_a_header_ends_with_a_word_not_inside_one() -> None:
    error = refusal("def run_all():\n    go()\n", "@@ def run\n-    go()\n+    run()")
    assert error.facts["header"] == "def run"


def test_a_signature_of_several_lines_opens_one_block() -> None:
    text = "def a(\n    x,\n) -> int:\n    go()\n\n\ndef b():\n    go()\n"
    assert patched(text, "@@ def a(\n-    go()\n+    run()") == text.replace("go()", "run()", 1)


def test_braces_close_a_block() -> None:
    text = "int a() {\n  go();\n}\n\nint b()\n{\n  go();\n}\n\nint c() {\n  go();\n}\n"
    assert patched(text, "@@ int b()\n-  go();\n+  run();") == text.replace("b()\n{\n  go", "b()\n{\n  run")


def test_a_refusal_names_the_line_that_differs() -> None:
    error = refusal("one\ntwo\nthree\n", "@@\n one\n two\n-tree\n+four")
    assert (error.facts["near"], error.facts["wanted"], error.facts["actual"]) == (3, "tree", "three")


def test_the_end_of_the_file_is_named_where_a_hunk_goes_on_behind_it() -> None:
    error = refusal("one = 1\ntwo = 2\n", "@@\n one = 1\n two = 2\n-three\n+four")
    assert (error.facts["near"], error.facts["actual"]) == (3, "(the end of the file)")


@pytest.mark.parametrize("gutter", ["{}→", "{}: ", "{}:", "{} | ", "{}\t", "  {}|", "L{}: "])
@pytest.mark.parametrize("numbered", [True, False])
def test_line_numbers_of_a_listing_are_not_part_of_a_hunk(gutter: str, numbered: bool) -> None:
    text = "def a():\n    go()\n    stop()\n\n\ndef b():\n    go()\n"
    first, second, third = (gutter.format(number) for number in (1, 2, 3))
    added = second if numbered else ""
    hunk = f"@@\n {first}def a():\n-{second}    go()\n+{added}    run()\n {third}    stop()"
    assert patched(text, hunk) == text.replace("go()", "run()", 1)


@pytest.mark.parametrize("rows", [" 1: one\n-3: two\n+3: 2", " 2: one\n-1: two\n+1: 2"])
def test_numbers_that_are_no_listing_are_refused(rows: str) -> None:
    refusal("one\ntwo\n", f"@@\n{rows}")


@given(st.lists(st.sampled_from(["a", "b", "", "    a"]), min_size=1, max_size=12), st.data())
def test_insertions_without_context_go_where_right_numbers_say(old: list[str], data: st.DataObject) -> None:
    places = sorted(data.draw(st.sets(st.integers(0, len(old)), min_size=1, max_size=3)))
    rows, new, moved = list[str](), list[str](), 0
    for at, end in zip(places, [*places[1:], len(old)], strict=True):
        fresh = data.draw(st.lists(st.sampled_from(["x", "y = 1"]), min_size=1, max_size=3))
        rows += [f"@@ -{at},0 +{at + 1 + moved},{len(fresh)} @@", *(f"+{row}" for row in fresh)]
        moved += len(fresh)
        new += [*fresh, *old[at:end]]
    diff = "\n".join(["--- a/f", "+++ b/f", *rows, ""])
    text, wanted = ("".join(row + "\n" for row in part) for part in (old, [*old[: places[0]], *new]))
    (op,) = parse_patch(diff)
    assert apply_splices(text, locate_hunks(text, op.hunks).splices) == wanted
    (op,) = parse_patch(re.sub(r",0 \+(\d+)", lambda match: f",0 +{int(match[1]) + 7}", diff))
    with pytest.raises(BadHunk):
        locate_hunks(text, op.hunks)


def test_two_insertions_at_one_place_stay_in_order() -> None:
    assert patched("a\nb\n", "@@\n a\n+1\n@@\n+2\n b") == "a\n1\n2\nb\n"


def test_a_lone_carriage_return_in_a_new_line_is_refused() -> None:
    assert refusal("a\n", "@@\n-a\n+b\rc").facts["endings"] is True


def test_lone_carriage_returns_as_line_endings_stay() -> None:
    assert patched("a\rb\rc\r", "@@\n a\n-b\n+B\n+B2") == "a\rB\rB2\rc\r"


def test_context_in_another_encoding_of_blanks_is_not_copied_from_the_patch() -> None:
    text = "\tone\u00a0two  \n\tthree\n"
    assert patched(text, "@@\n one two\n-three\n+four") == "\tone\u00a0two  \n\tfour\n"


BLANKS = ["", "    ", "        "]
LINE = st.builds(
    lambda indent, word: indent + word, st.sampled_from(BLANKS), st.sampled_from(["a()", "b()", "c = 1", "d"])
)
ROW = st.just("") | LINE


def hunks_of(old: Sequence[str], new: Sequence[str], context: int) -> list[PatchHunk]:
    """The difference of two texts as hunks, as a careful author writes them."""
    collected = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(context):
        rows: list[tuple[str, str]] = []
        for code, i1, i2, j1, j2 in group:
            if code == "equal":
                rows += [(" ", row) for row in old[i1:i2]]
            else:
                rows += [("-", row) for row in old[i1:i2]] + [("+", row) for row in new[j1:j2]]
        collected.append(PatchHunk(tuple(rows)))
    return collected


@given(
    st.lists(ROW, min_size=1, max_size=20),
    st.lists(ROW, max_size=20),
    st.integers(1, 3),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_hunks_make_the_text_they_were_made_from_or_are_refused(
    old: list[str], new: list[str], context: int, end: str, final: bool
) -> None:
    # A text that ends with an empty line has a final newline whether it should or not.
    old, new = [*old, "last"], [*new[:-1], new[-1] or "end"] if new else []
    text = end.join(old) + (end if final else "")
    try:
        result = apply_splices(text, locate_hunks(text, hunks_of(old, new, context)).splices) if old != new else text
    except (BadHunk, AmbiguousHunk):
        return
    assert result == end.join(new) + (end if final and new else "")


@given(st.lists(LINE, min_size=1, max_size=12, unique=True), st.data())
def test_unique_lines_are_always_placed(old: list[str], data: st.DataObject) -> None:
    new = list(old)
    at = data.draw(st.integers(0, len(old) - 1))
    new[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(st.sampled_from(["new 1", "new 2"]), max_size=3))
    text = "\n".join(old) + "\n"
    if new != old:
        result = apply_splices(text, locate_hunks(text, hunks_of(old, new, 1)).splices)
        assert result == "".join(row + "\n" for row in new)


def _dedented(hunk: PatchHunk) -> PatchHunk:
    bare = textwrap.dedent("\n".join(text + "|" for _, text in hunk.rows)).split("\n")
    return PatchHunk(tuple((sign, row[:-1]) for (sign, _), row in zip(hunk.rows, bare, strict=True)))


MANGLES = {
    "trailing blanks": lambda hunk: PatchHunk(tuple((sign, text + "  " * (sign != "+")) for sign, text in hunk.rows)),
    "less indentation": _dedented,
    "tabs": lambda hunk: PatchHunk(tuple((sign, text.replace("    ", "\t")) for sign, text in hunk.rows)),
}


GRID = ["if 1:", "    if 2:", "        pass", "if 3:", "    if 4:", "        pass"]
"""So that a level of indentation is four spaces, whatever follows."""
WORDS = st.builds(lambda indent, word: f"{indent}w{word}()", st.sampled_from(BLANKS), st.integers(0, 99))


@given(st.lists(WORDS, min_size=2, max_size=14, unique_by=str.strip), st.sampled_from(sorted(MANGLES)), st.data())
def test_a_mangled_hunk_makes_the_right_text_or_is_refused(old: list[str], mangle: str, data: st.DataObject) -> None:
    old = [*GRID, *old]
    new = list(old)
    at = data.draw(st.integers(len(GRID), len(old) - 1))
    new[at : at + data.draw(st.integers(0, 2))] = data.draw(
        st.lists(st.sampled_from(["    new()", "        new()"]), max_size=2)
    )
    text = "\n".join(old) + "\n"
    meant = hunks_of(old, new, 2)
    mangled = [MANGLES[mangle](hunk) for hunk in meant]
    if any(one.old == other.old for one, other in zip(meant, mangled, strict=True)):
        return  # then nothing tells that the new lines are mangled
    try:
        result = apply_splices(text, locate_hunks(text, mangled).splices)
    except (BadHunk, AmbiguousHunk):
        return
    assert result == "".join(row + "\n" for row in new)
