"""Diffs at a terminal: line numbers, changed words, colours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.approval.screen import count_colours
from handrail.cli.chat.diff_lines import count_changes, parse_diff
from handrail.cli.chat.diff_view import render_diff
from handrail.text.diff import compute_hunks, format_unified
from handrail.text.document import Splice
from handrail.text.words import compare_words

LINES = st.lists(st.sampled_from(["a = 1", "b = 2", "--- x", "+++ y", "@@ z", "", "\tdef f():", "日本"]), max_size=12)


def make_diff(old: str, new: str) -> str:
    return format_unified("src/a.py", compute_hunks(old, [Splice(0, len(old), new)]), created=False, deleted=False)


@given(LINES, LINES)
def test_every_line_has_its_own_number(old: list[str], new: list[str]) -> None:
    before, after = "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)
    diff = make_diff(before, after)
    lines = list(parse_diff(diff))
    for line in lines:
        if line.kind in ("+", " "):
            assert new[line.number - 1] == line.text
        elif line.kind == "-":
            assert old[line.number - 1] == line.text
    added, removed = count_changes(diff)
    assert added - removed == len(new) - len(old)


@given(LINES, LINES)
def test_no_line_is_lost_on_the_screen(old: list[str], new: list[str]) -> None:
    diff = make_diff("".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new))
    shown = render_diff(diff).plain
    for line in parse_diff(diff):
        assert line.text in shown


@given(st.text(alphabet="ab _.()", max_size=40), st.text(alphabet="ab _.()", max_size=40))
def test_lines_without_their_marked_words_are_the_same(old: str, new: str) -> None:
    marks = compare_words(old, new)
    if marks is not None:
        assert _without(old, marks[0]) == _without(new, marks[1])


def test_changed_words_are_marked() -> None:
    marks = compare_words("return first + 1", "return second + 1")
    assert marks == ([(7, 12)], [(7, 13)])
    assert compare_words("completely", "different things") is None
    text = render_diff(make_diff("x = first + 1\n", "x = second + 1\n"), colours=16)
    assert [text.plain[span.start : span.end] for span in text.spans if str(span.style).startswith("reverse")] == [
        "first",
        "second",
    ]


def test_added_lines_have_the_colours_of_their_language() -> None:
    text = render_diff(make_diff("", "def f():\n    return 'x'\n"))
    styles = {str(span.style) for span in text.spans if "def" in text.plain[span.start : span.end]}
    assert styles - {"bold green", "dim", "reverse"}


@pytest.mark.parametrize(("colours", "ground"), [(0, ""), (16, ""), (256, "on color(22)"), (1 << 24, "on #12301c")])
def test_changed_lines_have_a_ground_where_the_terminal_can_show_one(colours: int, ground: str) -> None:
    text = render_diff(make_diff("x = first + 1\n", "x = second + 1\n"), colours=colours)
    grounds = {str(span.style) for span in text.spans if str(span.style).startswith("on ")}
    grounds -= {"on default"}  # the terminal's own, below the colours of a language
    assert (ground in grounds) if ground else not grounds
    words = [str(span.style) for span in text.spans if text.plain[span.start : span.end] == "second"]
    assert any("reverse" in one or " on " in one for one in words) == bool(colours)


@pytest.mark.parametrize(
    ("variables", "colours"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, 1 << 24),
        ({"TERM": "xterm-256color"}, 256),
        ({"TERM": "xterm"}, 16),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, 0),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, 0),
    ],
)
def test_colours_follow_the_terminal(variables: dict[str, str], colours: int) -> None:
    assert count_colours(variables) == colours


def _without(line: str, spans: list[tuple[int, int]]) -> str:
    return "".join(char for at, char in enumerate(line) if not any(start <= at < end for start, end in spans))
