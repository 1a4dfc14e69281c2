"""The benchmark runner works, and the page of results has the table that it makes. Nothing here looks at a clock."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import __main__ as runner
from benchmarks.measure import COLUMNS, Line, Scale, Times, contest, faster, slower, table
from benchmarks.reading import generate, raw_scan, whole
from tests import sizes

TINY = Scale(lines=3_000, edits=(1 << 10, 20_000), rounds=1, calls=3)
PAGE = Path(__file__).parent.parent / "docs" / "measured.md"


def rows_of(markdown: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in row.strip("|").split(" | ")] for row in markdown.split("\n") if row.startswith("| ")
    ]


PARTS = [part for part in runner.PARTS if part != "shared"]  # that one starts a database server, where there is one


@pytest.mark.parametrize("part", sizes.spread(PARTS, 4))
def test_each_part_measures_tiny_files_and_leaves_nothing_behind(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    [(title, measured)] = runner.measure(TINY, [part])
    assert title == runner.PARTS[part].title
    head, rule, *rows = rows_of(measured)
    assert tuple(head) == COLUMNS
    assert set(rule) == {"---"}
    assert rows
    assert all(len(row) == len(COLUMNS) and row[0] and row[1] for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_results_has_a_table_of_every_part() -> None:
    page = PAGE.read_text(encoding="utf-8")
    measured = page.partition(runner.BEGIN)[2].partition(runner.END)[0]
    for part in runner.PARTS.values():
        head, _, *rows = rows_of(measured.partition(f"### {part.title}\n")[2].partition("\n### ")[0])
        assert tuple(head) == COLUMNS
        assert rows
        assert all(len(row) == len(COLUMNS) for row in rows)
        assert all(row[5] in ("yes", "**no**") for row in rows if row[4])
    assert not re.search(r"(?<![\w.])/(?:tmp|home|root|work|usr|var)/", page)


def test_writing_the_page_changes_only_the_part_that_was_measured() -> None:
    first, second, *_ = (part.title for part in runner.PARTS.values())
    page = f"before\n{runner.BEGIN}\n{runner.END}\nafter\n"
    page = runner.put_into(page, second, "two")
    page = runner.put_into(page, first, "one\n\n| a table |")
    assert (
        page
        == f"before\n{runner.BEGIN}\n### {first}\n\none\n\n| a table |\n\n### {second}\n\ntwo\n\n{runner.END}\nafter\n"
    )
    assert "\n\nthree\n\n### " in runner.put_into(page, first, "three")
    with pytest.raises(SystemExit):
        runner.put_into("no marks", first, "new")


def test_contestants_take_turns_and_the_first_round_does_not_count() -> None:
    order: list[str] = []
    times = contest(2, {"a": lambda: order.append("a"), "b": lambda: order.append("b")})
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert set(times) == {"a", "b"}


def test_a_target_is_met_or_not_by_the_medians() -> None:
    one, two = Times(0.001, 0.001), Times(0.002, 0.0001)
    assert slower("x", two, one, 2).met is True
    assert slower("x", two, one, 1.9).met is False
    assert slower("x", two, one).met is None
    assert faster("x", one, two, 2).met is True
    assert faster("x", two, one, 2).met is False
    assert table([Line("x", "1", met=False)]).endswith("| x | 1 |  |  |  | **no** |")


def test_the_contestants_read_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "f"
    generate(path, 2_500)
    assert raw_scan(path, 10**9) == 2_500
    actual = whole(path, 2_001)
    assert actual[0].startswith("00002001 ")
    assert len(actual) == 100
