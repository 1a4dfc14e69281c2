"""New lines get the depth that the matched lines prove, or none."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from handrail.text.matching.depths import find_misfits
from handrail.text.matching.find import plan_edit
from handrail.text.matching.indentation import Unsure, find_indent_unit, indent_of, map_indents
from tests.text.mangle import spliced
from tests.text.trees import LANGUAGES, UNITS, Grower


def depth(theirs: list[str], ours: list[str], wanted: str, file: list[str] | None = None) -> str:
    pairs = [(indent_of(a), indent_of(b)) for a, b in zip(theirs, ours, strict=True)]
    return map_indents(pairs, {wanted}, file or ours)[wanted]


def test_the_unit_is_the_most_common_step() -> None:
    assert find_indent_unit(["a", "\tb"]) == "\t"
    assert find_indent_unit(["a", "  b", "    c", "d", "  e"]) == "  "
    assert find_indent_unit(["a"]) == "    "


def test_a_shift_goes_on_for_deeper_lines() -> None:
    assert depth(["a:", "    b"], ["    a:", "        b"], "        ") == "            "
    assert depth(["        a"], ["    a"], "            ") == "        "


def test_tabs_take_the_width_that_explains_the_lines() -> None:
    assert depth(["a", "    b"], ["a", "\tb"], "        ") == "\t\t"
    assert depth(["a", "        b"], ["a", "\tb"], "                ") == "\t\t"
    assert depth(["a", "\tb"], ["a", "  b"], "\t\t") == "    "


def test_another_unit_is_told_by_two_depths() -> None:
    assert depth(["a", "  b"], ["a", "    b"], "      ") == "            "
    with pytest.raises(Unsure):  # one level deeper than the model's line, or where the file has that line
        depth(["a", "  b"], ["a", "    b"], "    ")
    assert depth(["    a", "        b"], ["  a", "    b"], "            ") == "      "


def test_a_file_that_mixes_tabs_and_spaces_proves_nothing() -> None:
    with pytest.raises(Unsure):
        depth(["  a", "    b"], ["\ta", "    b"], "        ")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("units", [pair for pair in product(UNITS, UNITS) if len({*pair}) == 2])
@pytest.mark.parametrize("above", [True, False])
def test_a_block_with_other_indentation_than_its_file_keeps_its_own(
    language: str, units: tuple[str, str], above: bool
) -> None:
    for seed in range(5):
        rng = Random(f"{language} {units} {seed}")
        grower = Grower(rng, language)
        others, tree = 3 * grower.tree(units[0]).text(), grower.tree(units[1])
        node = rng.choice(tree.nodes)
        old, before = tree.text(node.children, 1), tree.text()
        node.children.append(grower.block(1))
        shown_old, shown_new = (
            "".join(row.removeprefix(units[1]) for row in text.splitlines(keepends=True))
            for text in (old, tree.text(node.children, 1))
        )
        text, wanted = ((others + part) if above else (part + others) for part in (before, tree.text()))
        assert spliced(text, plan_edit(text, shown_old, shown_new)) == wanted


def test_lines_that_lost_all_depths_prove_nothing() -> None:
    with pytest.raises(Unsure):
        depth(["a", "b"], ["a", "    b"], "  ")


def test_explanations_that_disagree_prove_nothing() -> None:
    with pytest.raises(Unsure):  # all lines are twice as deep, or all are shifted
        depth(["    b"], ["  b"], "        ", ["a", "  b", "c", "  d"])


@pytest.mark.parametrize(
    ("above", "rows", "plausible"),
    [
        ([], ["if x:", "    y"], True),
        ([], ["if x:", "y"], False),
        ([], ["f({", "})"], True),
        ([], ["a = 1", "    b"], False),
        (["if a:", "    if b:"], ["        c", "    d"], True),
        (["if a:", "    if b:"], ["        c", "d"], True),
        (["if a:", "        if b:"], ["            c", "    d"], False),
    ],
)
def test_lines_at_depths_that_nothing_opens_are_not_plausible(
    above: list[str], rows: list[str], plausible: bool
) -> None:
    assert find_misfits(above, rows) == (set() if plausible else {(0, 1)})
