"""New lines get the depth that the matched lines prove, or none."""

from __future__ import annotations

import pytest

from handrail.text.matching.indentation import IndentMap, Unsure, find_indent_unit, has_lost_indent


def depth(
    theirs: list[str], ours: list[str], wanted: str, file: list[str] | None = None, new: list[str] | None = None
) -> str:
    return IndentMap(theirs, ours, new or [*theirs, wanted + "new"], file or ours).map_indent(wanted)


def test_the_unit_is_the_most_common_step() -> None:
    assert find_indent_unit(["a", "\tb"]) == "\t"
    assert find_indent_unit(["a", "  b", "    c", "d", "  e"]) == "  "
    assert find_indent_unit(["a"]) == "    "


def test_a_depth_that_was_seen_is_taken() -> None:
    assert depth(["a", "  b"], ["    a", "        b"], "  ") == "        "


def test_a_shift_goes_on_for_deeper_lines() -> None:
    assert depth(["a:", "    b"], ["    a:", "        b"], "        ") == "            "
    assert depth(["        a"], ["    a"], "            ") == "        "


def test_tabs_take_the_width_that_explains_the_lines() -> None:
    assert depth(["a", "    b"], ["a", "\tb"], "        ") == "\t\t"
    assert depth(["a", "        b"], ["a", "\tb"], "                ") == "\t\t"
    assert depth(["a", "\tb"], ["a", "  b"], "\t\t") == "    "


def test_another_unit_is_told_by_two_depths() -> None:
    assert depth(["a", "  b"], ["a", "    b"], "    ") == "        "
    assert depth(["    a", "        b"], ["  a", "    b"], "            ") == "      "


def test_a_file_that_mixes_tabs_and_spaces_proves_nothing() -> None:
    with pytest.raises(Unsure):
        depth(["  a", "    b"], ["\ta", "    b"], "        ")


def test_lines_that_lost_all_depths_prove_nothing() -> None:
    frame = IndentMap(["a", "b"], ["a", "    b"], ["a", "c", "b"], ["a", "    b"])
    assert frame.flat
    with pytest.raises(Unsure):
        frame.map_indent("  ")


def test_a_line_that_would_leave_the_grid_of_the_file_for_no_reason_is_not_placed() -> None:
    with pytest.raises(Unsure):
        depth(["x = 1"], ["    x = 1"], "      ", ["a:", "  b:", "    x = 1"], ["if y:", "      x = 1"])


def test_new_text_in_the_indentation_of_the_file_is_recognised() -> None:
    frame = IndentMap(["a", "b"], ["    a", "    b"], ["    a", "    c"], ["x:", "    a", "    b"])
    assert frame.is_indented_as_file(["    a", "    c"], [(0, 0)]) is True
    assert frame.is_indented_as_file(["a", "c"], [(0, 0)]) is False


def test_indentation_that_is_gone_shows_below_a_line_that_opens() -> None:
    assert has_lost_indent(["if x:", "y"], {0, 1})
    assert not has_lost_indent(["if x:", "    y"], {0, 1})
    assert not has_lost_indent(["f({", "})"], {0, 1})
    assert not has_lost_indent(["if x:", "y"], set())
