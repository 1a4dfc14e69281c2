"""The scoreboard counts right, and every golden test says which item it belongs to."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds.scoreboard import COUNTS, HERE, ITEMS, item_of, ranges, report, tally

FILES = sorted(HERE.glob("test_s[0-9]*.py"))


def _tests(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [name for name in names if name.startswith("test")]


def test_there_are_161_items() -> None:
    assert sum(COUNTS.values()) == len(ITEMS) == len(set(ITEMS)) == 161


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_golden_test_is_named_after_an_item_of_its_document(path: Path) -> None:
    document = path.stem.split("_")[1].upper()
    actual = {name: item_of(name) for name in _tests(path)}
    assert actual
    assert [name for name, item in actual.items() if item is None or item[0] != document] == []


def test_every_item_of_the_second_document_has_a_golden_test() -> None:
    tested = {item_of(name) for path in FILES for name in _tests(path)}
    assert [number for document, number in ITEMS if document == "S2" and ("S2", number) not in tested] == []


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("test_s2_19_a_snippet", ("S2", 19)),
        ("tests/seeds/test_s2_edit.py::test_s0_49_a_layer[x::y-z]", ("S0", 49)),
        ("test_s2_31_there_is_no_such_item", None),
        ("test_s5_1_there_is_no_such_document", None),
        ("test_s2_0_items_start_at_one", None),
        ("test_s2_19", None),
        ("test_the_item_is_missing", None),
    ],
)
def test_the_item_of_a_test_is_in_its_name(name: str, item: tuple[str, int] | None) -> None:
    assert item_of(name) == item


def test_an_item_passes_if_it_has_tests_and_all_of_them_pass() -> None:
    outcomes = {
        "test_s2_1_one": True,
        "test_s2_1_two": True,
        "test_s2_2_one": True,
        "test_s2_2_two": False,
        "test_s2_3_one[a]": False,
        "test_s2_3_one[b]": True,
        "test_s4_26_one": True,
        "test_something_else": False,
    }
    assert tally(outcomes) == {("S2", 1): True, ("S2", 2): False, ("S2", 3): False, ("S4", 26): True}


def test_the_board_gives_each_document_what_fails_what_is_missing_and_the_sum() -> None:
    board = report({("S2", 1): True, ("S2", 2): False, ("S4", 26): True})
    assert board.splitlines() == [
        "S0    0 /  53",
        "S1    0 /  29",
        "S2    1 /  30",
        "S3    0 /  23",
        "S4    1 /  26",
        "",
        "failing: S2-2",
        "without a test: S0-1 to 53, S1-1 to 29, S2-3 to 30, S3-1 to 23, S4-1 to 25",
        "",
        "2 / 161 items passed",
    ]


def test_a_full_board_has_nothing_to_complain_of() -> None:
    board = report(dict.fromkeys(ITEMS, True))
    assert board.splitlines()[-4:] == ["failing: none", "without a test: none", "", "161 / 161 items passed"]


def test_neighbouring_items_are_written_as_a_range() -> None:
    assert ranges([("S2", 9), ("S2", 7), ("S0", 1), ("S2", 8), ("S3", 10)]) == "S0-1, S2-7 to 9, S3-10"
    assert ranges([]) == ""


OUTCOMES = """
import pytest

def test_s2_1_passes(): pass
def test_s2_2_passes(): pass
def test_s2_2_fails(): assert False
def test_s2_3_skips(): pytest.skip("why not")
@pytest.mark.xfail
def test_s2_4_is_expected_to_fail(): assert False
@pytest.fixture
def broken(): raise ValueError
def test_s2_5_cannot_start(broken): pass
@pytest.fixture
def messy():
    yield
    raise ValueError
def test_s2_6_cannot_end(messy): pass
"""
RUN = """
import pytest, sys
from tests.seeds.scoreboard import Outcomes, report, tally
outcomes = Outcomes()
status = pytest.main([sys.argv[1], "-p", "no:cacheprovider", "--rootdir", sys.argv[2]], plugins=[outcomes])
print(report(tally(outcomes.passed)))
sys.exit(int(status))
"""


@pytest.mark.slow
def test_only_a_test_that_ran_and_passed_counts(tmp_path: Path) -> None:
    path = tmp_path / "test_s2_made_up.py"
    path.write_text(OUTCOMES, encoding="utf-8")
    command = [sys.executable, "-c", RUN, str(path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent.parent, check=False)
    assert done.returncode == 1
    assert "failing: S2-2 to 6\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 / 161 items passed"
