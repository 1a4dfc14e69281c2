"""Local diffs: right, of the usual form, and bounded however much changes."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.text import diff, lines
from handrail.text.diff import Hunk, compute_hunks, format_unified, number_new_lines
from handrail.text.document import Splice, apply_splices, minimize, splice
from handrail.text.lines import get_opcodes
from handrail.text.matching.find import find_spans
from tests import sizes

TEXT = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "\r\n", "d\r", "e\n", "f\n"]), max_size=30).map("".join)


def patched(text: str, actual: Sequence[Hunk]) -> str:
    """Apply hunks, checking every line that they say is there."""
    old, new, at = lines.split(text), [], 0
    for hunk in actual:
        assert not hunk.left_out
        new += old[at : hunk.old_first - 1]
        at = hunk.old_first - 1
        assert len(new) == hunk.new_first - 1
        for sign, row in hunk.rows:
            if sign != "+":
                assert old[at] == row
                at += 1
            if sign != "-":
                new.append(row)
    return "".join(new + old[at:])


@settings(deadline=None, max_examples=sizes.pick(62, 250))
@given(TEXT, st.sampled_from(["", "z"]), st.data())
def test_hunks_turn_the_old_text_into_the_new_one(text: str, last: str, data: st.DataObject) -> None:
    text += last
    marks = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    news = st.text(st.sampled_from("ax\n\r"), max_size=4)
    splices = [Splice(a, b, data.draw(news)) for a, b in zip(marks[::2], marks[1::2], strict=False)]
    hunks = compute_hunks(text, splices)
    after = apply_splices(text, splices)
    assert patched(text, hunks) == after
    total = len(lines.split(after))
    for hunk in hunks:
        signs = "".join(sign for sign, _ in hunk.rows)
        context = len(signs) - len(signs.lstrip(" ")), len(signs) - len(signs.rstrip(" "))
        assert max(context) <= 3
        assert context[0] == min(3, hunk.new_first - 1 + context[0])
        assert context[1] == min(3, total - (hunk.new_first + hunk.new_count - 1) + context[1])
    numbered = lines.split(after)
    assert all(lines.strip_ending(numbered[number - 1]) == row for number, row in number_new_lines(hunks))


@settings(deadline=None, max_examples=sizes.pick(25, 100))
@given(st.data())
def test_for_an_ordinary_edit_the_diff_is_that_of_difflib(data: st.DataObject) -> None:
    rows = [f"line {number}\n" for number in range(data.draw(st.integers(1, 60)))]
    changed = data.draw(st.dictionaries(st.integers(0, len(rows) - 1), st.sampled_from(["", "new\n", "x\ny\n"])))
    text, after = "".join(rows), "".join(changed.get(number, row) for number, row in enumerate(rows))
    starts = [sum(map(len, rows[:number])) for number in range(len(rows) + 1)]
    splices = [Splice(starts[number], starts[number + 1], new) for number, new in sorted(changed.items())]
    expected = "".join(difflib.unified_diff(rows, lines.split(after), "f", "f"))
    assert format_unified("f", compute_hunks(text, splices)) == expected
    one = minimize(text, 0, len(text), after)
    assert patched(text, compute_hunks(text, [one] if one else [])) == after


def test_a_missing_final_newline_is_marked() -> None:
    assert format_unified("f", compute_hunks("a\nb", [Splice(2, 3, "c")])) == (
        "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    )
    assert (
        format_unified("f", compute_hunks("", [Splice(0, 0, "a\n")]), created=True)
        == "--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+a\n"
    )
    assert format_unified("f", compute_hunks("a\n", [Splice(0, 2, "")])) == "--- f\n+++ f\n@@ -1 +0,0 @@\n-a\n"
    assert format_unified("f", []) == ""


def test_one_line_of_a_long_file_is_compared_with_its_neighbours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    real = get_opcodes

    def counting(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
        compared.append(len(before) + len(after))
        return real(before, after)

    monkeypatch.setattr(diff, "get_opcodes", counting)
    text = "".join(f"line {number}\n" for number in range(1, 50_001))
    for wanted in ("line 1\n", "line 25000\n", "line 50000\n"):
        at = text.index(wanted)
        (hunk,) = compute_hunks(text, [Splice(at, at + len(wanted), "new\n")])
        assert (hunk.old_count, hunk.new_count) in ((4, 4), (7, 7))
    assert len(compared) == 3
    assert max(compared) <= 4


@pytest.mark.parametrize(("between", "end"), [(0, "\n"), (1, "\r"), (6, "\n"), (7, "\r\n"), (30, "\n")])
def test_twenty_thousand_places_give_a_bounded_diff(between: int, end: str) -> None:
    text = (f"x = old{end}" + f"other{end}" * between) * 20_000
    spans = find_spans(text, "old").spans
    splices = [change for span in spans if (change := splice(text, *span, "old", f"new{end}and more"))]
    assert len(splices) == 20_000
    hunks = compute_hunks(text, splices)
    rows = [row for hunk in hunks for row in hunk.rows]
    assert 0 < len(rows) <= diff.MOST_ROWS
    rest = hunks[-1]
    assert rest.left_out
    shown = sum(sign == "-" for sign, _ in rows)
    assert rest.left_out.places == 20_000 - shown
    old_lines, new_lines = 20_000 * (1 + between), 20_000 * (2 + between)
    assert rest.old_first + rest.old_count - 1 == old_lines - between
    assert rest.new_first + rest.new_count - 1 == new_lines - between
    assert not any(hunk.left_out for hunk in hunks[:-1])
    out = format_unified("f", hunks)
    last = f"\\ {rest.left_out.places} more places not shown, up to line {new_lines - between}\n"
    assert out.endswith(last)
    after = lines.split(apply_splices(text, splices))
    assert all(lines.strip_ending(after[number - 1]) == row for number, row in number_new_lines(hunks))


def test_many_places_in_one_line_are_one_changed_line() -> None:
    text = "before\n" + "old;" * 20_000 + "\nafter\n"
    splices = [Splice(start, end, "new") for start, end in find_spans(text, "old").spans]
    (hunk,) = compute_hunks(text, splices)
    assert [sign for sign, _ in hunk.rows] == [" ", "-", "+", " "]
    assert hunk.rows[2][1] == "new;" * 20_000 + "\n"
    assert len(format_unified("f", [hunk])) < 5_000
    assert number_new_lines([hunk])[1] == (2, "new;" * 500 + " [78000 characters more]")


def test_a_long_file_that_is_replaced_shows_some_of_both_sides() -> None:
    text = "".join(f"old {number}\n" for number in range(30_000))
    new = "".join(f"new {number}\n" for number in range(40_000))
    hunks = compute_hunks(text, [Splice(0, len(text), new)])
    rows = hunks[0].rows
    assert [sum(sign == wanted for sign, _ in rows) for wanted in "-+ "] == [1_000, 1_000, 0]
    assert hunks[1].left_out == diff.LeftOut(1, 29_000, 39_000)
    assert format_unified("f", hunks).endswith("\\ 1 more place not shown, up to line 40000\n")


def test_a_diff_that_just_fits_is_not_cut() -> None:
    text = "old\n" * 1_000
    splices = [Splice(start, end, "new") for start, end in find_spans(text, "old").spans]
    (hunk,) = compute_hunks(text, splices)
    assert len(hunk.rows) == 2_000
    assert compute_hunks(text, splices, most_rows=1_999)[-1].left_out
